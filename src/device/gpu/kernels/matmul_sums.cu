/* matmul_sums.cu - sums for linear_dw: of the parts of depth, and of the columns of dy. X is the type of all
 * but the parts. */
#include "matmul.h"
#include "dialect.h"

KERNEL(matmul_sum, matmul_sum_args, SUMS_THREADS)
{
    const i64 i = BLOCK * SUMS_THREADS + THREAD, count = a.rows * a.columns;
    if (i >= count)
        return;
    const float *part = AT(const float, a.parts) + i;
    float sum = part[0];
    for (i64 p = 1; p < a.n_parts; p++)
        sum = sum + part[p * count];
    STORE(X, AT(X, a.y), i / a.columns * a.ld_y + i % a.columns, sum);
}

/* A warp has 32 columns; each of the 8 warps every 8th row. */
typedef struct column_sum_shared {
    float sums[SUMS_THREADS / WARP][SUMS_COLUMNS];
} column_sum_shared;
KERNEL_SHARED(column_sum, column_sum_args, SUMS_THREADS, column_sum_shared)
{
    enum { WARPS = SUMS_THREADS / WARP };
    const i64 groups = (a.columns + SUMS_COLUMNS - 1) / SUMS_COLUMNS, part = BLOCK / groups;
    const i64 column = BLOCK % groups * SUMS_COLUMNS + THREAD % WARP, end = (part + 1) * SUMS_ROWS;
    float sum = 0;
    if (column < a.columns)
        for (i64 r = part * SUMS_ROWS + THREAD / WARP; r < end && r < a.rows; r += WARPS)
            sum = sum + LOAD(X, AT(const X, a.x), r * a.ld_x + column);
    s->sums[THREAD / WARP][THREAD % WARP] = sum;
    BARRIER();
    if (THREAD >= WARP || column >= a.columns)
        return;
    for (int w = 1; w < WARPS; w++)
        sum = sum + s->sums[w][THREAD];
    if (a.rows <= SUMS_ROWS)
        STORE(X, AT(X, a.y), column, sum);
    else
        AT(float, a.parts)[part * a.columns + column] = sum;
}
