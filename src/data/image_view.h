/* image_view.h - a picture file in memory as a model sees it: a part of it at the model's size and colours.
 * Only what is needed is decoded: JPEG at a reduced scale where the result is still as large as needed, and
 * without the rows and columns outside. */
#pragma once
#include "data/resample.h"
#include "lockstep/data.h"

/* Chooses the part of a picture of this size. */
typedef void (*ls_cut_choose)(const void *context, int height, int width, ls_cut *out);

typedef struct ls_view {
    int channels, height, width; /* of the result; channels 1 or 3 */
    ls_cut_choose choose;
    const void *context;
} ls_view;

/* `to` is u8 [channels, height, width]. `what` names the picture in messages. LS_E_FORMAT: a damaged picture
 * or one of more than 2^26 pixels; LS_E_UNSUPPORTED: JPEG, which this build cannot read; LS_E_MEMORY. */
ls_status ls_image_view(uint8_t *to, const ls_view *v, const void *bytes, size_t n, const char *what,
                        ls_room *room);

/* Pixels that a decoder has left in memory: the part of the picture that a plan reads. */
typedef struct ls_pixels {
    const uint8_t *at;
    size_t stride; /* bytes from one row to the next */
    int kinds;     /* interleaved channels: 1 or 3 */
} ls_pixels;

/* image_jpeg.c: reads a JPEG's header, plans, and decodes what the plan reads. */
extern const bool ls_jpeg_is_read; /* false: this build has no libjpeg */
extern int64_t ls_jpeg_work;       /* scans times pixels that are decoded at most; tests set it */
bool ls_jpeg_is(const void *bytes, size_t n);
ls_status ls_jpeg_pixels(ls_pixels *out, ls_resampler *plan, const ls_view *v, const void *bytes, size_t n,
                         const char *what, ls_room *room);
ls_status ls_jpeg_parse(ls_image *out, const void *bytes, size_t n, const char *what);

/* The evaluation of torchvision's presets: the shorter side becomes `resize`, and the middle size x size is
 * cut out. `context` is one of these. */
typedef struct ls_image_eval {
    int size, resize;
} ls_image_eval;
ls_image_eval ls_image_eval_of(int size, int resize); /* resize 0: size * 256 / 224 */
void ls_image_choose_middle(const void *context, int height, int width, ls_cut *out);
/* The picture of a file as an evaluation sees it: u8 [channels, size, size]. Fails as ls_image_view; LS_E_IO.
 */
ls_status ls_image_view_file(uint8_t *to, int channels, const ls_image_eval *e, const char *path);
