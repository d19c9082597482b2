/* stream.h - stores past the caches, for outputs of bf16 that are larger than they are: a pass over all
 * parameters. */
#pragma once
#include "kernel.h"

/* Whether 16-bit results of n elements at p go past the caches. From this size on they would have left the
 * caches before the next op reads them. */
SIMD_FN bool streams(const void *p, int64_t n, ls_dtype t)
{
    return t == LS_BF16 && n >= (int64_t)16 << 20 && (uintptr_t)p % 64 == 0;
}

/* vf_put2 past the caches: the store does not read the memory first. p is aligned to a vector and i a
 * multiple of 2 * VF_LANES. vf_stream_end follows the last one: only then may other threads read. */
SIMD_FN void vf_put2_stream(void *p, ls_dtype t, int64_t i, vf a, vf b)
{
#if defined(LS_SIMD_512)
    if (t == LS_BF16) {
        vf_round2(t, &a, &b);
        const __m512i low = _mm512_castsi256_si512((__m256i)vi_narrow(vi_shr_logical((vi)a, 16)));
        _mm512_stream_si512((__m512i *)((uint16_t *)p + i),
                            _mm512_inserti64x4(low, (__m256i)vi_narrow(vi_shr_logical((vi)b, 16)), 1));
        return;
    }
#endif
    vf_put2(p, t, i, a, b);
}
SIMD_FN void vf_stream_end(void)
{
#if defined(LS_SIMD_512)
    _mm_sfence();
#endif
}
