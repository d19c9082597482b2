/* batch_norm.c - batch normalisation of x [N, C, ..]: element i belongs to channel i / inner % C. With a
 * residual or an activation, each step is rounded as the unfused graph would store it. */
#include "ref.h"

/* The position of element k of channel c; k counts over images and positions. */
typedef struct channels {
    int64_t n, c, inner, values;
} channels;

static channels channels_of(const ls_type *x)
{
    int64_t inner = 1;
    for (int d = 2; d < x->ndim; d++)
        inner *= x->dims[d];
    return (channels){ .n = x->dims[0], .c = x->dims[1], .inner = inner, .values = x->dims[0] * inner };
}
static int64_t at(const channels *s, int64_t c, int64_t k)
{
    return (k / s->inner * s->c + c) * s->inner + k % s->inner;
}

/* y[i] = act(v + residual, operand k) */
static void finish(const ls_kernel_args *a, int64_t i, double v, int k)
{
    v = ls_ref_round(v, a->out[0].type.dtype);
    if (given(a, k))
        v = ls_ref_round(v + flat_get(&a->in[k], i), a->out[0].type.dtype);
    flat_put(&a->out[0], i, ls_ref_act((ls_act)((const ls_batch_norm_attrs *)a->attrs)->act, v));
}

void ls_ref_batch_norm(
    const ls_kernel_args *a) /* x, gain, bias, residual? -> y, mean, rstd, unbiased variance */
{
    const double eps = ((const ls_batch_norm_attrs *)a->attrs)->eps;
    const channels s = channels_of(&a->in[0].type);
    for (int64_t c = 0; c < s.c; c++) {
        double mean = 0, squares = 0;
        for (int64_t k = 0; k < s.values; k++)
            mean += flat_get(&a->in[0], at(&s, c, k));
        mean /= (double)s.values;
        for (int64_t k = 0; k < s.values; k++) {
            const double d = flat_get(&a->in[0], at(&s, c, k)) - mean;
            squares += d * d;
        }
        const double rstd = 1 / sqrt(squares / (double)s.values + eps);
        for (int64_t k = 0; k < s.values; k++)
            finish(a, at(&s, c, k),
                   (flat_get(&a->in[0], at(&s, c, k)) - mean) * rstd * flat_get(&a->in[1], c) +
                       flat_get(&a->in[2], c),
                   3);
        flat_put(&a->out[1], c, mean);
        flat_put(&a->out[2], c, rstd);
        flat_put(&a->out[3], c, squares / (double)(s.values - 1));
    }
}

/* The gradient that arrives at element i: dy, through ReLU if ReLU's result y is given. */
static double arriving(const ls_kernel_args *a, int64_t i)
{
    return given(a, 5) ? ls_ref_act_grad(LS_ACT_RELU, flat_get(&a->in[0], i), flat_get(&a->in[5], i))
                       : flat_get(&a->in[0], i);
}

/* dy, x, gain, mean, rstd, y? -> dx, dgain, dbias. With xhat = (x - mean) * rstd: dx = gain * rstd * (dy -
 * mean(dy) - xhat * mean(dy * xhat)). */
void ls_ref_batch_norm_grad(const ls_kernel_args *a)
{
    const channels s = channels_of(&a->in[1].type);
    for (int64_t c = 0; c < s.c; c++) {
        const double mean = flat_get(&a->in[3], c), rstd = flat_get(&a->in[4], c),
                     gain = flat_get(&a->in[2], c);
        double dgain = 0, dbias = 0;
        for (int64_t k = 0; k < s.values; k++) {
            const double dy = arriving(a, at(&s, c, k));
            dgain += dy * (flat_get(&a->in[1], at(&s, c, k)) - mean) * rstd;
            dbias += dy;
        }
        for (int64_t k = 0; k < s.values; k++) {
            const double dy = arriving(a, at(&s, c, k)),
                         hat = (flat_get(&a->in[1], at(&s, c, k)) - mean) * rstd;
            flat_put(&a->out[0], at(&s, c, k),
                     gain * rstd * (dy - dbias / (double)s.values - hat * dgain / (double)s.values));
        }
        flat_put(&a->out[1], c, dgain);
        flat_put(&a->out[2], c, dbias);
    }
}

void ls_ref_batch_norm_eval(const ls_kernel_args *a) /* x, gain, bias, mean, variance, residual? -> y */
{
    const double eps = ((const ls_batch_norm_attrs *)a->attrs)->eps;
    const channels s = channels_of(&a->in[0].type);
    for (int64_t c = 0; c < s.c; c++) {
        const double mean = flat_get(&a->in[3], c),
                     scale = flat_get(&a->in[1], c) / sqrt(flat_get(&a->in[4], c) + eps);
        for (int64_t k = 0; k < s.values; k++)
            finish(a, at(&s, c, k),
                   (flat_get(&a->in[0], at(&s, c, k)) - mean) * scale + flat_get(&a->in[2], c), 5);
    }
}

void ls_ref_batch_norm_update(
    const ls_kernel_args *a) /* running mean, running variance, tracked, mean, variance, apply? */
{
    if (given(a, 5) && scalar_get(&a->in[5]) == 0)
        return;
    const double momentum = ((const ls_batch_norm_update_attrs *)a->attrs)->momentum;
    for (int64_t c = 0; c < a->in[0].type.dims[0]; c++)
        for (int k = 0; k < 2; k++)
            flat_put(&a->out[k], c,
                     (1 - momentum) * flat_get(&a->in[k], c) + momentum * flat_get(&a->in[3 + k], c));
    *(int64_t *)a->out[2].data = *(const int64_t *)a->in[2].data + 1;
}
