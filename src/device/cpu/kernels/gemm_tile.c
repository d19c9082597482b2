/* gemm_tile.c - the inner loop: a tile of up to 14 x 32 (AVX-512), 6 x 16 (AVX2) or 4 x 8 sums stays in
 * registers while the loop runs over depth. Each height and width has a function of its own, so that a tile
 * at an edge computes only its own rows and columns. */
#include "gemm.h"

#if defined(LS_SIMD_512)
#define MR 14
#elif defined(LS_SIMD_256)
#define MR 6
#else
#define MR 4
#endif

#ifdef LS_BF16_PAIRS
SIMD_FN vf dot_add(vf sum, vf a, vf b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
#else
SIMD_FN vf dot_add(vf sum, vf a, vf b)
{
    (void)a;
    (void)b;
    return sum;
} /* never called */
#endif

_Static_assert(GEMM_A_STEP >= MR, "a step of a packed A has the words of all rows");

/* An x86 address is base + index * (1, 2, 4 or 8): from the address of row 3g, and the row stride as index,
 * it reaches the rows 3g, 3g + 1 and 3g + 2. So one pointer serves three rows. */
enum { GROUP_ROWS = 3, GROUPS = (GEMM_MAX_MR + GROUP_ROWS - 1) / GROUP_ROWS };

/* What gemm.h says of gemm_tile, with rows, nv (vectors in a row), packed (A is [k][GEMM_A_STEP]) and dot
 * (words are pairs) constant. Each step of depth reads nv vectors of B and one word of each row of A. */
SIMD_FN void tile(int rows, int nv, bool packed, bool dot, int64_t depth, const float *a, int64_t row_bytes,
                  const float *b, float *c, int64_t ldc, bool add, const float *bias, const gemm_ahead *ahead,
                  int64_t row)
{
    vf sum[MR][2];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < nv; v++)
            sum[i][v] = vf_zero();
    const char *base[GROUPS];
#pragma GCC unroll 5
    for (int g = 0; g < GROUPS; g++)
        base[g] = (const char *)a + GROUP_ROWS * g * row_bytes;
    for (; depth > 0; depth -= GEMM_AHEAD_STEPS) {
        const gemm_ahead lines = ahead ? *ahead++ : (gemm_ahead){ (const char *)b, 0 };
        const char *line = lines.at + row * lines.row_bytes;
        for (int64_t k = depth < GEMM_AHEAD_STEPS ? depth : GEMM_AHEAD_STEPS; k > 0; k--) {
            for (int i = 0; i < GEMM_LINES / GEMM_AHEAD_STEPS; i++) {
                __builtin_prefetch(line, 0, GEMM_TO_L2);
                line += lines.row_bytes;
            }
            vf bv[2];
            for (int v = 0; v < nv; v++)
                bv[v] = vf_load(b + v * VF_LANES);
#pragma GCC unroll 14
            for (int i = 0; i < rows; i++) {
                const char *from = packed ? (const char *)(a + i)
                                          : base[i / GROUP_ROWS] + i % GROUP_ROWS * row_bytes;
                float word; /* (a pair of bf16 may lie at any even address) */
                memcpy(&word, from, sizeof word);
                const vf av = vf_set1(word);
                for (int v = 0; v < nv; v++)
                    sum[i][v] = dot ? dot_add(sum[i][v], av, bv[v]) : vf_fma(av, bv[v], sum[i][v]);
            }
            b += 2 * VF_LANES;
            if (packed) {
                a += GEMM_A_STEP;
            } else {
#pragma GCC unroll 5
                for (int g = 0; GROUP_ROWS * g < rows; g++) {
                    const char *next = base[g] + sizeof(float);
                    OPAQUE(next); /* (of base[g] itself, it would keep the array in memory) */
                    base[g] = next;
                }
            }
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < nv; v++) {
            float *to = c + i * ldc + v * VF_LANES;
            const vf whole = add ? vf_load(to) + sum[i][v] : sum[i][v];
            vf_store(to, bias ? whole + vf_load(bias + v * VF_LANES) : whole);
        }
}

/* The functions tile_ROWS_NV_PACKED_DOT, and their table. */
#define TILE(rows, nv, packed, dot)                                                                        \
    static void tile_##rows##_##nv##_##packed##_##dot(                                                     \
        int64_t steps, const float *a, int64_t row_bytes, const float *b, float *c, int64_t ldc, bool add, \
        const float *bias, const gemm_ahead *ahead, int64_t row)                                           \
    {                                                                                                      \
        tile(rows, nv, packed, dot, steps, a, row_bytes, b, c, ldc, add, bias, ahead, row);                \
    }
#define NAME(rows, nv, packed, dot) tile_##rows##_##nv##_##packed##_##dot,
#if MR == 14
#define EACH(f, nv, p, d)                                                                                    \
    f(1, nv, p, d) f(2, nv, p, d) f(3, nv, p, d) f(4, nv, p, d) f(5, nv, p, d) f(6, nv, p, d) f(7, nv, p, d) \
        f(8, nv, p, d) f(9, nv, p, d) f(10, nv, p, d) f(11, nv, p, d) f(12, nv, p, d) f(13, nv, p, d)        \
            f(14, nv, p, d)
#elif MR == 6
#define EACH(f, nv, p, d) \
    f(1, nv, p, d) f(2, nv, p, d) f(3, nv, p, d) f(4, nv, p, d) f(5, nv, p, d) f(6, nv, p, d)
#else
#define EACH(f, nv, p, d) f(1, nv, p, d) f(2, nv, p, d) f(3, nv, p, d) f(4, nv, p, d)
#endif
#define TABLE(name, dot)                                                                                  \
    EACH(TILE, 1, 0, dot)                                                                                 \
    EACH(TILE, 2, 0, dot)                                                                                 \
    EACH(TILE, 1, 1, dot)                                                                                 \
    EACH(TILE, 2, 1, dot)                                                                                 \
    const gemm_tile name[2][2][GEMM_MAX_MR] = { { { EACH(NAME, 1, 0, dot) }, { EACH(NAME, 2, 0, dot) } }, \
                                                { { EACH(NAME, 1, 1, dot) }, { EACH(NAME, 2, 1, dot) } } };

TABLE(LS_NAME(ls_gemm_tiles), 0)
#ifdef LS_BF16_PAIRS
TABLE(LS_NAME(ls_gemm_dot_tiles), 1)
#endif
