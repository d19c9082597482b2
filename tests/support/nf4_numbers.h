/* nf4_numbers.h - numbers for weights of 4 bits, as tools/golden/nf4.py makes them. */
#pragma once
#include <stdint.h>

/* Number i: the sum of four pieces of a random word, times one of thirteen sizes; exact in f32. */
static inline float nf4_number(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    int64_t sum = -131070;
    for (int k = 0; k < 64; k += 16)
        sum += (int64_t)(z >> k & 0xffff);
    return (float)(sum * (int64_t)(1 + i / 64 * 7 % 13)) * 0x1p-22f;
}
