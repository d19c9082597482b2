/* grouped_linear.h - arguments of grouped_linear.cu. */
#pragma once
#include "types.h"

/* groups of one launch: more would not leave room for the other arguments, of at most 4 KiB in all */
enum { GROUPED_MOST = 256, GROUPED_NONE_THREADS = 256 };

/* y = x * w for the rows of groups `first` .. first + groups - 1, each with a weight of its own. Group g has
 * the rows offsets[g] .. offsets[g + 1] - 1 of `rows`; strides are from line to line. */
typedef struct grouped_args {
    gpu_address x, offsets, y;
    i64 rows, n, k;
    i64 ld_x, ld_weight, ld_y;
    i64 tiles_n;
    i32 first, groups, whole; /* whole: rows of y can be written in 16 bytes */
    gpu_address weights[GROUPED_MOST];
} grouped_args;

/* dw = dy^T * x over the rows of one group: [m][n] */
typedef struct grouped_dw_args {
    gpu_address dy, x, offsets, dw;
    i64 rows, m, n;
    i64 ld_dy, ld_x, ld_dw;
    i64 tiles_m, tiles_n;
    i32 group, whole;
} grouped_dw_args;

/* Rows behind the last group have no product: NaN. */
typedef struct grouped_none_args {
    gpu_address offsets, y;
    i64 rows, n, ld_y;
    i32 groups;
} grouped_none_args;
