/* rows_of.h - rows of tensors: the last dimension, which is contiguous; one stride leads from row to row. */
#pragma once
#include "gpu.h"

/* in elements */
static inline int64_t row_stride_of(const ls_tensor *t)
{
    for (int d = t->type.ndim - 2; d >= 0; d--)
        if (t->type.dims[d] > 1)
            return t->strides[d];
    return t->type.ndim ? t->type.dims[t->type.ndim - 1] : 1;
}

/* 16 if each row begins at a multiple of 16 bytes and has whole words of 16 bytes, else an element's size. */
static inline int64_t rows_word(const ls_tensor *t)
{
    const int64_t size = (int64_t)ls_dtype_size(t->type.dtype),
                  length = t->type.ndim ? t->type.dims[t->type.ndim - 1] : 1;
    return ((int64_t)(uintptr_t)t->data | length * size | row_stride_of(t) * size) % 16 ? size : 16;
}
