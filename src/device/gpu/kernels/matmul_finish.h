/* matmul_finish.h - what follows a product: bias, activation and the rest (matmul.h). ELEMENT is the type;
 * STORES_PRE: `pre` is stored, else it is there. */
#pragma once
#include "matmul.h"
#include "matrix.h"
#include "math.h"

DEVICE float act_of(int act, float x)
{
    return act == MATMUL_RELU ? relu_(x) : act == MATMUL_GELU ? gelu_(x) : gelu_tanh_(x);
}
/* For relu a selection, because dy may be infinite: 0 * inf is NaN. */
DEVICE float act_grad(int act, float dy, float x)
{
    return act == MATMUL_RELU   ? (x > 0.0f ? dy : 0.0f)
           : act == MATMUL_GELU ? dy * gelu_slope_(x)
                                : dy * gelu_tanh_slope_(x);
}
DEVICE void round_8(float *v)
{
    for (int i = 0; i < 8; i++)
        v[i] = ROUNDED(ELEMENT, v[i]);
}

/* 8 neighbours of row m, from column n on */
DEVICE void finish_8(const matmul_args *a, i64 batch, i64 m, i64 n, const float *sums)
{
    const i64 left = a->n - n;
    float v[8], other[8];
    for (int i = 0; i < 8; i++)
        v[i] = sums[i];
    if (a->bias) {
        eight_load(AT(const ELEMENT, a->bias) + n, left, (a->whole & MATMUL_BIAS) != 0, other);
        for (int i = 0; i < 8; i++)
            v[i] = v[i] + other[i];
    }
    if (a->slope) {
        eight_load(AT(const ELEMENT, a->slope) + m * a->ld_slope + n, left, (a->whole & MATMUL_PRE) != 0,
                   other);
        round_8(v);
        for (int i = 0; i < 8; i++)
            v[i] = act_grad(a->act, v[i], other[i]);
    }
    if (a->pre) {
        round_8(v);
        if (STORES_PRE)
            eight_store(AT(ELEMENT, a->pre) + m * a->ld_pre + n, left, (a->whole & MATMUL_PRE) != 0, v);
        for (int i = 0; i < 8; i++)
            v[i] = act_of(a->act, v[i]);
    }
    if (a->residual) {
        eight_load(AT(const ELEMENT, a->residual) + m * a->ld_residual + n, left,
                   (a->whole & MATMUL_RESIDUAL) != 0, other);
        round_8(v);
        for (int i = 0; i < 8; i++)
            v[i] = v[i] + other[i];
    }
    eight_store(AT(ELEMENT, a->y) + batch * a->step_y + m * a->ld_y + n, left, (a->whole & MATMUL_Y) != 0, v);
}
