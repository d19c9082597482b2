/* avx512.h - the AVX-512 intrinsics that the kernels use, by AVX2 and plain C, so that a machine without
 * AVX-512 tests those levels too (`make build-wide`; included on the command line, cmake/kernels.cmake). They
 * do what Intel's manual says of the instructions, slowly.
 *
 * <immintrin.h> declares the types; its functions get other names by macros. An intrinsic that is missing
 * here ends in "target specific option mismatch" or "inlining failed": add it below. */
#pragma once
#pragma GCC system_header
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define WIDE_FN static inline __attribute__((always_inline, unused))

typedef union {
    float f[16];
    int32_t i[16];
    uint16_t h[32];
    unsigned long long q __attribute__((vector_size(64)));
    __m512 ps;
    __m512i si;
    __m256 half[2];
    __m256i half_si[2];
} wide_512;
typedef union {
    uint16_t h[16];
    __m256i si;
    __m256bh bh;
    __m128i half[2];
} wide_256;

/* ---- f32: both halves by AVX2 */

#define LOW_PS(x) (((wide_512){ .ps = (x) }).half[0])
#define HIGH_PS(x) (((wide_512){ .ps = (x) }).half[1])
#define BY_HALVES(name, op, parameters, low, high) \
    WIDE_FN __m512 name parameters { return (wide_512){ .half = { op low, op high } }.ps; }
BY_HALVES(wide_set1_ps, _mm256_set1_ps, (float x), (x), (x))
BY_HALVES(wide_sqrt_ps, _mm256_sqrt_ps, (__m512 a), (LOW_PS(a)), (HIGH_PS(a)))
BY_HALVES(wide_floor_ps, _mm256_floor_ps, (__m512 a), (LOW_PS(a)), (HIGH_PS(a)))
#define TWO (__m512 a, __m512 b), (LOW_PS(a), LOW_PS(b)), (HIGH_PS(a), HIGH_PS(b))
#define THREE \
    (__m512 a, __m512 b, __m512 c), (LOW_PS(a), LOW_PS(b), LOW_PS(c)), (HIGH_PS(a), HIGH_PS(b), HIGH_PS(c))
#define BY_HALVES_OF(name, op, operands) BY_HALVES(name, op, operands)
BY_HALVES_OF(wide_min_ps, _mm256_min_ps, TWO)
BY_HALVES_OF(wide_max_ps, _mm256_max_ps, TWO)
BY_HALVES_OF(wide_fmadd_ps, _mm256_fmadd_ps, THREE)
BY_HALVES_OF(wide_fnmadd_ps, _mm256_fnmadd_ps, THREE)

#define wide_cmp_ps_mask(a, b, op)                                             \
    ((__mmask16)(_mm256_movemask_ps(_mm256_cmp_ps(LOW_PS(a), LOW_PS(b), op)) | \
                 _mm256_movemask_ps(_mm256_cmp_ps(HIGH_PS(a), HIGH_PS(b), op)) << 8))

/* ---- masks, integers and conversions: lane by lane */

/* for each lane i of n that is set in the mask m */
#define LANES(n, m)               \
    for (int i = 0; i < (n); i++) \
        if ((m) >> i & 1)
#define ALL 0xffff

WIDE_FN __m512 wide_maskz_loadu_ps(__mmask16 m, const void *from)
{
    wide_512 r = { 0 };
    LANES(16, m) memcpy(&r.f[i], (const float *)from + i, sizeof(float));
    return r.ps;
}
WIDE_FN void wide_mask_storeu_ps(void *to, __mmask16 m, __m512 a)
{
    const wide_512 x = { .ps = a };
    LANES(16, m) memcpy((float *)to + i, &x.f[i], sizeof(float));
}
WIDE_FN __m256i wide_maskz_loadu_epi16_256(__mmask16 m, const void *from)
{
    wide_256 r = { 0 };
    LANES(16, m) memcpy(&r.h[i], (const uint16_t *)from + i, sizeof(uint16_t));
    return r.si;
}
WIDE_FN void wide_mask_storeu_epi16_256(void *to, __mmask16 m, __m256i a)
{
    const wide_256 x = { .si = a };
    LANES(16, m) memcpy((uint16_t *)to + i, &x.h[i], sizeof(uint16_t));
}
WIDE_FN __m512i wide_maskz_loadu_epi16(__mmask32 m, const void *from)
{
    wide_512 r = { 0 };
    LANES(32, m) memcpy(&r.h[i], (const uint16_t *)from + i, sizeof(uint16_t));
    return r.si;
}
WIDE_FN __m512i wide_loadu(const void *from)
{
    __m512i r;
    memcpy(&r, from, sizeof r);
    return r;
}
WIDE_FN void wide_store(void *to, __m512i a) { memcpy(to, &a, sizeof a); }

WIDE_FN __mmask16 wide_cmplt_epi32(__m512i a, __m512i b)
{
    const wide_512 x = { .si = a }, y = { .si = b };
    unsigned m = 0;
    LANES(16, ALL) m |= (unsigned)(x.i[i] < y.i[i]) << i;
    return (__mmask16)m;
}
WIDE_FN __mmask16 wide_cmpeq_epi32(__m512i a, __m512i b)
{
    const wide_512 x = { .si = a }, y = { .si = b };
    unsigned m = 0;
    LANES(16, ALL) m |= (unsigned)(x.i[i] == y.i[i]) << i;
    return (__mmask16)m;
}
WIDE_FN __m512i wide_blend_epi32(__mmask16 m, __m512i no, __m512i yes)
{
    wide_512 r = { .si = no };
    const wide_512 y = { .si = yes };
    LANES(16, m) r.i[i] = y.i[i];
    return r.si;
}
WIDE_FN __m512 wide_blend_ps(__mmask16 m, __m512 no, __m512 yes)
{
    return (__m512)wide_blend_epi32(m, (__m512i)no, (__m512i)yes);
}
WIDE_FN __m512i wide_cvtps_epi32(__m512 a)
{
    return (wide_512){ .half_si = { _mm256_cvtps_epi32(LOW_PS(a)), _mm256_cvtps_epi32(HIGH_PS(a)) } }.si;
}
WIDE_FN __m512i wide_cvtepu16_epi32(__m256i a)
{
    const wide_256 x = { .si = a };
    wide_512 r;
    LANES(16, ALL) r.i[i] = x.h[i];
    return r.si;
}
WIDE_FN __m512i wide_cvtepu8_epi32(__m128i a)
{
    uint8_t x[16];
    wide_512 r;
    memcpy(x, &a, sizeof x);
    LANES(16, ALL) r.i[i] = x[i];
    return r.si;
}
WIDE_FN __m256i wide_permutexvar_epi16_256(__m256i at, __m256i a)
{
    const wide_256 k = { .si = at }, x = { .si = a };
    wide_256 r;
    LANES(16, ALL) r.h[i] = x.h[k.h[i] & 15];
    return r.si;
}
WIDE_FN __m512 wide_permutexvar_ps(__m512i at, __m512 a)
{
    const wide_512 k = { .si = at }, x = { .ps = a };
    wide_512 r;
    LANES(16, ALL) r.f[i] = x.f[k.i[i] & 15];
    return r.ps;
}
WIDE_FN __m256i wide_cvtepi32_epi16(__m512i a)
{
    const wide_512 x = { .si = a };
    wide_256 r;
    LANES(16, ALL) r.h[i] = (uint16_t)x.i[i];
    return r.si;
}
WIDE_FN __m512 wide_cvtph_ps(__m256i a)
{
    const wide_256 x = { .si = a };
    return (wide_512){ .half = { _mm256_cvtph_ps(x.half[0]), _mm256_cvtph_ps(x.half[1]) } }.ps;
}
#define wide_cvtps_ph(a, rounding)                                                                           \
    (((wide_256){ .half = { _mm256_cvtps_ph(LOW_PS(a), rounding), _mm256_cvtps_ph(HIGH_PS(a), rounding) } }) \
         .si)

WIDE_FN __m512i wide_set1_epi64(long long x)
{
    wide_512 r = { 0 };
    r.q += (unsigned long long)x;
    return r.si;
}
WIDE_FN __m512i wide_srli_epi64(__m512i a, int by)
{
    return (wide_512){ .q = ((wide_512){ .si = a }).q >> by }.si;
}
WIDE_FN __m512i wide_slli_epi64(__m512i a, int by)
{
    return (wide_512){ .q = ((wide_512){ .si = a }).q << by }.si;
}
WIDE_FN __m512i wide_mul_epu32(__m512i a, __m512i b)
{
    const wide_512 x = { .si = a }, y = { .si = b };
    return (wide_512){ .q = (x.q & 0xffffffff) * (y.q & 0xffffffff) }.si;
}

WIDE_FN __m512i wide_castsi256(__m256i a) { return (wide_512){ .half_si = { a } }.si; }
WIDE_FN __m512i wide_inserti64x4(__m512i a, __m256i b, int at)
{
    wide_512 r = { .si = a };
    r.half_si[at] = b;
    return r.si;
}
WIDE_FN __m256 wide_extractf32x8(__m512 a, int at) { return ((wide_512){ .ps = a }).half[at]; }

/* ---- bf16: subnormal operands count as zero, and sums round to nearest. (Sums that are subnormal stay what
 * they are here; vdpbf16ps makes them zero.) */

WIDE_FN uint32_t wide_flush(uint32_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }
WIDE_FN float wide_from_bf16(uint16_t h)
{
    const uint32_t bits = wide_flush((uint32_t)h << 16);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
WIDE_FN __m256bh wide_cvtneps_pbh(__m512 a)
{
    const wide_512 x = { .ps = a };
    wide_256 r;
    LANES(16, ALL)
    {
        const uint32_t bits = wide_flush((uint32_t)x.i[i]);
        r.h[i] = (uint16_t)(x.f[i] != x.f[i] ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    return r.bh;
}
WIDE_FN __m512 wide_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b)
{
    const wide_512 x = { .si = (__m512i)a }, y = { .si = (__m512i)b };
    wide_512 r = { .ps = sum };
    for (int odd = 1; odd >= 0; odd--)
        for (int i = 0; i < 16; i++) {
            const float p = wide_from_bf16(x.h[2 * i + odd]), q = wide_from_bf16(y.h[2 * i + odd]);
            r.f[i] = __builtin_fmaf(p, q, r.f[i]);
        }
    return r.ps;
}

/* ---- their names */

#undef _mm512_cmp_ps_mask
#undef _mm512_cvtps_ph
#undef _mm512_extractf32x8_ps
#undef _mm512_extracti64x4_epi64
#undef _mm512_inserti64x4
#undef _mm512_roundscale_ps
#undef _mm512_slli_epi64
#undef _mm512_srli_epi64
#define _mm256_mask_storeu_epi16 wide_mask_storeu_epi16_256
#define _mm256_maskz_loadu_epi16 wide_maskz_loadu_epi16_256
#define _mm256_permutexvar_epi16 wide_permutexvar_epi16_256
#define _mm512_castps512_ps256 LOW_PS
#define _mm512_castsi512_si256(a) (((wide_512){ .si = (a) }).half_si[0])
#define _mm512_castsi256_si512 wide_castsi256
#define _mm512_cmp_ps_mask wide_cmp_ps_mask
#define _mm512_cmpeq_epi32_mask wide_cmpeq_epi32
#define _mm512_cmplt_epi32_mask wide_cmplt_epi32
#define _mm512_cvtepi32_epi16 wide_cvtepi32_epi16
#define _mm512_cvtepu16_epi32 wide_cvtepu16_epi32
#define _mm512_cvtneps_pbh wide_cvtneps_pbh
#define _mm512_cvtepu8_epi32 wide_cvtepu8_epi32
#define _mm512_cvtph_ps wide_cvtph_ps
#define _mm512_cvtps_epi32 wide_cvtps_epi32
#define _mm512_cvtps_ph wide_cvtps_ph
#define _mm512_dpbf16_ps wide_dpbf16_ps
#define _mm512_extractf32x8_ps wide_extractf32x8
#define _mm512_extracti64x4_epi64(a, k) (((wide_512){ .si = (a) }).half_si[k])
#define _mm512_fmadd_ps wide_fmadd_ps
#define _mm512_fnmadd_ps wide_fnmadd_ps
#define _mm512_inserti64x4 wide_inserti64x4
#define _mm512_loadu_si512 wide_loadu
#define _mm512_mask_blend_epi32 wide_blend_epi32
#define _mm512_mask_blend_ps wide_blend_ps
#define _mm512_mask_storeu_ps wide_mask_storeu_ps
#define _mm512_maskz_loadu_epi16 wide_maskz_loadu_epi16
#define _mm512_maskz_loadu_ps wide_maskz_loadu_ps
#define _mm512_max_ps wide_max_ps
#define _mm512_min_ps wide_min_ps
#define _mm512_mul_epu32 wide_mul_epu32
#define _mm512_permutexvar_ps wide_permutexvar_ps
#define _mm512_roundscale_ps(a, mode) wide_floor_ps(a) /* the only mode in use */
#define _mm512_set1_epi64 wide_set1_epi64
#define _mm512_set1_ps wide_set1_ps
#define _mm512_slli_epi64 wide_slli_epi64
#define _mm512_sqrt_ps wide_sqrt_ps
#define _mm512_srli_epi64 wide_srli_epi64
#define _mm512_stream_si512 wide_store
