/* nf4.h - a block of numbers of 4 bits as numbers of a float type (base/nf4.h). */
#pragma once
#include "base/nf4.h"
#include "kernel.h"

/* The 64 numbers of a block. They are at most 16 different ones, so these are rounded once, and looked up. */
SIMD_FN void nf4_block(ls_dtype t, char *to, const uint8_t *codes, float scale)
{
    float room[LS_NF4_CODES]; /* the 16 numbers, of type t */
    char *numbers = (char *)room;
    for (int i = 0; i < LS_NF4_CODES; i += VF_LANES)
        vf_put(numbers, t, i, vf_load(ls_nf4_numbers + i) * vf_set1(scale));
#if VF_LANES == 16
    for (int i = 0; i < LS_NF4_BLOCK / 2; i += VF_LANES) {
        __m128i bytes;
        memcpy(&bytes, codes + i, sizeof bytes);
        const vi byte = (vi)_mm512_cvtepu8_epi32(bytes);
        const vi pairs = (byte & 15) << 16 | byte >> 4; /* two codes of 16 bits, the high one first */
        const __m256i low = _mm512_castsi512_si256((__m512i)pairs),
                      high = _mm512_extracti64x4_epi64((__m512i)pairs, 1);
        char *at = to + 2 * i * elem_size(t);
        if (elem_size(t) == 2) {
            const __m256i all = (__m256i)vh_load((const uint16_t *)(const void *)room);
            uint16_t *half = (uint16_t *)(void *)at;
            vh_store(half, (vh)_mm256_permutexvar_epi16(low, all));
            vh_store(half + VF_LANES, (vh)_mm256_permutexvar_epi16(high, all));
        } else {
            const vf all = vf_load(room);
            float *whole = (float *)(void *)at;
            vf_store(whole, _mm512_permutexvar_ps(_mm512_cvtepu16_epi32(low), all));
            vf_store(whole + VF_LANES, _mm512_permutexvar_ps(_mm512_cvtepu16_epi32(high), all));
        }
    }
#else
    for (int i = 0; i < LS_NF4_BLOCK / 2; i++) {
        memcpy(to + 2 * i * elem_size(t), numbers + (codes[i] >> 4) * elem_size(t), (size_t)elem_size(t));
        memcpy(to + (2 * i + 1) * elem_size(t), numbers + (codes[i] & 15) * elem_size(t),
               (size_t)elem_size(t));
    }
#endif
}
