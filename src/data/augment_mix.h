/* augment_mix.h - mixup and cutmix of a micro-batch. */
#pragma once
#include "augment.h"

typedef struct ls_mix {
    bool paste;              /* cutmix: a box is pasted; else all pixels are mixed */
    int share;               /* mixup: of the image's own pixels, of 32768 */
    int x, y, width, height; /* cutmix: the box */
    float own;               /* weight of the image's own label; 1 - own of the other one */
} ls_mix;

/* How this micro-batch is mixed; of images of this size. */
ls_mix ls_mix_draw(const ls_augment *a, uint64_t draw, int height, int width);
/* Mixes row r with row r - 1, row 0 with the last one. images: [rows, channels, height, width] */
void ls_mix_images(const ls_mix *m, uint8_t *images, int64_t rows, int channels, int height, int width);
