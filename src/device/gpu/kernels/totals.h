/* totals.h - arguments of totals.cu and squares.cu. */
#pragma once
#include "types.h"

/* Sum of f32 numbers [here, inner], those of the first `real` samples alone: weighted, or where `valid` is
 * not `ignore`. */
typedef struct row_sum_args {
    gpu_address rows, weights, valid, real, divisor; /* but for rows they may be 0 */
    gpu_address dsum, drows;                         /* of the gradient */
    gpu_address sum;                                 /* f32 */
    gpu_address parts;                               /* f64, one of each block; used if there are several */
    i64 n, here, inner;
    i64 each, start; /* rows of a sample in dimension 0; the number of the first row among all */
    i64 n_parts;
    i32 ignore;
} row_sum_args;

enum { ROW_SUM_THREADS = 256, ROW_SUM_EACH = 16 }; /* numbers of a thread */

/* As many tensors of one type as fit into a kernel's arguments. */
enum { TENSORS = 48 };
typedef struct tensors_args {
    gpu_address max;   /* of sum_squares */
    gpu_address parts; /* max_abs: u32; sum_squares: two u64 */
    i64 count;
    gpu_address x[TENSORS];
    i64 n[TENSORS], first[TENSORS]; /* elements; the number of the first block of a tensor, of all blocks */
    i64 before;                     /* the number of the first block of this launch */
} tensors_args;

typedef struct tensors_join_args {
    gpu_address parts, out;
    i64 n_parts;
} tensors_join_args;

typedef struct scalar_args {
    gpu_address max, total, out;
} scalar_args;

enum {
    TENSOR_THREADS = 256,
    TENSOR_PIECES = 4,    /* that a thread loads at once */
    TENSOR_BLOCKS = 1056, /* of one tensor, at most */
    TENSOR_JOIN_THREADS = 1024,
    FRACTION_BITS = 87 /* a square is below 2^87 units */
};
