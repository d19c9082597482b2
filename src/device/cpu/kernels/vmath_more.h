/* vmath_more.h - vector functions that only the element-wise interpreter uses; the rest is in vmath.h, whose
 * conventions hold here. Errors against f64 are those of tests/device/test_math_elements.c. */
#pragma once
#include <math.h>

#include "vmath.h"

/* sin and cos: x = n pi/2 + r, |r| <= pi/4; then n mod 4 chooses sin r or cos r and the sign. pi/2 is in
 * three parts. The first has 8 bits and the second 11, so that n times each is exact below 2^13, also without
 * fma. Absolute errors are below 2e-7; beyond 2^13 a lane calls libm. */
#define VF_TURN_MAX 8192.0f

/* sin(x + quarter pi/2) for |x| < VF_TURN_MAX */
SIMD_FN vf vf_turn(vf x, int quarter)
{
    vi n = vf_to_int(x * 0.636619772f);
    const vf nf = vi_to_vf(n);
    vf r = vf_fnma(nf, vf_set1(1.5703125f), x);
    r = vf_fnma(nf, vf_set1(4.837512969970703e-4f), r);
    r = vf_fnma(nf, vf_set1(7.54978995e-8f), r);
    n = n + vi_set1(quarter);
    const vf z = r * r;
    /* 4e-9 and 1e-10 */
    const vf s = vf_fma(r * z, VF_POLY(z, -0.1666665524f, 0.008332176134f, -0.0001951697698f), r);
    const vf c = vf_fma(z * z, VF_POLY(z, 0.04166664556f, -0.001388736418f, 2.443809171e-5f),
                        vf_fnma(vf_set1(0.5f), z, vf_set1(1.0f)));
    const vf y = vf_select(vi_eq(n & vi_set1(1), vi_set1(1)), c, s);
    return (vf)((vi)y ^ (n & vi_set1(2)) << 30);
}

/* Where x has no small multiple of pi/2, y becomes libm's result. */
SIMD_FN vf vf_turn_far(vf y, vf x, float (*function)(float))
{
    float to[VF_LANES], from[VF_LANES];
    vf_store(to, y);
    vf_store(from, x);
    for (int i = 0; i < VF_LANES; i++)
        if (!(from[i] < VF_TURN_MAX && from[i] > -VF_TURN_MAX))
            to[i] = function(from[i]);
    return vf_load(to);
}
SIMD_FN vf vf_near(vf x) /* other lanes become 0 */
{
    return vf_select(vf_lt(vf_abs(x), vf_set1(VF_TURN_MAX)), x, vf_zero());
}
SIMD_FN vf vf_sin(vf x) { return vf_turn_far(vf_turn(vf_near(x), 0), x, sinf); }
SIMD_FN vf vf_cos(vf x) { return vf_turn_far(vf_turn(vf_near(x), 1), x, cosf); }

/* libm's powf, lane by lane: exp(y log x) in f32 would lose log2(y log x) bits. */
SIMD_FN vf vf_pow(vf x, vf y)
{
    float base[VF_LANES], exponent[VF_LANES];
    vf_store(base, x);
    vf_store(exponent, y);
    for (int i = 0; i < VF_LANES; i++)
        base[i] = powf(base[i], exponent[i]);
    return vf_load(base);
}

SIMD_FN vf vf_sign(vf x) /* NaN stays NaN */
{
    const vf size = vf_select(vf_eq(x, vf_zero()), vf_zero(), vf_copysign(vf_set1(1.0f), x));
    return vf_select(vf_isnan(x), x, size);
}

SIMD_FN vf vf_sigmoid(vf x) { return 1.0f / (1.0f + vf_exp(vf_neg(x))); }

/* log(1 + e) for 0 <= e <= 1 with a small relative error: what 1 + e loses by rounding cancels in the
 * quotient (Kahan). */
SIMD_FN vf vf_log1p(vf e)
{
    const vf u = 1.0f + e, d = u - 1.0f;
    return vf_select(vf_eq(d, vf_zero()), e, vf_log(u) * (e / d));
}
/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
SIMD_FN vf vf_softplus(vf x)
{
    const vf positive = vf_select(vf_lt(vf_zero(), x), x, vf_zero());
    return vf_select(vf_isnan(x), x, positive + vf_log1p(vf_exp(vf_neg(vf_abs(x)))));
}

/* e^x - 1 for x <= 0: with t = tanh(x/2) it is 2t / (1 - t), which does not cancel near 0. */
SIMD_FN vf vf_expm1_negative(vf x)
{
    const vf t = vf_tanh(x * 0.5f);
    return 2.0f * t / (1.0f - t);
}

/* x times 0 below -3, 1 above 3, a straight line between */
SIMD_FN vf vf_hardswish(vf x)
{
    const vf ramp = vf_min(vf_set1(6.0f), vf_max(vf_zero(), x + 3.0f)); /* (NaN is the second operand) */
    return x * (ramp / 6.0f);                                           /* x * ramp could overflow */
}
SIMD_FN vf vf_hardswish_slope(vf x)
{
    const vf inner = vf_select(vf_lt(x, vf_set1(3.0f)), x / 3.0f + 0.5f, vf_set1(1.0f));
    const vf slope = vf_select(vf_le(x, vf_set1(-3.0f)), vf_zero(), inner);
    return vf_select(vf_isnan(x), x, slope);
}
