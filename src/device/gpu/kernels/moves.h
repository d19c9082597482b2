/* moves.h - arguments of moves.cu and turn.cu. */
#pragma once
#include "shape.h"

typedef struct fill_args {
    gpu_address out;
    i64 bytes;
    u64 pattern; /* of the 8 bytes at a multiple of 8 */
} fill_args;

/* Rows of units of 1, 2, 4, 8 or 16 bytes */
typedef struct put_args {
    gpu_address from, to; /* from 0: zeros */
    i64 from_row, to_row; /* bytes from row to row */
    i32 unit;
    shape shape; /* rows, units of a row */
} put_args;

typedef struct gather_args {
    gpu_address from, index, to;
    i64 size; /* of the dimension that is indexed */
    u64 nan;  /* 8 bytes of the type's NaN */
    i32 unit;
    i32 slices;  /* 1: one number for all elements of a slice */
    shape shape; /* of the result: outer, numbers, units */
} gather_args;

/* A matrix that is turned, for each of several others: the input's rows are contiguous, and the output's. */
typedef struct turn_args {
    gpu_address in, out;
    i64 in_size, out_size;     /* of the dimension that is contiguous in the input; in the output */
    i64 in_stride, out_stride; /* of the other one's dimension, in elements */
    i64 in_tiles, out_tiles;
    shape others;
    i64 others_in[KERNEL_DIMS], others_out[KERNEL_DIMS]; /* strides */
} turn_args;
