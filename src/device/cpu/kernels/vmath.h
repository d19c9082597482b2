/* vmath.h - exp, log, tanh, GELU and so on for vectors. A lane's result depends on that lane only, so an
 * element gives the same bits at any position. Errors against f64 (tests/device/test_gemm.c, test_math*.c):
 * exp, log and tanh within 2 units in the last place; GELU within 2.5e-7 of |x|. Infinities, NaN and
 * subnormal numbers give the same results as libm.
 *
 * The coefficients are minimax fits (Lawson's iteration on Chebyshev points). The error of each fit is beside
 * it. */
#pragma once
#include "simd.h"

/* c[0] + c[1] x + ..., by Horner's rule. */
#define VF_POLY(x, ...)                                              \
    __extension__({                                                  \
        static const float poly_[] = { __VA_ARGS__ };                \
        const int degree_ = (int)(sizeof poly_ / sizeof *poly_) - 1; \
        vf sum_ = vf_set1(poly_[degree_]);                           \
        for (int i_ = degree_ - 1; i_ >= 0; i_--)                    \
            sum_ = vf_fma(sum_, x, vf_set1(poly_[i_]));              \
        sum_;                                                        \
    })

/* e^x = 2^n e^r, |r| <= ln2/2. ln2 is in two parts, of which the first has 9 bits, so that n times it is
 * exact, also without fma. 2^n is applied in two steps, so that results are right up to subnormal numbers and
 * infinity. */
SIMD_FN vf vf_exp(vf x)
{
    x = vf_max(vf_set1(-104.0f), vf_min(vf_set1(89.0f), x)); /* (NaN is the second operand and stays) */
    const vi n = vf_to_int(x * 1.44269504f);
    const vf nf = vi_to_vf(n);
    const vf r = vf_fnma(nf, vf_set1(-2.12194440e-4f), vf_fnma(nf, vf_set1(0.693359375f), x));
    /* 3e-9 */
    const vf p = VF_POLY(r, 0.5000000096f, 0.1666651831f, 0.0416662041f, 0.0083689536f, 0.0013950602f);
    const vf e = vf_fma(r * r, p, r) + 1.0f;
    const vi half = n >> 1;
    return e * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
}

/* e^x for x <= 0, and down to -80, below which it stays at 2e-35. That is enough if e^x is added to a number
 * near 1. It is also far enough from subnormal numbers, which take a hundred cycles each, to be multiplied by
 * a small number. */
SIMD_FN vf vf_exp_negative(vf x)
{
    x = vf_max(vf_set1(-80.0f), x);
    const vi n = vf_to_int(x * 1.44269504f);
    const vf nf = vi_to_vf(n);
    const vf r = vf_fnma(nf, vf_set1(-2.12194440e-4f), vf_fnma(nf, vf_set1(0.693359375f), x));
    const vf p = VF_POLY(r, 0.5000000096f, 0.1666651831f, 0.0416662041f, 0.0083689536f, 0.0013950602f);
    const vf e = vf_fma(r * r, p, r) + 1.0f;
    return e * (vf)((n + 127) << 23);
}

/* log x = n ln2 + log(1+f), 1+f in [sqrt(1/2), sqrt(2)). */
SIMD_FN vf vf_log(vf x)
{
    const vm tiny = vf_lt(x, vf_set1(1.17549435e-38f));
    const vf scaled = vf_select(tiny, x * 8388608.0f, x);
    /* sqrt(1/2) becomes the lower end of an octave; negative x wraps around */
    const vi shifted = (vi)((vu)scaled - 0x3f3504f3u);
    const vi n = (shifted >> 23) - vi_select(tiny, vi_set1(23), (vi){ 0 });
    const vf f = (vf)((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f;
    const vf nf = vi_to_vf(n), f2 = f * f;
    const vf q = VF_POLY(f, 0.3333333171f, -0.2500082104f, 0.2000122681f, -0.1662335705f, 0.142017595f,
                         -0.1316018664f, 0.1276156811f, -0.0763447419f); /* 6e-9 */
    vf low = vf_fma(f2 * f, q, nf * -2.12194440e-4f);
    low = vf_fnma(vf_set1(0.5f), f2, low);
    vf r = vf_fma(nf, vf_set1(0.693359375f), f + low);
    r = vf_select(vf_lt(x, vf_set1(__builtin_inff())), r, x); /* infinity and NaN */
    r = vf_select(vf_lt(x, vf_zero()), vf_set1(__builtin_nanf("")), r);
    return vf_select(vf_eq(x, vf_zero()), vf_set1(-__builtin_inff()), r);
}

SIMD_FN vf vf_tanh(vf x)
{
    const vf a = vf_abs(x), x2 = x * x;
    /* 4e-9 below 0.625 */
    const vf odd = VF_POLY(x2, -0.3333328392f, 0.1333149127f, -0.0537434971f, 0.0206505845f, -0.0057170421f);
    const vf small = vf_fma(x2 * x, odd, x);
    const vf e = vf_exp_negative(a * -2.0f);
    const vf large = vf_copysign((1.0f - e) / (1.0f + e), x);
    return vf_select(vf_lt(a, vf_set1(0.625f)), small, vf_select(vf_isnan(x), x, large));
}

/* The tail of the normal distribution: Phi(-|x|) = e^(-x²/2) * Q(|x|), where Q is smooth, and a polynomial in
 * t = 1/(1 + 0.35|x|). It keeps its relative accuracy where 1 + erf(x/sqrt 2) would cancel. *e receives
 * e^(-x²/2). */
SIMD_FN vf vf_normal_tail(vf x, vf *e)
{
    const vf t = 1.0f / vf_fma(vf_abs(x), vf_set1(0.35f), vf_set1(1.0f));
    *e = vf_exp_negative(x * x * -0.5f);
    const vf q = VF_POLY(t, 0x1.1df1d4p-3f, 0x1.1e6fd6p-3f, 0x1.ead6b8p-4f, 0x1.b025e2p-4f, -0x1.7a838p-6f,
                         0x1.45f7cp-3f, -0x1.05d7aap-2f, 0x1.26d876p-3f,
                         -0x1.dd8362p-6f); /* 3e-8 relative, 0 <= |x| <= 14 */
    return *e * (q * t);
}

/* x Phi(x), the erf form of GELU. */
SIMD_FN vf vf_gelu(vf x)
{
    vf e;
    const vf tail = vf_normal_tail(x, &e);
    return x * vf_select(vf_lt(x, vf_zero()), tail, 1.0f - tail);
}
/* Phi(x) + x phi(x). For |x| > 20 it is exactly 0 or 1; the bound also keeps infinity from being multiplied
 * by zero. */
SIMD_FN vf vf_gelu_slope(vf x)
{
    x = vf_max(vf_set1(-20.0f), vf_min(vf_set1(20.0f), x));
    vf e;
    const vf tail = vf_normal_tail(x, &e);
    return vf_fma(x * e, vf_set1(0.398942280f), vf_select(vf_lt(x, vf_zero()), tail, 1.0f - tail));
}

/* 1 + e^x. Below -80 e^x adds nothing to 1, but it might be a subnormal number: they take long. */
SIMD_FN vf vf_one_plus_exp(vf x) { return 1.0f + vf_exp(vf_max(vf_set1(-80.0f), x)); }

/* x (1 + tanh u)/2 = x / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x³). */
#define VF_GELU_2C 1.59576912f /* 2 sqrt(2/pi) */
SIMD_FN vf vf_gelu_tanh(vf x)
{
    const vf u2 = x * vf_fma(x * x, vf_set1(0.044715f * VF_GELU_2C), vf_set1(VF_GELU_2C));
    return x / vf_one_plus_exp(vf_neg(u2));
}
SIMD_FN vf vf_gelu_tanh_slope(vf x)
{
    x = vf_max(vf_set1(-20.0f), vf_min(vf_set1(20.0f), x));
    const vf x2 = x * x;
    const vf u2 = x * vf_fma(x2, vf_set1(0.044715f * VF_GELU_2C), vf_set1(VF_GELU_2C));
    const vf du2 = vf_fma(x2, vf_set1(3 * 0.044715f * VF_GELU_2C), vf_set1(VF_GELU_2C));
    const vf s = 1.0f / vf_one_plus_exp(vf_neg(u2));
    return vf_fma(x * s * (1.0f - s), du2, s);
}

/* x sigmoid(x) = x / (1 + e^-x), and its slope s (1 + x (1 - s)), where 1 - s = e^-x s. For |x| > 87 the
 * slope is 0 or 1 in f32. */
SIMD_FN vf vf_silu(vf x) { return x / vf_one_plus_exp(vf_neg(x)); }
SIMD_FN vf vf_silu_slope(vf x)
{
    x = vf_max(vf_set1(-87.0f), vf_min(vf_set1(87.0f), x));
    const vf e = vf_exp(vf_neg(x)), s = 1.0f / (1.0f + e);
    return vf_fma(x * s, e * s, s);
}

SIMD_FN vf vf_relu(vf x)
{ /* NaN stays NaN, -0 becomes 0 */
    return vf_max(vf_zero(), x) + 0.0f;
}
SIMD_FN vf vf_relu_slope(vf x)
{ /* 0 at 0, as in PyTorch */
    return vf_select(vf_lt(vf_zero(), x), vf_set1(1.0f), vf_zero());
}

/* The activations of ls_act (attrs.h). */
SIMD_FN vf vf_act(ls_act act, vf x)
{
    switch (act) {
    case LS_ACT_RELU: return vf_relu(x);
    case LS_ACT_GELU: return vf_gelu(x);
    case LS_ACT_GELU_TANH: return vf_gelu_tanh(x);
    default: return x;
    }
}
SIMD_FN vf vf_act_slope(ls_act act, vf x)
{
    switch (act) {
    case LS_ACT_RELU: return vf_relu_slope(x);
    case LS_ACT_GELU: return vf_gelu_slope(x);
    case LS_ACT_GELU_TANH: return vf_gelu_tanh_slope(x);
    default: return vf_set1(1.0f);
    }
}
