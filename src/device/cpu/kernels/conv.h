/* conv.h - convolutions as products of small matrices: what conv.c (y and dx), conv_dw.c (dw) and
 * conv_stage.c share.
 *
 * Pictures are copied to f32 in the order [position][image][channel]. Each position is then a matrix of
 * images by channels, and a convolution is a sum of matrix products, one for each kernel element ("tap") that
 * sees no padding:
 *
 *     y[position] += x[position seen through tap] * w[tap]^T     [images, channels] * [channels, results]
 *
 * dx is the same with x and y exchanged; dw also sums over positions and images. Neighbouring positions of a
 * row are multiplied together, as far as the positions that they see are neighbours too. Therefore the copy
 * of x groups the columns of a row by their remainder after division by the stride. Elements of the padding
 * are not multiplied. Every stride and dilation is supported. Each group is a convolution of its own.
 *
 * Some convolutions have files of their own. With few channels (the first layer) these products would be too
 * thin: conv_thin.c. If every channel is a group, there are none: conv_depthwise.c. Kernels of 1 x 1 need no
 * copies: conv_point.h. Kernels of 3 x 3 with stride 1 over larger pictures need fewer multiplications:
 * conv_winograd.h.
 *
 * Order of summation. y, dx: taps in ascending order. A chain has as many taps as fit into CONV_CHAIN
 * products; with more channels than that, each tap is chains of GEMM_KC. Chains are added in ascending order.
 * dw: a chain is the images of neighbouring positions, about DW_CHAIN products; how many images are taken at
 * a time follows from the shapes. Up to DW_BLOCK chains are added in ascending order, and those sums in
 * ascending order. */
#pragma once
#include "device/conv.h"
#include "gemm.h"

enum {
    /* How many images are taken at a time (conv.c). All sizes were chosen by measuring (bench/conv.c). */
    CONV_IMAGES = 64,      /* at most; also how many rows a product should have */
    CONV_CACHED = 1 << 18, /* y, dx: elements of the images' copies that stay in the caches */
    CONV_STAGED = 8 << 20, /* dw: elements of the images' copies; more would cost too much memory */
    CONV_ROWS = 48,        /* y, dx: rows of a product that a row of positions must have */
    CONV_FEW_IMAGES = 8,   /* dw: images that are taken at a time, at least */

    CONV_CHAIN = 576, /* products of a chain with several taps, at most */
    /* conv_thin.c: groups with fewer channels, unless an output channel's kernel has more elements */
    CONV_FEW_CHANNELS = 8,
    CONV_LONGEST = 1024,
    DW_CHAIN = 128, /* dw: products of a chain, about */
    DW_BLOCK = 32,  /* dw: chains whose sums are added before they are added to the total */
    DW_STRIP = 4,   /* dw: tiles that share a block of x */
};

/* A chain of products of a tile: segment after segment, `steps` products of each. Distances are in f32. The
 * steps of B follow one another, as in packed panels. */
typedef struct conv_segment {
    int64_t a, b;
} conv_segment; /* where the segment begins in A and in B */
typedef struct conv_chain {
    int64_t segments, steps;
    const conv_segment *segment;
    int64_t row, step; /* distances in A */
} conv_chain;
/* c[rows, nv vectors], rows ldc apart, = the chain's sum; or += it. */
typedef void (*conv_tile)(const conv_chain *chain, const float *a, const float *b, float *c, int64_t ldc,
                          bool add);
extern const conv_tile LS_NAME(ls_conv_tiles)[2][GEMM_MAX_MR]; /* conv_tile.c: [vectors - 1][rows - 1] */

typedef struct conv {
    const ls_kernel_args *a;
    ls_conv s;
    ls_conv_kind kind;
    int threads, lanes, mr, nr;
    /* Source and target of the products, in one group (dw: x and y): positions, channels, kernel elements. */
    int64_t source, target, source_channels, target_channels, taps;
    int64_t panels, images;
    size_t seen_bytes, b_bytes, s_bytes, t_bytes; /* sizes of the workspace's parts, in this order */
    int32_t *seen; /* [tap][target position]: the source's position; -1: padding */
    int32_t *slot; /* [position of x]: its position in the copy */
    bool *used;    /* [taps]: the tap sees something other than padding */
    /* y, dx: the kernel, [tap][panel][source channel][nr]; dw: sums, [tap][panel][row][nr] */
    float *b;
    float *staged; /* y, dx: the source, [position][image][ld]; dw: x, [panel][position][image][nr] */
    /* y, dx: the target, [position][image][panels * nr]; dw: dy, [tile][position][image][lanes] */
    float *result;
    int64_t ld, tiles;
    int64_t group, first_image, now; /* where the loops are: images first_image .. first_image + now */
} conv;

conv LS_NAME(ls_conv_plan)(const ls_kernel_args *a, ls_conv_kind kind);
size_t LS_NAME(ls_conv_workspace)(const conv *c);
void LS_NAME(ls_conv_place)(conv *c);   /* parts of the workspace; seen, slot, used */
bool LS_NAME(ls_conv_special)(conv *c); /* does it all in one of the other files, if that suits */

/* conv_thin.c */
bool LS_NAME(ls_conv_is_thin)(const conv *c);
size_t LS_NAME(ls_conv_thin_workspace)(const conv *c);
void LS_NAME(ls_conv_thin)(conv *c);

/* conv_depthwise.c */
bool LS_NAME(ls_conv_is_depthwise)(const conv *c);
size_t LS_NAME(ls_conv_depthwise_workspace)(const conv *c);
void LS_NAME(ls_conv_depthwise)(conv *c);

/* conv_point.c, conv_point_dw.c */
bool LS_NAME(ls_conv_is_point)(const conv *c);
size_t LS_NAME(ls_conv_point_workspace)(const conv *c); /* y, dx */
void LS_NAME(ls_conv_point)(conv *c);
size_t LS_NAME(ls_conv_point_dw_workspace)(const conv *c);
void LS_NAME(ls_conv_point_dw)(conv *c);

/* conv_winograd.c, conv_winograd_dw.c */
bool LS_NAME(ls_conv_is_winograd)(const conv *c);
size_t LS_NAME(ls_conv_winograd_workspace)(const conv *c);
void LS_NAME(ls_conv_winograd)(conv *c); /* y, dx */
void LS_NAME(ls_conv_winograd_dw)(conv *c);

/* conv_stage.c: parallel tasks. */
/* y, dx; images x blocks of `lanes` channels */
void LS_NAME(ls_conv_stage_source)(void *conv, int64_t begin, int64_t end, int worker);
/* the same; to NCHW, with bias */
void LS_NAME(ls_conv_unstage)(void *conv, int64_t begin, int64_t end, int worker);
void LS_NAME(ls_conv_stage_x)(void *conv, int64_t begin, int64_t end, int worker);  /* dw; images */
void LS_NAME(ls_conv_stage_dy)(void *conv, int64_t begin, int64_t end, int worker); /* dw; images */
/* output channels (y: blocks of `lanes`) */
void LS_NAME(ls_conv_pack_w)(void *conv, int64_t begin, int64_t end, int worker);
void LS_NAME(ls_conv_unpack_dw)(void *conv, int64_t begin, int64_t end, int worker); /* output channels */
