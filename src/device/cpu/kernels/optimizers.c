/* optimizers.c - Lion, the moving average of parameters, the rate of a group. As in update.c, state changes
 * in place, and coefficients are computed in f64 and rounded to f32 once. */
#include "optimizers.h"
#include "graph/update_attrs.h"
#include "kernel.h"

enum { OPTIMIZER_BLOCK = 4096 };

SIMD_FN const ls_tensor *given(const ls_kernel_args *a, int i)
{
    return i < a->n_in && present(&a->in[i]) ? &a->in[i] : NULL;
}
SIMD_FN bool passed_over(const ls_kernel_args *a, int i)
{
    return given(a, i) && *(const int32_t *)a->in[i].data == 0;
}

KERNEL(group_rate)
{ /* lr -> lr */
    *(double *)a->out[0].data = *(const double *)a->in[0].data * ((const ls_rate_attrs *)a->attrs)->factor;
}

/* ---- Lion */

KERNEL_SUPPORTS(lion)
{
    for (int i = 0; i < 3; i++)
        if (i == 1 ? !is_float16_or_32(a->in[i].type.dtype) : a->in[i].type.dtype != LS_F32)
            return "parameters and moments are f32, gradients f32, bf16 or f16 (f64 is for device ref)";
    return NULL;
}

typedef struct lion_job {
    float *p, *m;
    const void *g;
    ls_dtype from;
    int64_t n;
    bool scaled;
    float scale, shrink, one_minus_beta1, one_minus_beta2, rate;
} lion_job;

SIMD_FN void lion_vector(const lion_job *j, vf *p, vf g, vf *m)
{
    if (j->scaled)
        g *= j->scale;
    const vf u = vf_fma(g - *m, vf_set1(j->one_minus_beta1), *m);
    const vf sign = vf_select(vf_lt(vf_zero(), u), vf_set1(1.0f),
                              vf_select(vf_lt(u, vf_zero()), vf_set1(-1.0f), u)); /* 0 and NaN stay */
    *p = vf_fnma(vf_set1(j->rate), sign, *p * j->shrink);
    *m = vf_fma(g - *m, vf_set1(j->one_minus_beta2), *m);
}

SIMD_FN void lion_blocks(ls_dtype T, const lion_job *j, int64_t begin, int64_t end)
{
    const lion_job o = *j; /* a copy that no pointer of the loop can change */
    const int64_t stop = min_i64(end * OPTIMIZER_BLOCK, j->n);
    int64_t i = begin * OPTIMIZER_BLOCK;
    for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES) {
        const int64_t k = i + VF_LANES;
        vf x = vf_load(o.p + i), y = vf_load(o.m + i), z = vf_load(o.p + k), w = vf_load(o.m + k);
        lion_vector(&o, &x, vf_get(o.g, T, i), &y);
        lion_vector(&o, &z, vf_get(o.g, T, k), &w);
        vf_store(o.p + i, x);
        vf_store(o.p + k, z);
        vf_store(o.m + i, y);
        vf_store(o.m + k, w);
    }
    for (; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        vf x = vf_load_n(o.p + i, n), y = vf_load_n(o.m + i, n);
        lion_vector(&o, &x, vf_get_n(o.g, T, i, n), &y);
        vf_store_n(o.p + i, x, n);
        vf_store_n(o.m + i, y, n);
    }
}

static void lion_task(void *context, int64_t begin, int64_t end, int worker)
{
    const lion_job *j = context;
    (void)worker;
    BY_FLOAT(j->from, lion_blocks, j, begin, end);
}

KERNEL(lion)
{ /* p, g, m, lr, scale?, apply? -> p, m */
    if (passed_over(a, 5))
        return;
    const ls_lion_attrs *o = a->attrs;
    const double lr = *(const double *)a->in[3].data;
    const ls_tensor *scale = given(a, 4);
    lion_job j = { .p = a->out[0].data,
                   .m = a->out[1].data,
                   .g = a->in[1].data,
                   .from = a->in[1].type.dtype,
                   .n = count_of(&a->in[0]),
                   .scaled = scale != NULL,
                   .scale = scale ? *(const float *)scale->data : 1.0f,
                   .shrink = (float)(1.0 - lr * o->weight_decay),
                   .one_minus_beta1 = (float)(1.0 - o->beta1),
                   .one_minus_beta2 = (float)(1.0 - o->beta2),
                   .rate = (float)lr };
    ls_parallel_for(threads_for(a, j.n), (j.n + OPTIMIZER_BLOCK - 1) / OPTIMIZER_BLOCK, lion_task, &j);
}

/* ---- the moving average */

KERNEL_SUPPORTS(ema)
{
    return a->in[0].type.dtype == LS_F32 ? NULL : "averages are f32 (f64 is for device ref)";
}

typedef struct average_job {
    float *average;
    const float *p;
    int64_t n;
    bool first;
    float part;
} average_job;

static void average_task(void *context, int64_t begin, int64_t end, int worker)
{
    const average_job j = *(const average_job *)context;
    const int64_t stop = min_i64(end * OPTIMIZER_BLOCK, j.n);
    (void)worker;
    for (int64_t i = begin * OPTIMIZER_BLOCK; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        const vf p = vf_load_n(j.p + i, n), x = vf_load_n(j.average + i, n);
        vf_store_n(j.average + i, j.first ? p : vf_fma(p - x, vf_set1(j.part), x), n);
    }
}

KERNEL(ema)
{ /* average, p, step, apply? -> average */
    if (passed_over(a, 3))
        return;
    average_job j = { .average = a->out[0].data,
                      .p = a->in[1].data,
                      .n = count_of(&a->in[0]),
                      .first = *(const int64_t *)a->in[2].data == 1,
                      .part = (float)(1.0 - ((const ls_ema_attrs *)a->attrs)->decay) };
    ls_parallel_for(threads_for(a, j.n), (j.n + OPTIMIZER_BLOCK - 1) / OPTIMIZER_BLOCK, average_task, &j);
}
