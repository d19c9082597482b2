/* updates.cu - optimizers that update each number by itself, and the scalars of a step. One launch updates a
 * whole unit. The host defines G, the type of gradients, and W, the type of the weights that adam writes for
 * the next step. Parameters and moments are f32. fma_ stands where the CPU's kernels have it. */
#include "update_words.h"
#include "updates.h"

/* The numbers [i, i + 4) of the block's, for each of its threads; the last ones may be fewer. */
#define FOR_FOURS(i, n)                                                                                    \
    for (i64 i = BLOCK * UPDATE_EACH + THREAD * 4, stop_ = least((BLOCK + 1) * UPDATE_EACH, n); i < stop_; \
         i += THREADS * 4)
DEVICE i64 least(i64 a, i64 b) { return a < b ? a : b; }

/* ---- Adam */

typedef struct adam_numbers {
    float l2, shrink, one_minus_beta1, beta2, one_minus_beta2, root_correction2, eps, rate;
} adam_numbers;

DEVICE void adam_prepare(adam_numbers *s, const adam_args *a)
{
    const i64 t = *AT(const i64, a->step);
    const double lr = *AT(const double, a->lr);
    s->l2 = a->decoupled ? 0.0f : (float)a->weight_decay;
    s->shrink = a->decoupled ? (float)(1.0 - lr * a->weight_decay) : 1.0f;
    s->one_minus_beta1 = (float)(1.0 - a->beta1);
    s->beta2 = (float)a->beta2;
    s->one_minus_beta2 = (float)(1.0 - a->beta2);
    s->root_correction2 = (float)sqrt_64(1.0 - power(a->beta2, t));
    s->eps = (float)a->eps;
    s->rate = (float)(lr / (1.0 - power(a->beta1, t)));
}

DEVICE void adam_number(const adam_numbers *s, float *p, float g, float *m, float *v)
{
    if (s->l2 != 0.0f)
        g = fma_(*p, s->l2, g);
    *m = fma_(g - *m, s->one_minus_beta1, *m);
    *v = fma_(g * s->one_minus_beta2, g, *v * s->beta2);
    *p = fma_(-s->rate, *m / (sqrt_(*v) / s->root_correction2 + s->eps), *p * s->shrink);
}

/* A skipped step changes only the weights, because gradients may have overwritten them. */
KERNEL_SHARED(adam, adam_args, UPDATE_THREADS, adam_numbers)
{
    f32 *p = AT(f32, a.p), *m = AT(f32, a.m), *v = AT(f32, a.v);
    const G *g = AT(const G, a.g);
    W *weights = AT(W, a.weights);
    const int skip = skipped(a.apply), write = a.weights != 0;
    const float scale = scale_of(a.scale);
    if (skip && !write)
        return;
    if (THREAD == 0 && !skip)
        adam_prepare(s, &a);
    BARRIER();
    FOR_FOURS(i, a.n)
    {
        if (a.vectors && i + 4 <= a.n) {
            f32_four x = FOUR_AT(f32, p, i);
            FOUR(W) w;
            if (!skip) {
                f32_four y = FOUR_AT(f32, m, i), z = FOUR_AT(f32, v, i);
                const FOUR(G) d = FOUR_AT(const G, g, i);
                for (int e = 0; e < 4; e++)
                    adam_number(s, &x.v[e], TO_FLOAT(G, d.v[e]) * scale, &y.v[e], &z.v[e]);
                FOUR_AT(f32, p, i) = x;
                FOUR_AT(f32, m, i) = y;
                FOUR_AT(f32, v, i) = z;
            }
            for (int e = 0; e < 4; e++)
                w.v[e] = OF_FLOAT(W, x.v[e]);
            if (write)
                FOUR_AT(W, weights, i) = w;
        } else
            for (i64 e = i; e < least(i + 4, a.n); e++) {
                if (!skip)
                    adam_number(s, p + e, LOAD(G, g, e) * scale, m + e, v + e);
                if (write)
                    STORE(W, weights, e, p[e]);
            }
    }
}

/* ---- SGD */

typedef struct sgd_numbers {
    float l2, momentum, one_minus_dampening, lr;
    int first, nesterov, buffer;
} sgd_numbers;

DEVICE void sgd_number(const sgd_numbers *s, float *p, float g, float *buffer)
{
    if (s->l2 != 0.0f)
        g = fma_(*p, s->l2, g);
    if (s->buffer) {
        *buffer = s->first ? g : fma_(g, s->one_minus_dampening, *buffer * s->momentum);
        g = s->nesterov ? fma_(*buffer, s->momentum, g) : *buffer;
    }
    *p = fma_(-s->lr, g, *p);
}

KERNEL(sgd, sgd_args, UPDATE_THREADS)
{
    f32 *p = AT(f32, a.p), *buffer = AT(f32, a.buffer);
    const G *g = AT(const G, a.g);
    if (skipped(a.apply))
        return;
    const float scale = scale_of(a.scale);
    const sgd_numbers k = { (float)a.weight_decay,
                            (float)a.momentum,
                            (float)(1.0 - a.dampening),
                            (float)*AT(const double, a.lr),
                            *AT(const i64, a.step) == 1,
                            a.nesterov,
                            a.buffer != 0 };
    FOR_FOURS(i, a.n)
    {
        if (a.vectors && i + 4 <= a.n) {
            f32_four x = FOUR_AT(f32, p, i), y = x;
            const FOUR(G) d = FOUR_AT(const G, g, i);
            if (k.buffer)
                y = FOUR_AT(f32, buffer, i);
            for (int e = 0; e < 4; e++)
                sgd_number(&k, &x.v[e], TO_FLOAT(G, d.v[e]) * scale, &y.v[e]);
            FOUR_AT(f32, p, i) = x;
            if (k.buffer)
                FOUR_AT(f32, buffer, i) = y;
        } else
            for (i64 e = i; e < least(i + 4, a.n); e++)
                sgd_number(&k, p + e, LOAD(G, g, e) * scale, k.buffer ? buffer + e : 0);
    }
}

/* ---- Lion */

typedef struct lion_numbers {
    float shrink, one_minus_beta1, one_minus_beta2, rate;
} lion_numbers;

DEVICE void lion_number(const lion_numbers *s, float *p, float g, float *m)
{
    const float u = fma_(g - *m, s->one_minus_beta1, *m);
    const float sign = 0.0f < u ? 1.0f : u < 0.0f ? -1.0f : u; /* 0 and NaN stay */
    *p = fma_(-s->rate, sign, *p * s->shrink);
    *m = fma_(g - *m, s->one_minus_beta2, *m);
}

KERNEL(lion, lion_args, UPDATE_THREADS)
{
    f32 *p = AT(f32, a.p), *m = AT(f32, a.m);
    const G *g = AT(const G, a.g);
    if (skipped(a.apply))
        return;
    const float scale = scale_of(a.scale);
    const double lr = *AT(const double, a.lr);
    const lion_numbers k = { (float)(1.0 - lr * a.weight_decay), (float)(1.0 - a.beta1),
                             (float)(1.0 - a.beta2), (float)lr };
    FOR_FOURS(i, a.n)
    {
        if (a.vectors && i + 4 <= a.n) {
            f32_four x = FOUR_AT(f32, p, i), y = FOUR_AT(f32, m, i);
            const FOUR(G) d = FOUR_AT(const G, g, i);
            for (int e = 0; e < 4; e++)
                lion_number(&k, &x.v[e], TO_FLOAT(G, d.v[e]) * scale, &y.v[e]);
            FOUR_AT(f32, p, i) = x;
            FOUR_AT(f32, m, i) = y;
        } else
            for (i64 e = i; e < least(i + 4, a.n); e++)
                lion_number(&k, p + e, LOAD(G, g, e) * scale, m + e);
    }
}

/* ---- the moving average: the parameters themselves at step 1 */

KERNEL(ema, ema_args, UPDATE_THREADS)
{
    f32 *average = AT(f32, a.average);
    const f32 *p = AT(const f32, a.p);
    if (skipped(a.apply))
        return;
    const float part = (float)(1.0 - a.decay);
    const int first = *AT(const i64, a.step) == 1;
    FOR_FOURS(i, a.n)
    {
        if (a.vectors && i + 4 <= a.n) {
            f32_four x = FOUR_AT(f32, average, i);
            const f32_four y = FOUR_AT(const f32, p, i);
            for (int e = 0; e < 4; e++)
                x.v[e] = first ? y.v[e] : fma_(y.v[e] - x.v[e], part, x.v[e]);
            FOUR_AT(f32, average, i) = x;
        } else
            for (i64 e = i; e < least(i + 4, a.n); e++)
                average[e] = first ? p[e] : fma_(p[e] - average[e], part, average[e]);
    }
}

/* ---- Muon's momentum. A skipped step gives zeros: nobody reads them, but other ranks may gather them. */

DEVICE float momentum_number(float g, float *buffer, float part, float momentum, int skip)
{
    if (skip)
        return 0.0f;
    *buffer = fma_(g - *buffer, part, *buffer);
    return fma_(*buffer - g, momentum, g);
}

KERNEL(muon_momentum, muon_momentum_args, UPDATE_THREADS)
{
    f32 *u = AT(f32, a.u), *buffer = AT(f32, a.buffer);
    const G *g = AT(const G, a.g);
    const int skip = skipped(a.apply);
    const float scale = scale_of(a.scale), momentum = (float)a.momentum, part = (float)(1.0 - a.momentum);
    FOR_FOURS(i, a.n)
    {
        if (a.vectors && i + 4 <= a.n) {
            f32_four x, y = FOUR_AT(f32, buffer, i);
            const FOUR(G) d = FOUR_AT(const G, g, i);
            for (int e = 0; e < 4; e++)
                x.v[e] = momentum_number(TO_FLOAT(G, d.v[e]) * scale, &y.v[e], part, momentum, skip);
            FOUR_AT(f32, buffer, i) = y;
            FOUR_AT(f32, u, i) = x;
        } else
            for (i64 e = i; e < least(i + 4, a.n); e++)
                u[e] = momentum_number(LOAD(G, g, e) * scale, buffer + e, part, momentum, skip);
    }
}

/* ---- scalars */

KERNEL(count_step, count_step_args, SCALAR_THREADS)
{
    if (THREAD == 0)
        *AT(i64, a.to) = *AT(const i64, a.from) + (a.apply ? *AT(const i32, a.apply) : 1);
}

KERNEL(group_rate, group_rate_args, SCALAR_THREADS)
{
    if (THREAD == 0)
        *AT(double, a.to) = *AT(const double, a.from) * a.factor;
}

KERNEL(loss_scale_update, loss_scale_args, SCALAR_THREADS)
{
    if (THREAD != 0)
        return;
    float scale = *AT(const float, a.scale);
    i32 good = *AT(const i32, a.good) + 1;
    if (*AT(const i32, a.apply) == 0) {
        scale = (float)(scale * a.backoff);
        good = 0;
    } else if (good == a.interval) {
        const float grown = (float)(scale * a.growth);
        scale = grown < infinity_() ? grown : scale;
        good = 0;
    }
    *AT(float, a.new_scale) = scale;
    *AT(i32, a.new_good) = good;
}
