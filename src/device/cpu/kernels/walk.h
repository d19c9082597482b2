/* walk.h - reads a strided or broadcast tensor in the order of a contiguous output, in runs that are as long
 * as possible. */
#pragma once
#include "kernel.h"

/* The dimensions of the output, with the input's stride for each (0 where it is broadcast). Neighbouring
 * dimensions are merged if the input allows it. */
typedef struct walk {
    const char *data;
    int ndim;
    int64_t dims[LS_MAX_DIMS], strides[LS_MAX_DIMS];
} walk;

SIMD_FN walk walk_make(const void *data, int ndim, const int64_t *dims, const int64_t *strides)
{
    walk w = { .data = data, .ndim = 0 };
    for (int d = 0; d < ndim; d++) {
        if (dims[d] == 1)
            continue;
        const int last = w.ndim - 1;
        if (w.ndim && w.strides[last] == strides[d] * dims[d]) {
            w.dims[last] *= dims[d];
            w.strides[last] = strides[d];
        } else {
            w.dims[w.ndim] = dims[d];
            w.strides[w.ndim++] = strides[d];
        }
    }
    if (!w.ndim) {
        w.dims[0] = w.strides[0] = 1;
        w.ndim = 1;
    }
    return w;
}

/* t, read with the shape of `out`. Dimensions are aligned at the right, as in NumPy. */
SIMD_FN walk walk_broadcast(const ls_tensor *t, const ls_type *out)
{
    int64_t strides[LS_MAX_DIMS] = { 0 };
    const int shift = out->ndim - t->type.ndim;
    for (int d = 0; d < t->type.ndim; d++)
        strides[d + shift] = t->type.dims[d] == 1 ? 0 : t->strides[d];
    return walk_make(t->data, out->ndim, out->dims, strides);
}

SIMD_FN bool walk_is_flat(const walk *w) { return w->ndim == 1 && w->strides[0] == 1; }

/* Where output element i is in the input, in elements. *left receives how many elements, itself included,
 * follow on the input's innermost dimension. */
SIMD_FN int64_t walk_at(const walk *w, int64_t i, int64_t *left)
{
    int64_t offset = 0;
    *left = w->dims[w->ndim - 1] - i % w->dims[w->ndim - 1];
    for (int d = w->ndim - 1; d >= 0; d--) {
        offset += i % w->dims[d] * w->strides[d];
        i /= w->dims[d];
    }
    return offset;
}
