/* update_words.h - what the kernels of optimizers share. They read scalars of the step (learning rate, step
 * number, loss scale, apply) in device memory. Coefficients are computed in f64 and rounded to f32 once, with
 * the operations of the CPU's kernels in their order, so both give the same bits. */
#pragma once
#include "fours.h"

#define sqrt_64(x) sqrt(x) /* IEEE with both compilers */

/* Whether this step changes nothing. */
DEVICE int skipped(gpu_address apply) { return apply && *AT(const i32, apply) == 0; }
DEVICE float scale_of(gpu_address scale) { return scale ? *AT(const float, scale) : 1.0f; }

/* x^n by repeated squaring: the bits of the CPU's kernel */
DEVICE double power(double x, i64 n)
{
    double r = 1.0;
    for (; n > 0; n >>= 1) {
        if (n & 1)
            r = r * x;
        x = x * x;
    }
    return r;
}
