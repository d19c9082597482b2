/* adafactor.h - arguments of adafactor.cu: one parameter, [batch, rows, cols], or a vector of `rows` numbers
 * (cols 0). */
#pragma once
#include "types.h"

enum {
    FACTOR_THREADS = 256,
    FACTOR_EACH = 4096, /* numbers of a block */
    FACTOR_ROWS = 64,   /* rows that a block of adafactor_columns adds */
};

typedef struct adafactor_args {
    gpu_address p; /* the address of the parameter's element 0, of which [from, to) are there */
    gpu_address g, whole, row, col, lr, step, scale, apply;
    /* workspace. sums: f64, of squares of the update and of the parameter, a pair for each block; columns:
     * f64 [batch, chunks of rows, cols]; means: f32 [batch], of the moments of the rows; numbers: f32 [2] */
    gpu_address sums, columns, means, numbers;
    i64 batch, rows, cols, count, blocks, from, to;
    double clip_threshold, decay_rate, min_scale, weight_decay, eps;
    i32 scale_parameter, relative_step, warmup_init;
} adafactor_args;
