/* conv_point.h - convolutions with a kernel of 1 x 1 and no padding are matrix products; what conv_point.c
 * (y, dx) and conv_point_dw.c share.
 *
 *     y:   y[o][column]  = sum over c of        w[o][c] * x[c][column]
 *     dx:  dx[c][column] = sum over o of        w[o][c] * dy[o][column]     (without strides)
 *     dw:  dw[o][c]      = sum over columns of  dy[o][column] * x[c][column]
 *
 * A column is a position of the result in an image; the images follow one another. Pictures are read and
 * written in their order, NCHW: vectors are neighbouring columns (dw: input channels). */
#pragma once
#include "conv_move.h"

#if VF_LANES == 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#elif VF_LANES == 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#endif

enum {
    /* f32 of the panels that a task multiplies again and again: less than half of L2 (gemm_plan.c) */
    POINT_PANELS = 48 << 10,
    POINT_PANELS_AVX512 = 96 << 10,
    POINT_OFF_SET = 16 /* f32 that keep rows off the same cache sets */
};

/* n elements, `step` apart. Writes whole vectors. */
SIMD_FN void take_elements(ls_dtype T, float *to, const void *from, int64_t at, int64_t step, int64_t n)
{
    int64_t k = 0;
    if (step == 1) {
        for (; k + VF_LANES <= n; k += VF_LANES)
            vf_store(to + k, vf_get(from, T, at + k));
        if (k < n)
            vf_store(to + k, vf_get_n(from, T, at + k, (int)(n - k)));
    } else if (step == 2) {
        for (; k + VF_LANES < n; k += VF_LANES)
            vf_store(to + k, EVEN(vf_get(from, T, at + 2 * k), vf_get(from, T, at + 2 * k + VF_LANES)));
        /* (the last element may be the last one of the tensor: nothing behind it is read) */
        const int low = lanes_left(2 * (n - k) - 1), high = (int)(2 * (n - k) - 1 - low);
        vf_store(to + k, EVEN(vf_get_n(from, T, at + 2 * k, low), vf_get_n(from, T, at + 2 * k + low, high)));
    } else {
        for (; k < n; k++)
            to[k] = f_get(from, T, at + k * step);
    }
}

/* The picture that is read: x, or for dx dy. */
SIMD_FN const ls_tensor *picture_of(const conv *c) { return &c->a->in[c->kind == LS_CONV_DW]; }

/* Where a channel of the group begins in an image of the picture. */
SIMD_FN int64_t channel_at(const conv *c, int64_t image, int64_t channel)
{
    return (image * picture_of(c)->type.dims[1] + c->group * c->source_channels + channel) * c->source;
}

/* Every position of the picture is read, so neighbouring columns are neighbours in memory. */
SIMD_FN bool reads_every_position(const conv *c)
{
    return c->kind == LS_CONV_DX || (c->s.at.stride_h == 1 && c->s.at.stride_w == 1);
}

/* What n columns of an image, from position p on, see of a channel. Writes whole vectors. */
SIMD_FN void take_columns(ls_dtype T, const conv *c, float *to, int64_t image, int64_t channel, int64_t p,
                          int64_t n)
{
    const void *from = picture_of(c)->data;
    const int64_t at = channel_at(c, image, channel), width = c->s.ow;
    if (reads_every_position(c)) {
        take_elements(T, to, from, at + p, 1, n);
        return;
    }
    for (int64_t i = p / width, j = p % width, count; n > 0; n -= count, to += count, i++, j = 0) {
        count = min_i64(n, width - j);
        take_elements(T, to, from, at + i * c->s.at.stride_h * c->s.w + j * c->s.at.stride_w,
                      c->s.at.stride_w, count);
    }
}
