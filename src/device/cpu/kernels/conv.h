/* conv.h - convolutions as products of small matrices: what conv.c (y and dx), conv_dw.c and conv_stage.c share.
 *
 * Pictures are copied to the order [position][image][channel], f32: every position is then a matrix of images by channels, and a
 * convolution is a sum of matrix products, one for each kernel element that sees no padding (several positions at once where few images leave
 * the matrices flat, and the positions seen are neighbours too):
 *
 *     y[position] += x[position seen through tap] * w[tap]^T     [images, channels] * [channels, results]
 *
 * with the same for dx (roles of x and y exchanged) and, positions and images summed over, for dw. No multiplication by padding, any stride and
 * dilation, and the tiles of gemm.h do the work. A group is a convolution of its own. With few channels (stems) the products would be
 * thin: then x is copied as patches, every position holding what its whole kernel sees, and there is one tap.
 *
 * Order of summation: images at a time follow from the shapes; y, dx: taps ascending, each in chains of GEMM_KC channels. dw: a chain
 * is the images of one position (of some neighbours if they are few); up to DW_BLOCK chains are added in ascending order, and those sums in
 * ascending order. */
#pragma once
#include "device/conv.h"
#include "gemm.h"

enum {
    CONV_IMAGES = 64,       /* at a time; also: rows that a product should have */
    CONV_FEW_IMAGES = 8,    /* at least, */
    CONV_STAGED = 8 << 20,  /* and no more than have so many elements as copies */
    CONV_FEW_CHANNELS = 8,  /* of a group: below it, patches, unless they are longer than */
    CONV_PATCH = 1024,
    DW_BLOCK = 64,          /* chains */
    DW_STRIP = 4,           /* tiles that share a block of x */
};

typedef struct conv {
    const ls_kernel_args *a;
    ls_conv s;
    ls_conv_kind kind;
    bool patches;
    int threads, lanes, mr, nr;
    /* Source and target of the products (dw: x and y) in one group: positions, channels, kernel elements. */
    int64_t source, target, source_channels, target_channels, taps;
    int64_t panels, images;
    size_t seen_bytes, b_bytes, s_bytes, t_bytes; /* of the workspace's parts, in this order */
    int32_t *seen;        /* [tap][target position]: position of the source, -1: none */
    bool *used;           /* per tap: sees anything but padding */
    float *b;             /* y, dx: kernel, [tap][panel][source channel][nr]; dw: sums, [tap][panel][row][nr] */
    float *staged;        /* y, dx: source, [position][image][ld]; dw: x, [panel][position][image][nr] */
    float *result;        /* y, dx: target, [position][image][panels * nr]; dw: dy, [tile][position][image][lanes] */
    int64_t ld, tiles;
    int64_t group, first_image, now; /* the step at hand: images first_image .. + now */
} conv;

conv LS_NAME(ls_conv_plan)(const ls_kernel_args *a, ls_conv_kind kind);
size_t LS_NAME(ls_conv_workspace)(const conv *c);
void LS_NAME(ls_conv_place)(conv *c); /* parts of the workspace, used taps */

/* How many positions from p on, at most `limit`, see neighbours through a tap, and the first of these; 0: p sees none. */
SIMD_FN int64_t conv_run(const conv *c, int64_t tap, int64_t p, int64_t limit, int64_t *from) {
    const int32_t *seen = c->seen + tap * c->target + p;
    int64_t n = 0;
    *from = seen[0];
    while (*from >= 0 && n < limit && seen[n] == *from + n)
        n++;
    return n;
}
/* Positions of a product. */
SIMD_FN int64_t conv_span(const conv *c) { return c->now < CONV_IMAGES ? CONV_IMAGES / c->now : 1; }

/* conv_stage.c; parallel tasks over images, but for the kernel's. */
void LS_NAME(ls_conv_stage_source)(void *conv, int64_t begin, int64_t end, int worker); /* y, dx */
void LS_NAME(ls_conv_unstage)(void *conv, int64_t begin, int64_t end, int worker);      /* y, dx: to NCHW, with bias */
void LS_NAME(ls_conv_stage_x)(void *conv, int64_t begin, int64_t end, int worker);      /* dw */
void LS_NAME(ls_conv_stage_dy)(void *conv, int64_t begin, int64_t end, int worker);     /* dw */
void LS_NAME(ls_conv_pack_w)(void *conv, int64_t begin, int64_t end, int worker);       /* output channels (y: blocks of `lanes`) */
void LS_NAME(ls_conv_unpack_dw)(void *conv, int64_t begin, int64_t end, int worker);    /* output channels */
