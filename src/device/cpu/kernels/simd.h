/* simd.h - one vector of the level's width, so that a kernel is written once for all levels.
 *
 *   vf  VF_LANES f32 (16 / 8 / 4)
 *   vi  as many i32
 *   vm  one truth value a lane (a mask register, or lanes of all ones)
 *
 * The operators + - * / (vf) and + - * & | ^ ~ << >> (vi) work as on numbers. The generic level is 4 lanes of
 * plain GCC vector code. Its multiplications and additions round separately (also in vf_fma), so it gives the
 * same bits on every machine, Arm included. The other levels fuse them in vf_fma. Loads and stores need no
 * alignment. Functions with `_n` touch the first n lanes only (0 <= n <= VF_LANES), and load 0 in the others.
 * vf_get and vf_put convert bf16 and f16: stores round to nearest, ties to even; NaN stays a (quiet) NaN;
 * subnormal numbers are kept. */
#pragma once
#include <stdint.h>
#include <string.h>
#include "level.h"

#if defined(LS_SIMD_512) || defined(LS_SIMD_256)
#include <immintrin.h>
#endif

#define SIMD_FN static inline __attribute__((always_inline, unused))

#if defined(LS_SIMD_512)
#define VF_LANES 16
#elif defined(LS_SIMD_256)
#define VF_LANES 8
#else
#define VF_LANES 4
#endif

typedef float vf __attribute__((vector_size(VF_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(VF_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(VF_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(VF_LANES * 2))); /* bf16 or f16 bits */

SIMD_FN vi vf_bits(vf a) { return (vi)a; } /* the same bits */
SIMD_FN vf vi_as_vf(vi a) { return (vf)a; }
SIMD_FN vi vi_shr_logical(vi a, int by) { return (vi)((vu)a >> by); }
SIMD_FN vi vi_set1(int32_t x) { return (vi){ 0 } + x; }
SIMD_FN vi vi_load(const int32_t *p)
{
    vi v;
    memcpy(&v, p, sizeof v);
    return v;
}
SIMD_FN void vi_store(int32_t *p, vi v) { memcpy(p, &v, sizeof v); }
SIMD_FN vf vf_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
SIMD_FN void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
SIMD_FN vh vh_load(const uint16_t *p)
{
    vh v;
    memcpy(&v, p, sizeof v);
    return v;
}
SIMD_FN void vh_store(uint16_t *p, vh v) { memcpy(p, &v, sizeof v); }

#if defined(LS_SIMD_512)
typedef __mmask16 vm;
SIMD_FN __mmask16 vm_first(int n) { return (__mmask16)((1u << n) - 1u); }
SIMD_FN vf vf_set1(float x) { return _mm512_set1_ps(x); }
SIMD_FN vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
SIMD_FN void vf_store_n(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, vm_first(n), v); }
SIMD_FN vh vh_load_n(const uint16_t *p, int n) { return (vh)_mm256_maskz_loadu_epi16(vm_first(n), p); }
SIMD_FN void vh_store_n(uint16_t *p, vh v, int n) { _mm256_mask_storeu_epi16(p, vm_first(n), (__m256i)v); }
SIMD_FN vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a*b + c */
SIMD_FN vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a*b */
SIMD_FN vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
/* false if an operand is NaN */
SIMD_FN vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
SIMD_FN vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
SIMD_FN vm vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
SIMD_FN bool vf_any_nan(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0; }
SIMD_FN vm vf_isnan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
SIMD_FN vm vi_lt(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
SIMD_FN vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
SIMD_FN vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
SIMD_FN vi vi_select(vm m, vi yes, vi no)
{
    return (vi)_mm512_mask_blend_epi32(m, (__m512i)no, (__m512i)yes);
}
SIMD_FN bool vm_any(vm m) { return m != 0; }
SIMD_FN vm vm_and(vm a, vm b) { return (vm)(a & b); }
SIMD_FN vm vm_or(vm a, vm b) { return (vm)(a | b); }
SIMD_FN vm vm_not(vm a) { return (vm)~a; }
SIMD_FN vi vf_to_int(vf a) { return (vi)_mm512_cvtps_epi32(a); } /* to nearest, ties to even; |a| < 2^31 */
SIMD_FN vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
SIMD_FN vi vh_widen(vh h) { return (vi)_mm512_cvtepu16_epi32((__m256i)h); }
SIMD_FN vh vi_narrow(vi a) { return (vh)_mm512_cvtepi32_epi16((__m512i)a); } /* lanes must be below 2^16 */
SIMD_FN vf vf_from_f16(vh h) { return _mm512_cvtph_ps((__m256i)h); }
SIMD_FN vh vf_to_f16(vf a) { return (vh)_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#elif defined(LS_SIMD_256)
typedef vi vm;
SIMD_FN __m256i vm_first(int n)
{
    static const int32_t ones[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(ones + 8 - n));
}
SIMD_FN vf vf_set1(float x) { return _mm256_set1_ps(x); }
SIMD_FN vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, vm_first(n)); }
SIMD_FN void vf_store_n(float *p, vf v, int n)
{
    if (n == VF_LANES) /* AMD's cores store slowly with a mask: max pooling took twice as long */
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, vm_first(n), v);
}
SIMD_FN vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
SIMD_FN vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
SIMD_FN vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
SIMD_FN vm vf_lt(vf a, vf b) { return a < b; }
SIMD_FN vm vf_le(vf a, vf b) { return a <= b; }
SIMD_FN vm vf_eq(vf a, vf b) { return a == b; }
SIMD_FN bool vf_any_nan(vf a, vf b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0; }
SIMD_FN vm vf_isnan(vf a) { return a != a; }
SIMD_FN vm vi_lt(vi a, vi b) { return a < b; }
SIMD_FN vm vi_eq(vi a, vi b) { return a == b; }
SIMD_FN vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, (__m256)m); }
SIMD_FN vi vi_select(vm m, vi yes, vi no) { return (vi)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)m); }
SIMD_FN bool vm_any(vm m) { return _mm256_movemask_ps((__m256)m) != 0; }
SIMD_FN vi vf_to_int(vf a) { return (vi)_mm256_cvtps_epi32(a); }
SIMD_FN vf vf_floor(vf a) { return _mm256_floor_ps(a); }
SIMD_FN vi vh_widen(vh h) { return (vi)_mm256_cvtepu16_epi32((__m128i)h); }
SIMD_FN vh vi_narrow(vi a)
{
    return (vh)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)a), _mm256_extracti128_si256((__m256i)a, 1));
}
SIMD_FN vf vf_from_f16(vh h) { return _mm256_cvtph_ps((__m128i)h); }
SIMD_FN vh vf_to_f16(vf a) { return (vh)_mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#else
typedef vi vm;
SIMD_FN vf vf_set1(float x) { return (vf){ x, x, x, x }; }
SIMD_FN vf vf_load_n(const float *p, int n)
{
    vf v = { 0 };
    for (int i = 0; i < n; i++)
        v[i] = p[i];
    return v;
}
SIMD_FN void vf_store_n(float *p, vf v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = v[i];
}
SIMD_FN vf vf_fma(vf a, vf b, vf c) { return a * b + c; } /* two roundings: -ffp-contract=off */
SIMD_FN vf vf_fnma(vf a, vf b, vf c) { return c - a * b; }
SIMD_FN vf vf_sqrt(vf a)
{
    for (int i = 0; i < VF_LANES; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
}
SIMD_FN vm vf_lt(vf a, vf b) { return a < b; }
SIMD_FN vm vf_le(vf a, vf b) { return a <= b; }
SIMD_FN vm vf_eq(vf a, vf b) { return a == b; }
SIMD_FN vm vf_isnan(vf a) { return a != a; }
SIMD_FN vm vi_lt(vi a, vi b) { return a < b; }
SIMD_FN vm vi_eq(vi a, vi b) { return a == b; }
SIMD_FN vi vi_select(vm m, vi yes, vi no) { return (m & yes) | (~m & no); }
SIMD_FN vf vf_select(vm m, vf yes, vf no) { return (vf)vi_select(m, (vi)yes, (vi)no); }
SIMD_FN bool vm_any(vm m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
SIMD_FN vi vh_widen(vh h) { return __builtin_convertvector(h, vi); }
SIMD_FN vh vi_narrow(vi a) { return __builtin_convertvector(a, vh); }
#endif

#if !defined(LS_SIMD_512)
SIMD_FN vm vm_and(vm a, vm b) { return a & b; }
SIMD_FN vm vm_or(vm a, vm b) { return a | b; }
SIMD_FN vm vm_not(vm a) { return ~a; }
SIMD_FN vh vh_load_n(const uint16_t *p, int n)
{
    vh v = { 0 };
    memcpy(&v, p, (size_t)n * 2);
    return v;
}
SIMD_FN void vh_store_n(uint16_t *p, vh v, int n) { memcpy(p, &v, (size_t)n * 2); }
#endif

SIMD_FN vf vf_zero(void) { return (vf){ 0 }; }
SIMD_FN vf vi_to_vf(vi a) { return __builtin_convertvector(a, vf); }
SIMD_FN vf vf_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
SIMD_FN vf vf_neg(vf a) { return (vf)((vi)a ^ (vi_set1(1) << 31)); }
SIMD_FN vf vf_copysign(vf size, vf sign)
{
    return (vf)(((vi)size & 0x7fffffff) | ((vi)sign & ~vi_set1(0x7fffffff)));
}
/* The second operand if one is NaN or both are zero, as the x86 instructions do; the same at every level. */
#if defined(LS_SIMD_512)
SIMD_FN vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
SIMD_FN vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
#elif defined(LS_SIMD_256)
SIMD_FN vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
SIMD_FN vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
#else
SIMD_FN vf vf_max(vf a, vf b) { return vf_select(vf_lt(b, a), a, b); }
SIMD_FN vf vf_min(vf a, vf b) { return vf_select(vf_lt(a, b), a, b); }
#endif

#if defined(LS_SIMD_128)
SIMD_FN vi vf_to_int(vf a)
{ /* to nearest, ties to even, for |a| < 2^22: the last bit of the sum is worth 1 */
    const vf magic = vf_set1(12582912.0f); /* 1.5 * 2^23 */
    return (vi)(a + magic) - (vi)magic;
}
SIMD_FN vf vf_floor(vf a)
{ /* numbers from 2^23 on have no fraction, and the conversion to int could overflow */
    const vi t = __builtin_convertvector(vf_select(vf_lt(vf_abs(a), vf_set1(8388608.0f)), a, vf_zero()), vi);
    const vf back = vi_to_vf(t);
    const vf down = vf_select(vf_lt(a, back), back - 1.0f, back);
    return vf_select(vf_lt(vf_abs(a), vf_set1(8388608.0f)), vf_copysign(down, a), a);
}
SIMD_FN vf vf_from_f16(vh h)
{
    const vi w = vh_widen(h), sign = (w & 0x8000) << 16, x = (w & 0x7fff) << 13, e = x & 0x0f800000;
    const vi normal = x + 0x38000000; /* exponent bias 15 -> 127 */
    /* subnormal: subtracting 2^-14 is exact */
    const vi small = (vi)((vf)(x + 0x38800000) - (vf)vi_set1(0x38800000));
    const vi special = (x + 0x70000000) |
                       vi_select(vi_lt(vi_set1(0x0f800000), x), vi_set1(0x400000), (vi){ 0 });
    const vi r = vi_select(vi_eq(e, vi_set1(0x0f800000)), special,
                           vi_select(vi_eq(e, (vi){ 0 }), small, normal));
    return (vf)(r | sign);
}
SIMD_FN vh vf_to_f16(vf a)
{
    const vi w = (vi)a, x = w & 0x7fffffff, sign = vi_shr_logical(w, 16) & 0x8000;
    /* (unsigned: gcc adds x and the last bit first, which wraps around for a NaN) */
    const vi normal = (vi)(((vu)x - 0x38000000 + 0xfff + ((vu)x >> 13 & 1)) >> 13);
    /* the last bit of 0.5 is worth 2^-24, which is f16's smallest step */
    const vi small = (vi)((vf)x + 0.5f) - 0x3f000000;
    const vi huge = vi_select(vi_lt(vi_set1(0x7f800000), x), (vi_shr_logical(x, 13) & 0x3ff) | 0x7e00,
                              vi_set1(0x7c00));
    const vi r = vi_select(vi_lt(x, vi_set1(0x38800000)), small,
                           vi_select(vi_lt(x, vi_set1(0x47800000)), normal, huge));
    return vi_narrow(r | sign);
}
#endif

SIMD_FN vf vf_from_bf16(vh h) { return (vf)(vh_widen(h) << 16); }
SIMD_FN vi vf_round_bf16(vf a)
{
    /* Adding just under half a step, plus the upper half's last bit, rounds to nearest, ties to even. The
     * result is in the upper half of each lane; the lower half is arbitrary. (vcvtneps2bf16 would drop
     * subnormal numbers.) */
    const vi x = (vi)a;
    const vu rounded = (vu)x + 0x7fff + (vu)(vi_shr_logical(x, 16) & 1); /* (of NaN it may wrap around) */
    return vi_select(vf_isnan(a), x | 0x400000, (vi)rounded);
}
SIMD_FN vh vf_to_bf16(vf a) { return vi_narrow(vi_shr_logical(vf_round_bf16(a), 16)); }

/* Sum and maximum of the lanes, always by halves: ((0+4)+(2+6)) + ((1+5)+(3+7)) for 8 lanes. The maximum may
 * ignore NaN lanes. */
#if !defined(LS_SIMD_128)
SIMD_FN float simd_sum4(__m128 q)
{
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
SIMD_FN float simd_max4(__m128 q)
{
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
SIMD_FN float simd_sum8(__m256 h)
{
    return simd_sum4(_mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}
SIMD_FN float simd_max8(__m256 h)
{
    return simd_max4(_mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}
#endif
#if defined(LS_SIMD_512)
SIMD_FN float vf_sum(vf a)
{
    return simd_sum8(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}
SIMD_FN float vf_max_lane(vf a)
{
    return simd_max8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}
#elif defined(LS_SIMD_256)
SIMD_FN float vf_sum(vf a) { return simd_sum8(a); }
SIMD_FN float vf_max_lane(vf a) { return simd_max8(a); }
#else
SIMD_FN float vf_sum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
SIMD_FN float vf_max_lane(vf a)
{
    const float even = a[2] < a[0] ? a[0] : a[2], odd = a[3] < a[1] ? a[1] : a[3];
    return odd < even ? even : odd;
}
#endif

/* Elements i .. of a row of f32, bf16 or f16, as f32, and back. With a constant `t` the compiler removes the
 * switch. */
SIMD_FN vf vf_get(const void *p, ls_dtype t, int64_t i)
{
    switch (t) {
    case LS_BF16: return vf_from_bf16(vh_load((const uint16_t *)p + i));
    case LS_F16: return vf_from_f16(vh_load((const uint16_t *)p + i));
    default: return vf_load((const float *)p + i);
    }
}
SIMD_FN vf vf_get_n(const void *p, ls_dtype t, int64_t i, int n)
{
    switch (t) {
    case LS_BF16: return vf_from_bf16(vh_load_n((const uint16_t *)p + i, n));
    case LS_F16: return vf_from_f16(vh_load_n((const uint16_t *)p + i, n));
    default: return vf_load_n((const float *)p + i, n);
    }
}
SIMD_FN void vf_put(void *p, ls_dtype t, int64_t i, vf v)
{
    switch (t) {
    case LS_BF16: vh_store((uint16_t *)p + i, vf_to_bf16(v)); break;
    case LS_F16: vh_store((uint16_t *)p + i, vf_to_f16(v)); break;
    default: vf_store((float *)p + i, v); break;
    }
}
SIMD_FN void vf_put_n(void *p, ls_dtype t, int64_t i, vf v, int n)
{
    switch (t) {
    case LS_BF16: vh_store_n((uint16_t *)p + i, vf_to_bf16(v), n); break;
    case LS_F16: vh_store_n((uint16_t *)p + i, vf_to_f16(v), n); break;
    default: vf_store_n((float *)p + i, v, n); break;
    }
}
/* Rounds as storing and loading again would. */
SIMD_FN vf vf_round_to(vf v, ls_dtype t)
{
    switch (t) {
    case LS_BF16: return (vf)(vf_round_bf16(v) & (int32_t)0xffff0000);
    case LS_F16: return vf_from_f16(vf_to_f16(v));
    default: return v;
    }
}

/* The same for two vectors. NaN, bf16's special case, is looked for in both at once. */
SIMD_FN void vf_round2(ls_dtype t, vf *a, vf *b)
{
#if !defined(LS_SIMD_128)
    if (t == LS_BF16 && __builtin_expect(!vf_any_nan(*a, *b), 1)) {
        *a = (vf)(((vi)*a + (0x7fff + (vi_shr_logical((vi)*a, 16) & 1))) & (int32_t)0xffff0000);
        *b = (vf)(((vi)*b + (0x7fff + (vi_shr_logical((vi)*b, 16) & 1))) & (int32_t)0xffff0000);
        return;
    }
#endif
    *a = vf_round_to(*a, t);
    *b = vf_round_to(*b, t);
}
/* Two neighbouring vectors that are rounded already. */
SIMD_FN void vf_put2_rounded(void *p, ls_dtype t, int64_t i, vf a, vf b)
{
#if defined(LS_SIMD_256)
    if (t == LS_BF16) {
        const __m256i both = _mm256_packus_epi32(_mm256_srli_epi32((__m256i)a, 16),
                                                 _mm256_srli_epi32((__m256i)b, 16));
        /* (the instruction packs each half by itself) */
        _mm256_storeu_si256((__m256i *)((uint16_t *)p + i), _mm256_permute4x64_epi64(both, 0xd8));
        return;
    }
#endif
    if (t == LS_BF16) {
        vh_store((uint16_t *)p + i, vi_narrow(vi_shr_logical((vi)a, 16)));
        vh_store((uint16_t *)p + i + VF_LANES, vi_narrow(vi_shr_logical((vi)b, 16)));
    } else {
        vf_put(p, t, i, a);
        vf_put(p, t, i + VF_LANES, b);
    }
}
SIMD_FN void vf_put2(void *p, ls_dtype t, int64_t i, vf a, vf b)
{
    if (t == LS_BF16)
        vf_round2(t, &a, &b);
    vf_put2_rounded(p, t, i, a, b);
}

/* 2 * VF_LANES neighbours in the cheapest order, which is fixed for a type and a level. bf16: even positions
 * in a, odd ones in b. */
SIMD_FN void vf_get_pair(const void *p, ls_dtype t, int64_t i, vf *a, vf *b)
{
#if !defined(LS_SIMD_128)
    if (t == LS_BF16) {
        const vi both = vi_load((const void *)((const uint16_t *)p + i));
        *a = (vf)(both << 16);
        *b = (vf)(both & (int32_t)0xffff0000);
        return;
    }
#endif
    *a = vf_get(p, t, i);
    *b = vf_get(p, t, i + VF_LANES);
}
SIMD_FN void vf_put_pair(void *p, ls_dtype t, int64_t i, vf a, vf b)
{
#if !defined(LS_SIMD_128)
    if (t == LS_BF16) {
        vf_round2(t, &a, &b);
        vi_store((void *)((uint16_t *)p + i), vi_shr_logical((vi)a, 16) | (vi)b);
        return;
    }
#endif
    vf_put(p, t, i, a);
    vf_put(p, t, i + VF_LANES, b);
}
/* One element, with the same conversions. */
SIMD_FN float f_get(const void *p, ls_dtype t, int64_t i) { return vf_get_n(p, t, i, 1)[0]; }
SIMD_FN void f_put(void *p, ls_dtype t, int64_t i, float x) { vf_put_n(p, t, i, vf_set1(x), 1); }
