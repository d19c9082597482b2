/* attention_mma.h - what the kernels of attention on tensor cores share: tiles of rows in shared memory, and
 * their products with fragments (mma.h). X (bf16 or f16), D (head_dim) and VECTOR (1: rows are copied 16
 * bytes at a time) are defined in front of the file.
 *
 * A row of a tile is filled up with zeros to a multiple of 16, and has 16 bytes more: so eight rows that
 * LDMATRIX reads lie in different banks. */
#pragma once
#include "mma.h"
#include "math.h"
#include "attention_scores.h"

enum { DP = (D + 15) / 16 * 16, LD = DP + 8, STEPS = DP / 16, WARPS = MMA_THREADS / WARP };
#define LANE (THREAD % WARP)
#define LOG2_E 1.44269504f
#define LN_2 0.693147182f

/* Begins to copy n of `rows` rows; the others are zeros. */
DEVICE void load_rows(X (*to)[LD], const X *from, i64 stride, int rows, int n)
{
    for (int i = THREAD; i < rows * (DP / 8); i += MMA_THREADS) {
        const int r = i / (DP / 8), c = i % (DP / 8) * 8;
#if VECTOR
        if (r < n && c < D) {
            COPY_16(&to[r][c], from + r * stride + c);
            continue;
        }
#endif
        for (int e = 0; e < 8; e++)
            to[r][c + e] = r < n && c + e < D ? from[r * stride + c + e] : OF_FLOAT(X, 0.0f);
    }
}

/* The fragments of rows row .. row + 15. */
DEVICE void rows_read(u32 f[STEPS][4], X (*tile)[LD], int row)
{
    UNROLL for (int c = 0; c < STEPS; c++) LDMATRIX(f[c], &tile[row + LANE % 16][c * 16 + LANE / 16 * 8]);
}
/* The fragments of 16 rows as columns: rows row .. + 15 at depth 16 c .. + 15. */
DEVICE void columns_read(u32 f[4], X (*tile)[LD], int row, int c)
{
    LDMATRIX(f, &tile[row + LANE % 8 + LANE / 16 * 8][c * 16 + LANE / 8 % 2 * 8]);
}
/* Of columns 16 c .. + 15 at a depth of rows row .. + 15. */
DEVICE void depth_read(u32 f[4], X (*tile)[LD], int row, int c)
{
    LDMATRIX_TRANS(f, &tile[row + LANE % 16][c * 16 + LANE / 16 * 8]);
}

/* d: 16 rows as fragments a, times rows row .. row + 8 n - 1 of the tile; n is even */
#define TIMES_ROWS(d, a, tile, row, n)                                                   \
    UNROLL for (int c_ = 0; c_ < STEPS; c_++) UNROLL for (int j_ = 0; j_ < (n); j_ += 2) \
    {                                                                                    \
        u32 f_[4];                                                                       \
        columns_read(f_, tile, (row) + j_ * 8, c_);                                      \
        MMA(X, (d)[j_], (a)[c_], f_);                                                    \
        MMA(X, (d)[j_ + 1], (a)[c_], f_ + 2);                                            \
    }
/* d += p (16 x 8 n, as PAIRs of fragments) times rows row .. row + 8 n - 1 of the tile */
#define ADD_PRODUCT(d, p, tile, row, n)                                                       \
    UNROLL for (int j_ = 0; j_ < (n); j_ += 2)                                                \
    {                                                                                         \
        const u32 p_[4] = { PAIR(X, (p)[j_][0], (p)[j_][1]), PAIR(X, (p)[j_][2], (p)[j_][3]), \
                            PAIR(X, (p)[j_ + 1][0], (p)[j_ + 1][1]),                          \
                            PAIR(X, (p)[j_ + 1][2], (p)[j_ + 1][3]) };                        \
        UNROLL for (int c_ = 0; c_ < STEPS; c_++)                                             \
        {                                                                                     \
            u32 f_[4];                                                                        \
            depth_read(f_, tile, (row) + j_ * 8, c_);                                         \
            MMA(X, (d)[2 * c_], p_, f_);                                                      \
            MMA(X, (d)[2 * c_ + 1], p_, f_ + 2);                                              \
        }                                                                                     \
    }
#define CLEAR(d, n) UNROLL for (int i_ = 0; i_ < (n)*4; i_++)(d)[i_ / 4][i_ % 4] = 0

/* Stores columns of one of a fragment's two rows. half: 0 is row LANE / 4, 1 is 8 rows below. */
DEVICE void row_store(X *to, float d[2 * STEPS][4], int half, float factor)
{
    UNROLL for (int j = 0; j < 2 * STEPS; j++)
    {
        const int c = j * 8 + LANE % 4 * 2;
        const float x = d[j][2 * half] * factor, y = d[j][2 * half + 1] * factor;
#if VECTOR
        if (c < D)
            *(u32 *)(to + c) = PAIR(X, x, y);
#else
        if (c < D)
            STORE(X, to, c, x);
        if (c + 1 < D)
            STORE(X, to, c + 1, y);
#endif
    }
}

/* 2^x for x up to about 0, and 0 below -126. Adding 1.5 * 2^23 rounds x to a whole number in the low bits.
 * The polynomial is a minimax fit: 9e-8. NaN stays. */
DEVICE float exp2_down(float x)
{
    const float t = x + 12582912.0f, r = x - (t - 12582912.0f);
    float e = 0.00132647271f;
    e = fma_(e, r, 0.00967151264f);
    e = fma_(e, r, 0.0555073374f);
    e = fma_(e, r, 0.240222421f);
    e = fma_(e, r, 0.693146978f);
    e = fma_(e, r, 1.0f) * float_of((bits_of(t) << 23) + 0x3f800000u);
    return x < -126.0f ? 0.0f : e;
}
