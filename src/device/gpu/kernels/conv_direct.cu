/* conv_direct.cu - convolution and its gradients where a group has few result channels, so that a matrix
 * product would be empty for the most part (a kernel for each channel): a thread computes one element, and
 * for the kernel's gradient a block one element of a part. And sums of parts. The host defines X, the type.
 */
#include "place.h"
#include "conv.h"

KERNEL(conv_direct, conv_direct_args, CONV_THREADS) /* x, w, bias? -> y */
{
    const conv_sizes *c = &a.c;
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= c->n * c->o * c->oh * c->ow)
        return;
    const place p = place_of(i, c->oh, c->ow);
    const i64 image = quotient(p.plane, c->o), o = p.plane - image * c->o, group = quotient(o, c->og),
              top = p.row * c->stride_h - c->pad_h, left = p.column * c->stride_w - c->pad_w;
    const X *x = AT(const X, a.x) + (image * c->c + group * c->cg) * c->h * c->w,
            *w = AT(const X, a.w) + o * c->cg * c->kh * c->kw;
    float sum = a.bias ? LOAD(X, AT(const X, a.bias), o) : 0;
    for (i64 k = 0; k < c->cg; k++, x += c->h * c->w)
        for (i64 r = 0; r < c->kh; r++, w += c->kw) {
            const i64 h = top + r * c->dilation_h;
            if (h < 0 || h >= c->h)
                continue;
            for (int s = 0; s < (int)c->kw; s++) {
                const i64 v = left + s * c->dilation_w;
                if (v >= 0 && v < c->w)
                    sum = fma_(LOAD(X, x, h * c->w + v), LOAD(X, w, s), sum);
            }
        }
    STORE(X, AT(X, a.y), i, sum);
}

/* The result line that meets line `line` of the picture through element `tap` of the kernel; -1: none. */
DEVICE i64 seer(i64 line, i64 tap, i64 pad, i64 dilation, i64 stride, i64 results)
{
    const i64 from = line + pad - tap * dilation, k = from < 0 ? 0 : quotient(from, stride);
    return from < 0 || k * stride != from || k >= results ? -1 : k;
}

KERNEL(conv_direct_dx, conv_direct_args, CONV_THREADS) /* dy, w -> dx */
{
    const conv_sizes *c = &a.c;
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= c->n * c->c * c->h * c->w)
        return;
    const place p = place_of(i, c->h, c->w);
    const i64 image = quotient(p.plane, c->c), channel = p.plane - image * c->c,
              group = quotient(channel, c->cg), taps = c->kh * c->kw;
    const X *dy = AT(const X, a.y) + (image * c->o + group * c->og) * c->oh * c->ow,
            *w = AT(const X, a.w) + (group * c->og * c->cg + channel - group * c->cg) * taps;
    float sum = 0;
    for (i64 r = 0; r < c->kh; r++) {
        const i64 h = seer(p.row, r, c->pad_h, c->dilation_h, c->stride_h, c->oh);
        for (i64 s = 0; h >= 0 && s < c->kw; s++) {
            const i64 v = seer(p.column, s, c->pad_w, c->dilation_w, c->stride_w, c->ow);
            for (i64 o = 0; v >= 0 && o < c->og; o++)
                sum = fma_(LOAD(X, dy, (o * c->oh + h) * c->ow + v),
                           LOAD(X, w, o * c->cg * taps + r * c->kw + s), sum);
        }
    }
    STORE(X, AT(X, a.x), i, sum);
}

typedef struct conv_direct_shared {
    float parts[WARP];
} conv_direct_shared;

KERNEL_SHARED(conv_direct_dw, conv_direct_args, CONV_THREADS, conv_direct_shared) /* dy, x -> parts */
{
    const conv_sizes *c = &a.c;
    const i64 count = c->o * c->cg * c->kh * c->kw, part = BLOCK / count, element = BLOCK - part * count,
              first = part * a.part_images, images = smaller(c->n - first, a.part_images);
    const place w = place_of(element, c->kh, c->kw); /* its plane: [o][cg] */
    const i64 o = w.plane / c->cg, channel = o / c->og * c->cg + w.plane % c->cg,
              down = w.row * c->dilation_h - c->pad_h, right = w.column * c->dilation_w - c->pad_w;
    const X *dy = AT(const X, a.y) + (first * c->o + o) * c->oh * c->ow,
            *x = AT(const X, a.x) + (first * c->c + channel) * c->h * c->w;
    float sum = 0;
    for (i64 e = THREAD; e < images * c->oh * c->ow; e += THREADS) {
        const place p = place_of(e, c->oh, c->ow);
        const i64 h = p.row * c->stride_h + down, v = p.column * c->stride_w + right;
        if (h >= 0 && h < c->h && v >= 0 && v < c->w)
            sum = fma_(LOAD(X, dy, (p.plane * c->o * c->oh + p.row) * c->ow + p.column),
                       LOAD(X, x, (p.plane * c->c * c->h + h) * c->w + v), sum);
    }
    sum = block_sum(sum, s->parts);
    if (THREAD == 0)
        AT(f32, a.parts)[BLOCK] = sum;
}

KERNEL_SHARED(conv_bias, conv_bias_args, CONV_THREADS, conv_direct_shared)
{
    const i64 part = BLOCK / a.channels, channel = BLOCK - part * a.channels, first = part * a.part_images,
              images = smaller(a.images - first, a.part_images);
    const X *dy = AT(const X, a.dy) + (first * a.channels + channel) * a.plane;
    float sum = 0;
    for (i64 e = THREAD; e < images * a.plane; e += THREADS) {
        const i64 image = quotient(e, a.plane);
        sum = sum + LOAD(X, dy, image * (a.channels - 1) * a.plane + e);
    }
    sum = block_sum(sum, s->parts);
    if (THREAD == 0)
        AT(f32, a.parts)[BLOCK] = sum;
}

KERNEL(conv_sum, conv_sum_args, CONV_THREADS)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.count)
        return;
    const f32 *parts = AT(const f32, a.parts) + i;
    float sum = 0;
    for (i64 p = 0; p < a.n_parts; p++)
        sum = sum + parts[p * a.count];
    STORE(X, AT(X, a.to), i, sum);
}
