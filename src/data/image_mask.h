/* image_mask.h - masks of pictures: PNG files in which the value of a pixel, or its number in the palette, is
 * its class.
 *
 * In memory a mask is u8 and has class + 1, or 0 for a pixel that does not count. Steps of augmentation put 0
 * where a picture has moved away (ls_augment_mask), so what was not part of the picture does not count. */
#pragma once
#include "base/str.h"
#include "data/image_view.h"

enum { LS_MASK_CLASSES = 255 };

typedef struct ls_mask_values {
    int classes; /* values are below it, at most LS_MASK_CLASSES */
    int ignore;  /* the value of a pixel that does not count; -1: none */
} ls_mask_values;

/* The mask of ROOT/images/NAME.jpg: ROOT/masks/NAME.png. `name` is "images/NAME.jpg". */
void ls_mask_path(ls_str *out, const char *root, const char *name);

/* The mask of a picture as `v` cuts the picture, each pixel from the nearest one: u8 [v->height, v->width].
 * `picture`: height and width of the picture, which the mask must have, too; {0}: not known. LS_E_FORMAT: a
 * damaged file, one with colours, of another size; LS_E_SHAPE: a value that is not below `classes`. */
ls_status ls_mask_view(uint8_t *to, const ls_view *v, const ls_mask_values *m, const int picture[2],
                       const void *bytes, size_t n, const char *what);

/* Labels of n pixels of a mask in memory: classes, and LS_IGNORE_LABEL. */
void ls_mask_labels(int32_t *to, const uint8_t *mask, size_t n);
