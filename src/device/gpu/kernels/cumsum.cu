/* cumsum.cu - running sums of numbers of type X along a dimension: tensors are [outer, n, inner], n along it.
 * The output may be the input's memory. */
#include "dialect.h"
#include "sums.h"

enum { SIZE = 256, WARPS = SIZE / WARP };

/* A thread for each column: one number after the other. */
KERNEL(columns, cumsum_args, SIZE)
{
    const i64 c = BLOCK * SIZE + THREAD;
    if (c >= a.outer * a.inner)
        return;
    const i64 first = c / a.inner * a.n * a.inner + c % a.inner;
    float sum = 0.0f;
    for (i64 s = 0; s < a.n; s++) {
        const i64 i = first + (a.reverse ? a.n - 1 - s : s) * a.inner;
        sum = sum + LOAD(X, AT(const X, a.in), i);
        STORE(X, AT(X, a.out), i, sum);
    }
}

typedef struct rows_shared {
    float totals[2][WARPS];
} rows_shared;

/* A block for each column: 256 numbers at a time, added by warps in log steps (Hillis and Steele 1986). */
KERNEL_SHARED(rows, cumsum_args, SIZE, rows_shared)
{
    const i64 first = BLOCK / a.inner * a.n * a.inner + BLOCK % a.inner;
    const int lane = THREAD % WARP, warp = THREAD / WARP;
    float before = 0.0f;
    int turn = 0; /* totals of one turn are read while the next one's are written */
    for (i64 begin = 0; begin < a.n; begin += SIZE, turn = !turn) {
        const i64 k = begin + THREAD, i = first + (a.reverse ? a.n - 1 - k : k) * a.inner;
        float sum = k < a.n ? LOAD(X, AT(const X, a.in), i) : 0.0f;
        for (int step = 1; step < WARP; step *= 2) {
            const float other = WARP_FROM(sum, lane >= step ? lane - step : lane);
            sum = lane >= step ? other + sum : sum;
        }
        if (lane == WARP - 1)
            s->totals[turn][warp] = sum;
        BARRIER();
        float mine = before;
        for (int w = 0; w < WARPS; w++) {
            mine = w == warp ? before : mine;
            before = before + s->totals[turn][w];
        }
        if (k < a.n)
            STORE(X, AT(X, a.out), i, mine + sum);
    }
}
