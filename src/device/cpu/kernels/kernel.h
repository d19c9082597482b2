/* kernel.h - what the kernels of this folder share: choosing the element type, rows of a tensor, how many
 * threads to use. Nothing here affects a result: how sums are cut is decided where they are made. */
#pragma once
#include "base/thread_pool.h"
#include "vmath.h"

/* Calls f(T, ...) with a constant T for the tensor's type. f is always inlined, so that the compiler makes a
 * loop for each type. */
#define BY_FLOAT(dtype, f, ...)                       \
    do {                                              \
        switch (dtype) {                              \
        case LS_BF16: f(LS_BF16, __VA_ARGS__); break; \
        case LS_F16: f(LS_F16, __VA_ARGS__); break;   \
        default: f(LS_F32, __VA_ARGS__); break;       \
        }                                             \
    } while (0)

SIMD_FN bool present(const ls_tensor *t)
{
    return t->type.ndim >= 0;
} /* not an optional input that was left out */

SIMD_FN int64_t count_of(const ls_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->type.ndim; d++)
        n *= t->type.dims[d];
    return n;
}
/* A tensor [r.., K] as rows: the number of columns, the number of rows, and the elements from one row to the
 * next. */
SIMD_FN int64_t cols_of(const ls_tensor *t) { return t->type.ndim > 0 ? t->type.dims[t->type.ndim - 1] : 1; }
SIMD_FN int64_t rows_of(const ls_tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d + 1 < t->type.ndim; d++)
        n *= t->type.dims[d];
    return n;
}
SIMD_FN int64_t row_stride(const ls_tensor *t)
{
    for (int d = t->type.ndim - 2; d >= 0; d--)
        if (t->type.dims[d] > 1)
            return t->strides[d];
    return cols_of(t);
}

SIMD_FN int64_t elem_size(ls_dtype t)
{
    return t == LS_F64 || t == LS_I64 ? 8 : t == LS_F32 || t == LS_I32 ? 4 : t == LS_U8 ? 1 : 2;
}
SIMD_FN char *elem_at(const ls_tensor *t, int64_t i)
{
    return (char *)t->data + i * elem_size(t->type.dtype);
}
SIMD_FN bool is_float16_or_32(ls_dtype t) { return t == LS_F32 || t == LS_BF16 || t == LS_F16; }

SIMD_FN int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
SIMD_FN int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Hides from the compiler how a pointer was computed. So a loop adds the stride to it, instead of having a
 * pointer for every row, or a second form for a stride of 1. */
#define OPAQUE(p) __asm__("" : "+r"(p))

/* The first n lanes of v, and the other lanes of `other`. */
SIMD_FN vf vf_first(vf v, vf other, int n)
{
#if VF_LANES == 16
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
#elif VF_LANES == 8
    const vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
#else
    const vi lane = { 0, 1, 2, 3 };
#endif
    return vf_select(vi_lt(lane, vi_set1(n)), v, other);
}

/* Elements c .. c+n of a row; `pad` in the lanes from n on. */
SIMD_FN vf get_padded(ls_dtype T, const void *p, int64_t c, int n, float pad)
{
    return n == VF_LANES ? vf_get(p, T, c) : vf_first(vf_get_n(p, T, c, n), vf_set1(pad), n);
}

/* e^x for x <= 0 (rounding may make x slightly positive), and 0 from -87 on. Probabilities need no subnormal
 * numbers, and an operation that makes one takes over a hundred cycles on some machines. */
SIMD_FN vf exp_below_zero(vf x)
{
    return vf_select(vf_lt(x, vf_set1(-87.0f)), vf_zero(), vf_exp_negative(x));
}

/* Threads for a cheap pass over `elements`: waking them takes microseconds. Results never depend on it. */
SIMD_FN int threads_for(const ls_kernel_args *a, int64_t elements)
{
    return elements < 16384 ? 1 : a->threads;
}

/* For `supports` of a kernel's row: refuses a tensor of f64 (supports.c). */
const char *LS_NAME(ls_no_f64)(const ls_kernel_args *a);
