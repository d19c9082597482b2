/* attention_distances.h - sums by distance of a head: the gradient of a bias by distance, in reverse order as
 * the bias is (attention_scores.h). Key k and query i belong to place i - k + Tk - 1. Neighbouring keys would
 * add to vectors that overlap, each waiting for the one before. So keys k, k + 16, k + 32, .. have an array
 * of their own, in which they are whole vectors apart. */
#pragma once
#include "attention.h"

enum { PHASES = 16 };
SIMD_FN int64_t distances_start(const heads *s) { return round_up(s->Tk, PHASES); }
SIMD_FN int64_t distances_length(const heads *s) { return distances_start(s) + round_up(s->Tq, 16) + 32; }
SIMD_FN int64_t distances_row(const heads *s) { return round_up(s->Tq + s->Tk - 1, 16); }
/* Where query 0 of a key adds to. */
SIMD_FN float *distances_at(const heads *s, float *sums, int64_t key)
{
    const int64_t phase = key % PHASES;
    return sums + phase * distances_length(s) + distances_start(s) - (key - phase);
}
/* to[d] = the sum of distance d. */
SIMD_FN void add_phases(const heads *s, float *to, const float *sums)
{
    const int64_t last = s->Tq + s->Tk - 2;
    for (int64_t place = 0; place <= last; place += VF_LANES) {
        vf sum = vf_zero();
        for (int64_t phase = 0; phase < PHASES; phase++)
            sum += vf_load(sums + phase * distances_length(s) + distances_start(s) + place + phase -
                           (s->Tk - 1));
        for (int64_t i = 0; i < VF_LANES && place + i <= last; i++)
            to[last - place - i] = sum[i];
    }
}
