/* matmul.h - arguments of matmul.cu, matmul_finish.cu and matmul_sums.cu. */
#pragma once
#include "types.h"

/* Activations: as ls_act. */
enum { MATMUL_NONE, MATMUL_RELU, MATMUL_GELU, MATMUL_GELU_TANH };
/* Operands whose rows can be read or written in 16 bytes: base and row stride are multiples of them. */
enum { MATMUL_PRE = 1, MATMUL_RESIDUAL = 2, MATMUL_Y = 4, MATMUL_BIAS = 8, MATMUL_LEFT = 16 };

/* y = left * right for `batch` matrices. What follows is done in this order to each sum, where the operand
 * is there (0: it is not):
 *   + bias[n]; times the activation's slope at `slope`; store to `pre`; activation; + residual
 * and it is rounded to the type before each step but the first, as if each was an op of its own. */
typedef struct matmul_args {
    gpu_address left, right, bias, slope, pre, residual, y;
    i64 m, n, k;
    i64 ld_left, ld_right, ld_slope, ld_pre, ld_residual, ld_y; /* elements from line to line */
    i64 step_left, step_right, step_y;                          /* elements from matrix to matrix */
    i64 tiles_m, tiles_n;
    /* Depth of a part, a multiple of TILE_K. More than one: y is f32, [part][m][n], with nothing done. */
    i64 part, parts;
    i32 act;   /* of `pre` or of `slope` */
    u32 whole; /* mask of MATMUL_PRE (or slope), ... */
} matmul_args;

enum { SUMS_THREADS = 256, SUMS_COLUMNS = 32, SUMS_ROWS = 256 };
/* y[row][column] = the sum of parts [parts][rows][columns] of f32, in ascending order */
typedef struct matmul_sum_args {
    gpu_address parts, y;
    i64 n_parts, rows, columns, ld_y;
} matmul_sum_args;
/* Sums over SUMS_ROWS rows of x [rows][columns], or what is left of them: to parts [..][columns] of f32, or
 * if there is one part, to y. */
typedef struct column_sum_args {
    gpu_address x, parts, y;
    i64 rows, columns, ld_x;
} column_sum_args;
