/* muon.h - arguments of muon.cu. x is the matrix lying: [m, n] with m <= n; high: the parameter is [n, m]. */
#pragma once
#include "types.h"

enum { MUON_THREADS = 256, MUON_EACH = 4096, MUON_TILE = 32 };

/* muon_squares, muon_norm, muon_begin. parts: f64 sums of squares of u, by blocks; factor: f32, what u is
 * multiplied by */
typedef struct muon_begin_args {
    gpu_address u, x, parts, factor;
    i64 m, n, blocks;
    double eps;
    i32 high;
} muon_begin_args;

/* out = s x + t y */
typedef struct muon_sum_args {
    gpu_address out, x, y;
    i64 n;
    float s, t;
} muon_sum_args;

/* p: the address of the parameter's element 0, of which [from, to) are there */
typedef struct muon_end_args {
    gpu_address p, x, lr, apply;
    i64 m, n, from, to;
    double weight_decay, ratio;
    i32 high;
} muon_end_args;
