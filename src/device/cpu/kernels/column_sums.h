/* column_sums.h - sums over rows whose bits do not depend on threads: the rows are cut into at most SUM_PARTS
 * blocks (a function of their number), each block is summed row after row, and the blocks' sums are added as
 * a balanced tree. Threads share blocks, then columns. */
#pragma once
#include "kernel.h"

enum { SUM_PARTS = 64, SUM_ROWS = 16 }; /* at most so many blocks, of a multiple of so many rows */

typedef struct column_sums {
    int64_t rows, width, rows_per_part, parts;
    float *part; /* [parts, width] */
} column_sums;

SIMD_FN column_sums column_sums_of(int64_t rows, int64_t width, void *workspace)
{
    column_sums s = { .rows = rows, .width = width, .part = workspace };
    s.rows_per_part = round_up(rows / SUM_PARTS + 1, SUM_ROWS);
    s.parts = rows / s.rows_per_part + 1; /* the last one may be empty */
    return s;
}
SIMD_FN size_t column_sums_bytes(const column_sums *s)
{
    return sizeof(float) * (size_t)(s->parts * s->width);
}

/* The sums of block p, zeroed, and the row behind its last one. */
SIMD_FN float *column_sums_begin(const column_sums *s, int64_t p, int64_t *stop)
{
    *stop = min_i64((p + 1) * s->rows_per_part, s->rows);
    return memset(s->part + p * s->width, 0, sizeof(float) * (size_t)s->width);
}

/* Columns [from, to) of all blocks into block 0: 0+1, 2+3, .. then those by pairs, in place. */
SIMD_FN void column_sums_join(const column_sums *s, int64_t from, int64_t to)
{
    for (int64_t step = 1; step < s->parts; step *= 2)
        for (int64_t p = 0; p + step < s->parts; p += 2 * step) {
            float *left = s->part + p * s->width;
            const float *right = left + step * s->width;
            for (int64_t c = from; c < to; c++)
                left[c] += right[c];
        }
}
