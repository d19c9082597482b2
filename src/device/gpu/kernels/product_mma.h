/* product_mma.h - how product.h multiplies on tensor cores. A warp has WARP_M x WARP_N of the tile's sums, in
 * fragments of 16 x 8 (mma.h). */
#pragma once
#include "mma.h"

enum {
    FRAGMENTS_M = WARP_M / 16,
    FRAGMENTS_N = WARP_N / 8,
    DEPTH = MULTIPLY == MULTIPLY_MMA ? 16 : 8, /* of one fragment: two chunks */
    DEPTHS = TILE_K / DEPTH
};
typedef char product_warps_fit[WARP_M % 16 == 0 && WARP_N % 16 == 0 && TILE_K % DEPTH == 0 ? 1 : -1];

typedef struct product_sums {
    float d[FRAGMENTS_M][FRAGMENTS_N][4];
} product_sums;
typedef struct product_fragments {
    u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][2];
} product_fragments;

DEVICE void product_zero(product_sums *sums)
{
    UNROLL for (int i = 0; i < FRAGMENTS_M; i++) UNROLL for (int j = 0; j < FRAGMENTS_N; j++)
        UNROLL for (int e = 0; e < 4; e++) sums->d[i][j][e] = 0;
}

#if MULTIPLY == MULTIPLY_TF32
#define FRAGMENT_TYPE tf32
/* number `at` of a line of floats, rounded */
DEVICE u32 product_tf32(const chunk *tile, int slot, int at)
{
    return tf32_of(float_of(tile[slot].v[at % 4]));
}
DEVICE void product_round(u32 *r) { UNROLL for (int i = 0; i < 4; i++) r[i] = tf32_of(float_of(r[i])); }
#else
#define FRAGMENT_TYPE ELEMENT
DEVICE void product_round(u32 *r) { (void)r; }
#endif

/* The fragments number `step` of depth. */
DEVICE void product_fragment(product_fragments *f, const chunk *left, const chunk *right, int step)
{
    const int lane = THREAD % WARP, warp = THREAD / WARP;
    const int m = warp / WARPS_N * WARP_M, n = warp % WARPS_N * WARP_N;
    UNROLL for (int i = 0; i < FRAGMENTS_M; i++)
    {
        if (LEFT_ALONG_K) {
            LDMATRIX(f->a[i], &left[LEFT_SLOT(m + i * 16 + lane % 16, step * 2 + lane / 16)]);
            product_round(f->a[i]);
        } else {
#if MULTIPLY == MULTIPLY_TF32
            UNROLL for (int e = 0; e < 4; e++)
            {
                const int row = m + i * 16 + lane / 4 + e % 2 * 8, line = step * 8 + lane % 4 + e / 2 * 4;
                f->a[i][e] = product_tf32(left, LEFT_SLOT(line, row / 4), row);
            }
#else
            LDMATRIX_TRANS(
                f->a[i],
                &left[LEFT_SLOT(step * 16 + lane / 16 * 8 + lane % 8, m / 8 + i * 2 + lane / 8 % 2)]);
#endif
        }
    }
    UNROLL for (int j = 0; j < FRAGMENTS_N; j += 2) /* 16 columns at once */
    {
        u32 r[4];
        if (RIGHT_ALONG_K) {
            LDMATRIX(r, &right[RIGHT_SLOT(n + j * 8 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2)]);
            product_round(r);
        } else {
#if MULTIPLY == MULTIPLY_TF32
            UNROLL for (int e = 0; e < 4; e++)
            {
                const int column = n + j * 8 + lane / 4 + e / 2 * 8, line = step * 8 + lane % 4 + e % 2 * 4;
                r[e] = product_tf32(right, RIGHT_SLOT(line, column / 4), column);
            }
#else
            LDMATRIX_TRANS(
                r, &right[RIGHT_SLOT(step * 16 + lane / 8 % 2 * 8 + lane % 8, n / 8 + j + lane / 16)]);
#endif
        }
        f->b[j][0] = r[0];
        f->b[j][1] = r[1];
        f->b[j + 1][0] = r[2];
        f->b[j + 1][1] = r[3];
    }
}

/* The fragments of a step are read while those of the step before are multiplied. */
DEVICE void product_multiply(product_sums *sums, const chunk *left, const chunk *right)
{
    product_fragments f[2];
    product_fragment(&f[0], left, right, 0);
    UNROLL for (int step = 0; step < DEPTHS; step++)
    {
        if (step + 1 < DEPTHS)
            product_fragment(&f[(step + 1) % 2], left, right, step + 1);
        UNROLL for (int i = 0; i < FRAGMENTS_M; i++) UNROLL for (int j = 0; j < FRAGMENTS_N; j++)
            MMA(FRAGMENT_TYPE, sums->d[i][j], f[step % 2].a[i], f[step % 2].b[j]);
    }
}

/* This warp's sums, as rows from the warp's first one on. */
DEVICE void product_results(const product_sums *sums, float *to)
{
    const int lane = THREAD % WARP, n = THREAD / WARP % WARPS_N * WARP_N;
    UNROLL for (int i = 0; i < FRAGMENTS_M; i++) UNROLL for (int j = 0; j < FRAGMENTS_N; j++)
        UNROLL for (int e = 0; e < 4; e++)
            to[(i * 16 + lane / 4 + e / 2 * 8) * RESULT_LINE + n + j * 8 + lane % 4 * 2 + e % 2] =
                sums->d[i][j][e];
}
