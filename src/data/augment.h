/* augment.h - random changes of training images, as torchvision's transforms.v2 defines them.
 *
 * Every random number is a function of `draw`, the key that ls_order_fill makes of (seed, epoch, sample). So
 * a sample of an epoch looks the same after a resume, on any number of ranks and in any loader thread. The
 * changes of an image are drawn as a list of steps with their parameters, and then applied: the page of
 * `lockstep data` prints the steps, and tests compare each of them with torchvision. */
#pragma once
#include <stdint.h>

#include "lockstep/data.h"

/* All 0: nothing is changed. The order is that of torchvision's recipe for classification: crop, flip,
 * RandAugment, colour jitter, erasing. */
typedef struct ls_augment {
    ls_crop crop;
    int padding;               /* LS_CROP_PADDED: pixels on each side */
    double scale[2], ratio[2]; /* LS_CROP_RESIZED: of the area; of width to height */
    double flip;               /* probability of a horizontal flip */
    int ops, magnitude, bins;  /* RandAugment: ops 0 is none, at most LS_AUGMENT_OPS; magnitude < bins */
    double brightness, contrast, saturation, hue; /* ColorJitter: 0 is none; hue at most 0.5 */
    double erase, erase_scale[2], erase_ratio[2]; /* RandomErasing: its probability, area, ratio */
    uint8_t mean[3];      /* what is erased becomes this colour; channel c has mean[c % 3] */
    double mixup, cutmix; /* alpha of Beta(alpha, alpha); 0 is none. Both: one of them, half of the times */
} ls_augment;

typedef enum ls_augment_kind {
    LS_AUGMENT_SHIFT, /* by x, y pixels */
    LS_AUGMENT_FLIP,
    /* RandAugment, in torchvision's order; `value` is its magnitude */
    LS_AUGMENT_IDENTITY,
    LS_AUGMENT_SHEAR_X,
    LS_AUGMENT_SHEAR_Y,
    LS_AUGMENT_TRANSLATE_X,
    LS_AUGMENT_TRANSLATE_Y,
    LS_AUGMENT_ROTATE,     /* degrees, against the clock */
    LS_AUGMENT_BRIGHTNESS, /* these four: `value` is the factor, 1 changes nothing */
    LS_AUGMENT_SATURATION,
    LS_AUGMENT_CONTRAST,
    LS_AUGMENT_SHARPNESS,
    LS_AUGMENT_POSTERIZE, /* bits that are kept */
    LS_AUGMENT_SOLARIZE,  /* values from `value` on are inverted */
    LS_AUGMENT_AUTOCONTRAST,
    LS_AUGMENT_EQUALIZE,
    /* not of RandAugment */
    LS_AUGMENT_HUE, /* turns, -0.5 to 0.5 */
    LS_AUGMENT_ERASE
} ls_augment_kind;

typedef struct ls_augment_step {
    ls_augment_kind kind;
    double value;
    int x, y, width, height; /* of a shift: x and y; of erasing: the box, in pixels */
    uint8_t fill[3];         /* of erasing */
} ls_augment_step;
enum { LS_AUGMENT_OPS = 8, LS_AUGMENT_STEPS = LS_AUGMENT_OPS + 7 };

bool ls_augment_changes(const ls_augment *a); /* whether anything is asked for */
/* The part of an image of width x height pixels that is resized to the model's size: x, y, width, height.
 * Without LS_CROP_RESIZED it is the whole image. */
void ls_augment_crop(const ls_augment *a, uint64_t draw, int width, int height, int box[4]);
/* The other changes of an image that has its final size. Returns how many steps there are. */
int ls_augment_draw(const ls_augment *a, uint64_t draw, int height, int width,
                    ls_augment_step out[LS_AUGMENT_STEPS]);
/* pixels: [channels, height, width], in place. Steps of colour need 1 or 3 channels. LS_E_MEMORY. */
ls_status ls_augment_apply(const ls_augment_step *steps, int n, int channels, int height, int width,
                           uint8_t *pixels);
/* Those of the steps that move pixels, applied to the mask of an image: u8 [height, width], 0 in what comes
 * from outside. LS_E_MEMORY. */
ls_status ls_augment_mask(const ls_augment_step *steps, int n, int height, int width, uint8_t *mask);
/* Draws the steps and applies them. LS_E_MEMORY. */
ls_status ls_augment_pixels(const ls_augment *a, uint64_t draw, int channels, int height, int width,
                            uint8_t *pixels);
/* "rotate -9 degrees", for people */
enum { LS_AUGMENT_TEXT = 64 };
void ls_augment_text(const ls_augment_step *s, char out[LS_AUGMENT_TEXT]);
