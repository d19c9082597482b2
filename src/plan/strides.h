/* strides.h - how a value's elements lie in memory: alignment, and strides (in elements). */
#pragma once
#include "plan.h"

#define LS_ALIGN 64u
static inline size_t ls_align_up(size_t n) { return (n + (LS_ALIGN - 1)) & ~(size_t)(LS_ALIGN - 1); }

void ls_strides_contiguous(int64_t *strides, const ls_type *t);
/* Changes the strides of dimensions of size 1, which have no meaning, so that leading dimensions collapse by
 * multiplication alone: canonical strides. */
void ls_strides_canonical(ls_tensor *t);
bool ls_strides_are_contiguous(const ls_tensor *t); /* takes canonical strides */
/* The last dimension is contiguous, and one stride leads through all others. Takes canonical strides. */
bool ls_strides_are_rows(const ls_tensor *t);
/* The same elements in the same order with other dimensions. False: no strides can do that. */
bool ls_strides_reshape(const ls_tensor *in, const ls_type *as, int64_t *strides);
/* The number of elements from the first to the last, gaps included. */
int64_t ls_strides_extent(const ls_tensor *t);
