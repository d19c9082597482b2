/* image.h - PNG in memory: reading and writing, for image.c and the pictures. Only image_png.c includes
 * libpng. */
#pragma once
#include "lockstep/data.h"

bool ls_png_is(const void *bytes, size_t n);
ls_status ls_png_parse(ls_image *out, const void *bytes, size_t n, const char *what);
/* The stored value of each pixel, as one channel: gray of up to 8 bits, or the number in the palette.
 * LS_E_FORMAT: also colours, an alpha channel, 16 bits, and what is not a PNG. */
ls_status ls_png_values(ls_image *out, const void *bytes, size_t n, const char *what);
/* Writes PNG: channels is 1 or 3, pixels are interleaved [height, width, channels]. *out is malloc'ed. */
ls_status ls_png_encode(uint8_t **out, size_t *n, int channels, int height, int width, const uint8_t *pixels);
/* Makes an image of this size with zeroed memory. LS_E_FORMAT: the size is more than an image file may ask
 * for. */
ls_status ls_image_allocate(ls_image *out, int64_t channels, int64_t height, int64_t width, const char *what);
