/* strides.h - how values lie in memory: alignment and strides (in elements). */
#pragma once
#include "plan.h"

#define LS_ALIGN 64u
static inline size_t ls_align_up(size_t n) { return (n + (LS_ALIGN - 1)) & ~(size_t)(LS_ALIGN - 1); }

void ls_strides_contiguous(int64_t *strides, const ls_type *t);
/* Rewrites the strides of size-1 dims (which no element depends on) so that leading dims collapse by plain
 * multiplication. */
void ls_strides_canonical(ls_tensor *t);
bool ls_strides_are_contiguous(const ls_tensor *t); /* canonical input */
/* last dim contiguous, the others one row stride; canonical input */
bool ls_strides_are_rows(const ls_tensor *t);
/* The same elements in the same order under other dims; false if no strides do that. */
bool ls_strides_reshape(const ls_tensor *in, const ls_type *as, int64_t *strides);
/* Elements from the first to one past the last. */
int64_t ls_strides_extent(const ls_tensor *t);
