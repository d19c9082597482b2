/* fuzz_image.c - any bytes either are an image that can be made to fit a model, or are refused with a message
 * and leave nothing behind. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/data.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t keep; /* what was read must be read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_image image;
    if (ls_image_parse(&image, data, size, "input") != LS_OK) {
        MUST(!image.data && strncmp(ls_error_message(), "input: ", 7) == 0);
        return 0;
    }
    MUST(image.channels == 1 || image.channels == 3);
    MUST(image.height > 0 && image.width > 0 && image.data);
    int64_t n = (int64_t)image.channels * image.height * image.width;
    MUST(n <= 3 << 26);
    uint8_t seen = 0;
    for (int64_t i = 0; i < n; i++)
        seen ^= image.data[i];
    keep = seen;
    if (n < 1 << 16) {
        MUST(ls_image_fit(&image, size & 1 ? 1 : 3, 8, 9, true, "input") == LS_OK);
        MUST(image.channels == (size & 1 ? 1 : 3) && image.height == 8 && image.width == 9);
    }
    ls_image_release(&image);
    return 0;
}
