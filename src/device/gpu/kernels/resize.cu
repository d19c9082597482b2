/* resize.cu - planes of another size, and the gradient. A thread computes one element of the result; in the
 * gradient it adds up what was made of its element, row by row. The host defines X, the type, and MODE. */
#include "place.h"
#include "resize.h"

/* What element k of a resized line is: (1 - weight) * [first] + weight * [second]; as ls_resized
 * (device/picture_lines.h). */
typedef struct between {
    i64 first, second;
    float keep, weight;
} between;
DEVICE between resized(i64 k, i64 in, double step)
{
    between r;
#if MODE == BY_NEAREST
    r.first = smaller((i64)floor_((float)k * (float)step), in - 1);
    r.second = r.first;
    r.keep = 1;
    r.weight = 0;
#else
    const double at = MODE == BY_CENTRES ? ((double)k + 0.5) * step - 0.5 : (double)k * step,
                 from = at > 0 ? at : 0;
    r.first = smaller((i64)from, in - 1);
    r.second = r.first < in - 1 ? r.first + 1 : r.first;
    r.keep = (float)(1 - (from - (double)r.first));
    r.weight = (float)(from - (double)r.first);
#endif
    return r;
}

KERNEL(resize2d, resize_args, RESIZE_THREADS)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.planes * a.oh * a.ow)
        return;
    const place p = place_of(i, a.oh, a.ow);
    const between r = resized(p.row, a.h, a.step_h), c = resized(p.column, a.w, a.step_w);
    const X *x = AT(const X, a.x) + p.plane * a.h * a.w, *upper = x + r.first * a.w;
#if MODE == BY_NEAREST
    AT(X, a.y)[i] = upper[c.first];
#else
    const X *lower = x + r.second * a.w;
    const float first = r.keep * LOAD(X, upper, c.first) + r.weight * LOAD(X, lower, c.first),
                second = r.keep * LOAD(X, upper, c.second) + r.weight * LOAD(X, lower, c.second);
    STORE(X, AT(X, a.y), i, c.keep * first + c.weight * second);
#endif
}

/* The first k whose element has `first` >= want, found from a guess: `first` does not fall with k. */
DEVICE i64 first_of(i64 want, i64 out, i64 in, double step)
{
    const double guess = step > 0 ? (double)want / step : 0;
    i64 k = guess > 0 ? (guess < (double)out ? (i64)guess : out) : 0;
    while (k > 0 && resized(k - 1, in, step).first >= want)
        k--;
    while (k < out && resized(k, in, step).first < want)
        k++;
    return k;
}

/* The elements whose first or second is element n of the line. */
DEVICE i64 begin_of(i64 n, i64 out, i64 in, double step)
{
    return first_of(MODE == BY_NEAREST ? n : n - 1, out, in, step);
}

/* What elements of one row of dy give to column n. */
DEVICE float row_sum(const X *dy, i64 n, i64 begin, i64 out, i64 in, double step)
{
    float sum = 0;
    for (i64 k = begin; k < out; k++) {
        const between c = resized(k, in, step);
        if (c.first > n)
            break;
        const float d = LOAD(X, dy, k);
        if (c.first == n)
            sum = sum + c.keep * d;
        if (MODE != BY_NEAREST && c.second == n)
            sum = sum + c.weight * d;
    }
    return sum;
}

KERNEL(resize2d_grad, resize_args, RESIZE_THREADS)
{
    const i64 i = BLOCK * THREADS + THREAD;
    if (i >= a.planes * a.h * a.w)
        return;
    const place p = place_of(i, a.h, a.w);
    const i64 begin = begin_of(p.column, a.ow, a.w, a.step_w);
    float sum = 0;
    for (i64 k = begin_of(p.row, a.oh, a.h, a.step_h); k < a.oh; k++) {
        const between r = resized(k, a.h, a.step_h);
        if (r.first > p.row)
            break;
        const float d = row_sum(AT(const X, a.y) + (p.plane * a.oh + k) * a.ow, p.column, begin, a.ow, a.w,
                                a.step_w);
        if (r.first == p.row)
            sum = sum + r.keep * d;
        if (MODE != BY_NEAREST && r.second == p.row)
            sum = sum + r.weight * d;
    }
    STORE(X, AT(X, a.x), i, sum);
}
