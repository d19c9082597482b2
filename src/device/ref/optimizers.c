/* optimizers.c - Lion, the moving average of parameters, the rate of a group. */
#include "graph/update_attrs.h"
#include "ref.h"

static bool skipped(const ls_kernel_args *a, int apply)
{
    return given(a, apply) && scalar_get(&a->in[apply]) == 0;
}

void ls_ref_group_rate(const ls_kernel_args *a) /* lr */
{
    *(double *)a->out[0].data = *(const double *)a->in[0].data * ((const ls_rate_attrs *)a->attrs)->factor;
}

/* p, g, m, lr, scale?, apply? -> p, m: p becomes (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g),
 * and m becomes beta2 m + (1 - beta2) g. */
void ls_ref_lion(const ls_kernel_args *a)
{
    if (skipped(a, 5))
        return;
    const ls_lion_attrs *o = a->attrs;
    const double lr = scalar_get(&a->in[3]);
    for (int64_t i = 0; i < ls_type_count(&a->in[0].type); i++) {
        const double p = flat_get(&a->in[0], i), m = flat_get(&a->in[2], i);
        double g = flat_get(&a->in[1], i);
        if (given(a, 4))
            g = ls_ref_round(g * scalar_get(&a->in[4]), a->in[0].type.dtype);
        const double u = m + (g - m) * (1 - o->beta1), sign = u > 0 ? 1 : u < 0 ? -1 : u;
        flat_put(&a->out[0], i, p * (1 - lr * o->weight_decay) - lr * sign);
        flat_put(&a->out[1], i, m + (g - m) * (1 - o->beta2));
    }
}

/* average, p, step, apply? -> average; at step 1 the parameters themselves */
void ls_ref_ema(const ls_kernel_args *a)
{
    if (skipped(a, 3))
        return;
    const double part = 1 - ((const ls_ema_attrs *)a->attrs)->decay;
    const bool first = scalar_get(&a->in[2]) == 1;
    for (int64_t i = 0; i < ls_type_count(&a->in[0].type); i++) {
        const double x = flat_get(&a->in[0], i), p = flat_get(&a->in[1], i);
        flat_put(&a->out[0], i, first ? p : x + part * (p - x));
    }
}
