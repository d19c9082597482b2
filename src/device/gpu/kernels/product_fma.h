/* product_fma.h - how product.h multiplies f32 exactly: with fused multiply-adds. A thread has SUMS_M x
 * SUMS_N of the tile's sums; a warp's threads are 8 x 4. From a tile along m (or n) a thread takes 4
 * neighbours at once, from a tile along depth 4 numbers of one row. */
#pragma once

enum { SUMS_M = WARP_M / 8, SUMS_N = WARP_N / 4 };
typedef char product_warps_fit[WARP_M % 8 == 0 && WARP_N % 4 == 0 && TILE_K % 4 == 0 &&
                                       (LEFT_ALONG_K || SUMS_M % 4 == 0) && (RIGHT_ALONG_K || SUMS_N % 4 == 0)
                                   ? 1
                                   : -1];

typedef struct product_sums {
    float d[SUMS_M][SUMS_N];
} product_sums;

DEVICE void product_zero(product_sums *sums)
{
    UNROLL for (int i = 0; i < SUMS_M; i++) UNROLL for (int j = 0; j < SUMS_N; j++) sums->d[i][j] = 0;
}

/* Row of the warp's part that is this thread's sum number i; the column of sum number j. */
DEVICE int product_row(int i)
{
    const int at = THREAD % WARP / 4;
    return LEFT_ALONG_K ? i * 8 + at : i / 4 * 32 + at * 4 + i % 4;
}
DEVICE int product_column(int j)
{
    const int at = THREAD % 4;
    return RIGHT_ALONG_K ? j * 4 + at : j / 4 * 16 + at * 4 + j % 4;
}

DEVICE void product_multiply(product_sums *sums, const chunk *left, const chunk *right)
{
    const int warp = THREAD / WARP, m = warp / WARPS_N * WARP_M, n = warp % WARPS_N * WARP_N;
    UNROLL for (int k = 0; k < TILE_K; k += 4)
    {
        float a[SUMS_M][4];
        if (LEFT_ALONG_K) {
            UNROLL for (int i = 0; i < SUMS_M; i++)
            {
                const chunk four = chunk_load(left + LEFT_SLOT(m + product_row(i), k / 4));
                UNROLL for (int e = 0; e < 4; e++) a[i][e] = float_of(four.v[e]);
            }
        } else {
            UNROLL for (int i = 0; i < SUMS_M; i += 4) UNROLL for (int e = 0; e < 4; e++)
            {
                const chunk four = chunk_load(left + LEFT_SLOT(k + e, (m + product_row(i)) / 4));
                UNROLL for (int x = 0; x < 4 && i + x < SUMS_M; x++) a[i + x][e] = float_of(four.v[x]);
            }
        }
        if (RIGHT_ALONG_K) {
            UNROLL for (int j = 0; j < SUMS_N; j++)
            {
                const chunk four = chunk_load(right + RIGHT_SLOT(n + product_column(j), k / 4));
                UNROLL for (int e = 0; e < 4; e++) UNROLL for (int i = 0; i < SUMS_M; i++)
                    sums->d[i][j] = fma_(a[i][e], float_of(four.v[e]), sums->d[i][j]);
            }
        } else {
            UNROLL for (int e = 0; e < 4; e++) UNROLL for (int j = 0; j < SUMS_N; j += 4)
            {
                const chunk four = chunk_load(right + RIGHT_SLOT(k + e, (n + product_column(j)) / 4));
                UNROLL for (int x = 0; x < 4 && j + x < SUMS_N; x++) UNROLL for (int i = 0; i < SUMS_M; i++)
                    sums->d[i][j + x] = fma_(a[i][e], float_of(four.v[x]), sums->d[i][j + x]);
            }
        }
    }
}

/* This thread's sums, as rows from its warp's first one on. */
DEVICE void product_results(const product_sums *sums, float *to)
{
    const int n = THREAD / WARP % WARPS_N * WARP_N;
    UNROLL for (int i = 0; i < SUMS_M; i++) UNROLL for (int j = 0; j < SUMS_N; j++)
        to[product_row(i) * RESULT_LINE + n + product_column(j)] = sums->d[i][j];
}
