/* test_math.c - the functions of kernels (math.h) against libm's in f64: on numbers of all magnitudes, and at
 * infinities, NaN and zeros. */
#include <math.h>

#include "device/gpu/kernels/dialect.h"
#include "device/gpu/kernels/math.h"
#include "support/support.h"

static const double SQRT_HALF = 0.70710678118654752440;
static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_softplus(double x) { return isnan(x) ? x : (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
static double ref_relu(double x) { return x < 0 ? 0 : x; }
static double ref_gelu(double x) { return 0.5 * x * erfc(-x * SQRT_HALF); }
static double ref_gelu_slope(double x)
{
    return isinf(x) ? x > 0 : 0.5 * erfc(-x * SQRT_HALF) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
}
static double ref_gelu_tanh(double x)
{
    return x / (1 + exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x)));
}
static double ref_silu(double x) { return x / (1 + exp(-x)); }
static double ref_silu_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return isinf(x) ? x > 0 : s + x * s / (1 + exp(x));
}

/* ulps: units in the last place of the result. of_x: or units of the argument, where a result near zero is
 * the difference of larger numbers. */
static const struct {
    const char *name;
    float (*own)(float);
    double (*ref)(double);
    double ulps, of_x;
} FUNCTIONS[] = {
    { "exp", exp_, exp, 1, 0 },
    { "expm1", expm1_, expm1, 1.6, 0 },
    { "log", log_, log, 1, 0 },
    { "log1p", log1p_, log1p, 1.6, 0 },
    { "tanh", tanh_, tanh, 1.6, 0 },
    { "erf", erf_, erf, 1.3, 0 },
    { "erfc", erfc_, erfc, 5, 0 },
    { "sin", sin_, sin, 1.6, 0 },
    { "cos", cos_, cos, 1.6, 0 },
    { "sigmoid", sigmoid_, ref_sigmoid, 2.5, 0 },
    { "softplus", softplus_, ref_softplus, 2, 0 },
    { "relu", relu_, ref_relu, 0, 0 },
    { "gelu", gelu_, ref_gelu, 9, 0 },
    { "gelu_slope", gelu_slope_, ref_gelu_slope, 9, 4 },
    { "gelu_tanh", gelu_tanh_, ref_gelu_tanh, 5, 2 },
    { "silu", silu_, ref_silu, 5, 1 },
    { "silu_slope", silu_slope_, ref_silu_slope, 5, 4 },
};

static double unit(double x) /* in the last place of an f32 near x */
{
    int e;
    frexp(x, &e);
    return fabs(x) < 0x1p-126 ? 0x1p-149 : ldexp(1, e - 24);
}

/* Errors in units; a result that overflows is as large as the largest number, and one more. */
static bool near(float y, double want, double x, double ulps, double of_x)
{
    if (isnan(want) || isnan(y))
        return isnan(want) && isnan(y);
    if (y == (float)want)
        return true;
    const double own = isinf(y) ? copysign(0x1p128, (double)y) : (double)y,
                 most = fabs(want) > 0x1p128 ? copysign(0x1p128, want) : want;
    return fabs(own - most) <= ulps * unit(most) || fabs(own - most) <= of_x * unit(fabs(x) < 1 ? x : 1.0);
}

static void functions(void **state)
{
    (void)state;
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 0x1p-149f, -0x1p-149f };
    for (size_t k = 0; k < sizeof FUNCTIONS / sizeof *FUNCTIONS; k++) {
        for (uint64_t b = 0; b < UINT64_C(1) << 32; b += 30011) {
            const size_t n = b / 30011;
            const float x = n < sizeof special / sizeof *special ? special[n] : float_of((u32)b);
            const double want = FUNCTIONS[k].ref((double)x);
            const float y = FUNCTIONS[k].own(x);
            if (!near(y, want, (double)x, FUNCTIONS[k].ulps, FUNCTIONS[k].of_x))
                fail_msg("%s(%a) is %a, and not %a", FUNCTIONS[k].name, (double)x, (double)y, want);
        }
    }
}

static void powers(void **state)
{
    (void)state;
    static const float special[] = {
        0.0f, -0.0f, INFINITY, -INFINITY, NAN,   1,      -1,       2,      -2,
        3,    -3,    0.5f,     -0.5f,     1e30f, -1e30f, 16777216, -3e38f, 1e-40f
    };
    enum { N = sizeof special / sizeof *special };
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const double want = pow((double)special[i], (double)special[j]);
            const float y = pow_(special[i], special[j]);
            if (!near(y, want, 1, 0.51, 0) || (want == 0 && !signbit(y) != !signbit(want)))
                fail_msg("pow(%a, %a) is %a, and not %a", (double)special[i], (double)special[j], (double)y,
                         want);
        }
    for (uint32_t b = 0, i = 0; i < 200000; i++, b += 21473) {
        const float x = float_of(b & 0x7fffffff),
                    y = (float)(((double)i / 1e5 - 1) * 90 / (fabs(log((double)x)) + 1));
        if (!near(pow_(x, y), pow((double)x, (double)y), 1, 0.51, 0))
            fail_msg("pow(%a, %a) is %a", (double)x, (double)y, (double)pow_(x, y));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(functions), cmocka_unit_test(powers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
