/* argmax.cu - the position of the largest number of a row, the first of equals; NaN is the largest. A number
 * and its position are one integer, so that a maximum of integers finds both. */
#include "rows.h"
#include "loss.h"

/* Orders numbers as integers, 0 like -0, and all NaN alike above infinity; of equal ones the first. */
DEVICE u64 key_of(float x, i64 position)
{
    const u32 b = bits_of(x == 0.0f ? 0.0f : x), order = is_nan(x) ? 0xffffffffu
                                                         : b >> 31 ? ~b
                                                                   : b | 0x80000000u;
    return (u64)order << 32 | (u32) ~(u32)position;
}
DEVICE u64 larger(u64 a, u64 b) { return a > b ? a : b; }

typedef struct argmax_shared {
    u64 parts[WARP];
} argmax_shared;

KERNEL_SHARED(argmax, argmax_args, BLOCK_THREADS, argmax_shared)
{
    const i64 row = ROW;
    const place k = row < a.rows ? (place)a.k : 0;
    const X *x = AT(const X, a.x) + row * a.k;
    u64 best = 0;
    piece held[PIECES];
    row_read(held, x, 0, k);
    EACH_STEP(from, k)
    {
        READ_AGAIN(held, x, from, k);
        UNROLL for (int j = 0; j < PIECES; j++)
        {
            const place i = piece_at(from, j);
            UNROLL for (int e = 0; e < V; e++) if (i + e < k)
                best = larger(best, key_of(piece_get(&held[j], e), i + e));
        }
    }
    for (int mask = (TEAM < WARP ? TEAM : WARP) / 2; mask; mask /= 2) {
        const u64 other = WARP_XOR(best, mask);
        best = larger(best, other);
    }
#if TEAM > 32
    if (THREAD % WARP == 0)
        s->parts[THREAD / WARP] = best;
    BARRIER();
    for (int w = 0; w < TEAM / WARP; w++)
        best = larger(best, s->parts[w]);
#else
    (void)s;
#endif
    if (row >= a.rows || LANE)
        return;
    const i64 position = (u32) ~(u32)best;
    if (a.pairs) {
        AT(float, a.y)[2 * row] = LOAD(X, x, position);
        AT(float, a.y)[2 * row + 1] = (float)(a.first + position);
    } else {
        AT(i32, a.y)[row] = (i32)position;
    }
}

/* The position of the largest of pairs [n_parts, rows, 2]: of the first part of equals. */
KERNEL(argmax_join, argmax_args, JOIN_THREADS)
{
    const i64 row = BLOCK * JOIN_THREADS + THREAD;
    if (row >= a.rows)
        return;
    const float *pairs = AT(const float, a.x) + 2 * row, *best = pairs;
    for (i64 p = 1; p < a.n_parts; p++) {
        const float *other = pairs + 2 * p * a.rows;
        best = is_nan(best[0]) || other[0] <= best[0] ? best : other; /* (false for NaN) */
    }
    AT(i32, a.y)[row] = (i32)best[1];
}
