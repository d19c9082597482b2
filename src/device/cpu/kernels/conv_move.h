/* conv_move.h - moves elements between NCHW and vectors of channels: blocks of VF_LANES x VF_LANES are
 * transposed in registers. Types other than f32 are converted on the way. */
#pragma once
#include "conv.h"

SIMD_FN int lanes_left(int64_t n) { return (int)min_i64(n, VF_LANES); }

/* Loads n rows of m elements, `row` elements apart, and transposes them: r[i] is element i of each row. */
SIMD_FN void get_block(ls_dtype T, vf *r, const void *from, int64_t at, int64_t row, int n, int m)
{
    if (n == VF_LANES && m == VF_LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < VF_LANES; i++)
            r[i] = vf_get(from, T, at + i * row);
    } else {
        for (int i = 0; i < VF_LANES; i++)
            r[i] = i < n ? vf_get_n(from, T, at + i * row, m) : vf_zero();
    }
    transpose(r);
}

/* `count` positions of n channels. The first is at `at`, channels are `plane` elements apart. Writes whole
 * vectors of channels (zeros after the last channel): position p to slot[p] * step, or with slot NULL to
 * p * step. */
SIMD_FN void channels_in(ls_dtype T, float *to, int64_t step, const void *from, int64_t at, int64_t plane,
                         int n, int64_t count, const int32_t *slot)
{
    if (plane == 1) {
        vf_store(to, vf_get_n(from, T, at, n));
        return;
    }
    for (int64_t p = 0; p < count; p += VF_LANES) {
        const int m = lanes_left(count - p);
        vf r[VF_LANES];
        get_block(T, r, from, at + p, plane, n, m);
        for (int i = 0; i < m; i++)
            vf_store(to + (slot ? slot[p + i] : p + i) * step, r[i]);
    }
}

/* The opposite direction. add: the channels' bias, or NULL. */
SIMD_FN void channels_out(ls_dtype T, void *to, int64_t at, int64_t plane, const float *from, int64_t step,
                          int n, int64_t count, const int32_t *slot, const vf *add)
{
    if (plane == 1) {
        vf_put_n(to, T, at, add ? vf_load(from) + *add : vf_load(from), n);
        return;
    }
    for (int64_t p = 0; p < count; p += VF_LANES) {
        const int m = lanes_left(count - p);
        vf r[VF_LANES];
        for (int i = 0; i < VF_LANES; i++) {
            r[i] = i < m ? vf_load(from + (slot ? slot[p + i] : p + i) * step) : vf_zero();
            r[i] = add ? r[i] + *add : r[i];
        }
        transpose(r);
        for (int i = 0; i < n; i++)
            if (m == VF_LANES)
                vf_put(to, T, at + i * plane + p, r[i]);
            else
                vf_put_n(to, T, at + i * plane + p, r[i], m);
    }
}

/* The function `name` for ls_parallel_for: `body` for the operands' type. A plan has the convolution as c. */
#define CONV_TASK(plan, name, body, ...)                                      \
    static void name(void *context, int64_t begin, int64_t end, int worker)   \
    {                                                                         \
        const plan *p = context;                                              \
        (void)worker;                                                         \
        BY_FLOAT(p->c->a->in[0].type.dtype, body, p, begin, end __VA_ARGS__); \
    }
