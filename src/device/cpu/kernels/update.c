/* update.c - optimizers and counters. They change state in place: output i has the memory of the input that
 * it updates.
 *
 * Formulas and their order are PyTorch's (torch.optim, torch.amp). Coefficients are computed in f64 and
 * rounded to f32 once. */
#include "table.h"
#include "kernel.h"
#include "stream.h"

enum { UPDATE_BLOCK = 4096 };

SIMD_FN const ls_tensor *optional(const ls_kernel_args *a, int i)
{
    return i < a->n_in && present(&a->in[i]) ? &a->in[i] : NULL;
}
SIMD_FN bool skipped(const ls_kernel_args *a, int i)
{
    return optional(a, i) && *(const int32_t *)a->in[i].data == 0;
}

/* x^n by repeated squaring: the same bits with every C library. */
static double power(double x, int64_t n)
{
    double r = 1.0;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            r *= x;
    return r;
}

KERNEL(count_step)
{
    int64_t *step = a->out[0].data;
    *step = *(const int64_t *)a->in[0].data + (optional(a, 1) ? *(const int32_t *)a->in[1].data : 1);
}

KERNEL(loss_scale_update)
{
    const ls_scale_update_attrs *o = a->attrs;
    float scale = *(const float *)a->in[0].data;
    int32_t good = *(const int32_t *)a->in[1].data;
    if (*(const int32_t *)a->in[2].data == 0) {
        scale = (float)(scale * o->backoff);
        good = 0;
    } else if (++good == o->interval) {
        const float grown = (float)(scale * o->growth);
        scale = grown < __builtin_inff() ? grown : scale;
        good = 0;
    }
    *(float *)a->out[0].data = scale;
    *(int32_t *)a->out[1].data = good;
}

KERNEL_SUPPORTS(update)
{
    for (int i = 0; i < a->n_in; i++)
        if (i == 1 ? !is_float16_or_32(a->in[i].type.dtype)
                   : (i == 0 || i == 2) && present(&a->in[i]) && a->in[i].type.dtype != LS_F32)
            return "parameters and moments are f32, gradients f32, bf16 or f16 (f64 is for device ref)";
    return NULL;
}

/* ---- Adam */

typedef struct adam_job {
    float *p, *m, *v;
    const void *g;
    void *w; /* weights for the next step: the parameters in type `to`; NULL: none */
    ls_dtype from, to;
    int64_t n;
    bool skipped, scaled, stream;
    float scale, l2, shrink, one_minus_beta1, beta2, one_minus_beta2, root_correction2, eps,
        rate; /* l2 or shrink: weight decay */
} adam_job;

SIMD_FN void adam_vector(const adam_job *j, vf *p, vf g, vf *m, vf *v)
{
    if (j->scaled)
        g *= j->scale;
    if (j->l2 != 0.0f)
        g = vf_fma(*p, vf_set1(j->l2), g);
    *p *= j->shrink;
    *m = vf_fma(g - *m, vf_set1(j->one_minus_beta1), *m);
    *v = vf_fma(g * j->one_minus_beta2, g, *v * j->beta2);
    const vf denominator = vf_sqrt(*v) / j->root_correction2 + j->eps;
    *p = vf_fnma(vf_set1(j->rate), *m / denominator, *p);
}

/* One vector: loads, updates and stores it. Returns the new parameters. */
SIMD_FN vf adam_at(ls_dtype T, const adam_job *j, int64_t i)
{
    vf x = vf_load(j->p + i), y = vf_load(j->m + i), z = vf_load(j->v + i);
    adam_vector(j, &x, vf_get(j->g, T, i), &y, &z);
    vf_store(j->p + i, x);
    vf_store(j->m + i, y);
    vf_store(j->v + i, z);
    return x;
}
SIMD_FN vf adam_at_n(ls_dtype T, const adam_job *j, int64_t i, int n)
{
    vf x = vf_load_n(j->p + i, n), y = vf_load_n(j->m + i, n), z = vf_load_n(j->v + i, n);
    adam_vector(j, &x, vf_get_n(j->g, T, i, n), &y, &z);
    vf_store_n(j->p + i, x, n);
    vf_store_n(j->m + i, y, n);
    vf_store_n(j->v + i, z, n);
    return x;
}

/* With weights of type W: rounded parameters. They may lie where the gradient is, which a pair of vectors
 * reads before it stores them. */
SIMD_FN void adam_blocks(ls_dtype T, ls_dtype W, const adam_job *j, int64_t begin, int64_t end)
{
    const adam_job o = *j; /* a copy that no pointer of the loop can change */
    const int64_t stop = min_i64(end * UPDATE_BLOCK, j->n);
    int64_t i = begin * UPDATE_BLOCK;
    if (o.stream)
        for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES) {
            const vf x = adam_at(T, &o, i);
            vf_put2_stream(o.w, W, i, x, adam_at(T, &o, i + VF_LANES));
        }
    for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES) {
        const vf x = adam_at(T, &o, i), y = adam_at(T, &o, i + VF_LANES);
        if (o.w)
            vf_put2(o.w, W, i, x, y);
    }
    for (; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        const vf x = adam_at_n(T, &o, i, n);
        if (o.w)
            vf_put_n(o.w, W, i, x, n);
    }
    if (o.stream)
        vf_stream_end();
}

/* A skipped step changes nothing but the weights, which may have been overwritten by gradients. */
SIMD_FN void round_blocks(ls_dtype W, const adam_job *j, int64_t begin, int64_t end)
{
    const int64_t stop = min_i64(end * UPDATE_BLOCK, j->n);
    for (int64_t i = begin * UPDATE_BLOCK; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        vf_put_n(j->w, W, i, vf_load_n(j->p + i, n), n);
    }
}

static void adam_task(void *context, int64_t begin, int64_t end, int worker)
{
    const adam_job *j = context;
    (void)worker;
    if (j->skipped)
        BY_FLOAT(j->to, round_blocks, j, begin, end);
    else if (j->to == LS_F16)
        BY_FLOAT(j->from, adam_blocks, LS_F16, j, begin, end);
    else
        BY_FLOAT(j->from, adam_blocks, LS_BF16, j, begin, end);
}

KERNEL(adam)
{ /* p, g, m, v, step, lr, scale?, apply?, weights? -> p, m, v, weights? */
    const ls_adam_attrs *o = a->attrs;
    const int64_t t = *(const int64_t *)a->in[4].data;
    const double lr = *(const double *)a->in[5].data;
    const ls_tensor *scale = optional(a, 6), *w = optional(a, 8) ? &a->out[3] : NULL;
    adam_job j = { .p = a->out[0].data,
                   .m = a->out[1].data,
                   .v = a->out[2].data,
                   .g = a->in[1].data,
                   .w = w ? w->data : NULL,
                   .from = a->in[1].type.dtype,
                   .to = w ? w->type.dtype : LS_F32,
                   .n = count_of(&a->in[0]),
                   .skipped = skipped(a, 7),
                   .scaled = scale != NULL,
                   .scale = scale ? *(const float *)scale->data : 1.0f,
                   .l2 = o->decoupled ? 0.0f : (float)o->weight_decay,
                   .shrink = o->decoupled ? (float)(1.0 - lr * o->weight_decay) : 1.0f,
                   .one_minus_beta1 = (float)(1.0 - o->beta1),
                   .beta2 = (float)o->beta2,
                   .one_minus_beta2 = (float)(1.0 - o->beta2),
                   .root_correction2 = (float)__builtin_sqrt(1.0 - power(o->beta2, t)),
                   .eps = (float)o->eps,
                   .rate = (float)(lr / (1.0 - power(o->beta1, t))) };
    j.stream = w && j.w != j.g && streams(j.w, j.n, j.to);
    if (!j.skipped || w)
        ls_parallel_for(threads_for(a, j.n), (j.n + UPDATE_BLOCK - 1) / UPDATE_BLOCK, adam_task, &j);
}

/* ---- SGD */

typedef struct sgd_job {
    const ls_kernel_args *a;
    int64_t n;
    bool scaled, first, nesterov;
    float scale, l2, momentum, one_minus_dampening, lr;
} sgd_job;

SIMD_FN void sgd_vector(const sgd_job *j, vf *p, vf g, vf *buf)
{ /* buf NULL: no momentum */
    if (j->scaled)
        g *= j->scale;
    if (j->l2 != 0.0f)
        g = vf_fma(*p, vf_set1(j->l2), g);
    if (buf) {
        *buf = j->first ? g : vf_fma(g, vf_set1(j->one_minus_dampening), *buf * j->momentum);
        g = j->nesterov ? vf_fma(*buf, vf_set1(j->momentum), g) : *buf;
    }
    *p = vf_fnma(vf_set1(j->lr), g, *p);
}

SIMD_FN void sgd_blocks(ls_dtype T, const sgd_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const void *g = a->in[1].data;
    float *p = a->out[0].data, *b = optional(a, 2) ? a->out[1].data : NULL;
    const sgd_job o = *j;
    const int64_t stop = min_i64(end * UPDATE_BLOCK, j->n);
    for (int64_t i = begin * UPDATE_BLOCK; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        vf x = vf_load_n(p + i, n), y = b ? vf_load_n(b + i, n) : vf_zero();
        sgd_vector(&o, &x, vf_get_n(g, T, i, n), b ? &y : NULL);
        vf_store_n(p + i, x, n);
        if (b)
            vf_store_n(b + i, y, n);
    }
}

static void sgd_task(void *context, int64_t begin, int64_t end, int worker)
{
    const sgd_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[1].type.dtype, sgd_blocks, j, begin, end);
}

KERNEL(sgd)
{ /* p, g, buf?, step, lr, scale?, apply? -> p, buf */
    if (skipped(a, 6))
        return;
    const ls_sgd_attrs *o = a->attrs;
    const ls_tensor *scale = optional(a, 5);
    sgd_job j = { .a = a,
                  .n = count_of(&a->in[0]),
                  .scaled = scale != NULL,
                  .scale = scale ? *(const float *)scale->data : 1.0f,
                  .first = *(const int64_t *)a->in[3].data == 1,
                  .nesterov = o->nesterov != 0,
                  .l2 = (float)o->weight_decay,
                  .momentum = (float)o->momentum,
                  .one_minus_dampening = (float)(1.0 - o->dampening),
                  .lr = (float)*(const double *)a->in[4].data };
    ls_parallel_for(threads_for(a, j.n), (j.n + UPDATE_BLOCK - 1) / UPDATE_BLOCK, sgd_task, &j);
}
