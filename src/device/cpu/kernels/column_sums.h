/* column_sums.h - sums over rows whose bits do not depend on threads. The rows are cut into at most SUM_PARTS
 * blocks, by a function of their number. Each block is summed row after row, and the blocks' sums are added
 * in a balanced tree. Threads first share blocks, then columns. */
#pragma once
#include "kernel.h"

/* the largest number of blocks; a block has a multiple of SUM_ROWS rows */
enum { SUM_PARTS = 64, SUM_ROWS = 16 };

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

/* The sums of block p, set to zero; *end receives the row after its last one. */
SIMD_FN float *column_sums_begin(const column_sums *s, int64_t p, int64_t *stop)
{
    *stop = min_i64((p + 1) * s->rows_per_part, s->rows);
    return memset(s->part + p * s->width, 0, sizeof(float) * (size_t)s->width);
}

/* Adds columns [from, to) of all blocks to block 0, in place: 0+1, 2+3, .., then the pairs. */
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
