/* position.h - positions of tokens, as rotations and as distances.
 *
 * The bucket of a distance between a query and a key (Raffel et al. 2020, T5): one for each
 * small distance, and then one for each step of its logarithm, up to max_distance. The logarithm is rounded
 * to f32, as in the code that trained the weights, because that rounding decides on which side of a border a
 * distance is. */
#pragma once
#include <math.h>
#include "graph/attrs.h"

static inline int64_t ls_position_bucket(const ls_position_bias_attrs *a, int64_t distance) /* key - query */
{
    const int64_t half = a->both ? a->buckets / 2 : a->buckets, exact = half / 2;
    const int64_t first = a->both && distance > 0 ? half : 0,
                  n = distance > 0 ? (a->both ? distance : 0) : -distance;
    if (n < exact)
        return first + n;
    const float steps = (float)log((double)((float)n / (float)exact)) /
                        (float)log((double)a->max_distance / (double)exact) * (float)(half - exact);
    const int64_t far = exact + (int64_t)steps;
    return first + (far < half ? far : half - 1);
}

/* Of a rotation (Su et al. 2021): the angle by which pair i of a head's features turns from token to token.
 * Scaling as in ls_rope_scaling. */
static inline double ls_rope_frequency(const ls_rope_attrs *a, int64_t i)
{
    const double f = pow(a->theta, -(double)i / (double)(a->head_dim / 2)), *s = a->scaling.v;
    if (a->scaling.n < 4)
        return a->scaling.n ? f / s[0] : f;
    const double turns = s[3] * f / 6.283185307179586, kept = (turns - s[1]) / (s[2] - s[1]);
    return kept < 0 ? f / s[0] : kept > 1 ? f : (1 - kept) * f / s[0] + kept * f;
}
