/* opcodes.h - the element-wise ops (graph/elementwise.list) on numbers in registers: ew_NAME(a, b, number).
 * An op without b gets a twice. Then the conversions of `cast` to integers. */
#pragma once
#include "dialect.h"
#include "math.h"

#define EW(name, result)                                            \
    DEVICE float ew_##name(float a, float b, float number)          \
    {                                                               \
        (void)a, (void)b, (void)number; /* (not all ops use all) */ \
        return result;                                              \
    }

/* NaN if either operand is NaN */
DEVICE float larger_(float a, float b) { return is_nan(a) || a > b ? a : b; }
DEVICE float smaller_(float a, float b) { return is_nan(a) || a < b ? a : b; }

EW(add, a + b)
EW(sub, a - b)
EW(mul, a *b)
EW(div, a / b)
EW(max, larger_(a, b))
EW(min, smaller_(a, b))
EW(pow, pow_(a, b))
EW(gt, a > b ? 1.0f : 0.0f)
EW(ge, a >= b ? 1.0f : 0.0f)
EW(eq, a == b ? 1.0f : 0.0f)
EW(keep, b != 0.0f ? a : 0.0f)
EW(drop, b == 0.0f ? a : 0.0f)
EW(neg, -a)
EW(sqrt, sqrt_(a))
EW(exp, exp_(a))
EW(log, log_(a))
EW(tanh, tanh_(a))
EW(square, a *a)
EW(abs, abs_(a))
EW(sign, a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : is_nan(a) ? a : 0.0f)
EW(sin, sin_(a))
EW(cos, cos_(a))
EW(sigmoid, sigmoid_(a))
EW(softplus, softplus_(a))
EW(hardswish, hardswish_(a))
EW(relu, relu_(a))
EW(gelu, gelu_(a))
EW(gelu_tanh, gelu_tanh_(a))
EW(silu, silu_(a))
EW(swiglu, silu_(a) * b)
EW(relu_grad, b > 0.0f ? a : 0.0f) /* a product could be inf * 0 */
EW(gelu_grad, a *gelu_slope_(b))
EW(gelu_tanh_grad, a *gelu_tanh_slope_(b))
EW(silu_grad, a *silu_slope_(b))
EW(hardswish_grad, a *hardswish_slope_(b))
EW(add_const, a + number)
EW(mul_const, a *number)
EW(div_const, a / number)
EW(pow_const, pow_(a, number))
EW(max_const, larger_(a, number))
EW(min_const, smaller_(a, number))
EW(leaky_relu, leaky_relu_(a, number))
EW(elu, elu_(a, number))
EW(cast, a)

/* Truncates towards zero and saturates; NaN becomes 0. */
DEVICE u8 u8_of_float(float x) { return (u8)(!(x > 0.0f) ? 0 : x >= 255.0f ? 255 : (i32)x); }
DEVICE i32 i32_of_float(float x)
{
    return is_nan(x) ? 0 : x <= -0x1p31f ? -0x7fffffff - 1 : x >= 0x1p31f ? 0x7fffffff : (i32)x;
}
DEVICE i64 i64_of_float(float x)
{
    const i64 most = 0x7fffffffffffffffLL;
    return is_nan(x) ? 0 : x <= -0x1p63f ? -most - 1 : x >= 0x1p63f ? most : (i64)x;
}
DEVICE float u8_to_float(u8 x) { return (float)x; }
DEVICE float i32_to_float(i32 x) { return (float)x; }
DEVICE float i64_to_float(i64 x) { return (float)x; }
