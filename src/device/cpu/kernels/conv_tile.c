/* conv_tile.c - the inner loop of convolutions: the sums of a tile stay in registers, as in gemm_tile.c,
 * while the chain runs over several segments of the operands, from one kernel element to the next. */
#include "conv.h"

#if defined(LS_SIMD_512)
#define MR 14
#elif defined(LS_SIMD_256)
#define MR 6
#else
#define MR 4
#endif

SIMD_FN void tile(int rows, int nv, const conv_chain *chain, const float *a, const float *b, float *c,
                  int64_t ldc, bool add)
{
    const int64_t row = chain->row, step = chain->step;
    vf sum[MR][2];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < nv; v++)
            sum[i][v] = vf_zero();
    for (int64_t s = 0; s < chain->segments; s++) {
        /* one pointer for three rows, as in gemm_tile.c */
        const float *at = b + chain->segment[s].b, *base[5];
#pragma GCC unroll 5
        for (int g = 0; g < 5; g++)
            base[g] = a + chain->segment[s].a + 3 * g * row;
        for (int64_t k = 0; k < chain->steps; k++) {
            vf bv[2];
            for (int v = 0; v < nv; v++)
                bv[v] = vf_load(at + v * VF_LANES);
#pragma GCC unroll 14
            for (int i = 0; i < rows; i++) {
                const vf av = vf_set1(base[i / 3][i % 3 * row]);
                for (int v = 0; v < nv; v++)
                    sum[i][v] = vf_fma(av, bv[v], sum[i][v]);
            }
            at += 2 * VF_LANES;
#pragma GCC unroll 5
            for (int g = 0; 3 * g < rows; g++) {
                const float *next = base[g] + step;
                OPAQUE(next); /* (of base[g] itself, it would keep the array in memory) */
                base[g] = next;
            }
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < nv; v++) {
            float *to = c + i * ldc + v * VF_LANES;
            vf_store(to, add ? vf_load(to) + sum[i][v] : sum[i][v]);
        }
}

#define TILE(rows, nv)                                                                                \
    static void tile_##rows##_##nv(const conv_chain *chain, const float *a, const float *b, float *c, \
                                   int64_t ldc, bool add)                                             \
    {                                                                                                 \
        tile(rows, nv, chain, a, b, c, ldc, add);                                                     \
    }
#define NAME(rows, nv) tile_##rows##_##nv,
#if MR == 14
#define EACH(f, nv)                                                                                      \
    f(1, nv) f(2, nv) f(3, nv) f(4, nv) f(5, nv) f(6, nv) f(7, nv) f(8, nv) f(9, nv) f(10, nv) f(11, nv) \
        f(12, nv) f(13, nv) f(14, nv)
#elif MR == 6
#define EACH(f, nv) f(1, nv) f(2, nv) f(3, nv) f(4, nv) f(5, nv) f(6, nv)
#else
#define EACH(f, nv) f(1, nv) f(2, nv) f(3, nv) f(4, nv)
#endif
EACH(TILE, 1)
EACH(TILE, 2)
const conv_tile LS_NAME(ls_conv_tiles)[2][GEMM_MAX_MR] = { { EACH(NAME, 1) }, { EACH(NAME, 2) } };
