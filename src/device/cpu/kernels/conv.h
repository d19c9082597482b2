/* conv.h - convolutions as products of small matrices: what conv.c (y and dx), conv_dw.c and conv_stage.c
 * share.
 *
 * Pictures are copied to the order [position][image][channel], f32: every position is then a matrix of images
 * by channels, and a convolution is a sum of matrix products, one for each kernel element that sees no
 * padding (several positions at once where few images leave the matrices flat, and the positions seen are
 * neighbours too):
 *
 *     y[position] += x[position seen through tap] * w[tap]^T     [images, channels] * [channels, results]
 *
 * with the same for dx (roles of x and y exchanged) and, positions and images summed over, for dw. No
 * multiplication by padding, any stride and dilation. A group is a convolution of its own. With few channels
 * (stems) the products would be thin: conv_thin.c. Kernels of 3 x 3 and stride 1 over pictures that are not
 * small need fewer products: conv_winograd.c.
 *
 * Order of summation: y, dx: taps ascending, as many to a chain as have CONV_CHAIN products (with more
 * channels than that: each tap in chains of GEMM_KC); chains are added in ascending order. dw: images at a
 * time follow from the shapes; a chain is the images of one position (of several positions if they are few);
 * up to DW_BLOCK chains are added in ascending order, and those sums in ascending order. */
#pragma once
#include "device/conv.h"
#include "gemm.h"

enum {
    CONV_IMAGES = 64,      /* at a time; also: rows that a product should have */
    CONV_CACHED = 1 << 18, /* y, dx: fewer images where their copies have more elements than this, */
    CONV_ROWS = 48,        /* while a row of positions still has so many, */
    CONV_STEPPED = 12,     /* with strides so many of one image, else */
    CONV_FEW_IMAGES = 8,   /* at least, as for dw, */
    CONV_STAGED = 8 << 20, /* whose copies may have so many elements */
    CONV_CHAIN = 576,      /* products, at most, where a chain has several taps */
    /* of a group: below it conv_thin.c, unless an output channel's kernel is longer than */
    CONV_FEW_CHANNELS = 8,
    CONV_LONGEST = 1024,
    DW_BLOCK = 64, /* chains */
    DW_STRIP = 4,  /* tiles that share a block of x */
};

/* A chain of products in a tile: segment after segment, `steps` of each. Distances are f32; B's steps follow
 * each other as panels are packed. */
typedef struct conv_segment {
    int64_t a, b;
} conv_segment; /* where it begins in the tile's operands */
typedef struct conv_chain {
    int64_t segments, steps;
    const conv_segment *segment;
    int64_t row, step; /* of A */
} conv_chain;
/* c[rows, nv vectors] (rows ldc apart) = or += the chain's sum. */
typedef void (*conv_tile)(const conv_chain *chain, const float *a, const float *b, float *c, int64_t ldc,
                          bool add);
extern const conv_tile LS_NAME(ls_conv_tiles)[2][GEMM_MAX_MR]; /* conv_tile.c: [vectors - 1][rows - 1] */

typedef struct conv {
    const ls_kernel_args *a;
    ls_conv s;
    ls_conv_kind kind;
    int threads, lanes, mr, nr;
    /* Source and target of the products (dw: x and y) in one group: positions, channels, kernel elements. */
    int64_t source, target, source_channels, target_channels, taps;
    int64_t panels, images;
    size_t seen_bytes, b_bytes, s_bytes, t_bytes; /* of the workspace's parts, in this order */
    int32_t *seen; /* [tap][target position]: position of the source, -1: none */
    bool *used;    /* per tap: sees anything but padding */
    /* y, dx: kernel, [tap][panel][source channel][nr]; dw: sums, [tap][panel][row][nr] */
    float *b;
    float *staged; /* y, dx: source, [position][image][ld]; dw: x, [panel][position][image][nr] */
    /* y, dx: target, [position][image][panels * nr]; dw: dy, [tile][position][image][lanes] */
    float *result;
    int64_t ld, tiles;
    int64_t source_step, target_step; /* y, dx: neighbours in a row that see the same taps */
    int64_t group, first_image, now;  /* the step at hand: images first_image .. + now */
} conv;

conv LS_NAME(ls_conv_plan)(const ls_kernel_args *a, ls_conv_kind kind);
size_t LS_NAME(ls_conv_workspace)(const conv *c);
void LS_NAME(ls_conv_place)(conv *c);   /* parts of the workspace, used taps */
bool LS_NAME(ls_conv_special)(conv *c); /* does it all in one of the other files, if that suits */

/* conv_thin.c */
bool LS_NAME(ls_conv_is_thin)(const conv *c);
size_t LS_NAME(ls_conv_thin_workspace)(const conv *c);
void LS_NAME(ls_conv_thin)(conv *c);

/* conv_winograd.c */
bool LS_NAME(ls_conv_is_winograd)(const conv *c);
size_t LS_NAME(ls_conv_winograd_workspace)(const conv *c);
void LS_NAME(ls_conv_winograd)(conv *c);

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
