/* small_vit.c - see small_vit.h. */
#include "support/small_vit.h"

void draw_stripes(int n, uint8_t *images, int32_t *labels)
{
    enum { PIXELS = 64 };
    for (int i = 0; i < n; i++) {
        labels[i] = i % 5;
        for (int k = 0; k < PIXELS; k++)
            images[i * PIXELS + k] = (uint8_t)(((k / (labels[i] + 1)) % 2 ? 150 : 20) +
                                               (int)((uint32_t)(i * PIXELS + k) * 2654435761u >> 26));
    }
}
