/* math.h - exp, log, tanh, erf, sin, pow and others, and activations with their slopes, for one element. They
 * are made of IEEE operations and fma_ only, so every compiler gives the same bits. Include dialect.h first.
 *
 * The methods and most coefficients are those of the vectors of device cpu (kernels/vmath.h): minimax fits,
 * by Lawson's iteration on Chebyshev points, with the relative error of the fit beside it.
 * tests/gpu/test_math.c bounds the errors. Infinities, NaN and subnormal numbers give libm's results. */
#if !defined(DEVICE)
#include_next <math.h> /* somebody wants the C library's, and has this folder in its list */
#elif !defined(KERNEL_MATH)
#define KERNEL_MATH

/* 2^n, -126 <= n <= 127 */
DEVICE float power_of_2(i32 n) { return float_of((u32)(n + 127) << 23); }

/* The integer next to x, |x| < 2^22: the sum's last bits. *n receives it. */
DEVICE float nearest_(float x, i32 *n)
{
    const float sum = x + 12582912.0f; /* 1.5 * 2^23 */
    *n = (i32)(bits_of(sum) & 0x7fffffu) - 0x400000;
    return sum - 12582912.0f;
}

/* x = n ln2 + r, |r| <= ln2/2; returns e^r - 1. The first part of ln2 has 9 bits: n times it is exact. */
DEVICE float exp_part(float x, i32 *n)
{
    const float nf = nearest_(x * 1.44269504f, n);
    const float r = fma_(nf, 2.12194440e-4f, fma_(nf, -0.693359375f, x));
    float p = 0.0013950602f; /* 3e-9 */
    p = fma_(p, r, 0.0083689536f);
    p = fma_(p, r, 0.0416662041f);
    p = fma_(p, r, 0.1666651831f);
    p = fma_(p, r, 0.5000000096f);
    return fma_(r * r, p, r);
}

/* 2^n in two steps, for results up to subnormal numbers and infinity */
DEVICE float exp_(float x)
{
    i32 n;
    x = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x; /* (NaN stays) */
    const float e = exp_part(x, &n) + 1.0f;
    const i32 half = n >> 1;
    return is_nan(x) ? x : e * power_of_2(half) * power_of_2(n - half);
}

DEVICE float expm1_(float x)
{
    i32 n;
    if (is_nan(x) || x == 0.0f)
        return x;
    x = x > 89.0f ? 89.0f : x < -30.0f ? -30.0f : x;
    const float e = exp_part(x, &n);
    if (n == 0)
        return e;
    const float scale = power_of_2(n - 1); /* half of it, which is finite */
    return 2.0f * fma_(scale, e, scale - 0.5f);
}

/* log x = n ln2 + log(1+f), 1+f in [sqrt(1/2), sqrt(2)) */
DEVICE float log_(float x)
{
    if (!(x > 0.0f && x < infinity_()))
        return x == 0.0f ? -infinity_() : x < 0.0f ? nan_() : x;
    const int tiny = x < 1.17549435e-38f;
    /* sqrt(1/2) becomes the lower end of an octave */
    const u32 shifted = bits_of(tiny ? x * 8388608.0f : x) - 0x3f3504f3u;
    const float nf = (float)(((i32)shifted >> 23) - (tiny ? 23 : 0));
    const float f = float_of((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0f, f2 = f * f;
    float q = -0.0763447419f; /* 6e-9 */
    q = fma_(q, f, 0.1276156811f);
    q = fma_(q, f, -0.1316018664f);
    q = fma_(q, f, 0.142017595f);
    q = fma_(q, f, -0.1662335705f);
    q = fma_(q, f, 0.2000122681f);
    q = fma_(q, f, -0.2500082104f);
    q = fma_(q, f, 0.3333333171f);
    float low = fma_(f2 * f, q, nf * -2.12194440e-4f);
    low = fma_(-0.5f, f2, low);
    return fma_(nf, 0.693359375f, f + low);
}

/* log(1 + x): what 1 + x loses by rounding is added, by the slope of log. */
DEVICE float log1p_(float x)
{
    const float u = 1.0f + x;
    if (!(x > -1.0f && x < infinity_()))
        return log_(u);
    return x == 0.0f ? x : log_(u) + (x - (u - 1.0f)) / u;
}

DEVICE float tanh_(float x)
{
    const float a = abs_(x), x2 = x * x;
    if (a < 0.625f) {
        float p = -0.0057170421f; /* 4e-9 */
        p = fma_(p, x2, 0.0206505845f);
        p = fma_(p, x2, -0.0537434971f);
        p = fma_(p, x2, 0.1333149127f);
        p = fma_(p, x2, -0.3333328392f);
        return fma_(x2 * x, p, x);
    }
    const float e = exp_(a * -2.0f), large = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -large : large;
}

/* The tail of the normal distribution: Phi(-|x|) = e^(-x²/2) Q(|x|), where Q is smooth: t = 1/(1 + 0.3|x|)
 * times a polynomial in u = t - 9/16. This is Q, for |x| <= 17. */
DEVICE float normal_tail(float x)
{
    const float t = 1.0f / fma_(abs_(x), 0.3f, 1.0f), u = t - 0.5625f;
    float q = -0.02062999586f; /* 4e-9 */
    q = fma_(q, u, 0.008032933955f);
    q = fma_(q, u, 0.04283369064f);
    q = fma_(q, u, -0.0190229654f);
    q = fma_(q, u, -0.08804934952f);
    q = fma_(q, u, 0.003010685395f);
    q = fma_(q, u, 0.226159552f);
    q = fma_(q, u, 0.3883234249f);
    q = fma_(q, u, 0.3750586231f);
    q = fma_(q, u, 0.2439499748f);
    return q * t;
}
/* e^(-k x²), |x| <= 20, k = 1/2 or 1. What x² loses by rounding would be an error of x² units. */
DEVICE float exp_of_square(float x, float k)
{
    const float x2 = x * x, e = exp_(-k * x2);
    return fma_(-k * fma_(x, x, -x2), e, e);
}
DEVICE float bounded_(float x, float to) { return x > to ? to : x < -to ? -to : x; } /* (NaN stays) */

/* erf x, |x| < 0.95 */
DEVICE float erf_small(float x)
{
    const float x2 = x * x;
    float p = fma_(-1.005709859e-05f, x2, 0.0001138652618f); /* 2e-11 */
    p = fma_(p, x2, -0.0008498645801f);
    p = fma_(p, x2, 0.005221898902f);
    p = fma_(p, x2, -0.02686569368f);
    p = fma_(p, x2, 0.1128378626f);
    p = fma_(p, x2, -0.3761263867f);
    p = fma_(p, x2, 0.1283791671f);
    return fma_(p, x, x);
}
DEVICE float erfc_(float x)
{
    if (abs_(x) < 0.5f)
        return 1.0f - erf_small(x);
    x = bounded_(x, 12.0f); /* beyond it, 0 or 2 */
    const float tail = 2.0f * (exp_of_square(x, 1.0f) * normal_tail(x * 1.41421356f));
    return x < 0.0f ? 2.0f - tail : tail;
}
DEVICE float erf_(float x)
{
    if (abs_(x) < 0.95f)
        return erf_small(x);
    const float r = 1.0f - erfc_(abs_(x));
    return x < 0.0f ? -r : r;
}

/* ---- sin and cos: x = n pi/2 + r, |r| <= pi/4; then n mod 4 chooses sin r or cos r and the sign. */

/* Bits 32 i - 32 to 32 i - 1 of 2/pi behind the point */
DEVICE u32 two_over_pi(i32 i)
{
    switch (i) {
    case 1: return 0xa2f9836eu;
    case 2: return 0x4e441529u;
    case 3: return 0xfc2757d1u;
    case 4: return 0xf534ddc0u;
    case 5: return 0xdb629599u;
    case 6: return 0x3c439041u;
    case 7: return 0xfe5163abu;
    default: return 0;
    }
}

/* r and n mod 4 for 2^15 <= |x| < infinity. |x| = m 2^e: of 2/pi only the bits count that make 1/2^62 to 2 of
 * 2/pi 2^e m; those before make multiples of 4 (Payne and Hanek 1983). */
DEVICE float turn_far(float x, i32 *quarter)
{
    const u32 b = bits_of(x), m = (b & 0x7fffffu) | 0x800000u;
    const i32 from = (i32)(b >> 23 & 255) - 150 - 2 + 32, word = from / 32, shift = from % 32;
    u32 bits[3];
    for (i32 i = 0; i < 3; i++)
        bits[i] = shift ? two_over_pi(word + i) << shift | two_over_pi(word + i + 1) >> (32 - shift)
                        : two_over_pi(word + i);
    const u64 turns = ((u64)(m * bits[0]) << 32) + (u64)m * bits[1] + ((u64)m * bits[2] >> 32);
    const u64 n = (turns + ((u64)1 << 61)) >> 62;
    const float r = (float)((double)(i64)(turns - (n << 62)) * 0x1.921fb54442d18p-62);
    *quarter = (b >> 31) ? -(i32)(n & 3) : (i32)(n & 3);
    return (b >> 31) ? -r : r;
}

/* sin(x + quarter pi/2). Below 2^15 the product of n with the first part of pi/2 leaves x without rounding.
 */
DEVICE float turn_(float x, i32 quarter)
{
    i32 n;
    float r;
    if (abs_(x) < 32768.0f) {
        const float nf = nearest_(x * 0.636619772f, &n);
        r = fma_(nf, -0x1.921fb6p+0f, x);
        r = fma_(nf, 0x1.777a5cp-25f, r);
        r = fma_(nf, 0x1.ee59dap-50f, r);
    } else {
        if (is_nan(x) || abs_(x) == infinity_())
            return nan_();
        r = turn_far(x, &n);
    }
    n += quarter;
    const float z = r * r;
    float s = -0.0001951697698f, c = 2.443809171e-5f; /* 4e-9 and 1e-10 */
    s = fma_(s, z, 0.008332176134f);
    s = fma_(s, z, -0.1666665524f);
    s = fma_(r * z, s, r);
    c = fma_(c, z, -0.001388736418f);
    c = fma_(c, z, 0.04166664556f);
    c = fma_(z * z, c, fma_(-0.5f, z, 1.0f));
    const float y = n & 1 ? c : s;
    return n & 2 ? -y : y;
}
DEVICE float sin_(float x) { return x == 0.0f ? x : turn_(x, 0); }
DEVICE float cos_(float x) { return turn_(x, 1); }

/* ---- x^y = 2^(y log2 x), in f64: in f32 it would lose as many bits as y log2 x has before its point. */

/* log2 x for 0 < x < infinity; with x = 2^n m: log m = 2 atanh((m-1)/(m+1)) */
DEVICE double log2_64(float x)
{
    const int tiny = x < 1.17549435e-38f;
    const u32 shifted = bits_of(tiny ? x * 8388608.0f : x) - 0x3f3504f3u;
    const i32 n = ((i32)shifted >> 23) - (tiny ? 23 : 0);
    const double m = (double)float_of((shifted & 0x7fffffu) + 0x3f3504f3u), s = (m - 1.0) / (m + 1.0),
                 s2 = s * s;
    double sum = 0.0; /* s2 < 0.0295: what is left out is below 1e-13 */
    for (i32 k = 17; k >= 3; k -= 2)
        sum = sum * s2 + 1.0 / (double)k;
    return (double)n + (s + s * s2 * sum) * 2.8853900817779268;
}
/* 2^t */
DEVICE float exp2_64(double t)
{
    t = t > 160.0 ? 160.0 : t < -160.0 ? -160.0 : t;
    const i32 n = (i32)(t + (t < 0.0 ? -0.5 : 0.5)), half = n >> 1;
    const double r = (t - (double)n) * 0.69314718055994531;
    double e = 1.0;
    for (i32 k = 10; k >= 1; k--)
        e = e * (r / (double)k) + 1.0;
    return (float)(e * (double)power_of_2(half) * (double)power_of_2(n - half));
}

DEVICE float pow_(float x, float y)
{
    const float a = abs_(x);
    if (x == 1.0f || y == 0.0f)
        return 1.0f;
    if (is_nan(x) || is_nan(y))
        return nan_();
    if (abs_(y) == infinity_())
        return a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? infinity_() : 0.0f;
    const int whole = floor_(y) == y, odd = whole && floor_(y * 0.5f) != y * 0.5f,
              negative = (int)(bits_of(x) >> 31);
    float r;
    if (a == 0.0f || a == infinity_())
        r = (a == 0.0f) == (y > 0.0f) ? 0.0f : infinity_();
    else if (negative && !whole)
        return nan_();
    else
        r = exp2_64((double)y * log2_64(a));
    return negative && odd ? -r : r;
}

/* ---- activations, and their slopes: at infinities the limits */

/* e = e^-|x| does not overflow: 1 / (1 + e), and e / (1 + e) for x below 0. */
DEVICE float sigmoid_(float x)
{
    const float e = exp_(-abs_(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
/* log(1 + e^x) = max(x, 0) + log(1 + e^-|x|) */
DEVICE float softplus_(float x) { return is_nan(x) ? x : (x > 0.0f ? x : 0.0f) + log1p_(exp_(-abs_(x))); }

DEVICE float relu_(float x) { return x <= 0.0f ? 0.0f : x; } /* NaN stays, -0 becomes 0 */
DEVICE float relu_slope_(float x) { return x > 0.0f ? 1.0f : 0.0f; }
DEVICE float leaky_relu_(float x, float below) { return x > 0.0f ? x : below * x; }
DEVICE float elu_(float x, float below) { return x > 0.0f ? x : below * expm1_(x); }

/* x Phi(x), the erf form; NaN at -inf, as in PyTorch */
DEVICE float gelu_(float x)
{
    const float b = bounded_(x, 20.0f), tail = exp_of_square(b, 0.5f) * normal_tail(b);
    return x * (x < 0.0f ? tail : 1.0f - tail);
}
/* Phi(x) + x phi(x): 0 or 1 beyond 20 */
DEVICE float gelu_slope_(float x)
{
    x = bounded_(x, 20.0f);
    const float e = exp_of_square(x, 0.5f), tail = e * normal_tail(x);
    return fma_(x * e, 0.398942280f, x < 0.0f ? tail : 1.0f - tail);
}

/* x (1 + tanh u)/2 = x / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x³) */
DEVICE float gelu_tanh_(float x)
{
    const float u2 = x * fma_(x * x, 0.0713548163f, 1.59576912f), e = exp_(-abs_(u2));
    return (x < 0.0f ? x * e : x) / (1.0f + e);
}
DEVICE float gelu_tanh_slope_(float x)
{
    x = bounded_(x, 20.0f);
    const float x2 = x * x, u2 = x * fma_(x2, 0.0713548163f, 1.59576912f),
                du2 = fma_(x2, 0.214064449f, 1.59576912f), e = exp_(-abs_(u2)), large = 1.0f / (1.0f + e),
                small = e * large;
    return fma_(x * (large * small), du2, x < 0.0f ? small : large);
}

/* x sigmoid(x), and its slope s + x s (1 - s): 0 or 1 beyond 104 */
DEVICE float silu_(float x)
{
    const float e = exp_(-abs_(x));
    return (x < 0.0f ? x * e : x) / (1.0f + e);
}
DEVICE float silu_slope_(float x)
{
    x = bounded_(x, 104.0f);
    const float e = exp_(-abs_(x)), large = 1.0f / (1.0f + e), small = e * large;
    return fma_(x * large, small, x < 0.0f ? small : large);
}

/* x times 0 below -3, 1 above 3, a straight line between */
DEVICE float hardswish_(float x)
{
    const float ramp = x <= -3.0f ? 0.0f : x >= 3.0f ? 6.0f : x + 3.0f;
    return x * (ramp / 6.0f); /* x * ramp could overflow */
}
DEVICE float hardswish_slope_(float x) { return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : x / 3.0f + 0.5f; }

#endif
