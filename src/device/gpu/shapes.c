/* shapes.c - see shapes.h. */
#include "shapes.h"

void ls_gpu_dims_add(ls_gpu_dims *d, int64_t size, const int64_t *strides)
{
    if (size == 1)
        return;
    const int last = d->ndim - 1;
    bool merges = d->ndim > 0;
    for (int k = 0; k < d->operands && merges; k++)
        merges = d->strides[k][last] == strides[k] * size;
    const int to = merges ? last : d->ndim++;
    d->size[to] = merges ? d->size[to] * size : size;
    for (int k = 0; k < d->operands; k++)
        d->strides[k][to] = strides[k];
}

void ls_gpu_dims_end(ls_gpu_dims *d)
{
    if (d->ndim)
        return;
    d->size[d->ndim++] = 1;
    for (int k = 0; k < d->operands; k++)
        d->strides[k][0] = 1;
}

void ls_gpu_dims_broadcast(ls_gpu_dims *d, const ls_type *out, int n, const ls_tensor *t)
{
    *d = (ls_gpu_dims){ .operands = n };
    for (int o = 0; o < out->ndim; o++) {
        int64_t strides[LS_GPU_OPERANDS];
        for (int k = 0; k < n; k++) {
            const int own = o - (out->ndim - t[k].type.ndim);
            strides[k] = own < 0 || t[k].type.dims[own] == 1 ? 0 : t[k].strides[own];
        }
        ls_gpu_dims_add(d, out->dims[o], strides);
    }
    ls_gpu_dims_end(d);
}

shape ls_gpu_shape(int ndim, const int64_t *size)
{
    shape s = { .ndim = ndim };
    int64_t n = 1;
    for (int d = 0; d < ndim; d++) {
        unsigned shift = 0;
        n *= size[d];
        s.dims[d].size = size[d];
        if (size[d] < 1 || size[d] >= INT64_C(1) << 31)
            continue; /* (there is nothing to divide, or the shape is large) */
        while ((UINT64_C(1) << shift) < (uint64_t)size[d])
            shift++;
        const uint64_t size_d = (uint64_t)size[d];
        s.dims[d].shift = shift;
        s.dims[d].multiply = (u32)((((UINT64_C(1) << shift) - size_d) << 32) / size_d + 1);
    }
    s.large = n >= INT64_C(1) << 31;
    return s;
}

strided ls_gpu_strided(const ls_tensor *t, const ls_gpu_dims *d, int operand)
{
    strided s = { .data = ls_gpu_at(t->data) };
    for (int i = 0; i < d->ndim; i++)
        s.strides[i] = d->strides[operand][i];
    return s;
}
