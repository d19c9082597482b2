/* conv.h - the arguments of conv.cu, conv_pack.cu, conv_dw.cu and conv_direct.cu. */
#pragma once
#include "types.h"

enum { CONV_THREADS = 256 };

/* x [n, c, h, w], kernel [o, c / groups, kh, kw], y [n, o, oh, ow]; og, cg: channels of a group. */
typedef struct conv_sizes {
    i64 n, c, h, w, o, kh, kw, oh, ow, groups, og, cg;
    i64 stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} conv_sizes;

/* x, w, y: as in conv_sizes; a kernel writes one of them and reads the others. */
typedef struct conv_direct_args {
    conv_sizes c;
    gpu_address x, w, y, bias;
    gpu_address parts; /* f32 [parts][o * cg * kh * kw]: of the gradient for the kernel */
    i64 part_images;   /* of a part; the last may have fewer */
} conv_direct_args;

/* sums of dy over each channel, in parts of images: f32 [parts][channels] */
typedef struct conv_bias_args {
    gpu_address dy, parts;
    i64 images, channels, plane, part_images;
} conv_bias_args;

/* to[i] = the sum of parts[p][i] over p */
typedef struct conv_sum_args {
    gpu_address parts, to;
    i64 n_parts, count;
} conv_sum_args;

/* Which element of the source product number k of a sum reads: `element` elements behind the one that belongs
 * to the result, in a line `row` below its line, and so on. */
typedef struct conv_tap {
    i64 element;
    i32 row, column;
} conv_tap;
#define CONV_NOWHERE (-(1 << 30)) /* a line that no picture has */
enum { CONV_PACK = 32 };          /* lines of the tiles of conv_pack */

/* conv.cu: y of x (back 0), or dx of dy (back 1). A phase is the positions of dx that are equal modulo the
 * stride: the same kernel elements meet each of them. y has one phase. */
typedef struct conv_args {
    conv_sizes c;
    gpu_address source, w, to, bias;
    gpu_address packed; /* X [phases][groups][depth][m_padded] */
    gpu_address taps;   /* conv_tap [phases][depth] */
    i64 back, phases_h, phases_w;
    i64 tap_step_h, tap_step_w; /* from a kernel element of a phase to the next */
    i64 depth;                  /* products in a sum, with zeros behind them; a multiple of TILE_K */
    i64 m_padded;               /* result channels of a group, with zeros; a multiple of TILE_M */
    i64 rows, columns;          /* results of a phase: at most, in each picture */
} conv_args;

/* conv_dw.cu: parts, f32 [parts][o * cg * kh * kw] */
typedef struct conv_dw_args {
    conv_sizes c;
    gpu_address dy, x, parts;
    i64 part_images;
} conv_dw_args;
