/* fuzz_image.c - any bytes either are an image that can be made to fit a model, or are refused with a message
 * and leave nothing behind. The same as a mask. */
#include <stdlib.h>
#include <string.h>

#include "data/image_mask.h"

#define MUST(e)      \
    do {             \
        if (!(e))    \
            abort(); \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t keep; /* what was read must be read */

static void choose_all(const void *context, int height, int width, ls_cut *out)
{
    (void)context;
    *out = (ls_cut){ .width = width, .height = height };
}

static void read_as_mask(const uint8_t *data, size_t size)
{
    enum { CLASSES = 5 };
    uint8_t mask[7 * 9];
    const ls_view v = { .channels = 1, .height = 7, .width = 9, .choose = choose_all };
    const ls_mask_values m = { CLASSES, 200 };
    if (ls_mask_view(mask, &v, &m, (const int[2]){ 0 }, data, size, "input") != LS_OK) {
        MUST(strncmp(ls_error_message(), "input: ", 7) == 0);
        return;
    }
    for (size_t i = 0; i < sizeof mask; i++)
        MUST(mask[i] <= CLASSES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_image image;
    read_as_mask(data, size);
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
