/* gemm_ahead.h - lists of what the tiles of a strip prefetch while they multiply one block of depth. A list
 * has an entry for every GEMM_AHEAD_STEPS steps (gemm_ahead); what does not fit is not prefetched. */
#pragma once
#include "gemm.h"

typedef struct prefetches {
    gemm_ahead list[GEMM_AMX_KC / GEMM_AHEAD_STEPS];
    int n, room;
} prefetches;

/* An empty list, with room for `steps` steps. (Setting all of it to zero would take time.) */
SIMD_FN void prefetch_nothing_yet(prefetches *f, int64_t steps)
{
    f->n = 0;
    f->room = (int)((steps + GEMM_AHEAD_STEPS - 1) / GEMM_AHEAD_STEPS);
}

/* The lines of `bytes` bytes from `at` on, in each of the rows that are `row_bytes` apart. */
SIMD_FN void prefetch_lines(prefetches *f, const char *at, int64_t row_bytes, int64_t bytes)
{
    for (; bytes > 0 && f->n < f->room; bytes -= GEMM_LINE, at += GEMM_LINE)
        f->list[f->n++] = (gemm_ahead){ at, row_bytes };
}
SIMD_FN void prefetch_columns(prefetches *f, const ls_tensor *t, int64_t row, int64_t from, int64_t to)
{
    const int64_t size = elem_size(t->type.dtype);
    if (present(t))
        prefetch_lines(f, elem_at(t, row * row_stride(t) + from), row_stride(t) * size, (to - from) * size);
}

/* The next `bytes` bytes of packed B, from `at` on: the tiles of a strip share its lines like rows of a
 * matrix. */
SIMD_FN void prefetch_panel(prefetches *f, const char *at, int64_t bytes, int rows)
{
    const int64_t step = (int64_t)rows * GEMM_LINE;
    for (; bytes > 0 && f->n < f->room; bytes -= step, at += step)
        f->list[f->n++] = (gemm_ahead){ at, GEMM_LINE };
}

/* Fills the list with the start of the panel, which is in L1: a tile does not check for an end. */
SIMD_FN void prefetch_nothing_more(prefetches *f, const float *panel)
{
    while (f->n < f->room)
        f->list[f->n++] = (gemm_ahead){ (const char *)panel, 0 };
}
