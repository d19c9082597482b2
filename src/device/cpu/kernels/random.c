/* random.c - Philox4x32-10 (base/rng.c) for sixteen blocks at once. */
#include "random.h"

enum { PARTS = 16 / VF_LANES };

/* Both halves of 64-bit products. */
SIMD_FN void multiply(vu a, uint32_t by, vu *high, vu *low)
{
#if defined(LS_SIMD_512)
    const __m512i k = _mm512_set1_epi64(by), even = _mm512_mul_epu32((__m512i)a, k),
                  odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), k);
    *low = (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
    *high = (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
#elif defined(LS_SIMD_256)
    const __m256i k = _mm256_set1_epi64x(by), even = _mm256_mul_epu32((__m256i)a, k),
                  odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), k);
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#else
    for (int i = 0; i < VF_LANES; i++) {
        const uint64_t p = (uint64_t)a[i] * by;
        (*high)[i] = (uint32_t)(p >> 32);
        (*low)[i] = (uint32_t)p;
    }
#endif
}

/* Lanes 0..7 are blocks of group a, lanes 8..15 of group b. */
SIMD_FN void begin(vu c[4][PARTS], uint64_t plane_a, uint64_t a, uint64_t plane_b, uint64_t b)
{
    uint32_t lane[4][16];
    for (unsigned i = 0; i < 16; i++) {
        const uint64_t block = (i < 8 ? a : b) * 8 + i % 8, plane = i < 8 ? plane_a : plane_b;
        lane[0][i] = (uint32_t)block;
        lane[1][i] = (uint32_t)(block >> 32);
        lane[2][i] = (uint32_t)plane;
        lane[3][i] = (uint32_t)(plane >> 32);
    }
    memcpy(c, lane, sizeof lane);
}

void LS_NAME(ls_keep_groups)(int32_t keep[2 * KEEP_GROUP], ls_rng_key key, uint64_t plane_a, uint64_t a,
                             uint64_t plane_b, uint64_t b, int32_t below)
{
    vu c[4][PARTS];
    begin(c, plane_a, a, plane_b, b);
    for (int round = 0; round < 10; round++) {
        for (int v = 0; v < PARTS; v++) {
            vu high0, low0, high1, low1;
            multiply(c[0][v], 0xD2511F53, &high0, &low0);
            multiply(c[2][v], 0xCD9E8D57, &high1, &low1);
            c[0][v] = high1 ^ c[1][v] ^ key.k[0];
            c[1][v] = low1;
            c[2][v] = high0 ^ c[3][v] ^ key.k[1];
            c[3][v] = low0;
        }
        key.k[0] += 0x9E3779B9;
        key.k[1] += 0xBB67AE85;
    }
    for (int half = 0; half < 8; half++)
        for (int v = 0; v < PARTS; v++) {
            const vu bits = half < 4 ? c[half][v] & 0xffff : c[half - 4][v] >> 16;
            const vi kept = vi_select(vi_lt((vi)bits, vi_set1(below)), vi_set1(-1), (vi){ 0 });
            for (int lane = 0; lane<VF_LANES; lane += VF_LANES> 8 ? 8 : VF_LANES) {
                /* (eight neighbours of one group) */
                const int first = v * VF_LANES + lane;
                memcpy(keep + first / 8 * KEEP_GROUP + 8 * half + first % 8, (const char *)&kept + 4 * lane,
                       VF_LANES > 8 ? 32 : sizeof kept);
            }
        }
}
