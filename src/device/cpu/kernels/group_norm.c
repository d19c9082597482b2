/* group_norm.c - group normalisation and its gradient. Threads share the groups of all samples. A group's
 * elements follow each other, and mostly fit into L2 between the passes over them. Sums are made in f32 by
 * SUMS vectors; those of channels over samples in the order of the samples. */
#include "tensor_ops.h"
#include "kernel.h"
#include "graph/tensor_attrs.h"

enum { SUMS = 4 };

typedef struct group_norm_job {
    const ls_kernel_args *a;
    int64_t groups, channels, positions; /* of a sample; of a group; of a channel */
    float *sums; /* gradient: of each channel of each sample, of dy * (x - mean) and dy */
} group_norm_job;

static group_norm_job group_norm_job_of(const ls_kernel_args *a, const ls_type *x)
{
    group_norm_job j = { .a = a,
                         .channels = ((const ls_group_norm_attrs *)a->attrs)->channels,
                         .positions = 1,
                         .sums = a->workspace };
    j.groups = x->dims[1] / j.channels;
    for (int d = 2; d < x->ndim; d++)
        j.positions *= x->dims[d];
    return j;
}

/* Sums of n elements, less `mean`: of themselves or of their squares. */
SIMD_FN float total(ls_dtype T, const char *x, int64_t n, float mean, bool squares)
{
    vf sum[SUMS] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
    int64_t i = 0;
    for (; i + SUMS * VF_LANES <= n; i += SUMS * VF_LANES)
        for (int v = 0; v < SUMS; v++) {
            const vf d = vf_get(x, T, i + v * VF_LANES) - mean;
            sum[v] = squares ? vf_fma(d, d, sum[v]) : sum[v] + d;
        }
    for (; i < n; i += VF_LANES) {
        const vf d = get_padded(T, x, i, (int)min_i64(VF_LANES, n - i), mean) - mean;
        sum[0] = squares ? vf_fma(d, d, sum[0]) : sum[0] + d;
    }
    return vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

SIMD_FN void normalize_groups(ls_dtype T, const group_norm_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const float eps = (float)((const ls_group_norm_attrs *)a->attrs)->eps;
    const int64_t n = j->channels * j->positions;
    for (int64_t r = begin; r < end; r++) {
        const char *x = elem_at(&a->in[0], r * n);
        char *y = elem_at(&a->out[0], r * n);
        const float mean = total(T, x, n, 0.0f, false) / (float)n,
                    rstd = 1.0f / __builtin_sqrtf(total(T, x, n, mean, true) / (float)n + eps);
        ((float *)a->out[1].data)[r] = mean;
        ((float *)a->out[2].data)[r] = rstd;
        for (int64_t k = 0; k < j->channels; k++) {
            const int64_t c = r % j->groups * j->channels + k, from = k * j->positions;
            const vf gain = vf_set1(f_get(a->in[1].data, T, c) * rstd),
                     bias = vf_set1(f_get(a->in[2].data, T, c));
            for (int64_t i = 0; i < j->positions; i += VF_LANES) {
                const int lanes = (int)min_i64(VF_LANES, j->positions - i);
                vf_put_n(y, T, from + i, vf_fma(get_padded(T, x, from + i, lanes, 0.0f) - mean, gain, bias),
                         lanes);
            }
        }
    }
}

static void normalize_task(void *context, int64_t begin, int64_t end, int worker)
{
    const group_norm_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, normalize_groups, j, begin, end);
}

KERNEL(group_norm) /* x, gain, bias -> y, mean, rstd */
{
    group_norm_job j = group_norm_job_of(a, &a->in[0].type);
    ls_parallel_for(threads_for(a, count_of(&a->in[0])), a->in[0].type.dims[0] * j.groups, normalize_task,
                    &j);
}

/* The sums of one channel of one sample. */
SIMD_FN void sum_channel(ls_dtype T, const char *dy, const char *x, int64_t from, int64_t n, float mean,
                         float sums[2])
{
    vf along[2] = { vf_zero(), vf_zero() }, sum[2] = { vf_zero(), vf_zero() };
    int64_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES)
        for (int v = 0; v < 2; v++) {
            const vf d = vf_get(dy, T, from + i + v * VF_LANES);
            along[v] = vf_fma(d, vf_get(x, T, from + i + v * VF_LANES) - mean, along[v]);
            sum[v] += d;
        }
    for (; i < n; i += VF_LANES) {
        const int lanes = (int)min_i64(VF_LANES, n - i);
        const vf d = get_padded(T, dy, from + i, lanes, 0.0f);
        along[0] = vf_fma(d, get_padded(T, x, from + i, lanes, mean) - mean, along[0]);
        sum[0] += d;
    }
    sums[0] = vf_sum(along[0] + along[1]);
    sums[1] = vf_sum(sum[0] + sum[1]);
}

SIMD_FN void gradient_groups(ls_dtype T, const group_norm_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t n = j->channels * j->positions;
    for (int64_t r = begin; r < end; r++) {
        const char *dy = elem_at(&a->in[0], r * n), *x = elem_at(&a->in[1], r * n);
        char *dx = elem_at(&a->out[0], r * n);
        const float mean = ((const float *)a->in[3].data)[r], rstd = ((const float *)a->in[4].data)[r];
        float along = 0.0f, sum = 0.0f, *sums = j->sums + 2 * r * j->channels;
        for (int64_t k = 0; k < j->channels; k++) {
            const float gain = f_get(a->in[2].data, T, r % j->groups * j->channels + k);
            sum_channel(T, dy, x, k * j->positions, j->positions, mean, sums + 2 * k);
            along += gain * sums[2 * k];
            sum += gain * sums[2 * k + 1];
        }
        /* rstd * (dy * gain - mean(h) - xhat * mean(h * xhat)), with h = dy * gain, xhat = (x - mean) * rstd
         */
        const vf slope = vf_set1(along * rstd * rstd * rstd / (float)n),
                 level = vf_set1(sum * rstd / (float)n);
        for (int64_t k = 0; k < j->channels; k++) {
            const int64_t from = k * j->positions;
            const vf gain = vf_set1(f_get(a->in[2].data, T, r % j->groups * j->channels + k) * rstd);
            for (int64_t i = 0; i < j->positions; i += VF_LANES) {
                const int lanes = (int)min_i64(VF_LANES, j->positions - i);
                const vf d = get_padded(T, x, from + i, lanes, 0.0f) - mean;
                vf_put_n(
                    dx, T, from + i,
                    vf_fma(get_padded(T, dy, from + i, lanes, 0.0f), gain, vf_fnma(d, slope, vf_neg(level))),
                    lanes);
            }
        }
    }
}

static void gradient_task(void *context, int64_t begin, int64_t end, int worker)
{
    const group_norm_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, gradient_groups, j, begin, end);
}

KERNEL_WORKSPACE(group_norm_grad)
{
    return sizeof(float) * 2 * (size_t)(a->in[1].type.dims[0] * a->in[1].type.dims[1]);
}

KERNEL(group_norm_grad) /* dy, x, gain, mean, rstd -> dx, dgain, dbias */
{
    const ls_type *t = &a->in[1].type;
    group_norm_job j = group_norm_job_of(a, t);
    ls_parallel_for(threads_for(a, count_of(&a->in[1])), t->dims[0] * j.groups, gradient_task, &j);
    for (int64_t c = 0; c < t->dims[1]; c++) {
        float dgain = 0.0f, dbias = 0.0f;
        for (int64_t b = 0; b < t->dims[0]; b++) {
            const float *sums = j.sums + 2 * (b * t->dims[1] + c);
            dgain += sums[0] * ((const float *)a->in[4].data)[b * j.groups + c / j.channels];
            dbias += sums[1];
        }
        f_put(a->out[1].data, t->dtype, c, dgain);
        f_put(a->out[2].data, t->dtype, c, dbias);
    }
}
