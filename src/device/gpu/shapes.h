/* shapes.h - dimensions that several operands share, as kernels want them: as few as possible. */
#pragma once
#include "gpu.h"
#include "kernels/shape.h"

enum { LS_GPU_OPERANDS = 48 };
/* The dimensions of an output, and for each operand the strides with which it is read, 0 where it is
 * repeated.
 */
typedef struct ls_gpu_dims {
    int ndim, operands;
    int64_t size[LS_MAX_DIMS], strides[LS_GPU_OPERANDS][LS_MAX_DIMS];
} ls_gpu_dims;

/* Appends a dimension, from the outermost to the innermost. Leaves out size 1, and merges it with the one
 * before if all operands allow it. */
void ls_gpu_dims_add(ls_gpu_dims *d, int64_t size, const int64_t *strides /* [operands] */);
/* A last dimension of size 1, if there is none. */
void ls_gpu_dims_end(ls_gpu_dims *d);
/* Operands t, read with the dimensions of `out` (aligned at the right, as in NumPy). */
void ls_gpu_dims_broadcast(ls_gpu_dims *d, const ls_type *out, int n, const ls_tensor *t);

/* For the kernel. Sizes may have been changed. */
shape ls_gpu_shape(int ndim, const int64_t *size);
strided ls_gpu_strided(const ls_tensor *t, const ls_gpu_dims *d, int operand);
