/* small_mm.c - products of small tiles (small_mm.h). A register tile has mr rows of nv vectors; each size has
 * a function. */
#include "small_mm.h"

enum { ROWS_MAX = 8 };
#if defined(LS_SIMD_512) /* at most 24 sums in 32 registers */
enum { VECTORS_MAX = 4 };
static const int rows_max[VECTORS_MAX] = { 8, 8, 8, 6 };
#else /* at most 12 sums in 16 registers */
enum { VECTORS_MAX = 2 };
static const int rows_max[VECTORS_MAX] = { 8, 6 };
#endif

#ifdef LS_LEVEL_avx512bf16
SIMD_FN vf dot_add(vf sum, vf a, vf b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
#else
SIMD_FN vf dot_add(vf sum, vf a, vf b) { return vf_fma(a, b, sum); } /* never called */
#endif

SIMD_FN void tile(const bool dot, const int mr, const int nv, int64_t k, const float *a, int64_t a_row,
                  int64_t a_k, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
    vf sum[ROWS_MAX][VECTORS_MAX];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[i][v] = add ? vf_load(c + i * ldc + v * VF_LANES) : vf_zero();
    /* k > 0: behind a loop that may run no times, or of which there are two forms, the compiler would store
     * the sums on the stack before they go to C. */
    do {
        vf bv[VECTORS_MAX];
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
        OPAQUE(a);
    } while (--k > 0);
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            vf_store(c + i * ldc + v * VF_LANES, sum[i][v]);
}

typedef void tile_fn(int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb,
                     float *c, int64_t ldc, bool add);
#define TILE(name, dot, nv, mr)                                                                           \
    static void name##_##nv##_##mr(int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b, \
                                   int64_t ldb, float *c, int64_t ldc, bool add)                          \
    {                                                                                                     \
        tile(dot, mr, nv, k, a, a_row, a_k, b, ldb, c, ldc, add);                                         \
    }
#define TILES_6(name, dot, nv) \
    TILE(name, dot, nv, 1)     \
    TILE(name, dot, nv, 2)     \
    TILE(name, dot, nv, 3) TILE(name, dot, nv, 4) TILE(name, dot, nv, 5) TILE(name, dot, nv, 6)
#define TILES_8(name, dot, nv) TILES_6(name, dot, nv) TILE(name, dot, nv, 7) TILE(name, dot, nv, 8)
#define NAMES_6(t) t##_1, t##_2, t##_3, t##_4, t##_5, t##_6
#define NAMES_8(t) NAMES_6(t), t##_7, t##_8
#if defined(LS_SIMD_512)
#define TILES(name, dot) \
    TILES_8(name, dot, 1) TILES_8(name, dot, 2) TILES_8(name, dot, 3) TILES_6(name, dot, 4)
#define NAMES(name) \
    { NAMES_8(name##_1) }, { NAMES_8(name##_2) }, { NAMES_8(name##_3) }, { NAMES_6(name##_4) }
#else
#define TILES(name, dot) TILES_8(name, dot, 1) TILES_6(name, dot, 2)
#define NAMES(name) \
    { NAMES_8(name##_1) }, { NAMES_6(name##_2) }
#endif

/* Panels from left to right. Tiles of a panel are as high as they can be until two are left, which are nearly
 * equal: so their sizes are the same from call to call, and the processor foresees the jumps. */
static void small_mm_product(tile_fn *const tiles[VECTORS_MAX][ROWS_MAX], int64_t m, int64_t n, int64_t k,
                             const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb,
                             float *c, int64_t ldc, bool add)
{
    for (int64_t i = 0; i < m && k == 0 && !add; i++)
        memset(c + i * ldc, 0, sizeof(float) * (size_t)n);
    for (int64_t j = 0, nv; j < n && m > 0 && k > 0; j += nv * VF_LANES) {
        nv = min_i64(VECTORS_MAX, (n - j) / VF_LANES);
        tile_fn *const *rows = tiles[nv - 1];
        const int64_t most = rows_max[nv - 1];
        int64_t i = 0;
        for (; m - i > 2 * most; i += most)
            rows[most - 1](k, a + i * a_row, a_row, a_k, b + j, ldb, c + i * ldc + j, ldc, add);
        const int64_t upper = m - i > most ? (m - i + 1) / 2 : m - i, lower = m - i - upper;
        rows[upper - 1](k, a + i * a_row, a_row, a_k, b + j, ldb, c + i * ldc + j, ldc, add);
        i += upper;
        if (lower)
            rows[lower - 1](k, a + i * a_row, a_row, a_k, b + j, ldb, c + i * ldc + j, ldc, add);
    }
}
#define PRODUCT(name, dot)                                                                          \
    TILES(name, dot)                                                                                \
    void LS_NAME(name)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k, \
                       const float *b, int64_t ldb, float *c, int64_t ldc, bool add)                \
    {                                                                                               \
        static tile_fn *const tiles[VECTORS_MAX][ROWS_MAX] = { NAMES(name) };                       \
        small_mm_product(tiles, m, n, k, a, a_row, a_k, b, ldb, c, ldc, add);                       \
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
    for (int64_t j = 0; j < n; j += VF_LANES) {
        const float *from = rows + j * ld;
        if (n - j >= VF_LANES)
            for (int64_t c = 0; c < d; c += 4)
                transpose_four(to + c * ldt + j, ldt, from + c, ld, VF_LANES);
        else
            for (int64_t c = 0; c < d; c += 4)
                transpose_four(to + c * ldt + j, ldt, from + c, ld, n - j);
    }
}
