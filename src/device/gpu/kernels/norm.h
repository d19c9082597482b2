/* norm.h - arguments of norm.cu and norm_grad.cu. Strides are in elements, from row to row. */
#pragma once
#include "types.h"

typedef struct norm_args {
    gpu_address x, gain, bias, y, mean, rstd; /* rms_norm has neither bias nor mean */
    i64 rows, k, x_stride, y_stride;
    float eps;
} norm_args;

typedef struct norm_grad_args {
    gpu_address dy, x, gain, mean, rstd, addend, dx; /* addend may be 0 */
    gpu_address parts; /* f32 [parts, width]: dgain of each block of rows, then dbias */
    i64 rows, k, dy_stride, x_stride, addend_stride, dx_stride;
    i64 part_rows; /* rows of a block of rows */
    i64 width;     /* k for each parameter */
} norm_grad_args;

typedef struct norm_join_args {
    gpu_address parts, dgain, dbias;
    i64 n_parts, k, width;
} norm_join_args;

enum { JOIN_COLUMNS = 32, JOIN_GROUPS = 32 }; /* of a block of norm_join */
enum { COLUMN_THREADS = 256 };                /* columns of a block of norm_columns */
