/* picture_lines.h - which elements of a picture's line an average pool or a resize looks at. */
#pragma once
#include <math.h>
#include "graph/attrs.h"

/* Elements [begin, end) of a line, and the number by which their sum is divided. */
typedef struct ls_pool_window {
    int64_t begin, end, divisor;
} ls_pool_window;

/* Window k of `windows` over a line of n elements. kernel 0: they cover the line evenly, from floor(k n /
 * windows) to ceil((k + 1) n / windows). whole: the divisor counts padding. */
static inline ls_pool_window ls_avg_window(int64_t k, int64_t windows, int64_t n, int64_t kernel,
                                           int64_t stride, int64_t pad, bool whole)
{
    if (!kernel) {
        const int64_t begin = k * n / windows, end = ((k + 1) * n + windows - 1) / windows;
        return (ls_pool_window){ begin, end, end - begin };
    }
    const int64_t from = k * stride - pad, begin = from > 0 ? from : 0,
                  end = from + kernel < n ? from + kernel : n;
    return (ls_pool_window){ begin, end, whole ? kernel : end - begin };
}
static inline ls_pool_window ls_avg_row(const ls_avg_pool_attrs *a, int64_t k, int64_t rows, int64_t n)
{
    return ls_avg_window(k, rows, n, a->kernel_h, a->stride_h, a->pad_h, a->whole);
}
static inline ls_pool_window ls_avg_column(const ls_avg_pool_attrs *a, int64_t k, int64_t columns, int64_t n)
{
    return ls_avg_window(k, columns, n, a->kernel_w, a->stride_w, a->pad_w, a->whole);
}

/* What element k of a resized line is: (1 - weight) * [first] + weight * [second]. */
typedef struct ls_between {
    int64_t first, second;
    double weight;
} ls_between;

/* Element k of a line of `in` elements resized to `out`, by PyTorch's rules. Nearest computes in f32 as
 * PyTorch does, which decides between neighbours. */
static inline ls_between ls_resized(int64_t k, int64_t out, int64_t in, int64_t mode)
{
    if (mode == LS_BY_NEAREST) {
        const int64_t at = (int64_t)floorf((float)k * ((float)in / (float)out));
        return (ls_between){ at < in ? at : in - 1, at < in ? at : in - 1, 0 };
    }
    const double at = mode == LS_BY_CENTRES ? ((double)k + 0.5) * ((double)in / (double)out) - 0.5
                      : out > 1             ? (double)k * ((double)(in - 1) / (double)(out - 1))
                                            : 0;
    const double place = at > 0 ? at : 0;
    const int64_t first = (int64_t)place < in - 1 ? (int64_t)place : in - 1;
    return (ls_between){ first, first < in - 1 ? first + 1 : first, place - (double)first };
}
