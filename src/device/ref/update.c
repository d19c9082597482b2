/* update.c - ops that change state in place: out 0 .. are the memory of the inputs they update. */
#include "ref.h"

/* The gradient's element i, times the scale, rounded to the parameter's type. */
static double gradient(const ls_kernel_args *a, int scale, int64_t i)
{
    const double g = flat_get(&a->in[1], i);
    return given(a, scale) ? ls_ref_round(g * scalar_get(&a->in[scale]), a->in[0].type.dtype) : g;
}

static bool skipped(const ls_kernel_args *a, int apply)
{
    return given(a, apply) && scalar_get(&a->in[apply]) == 0;
}

void ls_ref_count_step(const ls_kernel_args *a) /* step, apply? */
{
    const int64_t *step = a->in[0].data;
    *(int64_t *)a->out[0].data = *step + (given(a, 1) ? *(const int32_t *)a->in[1].data : 1);
}

/* p, g, m, v, step, lr, scale?, apply?, weights? -> p, m, v, weights?. torch.optim.Adam and AdamW with t =
 * step (1 at the first update). Weights are the parameters in another type; they may lie where g is. */
void ls_ref_adam(const ls_kernel_args *a)
{
    for (int64_t i = 0; skipped(a, 7) && given(a, 8) && i < ls_type_count(&a->in[0].type); i++)
        flat_put(&a->out[3], i, flat_get(&a->in[0], i));
    if (skipped(a, 7))
        return;
    const ls_adam_attrs *o = a->attrs;
    const double t = scalar_get(&a->in[4]), lr = scalar_get(&a->in[5]);
    const double correction1 = 1 - pow(o->beta1, t), correction2 = 1 - pow(o->beta2, t);
    const int64_t n = ls_type_count(&a->in[0].type);
    for (int64_t i = 0; i < n; i++) {
        double p = flat_get(&a->in[0], i), g = gradient(a, 6, i), m = flat_get(&a->in[2], i),
               v = flat_get(&a->in[3], i);
        if (o->decoupled)
            p *= 1 - lr * o->weight_decay;
        else
            g += o->weight_decay * p;
        m += (g - m) * (1 - o->beta1);
        v = o->beta2 * v + (1 - o->beta2) * g * g;
        p -= lr / correction1 * m / (sqrt(v) / sqrt(correction2) + o->eps);
        flat_put(&a->out[0], i, p);
        flat_put(&a->out[1], i, m);
        flat_put(&a->out[2], i, v);
        if (given(a, 8))
            flat_put(&a->out[3], i, flat_get(&a->out[0], i));
    }
}

/* p, g, buf?, step, lr, scale?, apply? -> p, buf. torch.optim.SGD; at step 1 the buffer becomes the gradient.
 */
void ls_ref_sgd(const ls_kernel_args *a)
{
    if (skipped(a, 6))
        return;
    const ls_sgd_attrs *o = a->attrs;
    const bool first = scalar_get(&a->in[3]) == 1;
    const double lr = scalar_get(&a->in[4]);
    const int64_t n = ls_type_count(&a->in[0].type);
    for (int64_t i = 0; i < n; i++) {
        const double p = flat_get(&a->in[0], i);
        double g = gradient(a, 5, i) + o->weight_decay * p;
        if (given(a, 2)) {
            const double buf = first ? g : o->momentum * flat_get(&a->in[2], i) + (1 - o->dampening) * g;
            flat_put(&a->out[1], i, buf);
            g = o->nesterov ? g + o->momentum * buf : buf;
        }
        flat_put(&a->out[0], i, p - lr * g);
    }
}

/* scale, good, apply -> scale, good. torch.amp.GradScaler, which also never lets the scale grow to infinity.
 */
void ls_ref_loss_scale_update(const ls_kernel_args *a)
{
    const ls_scale_update_attrs *o = a->attrs;
    double scale = scalar_get(&a->in[0]), good = scalar_get(&a->in[1]) + 1;
    if (scalar_get(&a->in[2]) == 0) {
        scale *= o->backoff;
        good = 0;
    } else if (good == (double)o->interval) {
        const double grown = ls_ref_round(scale * o->growth, a->out[0].type.dtype);
        scale = isfinite(grown) ? grown : scale;
        good = 0;
    }
    ls_ref_put(&a->out[0], 0, scale);
    ls_ref_put(&a->out[1], 0, good);
}
