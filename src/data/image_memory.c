/* image_memory.c - allocates and frees the pixels of an image. */
#include <stdlib.h>

#include "data/image.h"
#include "base/argument.h"
#include "base/sys.h"

void ls_image_release(ls_image *image)
{
    if (!image)
        return;
    free(image->data);
    *image = (ls_image){ 0 };
}

ls_status ls_image_allocate(ls_image *out, int64_t channels, int64_t height, int64_t width, const char *what)
{
    *out = (ls_image){ 0 };
    if (height < 1 || width < 1)
        return ls_fail(LS_E_FORMAT, "%s: the image has %lld x %lld pixels: it is empty or damaged", what,
                       (long long)width, (long long)height);
    if (height > 1 << 16 || width > 1 << 16 || height * width > 1 << 26)
        return ls_fail(LS_E_FORMAT,
                       "%s: image of %lld x %lld pixels, more than the 2^26 this reader takes; shrink it",
                       what, (long long)width, (long long)height);
    *out = (ls_image){ .channels = (int)channels, .height = (int)height, .width = (int)width };
    out->data = ls_sys_calloc((size_t)channels, (size_t)(height * width));
    return out->data ? LS_OK
                     : ls_fail(LS_E_MEMORY, "%s: no memory for %lld x %lld pixels", what, (long long)width,
                               (long long)height);
}
