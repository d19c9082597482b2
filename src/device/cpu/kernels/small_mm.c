/* small_mm.c - products of small tiles (small_mm.h). A register tile has mr rows of nv vectors; each size has
 * a function. */
#include "small_mm.h"

#if defined(LS_SIMD_512)
#define NV_MAX 4
#else
#define NV_MAX 3
#endif

#ifdef LS_LEVEL_avx512bf16
SIMD_FN vf dot_add(vf sum, vf a, vf b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
#else
SIMD_FN vf dot_add(vf sum, vf a, vf b) { return vf_fma(a, b, sum); } /* never called */
#endif

SIMD_FN void tile(bool dot, int mr, int nv, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                  const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
    vf sum[8][NV_MAX];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[i][v] = add ? vf_load(c + i * ldc + v * VF_LANES) : vf_zero();
    for (int64_t p = 0; p < k; p++) {
        vf bv[NV_MAX];
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            bv[v] = vf_load(b + v * VF_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) {
            const vf av = vf_set1(a[i * a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                sum[i][v] = dot ? dot_add(sum[i][v], av, bv[v]) : vf_fma(av, bv[v], sum[i][v]);
        }
        a += a_k;
        b += ldb;
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            vf_store(c + i * ldc + v * VF_LANES, sum[i][v]);
}

/* m rows of nv vectors, in tiles of nearly equal height. Each width has a function, so that a tile needs no
 * call. */
SIMD_FN void panel(bool dot, int nv, int mr_max, int64_t m, int64_t k, const float *a, int64_t a_row,
                   int64_t a_k, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
    for (int64_t tiles = (m + mr_max - 1) / mr_max; tiles > 0; tiles--) {
        const int mr = (int)((m + tiles - 1) / tiles);
        switch (mr) {
#define ROWS(n)                                                      \
    case n:                                                          \
        if (n <= mr_max)                                             \
            tile(dot, n, nv, k, a, a_row, a_k, b, ldb, c, ldc, add); \
        break;
            ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)
#undef ROWS
        }
        a += mr * a_row;
        c += mr * ldc;
        m -= mr;
    }
}

#if defined(LS_SIMD_512) /* at most 24 sums in 32 registers */
enum { MR_1 = 8, MR_2 = 8, MR_3 = 8, MR_4 = 6 };
#define WIDEST(name, dot) PANEL(name, dot, 4)
#define CASE_WIDEST(name)                                                 \
    case 4:                                                               \
        name##_panel_4(m, k, a, a_row, a_k, b + j, ldb, c + j, ldc, add); \
        break;
#else /* at most 12 sums in 16 registers */
enum { MR_1 = 8, MR_2 = 6, MR_3 = 4 };
#define WIDEST(name, dot)
#define CASE_WIDEST(name)
#endif
#define PANEL(name, dot, nv)                                                                              \
    static __attribute__((noinline)) void name##_panel_##nv(int64_t m, int64_t k, const float *a,         \
                                                            int64_t a_row, int64_t a_k, const float *b,   \
                                                            int64_t ldb, float *c, int64_t ldc, bool add) \
    {                                                                                                     \
        panel(dot, nv, MR_##nv, m, k, a, a_row, a_k, b, ldb, c, ldc, add);                                \
    }
/* The function `name`: panels from left to right. */
#define PRODUCT(name, dot)                                                                          \
    PANEL(name, dot, 1)                                                                             \
    PANEL(name, dot, 2)                                                                             \
    PANEL(name, dot, 3)                                                                             \
    WIDEST(name, dot)                                                                               \
    void LS_NAME(name)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k, \
                       const float *b, int64_t ldb, float *c, int64_t ldc, bool add)                \
    {                                                                                               \
        for (int64_t j = 0; j < n; j += NV_MAX * VF_LANES)                                          \
            switch (min_i64(NV_MAX, (n - j) / VF_LANES)) {                                          \
            case 1: name##_panel_1(m, k, a, a_row, a_k, b + j, ldb, c + j, ldc, add); break;        \
            case 2: name##_panel_2(m, k, a, a_row, a_k, b + j, ldb, c + j, ldc, add); break;        \
            case 3:                                                                                 \
                name##_panel_3(m, k, a, a_row, a_k, b + j, ldb, c + j, ldc, add);                   \
                break;                                                                              \
                CASE_WIDEST(name)                                                                   \
            }                                                                                       \
    }
PRODUCT(ls_small_mm, false)
#ifdef LS_LEVEL_avx512bf16
PRODUCT(ls_small_dot_mm, true)
#endif

typedef float quad __attribute__((vector_size(16)));
SIMD_FN quad quad_load(const float *p)
{
    quad v;
    memcpy(&v, p, sizeof v);
    return v;
}
#define JOIN_8(p) __builtin_shufflevector((p)[0], (p)[1], 0, 1, 2, 3, 4, 5, 6, 7)
#if VF_LANES == 16
#define JOIN(p) \
    __builtin_shufflevector(JOIN_8(p), JOIN_8((p) + 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif VF_LANES == 8
#define JOIN(p) JOIN_8(p)
#else
#define JOIN(p) (p)[0]
#endif

/* Transposes four rows inside each quarter of 128 bits: r[q][i] becomes r[i][q]. */
#if VF_LANES == 16
#define PAIRS_LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define PAIRS_HIGH(a, b) \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define HALVES_LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HALVES_HIGH(a, b) \
    __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#elif VF_LANES == 8
#define PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define HALVES_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HALVES_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define HALVES_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HALVES_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

/* Columns c .. c+3 of VF_LANES rows. Quarter q of vector i is loaded from row 4q + i, so that shuffles inside
 * quarters are enough. */
SIMD_FN void transpose_four(float *to, int64_t ldt, const float *rows, int64_t ld, int64_t n)
{
    vf r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        quad part[VF_LANES / 4];
#pragma GCC unroll 4
        for (int q = 0; q < VF_LANES / 4; q++)
            part[q] = 4 * q + i < n ? quad_load(rows + (4 * q + i) * ld) : (quad){ 0 };
        r[i] = JOIN(part);
    }
    const vf a = PAIRS_LOW(r[0], r[1]), b = PAIRS_HIGH(r[0], r[1]), c = PAIRS_LOW(r[2], r[3]),
             d = PAIRS_HIGH(r[2], r[3]);
    vf_store(to, HALVES_LOW(a, c));
    vf_store(to + ldt, HALVES_HIGH(a, c));
    vf_store(to + 2 * ldt, HALVES_LOW(b, d));
    vf_store(to + 3 * ldt, HALVES_HIGH(b, d));
}

void LS_NAME(ls_small_transpose)(float *to, int64_t ldt, const float *rows, int64_t ld, int64_t n, int64_t d)
{
    for (int64_t j = 0; j < ldt; j += VF_LANES) {
        const float *from = rows + j * ld;
        if (n - j >= VF_LANES)
            for (int64_t c = 0; c < d; c += 4)
                transpose_four(to + c * ldt + j, ldt, from + c, ld, VF_LANES);
        else
            for (int64_t c = 0; c < d; c += 4)
                transpose_four(to + c * ldt + j, ldt, from + c, ld, n - j);
    }
}

void LS_NAME(ls_small_dots)(float *to, int64_t ldt, const float *rows, int64_t ld, int64_t n,
                            const float *others, int64_t ldo, int64_t m, int64_t d)
{
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++) {
            vf sum = vf_zero();
            for (int64_t c = 0; c < d; c += VF_LANES)
                sum = vf_fma(vf_load(rows + i * ld + c), vf_load(others + j * ldo + c), sum);
            to[j * ldt + i] = vf_sum(sum);
        }
}
