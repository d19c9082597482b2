/* bf16.h - bf16 is the upper half of an f32, rounded to nearest, ties to even. Kernels that convert vectors
 * (device/cpu/kernels/simd.h) round to the same values. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) float ls_from_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Has no branches, so that loops over it are vectorized. A NaN stays a NaN: its quiet bit is set. */
static inline __attribute__((always_inline)) uint16_t ls_to_bf16(float f)
{
    uint32_t x;
    memcpy(&x, &f, sizeof x);
    const uint32_t even = (x + 0x7fff + (x >> 16 & 1)) >> 16, nan = x >> 16 | 0x40;
    return (uint16_t)((x & 0x7fffffff) > 0x7f800000 ? nan : even);
}
