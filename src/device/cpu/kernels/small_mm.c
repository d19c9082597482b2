/* small_mm.c - see small_mm.h. A register tile is mr rows of nv vectors; there is a function for every size. */
#include "small_mm.h"

#if defined(LS_SIMD_512)
#define NV_MAX 4
static const int MR_MAX[NV_MAX + 1] = { 0, 8, 8, 8, 6 }; /* by nv: at most 24 sums of 32 registers */
#else
#define NV_MAX 3
static const int MR_MAX[NV_MAX + 1] = { 0, 8, 6, 4 };    /* at most 12 sums of 16 registers */
#endif

SIMD_FN void tile(int mr, int nv, int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb, float *c, int64_t ldc,
                  bool add) {
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
                sum[i][v] = vf_fma(av, bv[v], sum[i][v]);
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

typedef void tile_fn(int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb, float *c, int64_t ldc, bool add);
#define TILE(mr, nv)                                                                                                                  \
    static void tile_##mr##_##nv(int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb, float *c, int64_t ldc, \
                                 bool add) {                                                                                          \
        tile(mr, nv, k, a, a_row, a_k, b, ldb, c, ldc, add);                                                                          \
    }
#define TILES_4(nv) TILE(1, nv) TILE(2, nv) TILE(3, nv) TILE(4, nv)
#define TILES_6(nv) TILES_4(nv) TILE(5, nv) TILE(6, nv)
#define TILES_8(nv) TILES_6(nv) TILE(7, nv) TILE(8, nv)
#define NAMES_4(nv) tile_1_##nv, tile_2_##nv, tile_3_##nv, tile_4_##nv
#define NAMES_6(nv) NAMES_4(nv), tile_5_##nv, tile_6_##nv
#define NAMES_8(nv) NAMES_6(nv), tile_7_##nv, tile_8_##nv
#if NV_MAX == 4
TILES_8(1) TILES_8(2) TILES_8(3) TILES_6(4)
static tile_fn *const TILES[NV_MAX][8] = { { NAMES_8(1) }, { NAMES_8(2) }, { NAMES_8(3) }, { NAMES_6(4) } };
#else
TILES_8(1) TILES_6(2) TILES_4(3)
static tile_fn *const TILES[NV_MAX][8] = { { NAMES_8(1) }, { NAMES_6(2) }, { NAMES_4(3) } };
#endif

void LS_NAME(ls_small_mm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t ldb, float *c,
                          int64_t ldc, bool add) {
    for (int64_t j = 0; j < n;) {
        const int nv = (int)min_i64(NV_MAX, (n - j) / VF_LANES);
        const int64_t tiles = (m + MR_MAX[nv] - 1) / MR_MAX[nv];
        for (int64_t t = 0, i = 0; t < tiles; t++) { /* of equal height, as nearly as may be */
            const int64_t mr = (m - i + tiles - t - 1) / (tiles - t);
            TILES[nv - 1][mr - 1](k, a + i * a_row, a_row, a_k, b + j, ldb, c + i * ldc + j, ldc, add);
            i += mr;
        }
        j += nv * VF_LANES;
    }
}

/* VF_LANES rows of as many elements: log2(lanes) rounds, each interleaving rows i and i + lanes/2. */
#if VF_LANES == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VF_LANES == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
SIMD_FN void transpose(vf *r) {
#pragma GCC unroll 4
    for (int round = 1; round < VF_LANES; round *= 2) {
        vf s[VF_LANES];
#pragma GCC unroll 8
        for (int i = 0; i < VF_LANES / 2; i++) {
            s[2 * i] = LOW(r[i], r[i + VF_LANES / 2]);
            s[2 * i + 1] = HIGH(r[i], r[i + VF_LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VF_LANES; i++)
            r[i] = s[i];
    }
}

void LS_NAME(ls_small_transpose)(float *to, int64_t ldt, const float *rows, int64_t ld, int64_t n, int64_t d) {
    for (int64_t j = 0; j < ldt; j += VF_LANES)
        for (int64_t c = 0; c < d; c += VF_LANES) {
            vf r[VF_LANES];
#pragma GCC unroll 16
            for (int i = 0; i < VF_LANES; i++)
                r[i] = j + i < n ? vf_load(rows + (j + i) * ld + c) : vf_zero();
            transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < VF_LANES; i++)
                vf_store(to + (c + i) * ldt + j, r[i]);
        }
}
