/* sums.h - arguments of sums.cu, cumsum.cu and scatter.cu. */
#pragma once
#include "shape.h"

typedef struct reduce_args {
    gpu_address in, out; /* out: [parts, outputs] */
    i64 outputs, terms, parts, part_terms;
    i32 columns;        /* outputs of a block */
    i32 terms_first;    /* 1: neighbouring threads take neighbouring terms; 0: outputs */
    shape kept, summed; /* what numbers the outputs, and the terms of an output */
    i64 kept_strides[KERNEL_DIMS], summed_strides[KERNEL_DIMS];
} reduce_args;

typedef struct cumsum_args {
    gpu_address in, out;
    i64 outer, n, inner;
    i32 reverse;
} cumsum_args;

typedef struct scatter_args {
    gpu_address in, index, out; /* [outer, n, inner] -> [outer, size, inner] */
    i64 outer, n, inner, size;
} scatter_args;
