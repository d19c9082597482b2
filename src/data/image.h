/* image.h - PNG in memory, both ways; shared by image.c and the pictures. libpng is included in image_png.c
 * only. */
#pragma once
#include "lockstep/data.h"

bool ls_png_is(const void *bytes, size_t n);
ls_status ls_png_parse(ls_image *out, const void *bytes, size_t n, const char *what);
/* channels 1 or 3, pixels interleaved [height, width, channels]; *out is malloc'ed. */
ls_status ls_png_encode(uint8_t **out, size_t *n, int channels, int height, int width, const uint8_t *pixels);
/* An image of that size with zeroed memory, or LS_E_FORMAT when the size is nothing that an image file may
 * ask of us. */
ls_status ls_image_allocate(ls_image *out, int64_t channels, int64_t height, int64_t width, const char *what);
