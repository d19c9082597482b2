/* resample.h - resizes u8 pictures: antialiased bilinear, as Pillow's BILINEAR and torchvision's antialias.
 * The filter is a triangle, and pixels have their centres at half. When the picture shrinks the filter is
 * wider by the same factor, so that every pixel counts. All arithmetic is in integers, so the bits are the
 * same on every machine. */
#pragma once
#include "data/room.h"
#include "lockstep/status.h"

/* The part of a picture that becomes the result, in pixels of the picture. */
typedef struct ls_cut {
    double x, y, width, height;
    bool around; /* the filter may use pixels around the part: the whole picture is resized, then cut */
} ls_cut;

/* The filter of one dimension: element o is the sum of weight[o * taps + k] * source[first[o] + k]. */
typedef struct ls_taps {
    int n, taps;
    int32_t *first;  /* [n] */
    int16_t *weight; /* [n, taps]; those of an element sum to 2^14 */
} ls_taps;

typedef struct ls_resampler {
    ls_taps across, down;
    int x, y, width, height; /* the pixels that it reads */
} ls_resampler;

/* Plans the resizing of `cut`, of a picture of this size, to out_height x out_width. The filters lie in
 * `room`. Scaled by 1 / `shrunk`, the picture is whole_height x whole_width; the cut is in unscaled pixels.
 * LS_E_MEMORY. */
ls_status ls_resample_plan(ls_resampler *out, const ls_cut *cut, int shrunk, int whole_height,
                           int whole_width, int out_height, int out_width, ls_room *room);

/* `pixels` has the part that the plan names, `kinds` (1 or 3) interleaved channels, rows `stride` bytes
 * apart. Writes planes: `to` is [kinds, out_height, out_width]. LS_E_MEMORY. */
ls_status ls_resample(const ls_resampler *r, const uint8_t *pixels, size_t stride, int kinds, uint8_t *to,
                      ls_room *room);
