/* pool.cu - max and mean pooling of planes, and their gradients. A thread computes one element of the result
 * (LANES threads, for means of large windows); in gradients it adds up what the windows that contain its
 * element give, row by row. The host defines X, the type, and LANES: 1 or 32. */
#include "place.h"
#include "pool.h"

/* PyTorch's rule: the first of equal ones, and NaN wins over everything before it. */
KERNEL(max_pool2d, pool_args, POOL_THREADS)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.planes * a.oh * a.ow)
        return;
    const place p = place_of(i, a.oh, a.ow);
    const i64 top = p.row * a.stride_h - a.pad_h, left = p.column * a.stride_w - a.pad_w,
              h1 = smaller(top + a.kernel_h, a.h), w1 = smaller(left + a.kernel_w, a.w);
    const X *x = AT(const X, a.x) + p.plane * a.h * a.w;
    float best = -infinity_();
    i64 where = -1;
    for (i64 h = larger(top, 0); h < h1; h++)
        for (i64 w = larger(left, 0); w < w1; w++) {
            const float v = LOAD(X, x, h * a.w + w);
            if (where < 0 || v > best || is_nan(v)) {
                best = v;
                where = h * a.w + w;
            }
        }
    STORE(X, AT(X, a.y), i, best);
    AT(i32, a.where)[i] = (i32)where;
}

/* The first window that may contain element k of a line, and the one after the last. */
DEVICE i64 first_window(i64 k, i64 kernel, i64 stride, i64 pad)
{
    const i64 from = k + pad - kernel + 1; /* the first window begins there or later */
    return from > 0 ? quotient(from + stride - 1, stride) : 0;
}
DEVICE i64 end_window(i64 k, i64 windows, i64 stride, i64 pad)
{
    return smaller(quotient(k + pad, stride) + 1, windows);
}

KERNEL(max_pool2d_grad, pool_args, POOL_THREADS)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.planes * a.h * a.w)
        return;
    const place p = place_of(i, a.h, a.w);
    const i64 h1 = end_window(p.row, a.oh, a.stride_h, a.pad_h),
              w0 = first_window(p.column, a.kernel_w, a.stride_w, a.pad_w),
              w1 = end_window(p.column, a.ow, a.stride_w, a.pad_w), plane = p.plane * a.oh * a.ow;
    const X *dy = AT(const X, a.y) + plane;
    const i32 *where = AT(const i32, a.where) + plane;
    const i32 here = (i32)(p.row * a.w + p.column);
    float sum = 0;
    for (i64 h = first_window(p.row, a.kernel_h, a.stride_h, a.pad_h); h < h1; h++)
        for (i64 w = w0; w < w1; w++)
            if (where[h * a.ow + w] == here)
                sum = sum + LOAD(X, dy, h * a.ow + w);
    STORE(X, AT(X, a.x), i, sum);
}

/* Elements [begin, end) of a line, and the number by which their sum is divided: as ls_avg_window
 * (device/picture_lines.h). */
typedef struct window {
    i64 begin, end, divisor;
} window;
DEVICE window window_of(i64 k, i64 windows, i64 n, i64 kernel, i64 stride, i64 pad, i64 whole)
{
    window r;
    if (kernel) {
        const i64 from = k * stride - pad;
        r.begin = larger(from, 0);
        r.end = smaller(from + kernel, n);
        r.divisor = whole ? kernel : r.end - r.begin;
    } else {
        r.begin = quotient(k * n, windows);
        r.end = quotient((k + 1) * n + windows - 1, windows);
        r.divisor = r.end - r.begin;
    }
    return r;
}

KERNEL(avg_pool2d, pool_args, POOL_THREADS)
{
    const i64 i = (BLOCK * THREADS + THREAD) / LANES;
    if (i >= a.planes * a.oh * a.ow)
        return;
    const place p = place_of(i, a.oh, a.ow);
    const window r = window_of(p.row, a.oh, a.h, a.kernel_h, a.stride_h, a.pad_h, a.whole),
                 c = window_of(p.column, a.ow, a.w, a.kernel_w, a.stride_w, a.pad_w, a.whole);
    const i64 width = c.end - c.begin;
    const X *x = AT(const X, a.x) + p.plane * a.h * a.w + c.begin;
    float sum = 0;
#if LANES == 1
    for (i64 h = r.begin; h < r.end; h++)
        for (i64 w = 0; w < width; w++)
            sum = sum + LOAD(X, x, h * a.w + w);
#else
    for (i64 e = THREAD % LANES; e < (r.end - r.begin) * width; e += LANES) {
        const i64 h = quotient(e, width);
        sum = sum + LOAD(X, x, (r.begin + h) * a.w + e - h * width);
    }
    sum = warp_sum(sum);
    if (THREAD % LANES)
        return;
#endif
    STORE(X, AT(X, a.y), i, sum / (float)(r.divisor * c.divisor));
}

/* As first_window and end_window, of windows that may cover the line evenly. */
DEVICE i64 first_mean(i64 k, i64 windows, i64 n, i64 kernel, i64 stride, i64 pad)
{
    return kernel ? first_window(k, kernel, stride, pad) : quotient(k * windows, n);
}
DEVICE i64 end_mean(i64 k, i64 windows, i64 n, i64 kernel, i64 stride, i64 pad)
{
    return kernel ? end_window(k, windows, stride, pad) : quotient((k + 1) * windows + n - 1, n);
}

KERNEL(avg_pool2d_grad, pool_args, POOL_THREADS)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.planes * a.h * a.w)
        return;
    const place p = place_of(i, a.h, a.w);
    const i64 h1 = end_mean(p.row, a.oh, a.h, a.kernel_h, a.stride_h, a.pad_h),
              w0 = first_mean(p.column, a.ow, a.w, a.kernel_w, a.stride_w, a.pad_w),
              w1 = end_mean(p.column, a.ow, a.w, a.kernel_w, a.stride_w, a.pad_w);
    const X *dy = AT(const X, a.y) + p.plane * a.oh * a.ow;
    float sum = 0;
    for (i64 h = first_mean(p.row, a.oh, a.h, a.kernel_h, a.stride_h, a.pad_h); h < h1; h++) {
        const window r = window_of(h, a.oh, a.h, a.kernel_h, a.stride_h, a.pad_h, a.whole);
        for (i64 w = w0; w < w1; w++) {
            const window c = window_of(w, a.ow, a.w, a.kernel_w, a.stride_w, a.pad_w, a.whole);
            sum = sum + LOAD(X, dy, h * a.ow + w) / (float)(r.divisor * c.divisor);
        }
    }
    STORE(X, AT(X, a.x), i, sum);
}
