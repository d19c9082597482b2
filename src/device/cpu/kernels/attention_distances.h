/* attention_distances.h - sums by distance of a head: the gradient of a bias by distance. Row i and key k
 * belong to distance k - i + Tq - 1. Neighbouring rows would add to vectors that overlap, each waiting for
 * the one before. So rows i, i + 16, i + 32, .. have an array of their own, in which they are whole vectors
 * apart. */
#pragma once
#include "attention.h"

enum { PHASES = 16 };
SIMD_FN int64_t distances_start(const heads *s) { return round_up(s->Tq, PHASES); }
SIMD_FN int64_t distances_length(const heads *s) { return distances_start(s) + round_up(s->Tk, 16) + 32; }
SIMD_FN int64_t distances_row(const heads *s) { return round_up(s->Tq + s->Tk - 1, 16); }
/* Where key 0 of a query adds to. */
SIMD_FN float *distances_at(const heads *s, float *sums, int64_t query)
{
    const int64_t phase = query % PHASES;
    return sums + phase * distances_length(s) + distances_start(s) - (query - phase);
}
SIMD_FN void add_phases(const heads *s, float *to, const float *sums)
{
    for (int64_t d = 0; d < distances_row(s); d += VF_LANES) {
        vf sum = vf_zero();
        for (int64_t phase = 0; phase < PHASES; phase++)
            sum += vf_load(sums + phase * distances_length(s) + distances_start(s) + d + phase - (s->Tq - 1));
        vf_store(to + d, sum);
    }
}
