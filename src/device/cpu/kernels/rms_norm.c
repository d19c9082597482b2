/* rms_norm.c - root mean square normalisation over the last dimension, and its gradient: like layer_norm.c,
 * without mean and bias. A row is read twice and stays in L1. A row's sums are vectors of lanes over columns,
 * which are added pairwise; dgain is a sum over rows (column_sums.h). */
#include "table.h"
#include "column_sums.h"

typedef struct norm_job {
    const ls_kernel_args *a;
    int64_t rows, k;
    column_sums sums; /* dgain */
} norm_job;

/* ---- forward */

SIMD_FN float norm_row(ls_dtype T, char *y, const char *x, const char *gain, int64_t k, float eps)
{
    vf s0 = vf_zero(), s1 = s0, s2 = s0, s3 = s0;
    int64_t c = 0;
    for (; c + 4 * VF_LANES <= k; c += 4 * VF_LANES) {
        const vf x0 = vf_get(x, T, c), x1 = vf_get(x, T, c + VF_LANES), x2 = vf_get(x, T, c + 2 * VF_LANES),
                 x3 = vf_get(x, T, c + 3 * VF_LANES);
        s0 = vf_fma(x0, x0, s0);
        s1 = vf_fma(x1, x1, s1);
        s2 = vf_fma(x2, x2, s2);
        s3 = vf_fma(x3, x3, s3);
    }
    for (; c < k; c += VF_LANES) {
        const vf v = get_padded(T, x, c, (int)min_i64(k - c, VF_LANES), 0.0f);
        s0 = vf_fma(v, v, s0);
    }
    const float rstd = 1.0f / __builtin_sqrtf(vf_sum((s0 + s1) + (s2 + s3)) / (float)k + eps);
    const vf r = vf_set1(rstd);
    for (c = 0; c + VF_LANES <= k; c += VF_LANES)
        vf_put(y, T, c, vf_get(x, T, c) * r * vf_get(gain, T, c));
    if (c < k) {
        const int n = (int)(k - c);
        vf_put_n(y, T, c, vf_get_n(x, T, c, n) * r * vf_get_n(gain, T, c, n), n);
    }
    return rstd;
}

SIMD_FN void norm_rows(ls_dtype T, const norm_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t xs = row_stride(&a->in[0]), ys = row_stride(&a->out[0]);
    const float eps = (float)((const ls_norm_attrs *)a->attrs)->eps;
    float *rstd = a->out[1].data;
    for (int64_t r = begin; r < end; r++)
        rstd[r] = norm_row(T, elem_at(&a->out[0], r * ys), elem_at(&a->in[0], r * xs), a->in[1].data, j->k,
                           eps);
}

static void norm_task(void *context, int64_t begin, int64_t end, int worker)
{
    const norm_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, norm_rows, j, begin, end);
}

KERNEL(rms_norm)
{
    norm_job j = { .a = a, .rows = rows_of(&a->in[0]), .k = cols_of(&a->in[0]) };
    ls_parallel_for(threads_for(a, j.rows * j.k), j.rows, norm_task, &j);
}

/* ---- gradient */

/* One vector of columns in the first pass: t += h * xhat, dgain += dy * xhat. */
SIMD_FN vf grad_sums(vf dy, vf x, vf gain, vf rstd, vf t, vf *dgain)
{
    const vf hat = x * rstd;
    *dgain = vf_fma(dy, hat, *dgain);
    return vf_fma(dy * gain, hat, t);
}

SIMD_FN void grad_row(ls_dtype T, char *dx, const char *dy, const char *x, const char *gain,
                      const char *addend, float r, float *dgain, int64_t k)
{
    const vf rstd = vf_set1(r);
    vf t0 = vf_zero(), t1 = t0;
    int64_t c = 0;
    for (; c + 2 * VF_LANES <= k; c += 2 * VF_LANES) {
        const int64_t e = c + VF_LANES;
        vf g0 = vf_load(dgain + c), g1 = vf_load(dgain + e);
        t0 = grad_sums(vf_get(dy, T, c), vf_get(x, T, c), vf_get(gain, T, c), rstd, t0, &g0);
        t1 = grad_sums(vf_get(dy, T, e), vf_get(x, T, e), vf_get(gain, T, e), rstd, t1, &g1);
        vf_store(dgain + c, g0);
        vf_store(dgain + e, g1);
    }
    for (; c < k; c += VF_LANES) { /* (absent lanes have dy = gain = 0 and add nothing) */
        const int n = (int)min_i64(k - c, VF_LANES);
        vf g = vf_load_n(dgain + c, n);
        t0 = grad_sums(vf_get_n(dy, T, c, n), vf_get_n(x, T, c, n), vf_get_n(gain, T, c, n), rstd, t0, &g);
        vf_store_n(dgain + c, g, n);
    }
    const vf mean = vf_set1(vf_sum(t0 + t1) / (float)k);
    for (c = 0; c < k; c += VF_LANES) {
        const int n = (int)min_i64(k - c, VF_LANES);
        const vf hat = get_padded(T, x, c, n, 0.0f) * rstd;
        vf d = rstd * vf_fnma(hat, mean, get_padded(T, dy, c, n, 0.0f) * get_padded(T, gain, c, n, 0.0f));
        if (addend)
            d = vf_round_to(d, T) + get_padded(T, addend, c, n, 0.0f);
        if (n == VF_LANES)
            vf_put(dx, T, c, d);
        else
            vf_put_n(dx, T, c, d, n);
    }
}

SIMD_FN void grad_parts(ls_dtype T, const norm_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t dys = row_stride(&a->in[0]), xs = row_stride(&a->in[1]), dxs = row_stride(&a->out[0]);
    const ls_tensor *addend = a->n_in > 4 && present(&a->in[4]) ? &a->in[4] : NULL;
    const int64_t as = addend ? row_stride(addend) : 0;
    const float *rstd = a->in[3].data;
    for (int64_t p = begin; p < end; p++) {
        int64_t stop;
        float *dgain = column_sums_begin(&j->sums, p, &stop);
        for (int64_t r = p * j->sums.rows_per_part; r < stop; r++)
            grad_row(T, elem_at(&a->out[0], r * dxs), elem_at(&a->in[0], r * dys), elem_at(&a->in[1], r * xs),
                     a->in[2].data, addend ? elem_at(addend, r * as) : NULL, rstd[r], dgain, j->k);
    }
}

static void grad_task(void *context, int64_t begin, int64_t end, int worker)
{
    const norm_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[1].type.dtype, grad_parts, j, begin, end);
}

static void join_task(void *context, int64_t begin, int64_t end, int worker)
{ /* columns in units of 16 */
    const norm_job *j = context;
    const ls_tensor *dgain = &j->a->out[1];
    const int64_t from = begin * 16, to = min_i64(end * 16, j->k);
    (void)worker;
    column_sums_join(&j->sums, from, to);
    for (int64_t c = from; c < to; c++)
        f_put(dgain->data, dgain->type.dtype, c, j->sums.part[c]);
}

static norm_job grad_job(const ls_kernel_args *a)
{
    norm_job j = { .a = a, .rows = rows_of(&a->in[1]), .k = cols_of(&a->in[1]) };
    j.sums = column_sums_of(j.rows, j.k, a->workspace);
    return j;
}

KERNEL_WORKSPACE(rms_norm_grad)
{
    const norm_job j = grad_job(a);
    return column_sums_bytes(&j.sums);
}

KERNEL(rms_norm_grad)
{ /* dy, x, gain, rstd, addend? -> dx, dgain */
    norm_job j = grad_job(a);
    ls_parallel_for(threads_for(a, j.rows * j.k), j.sums.parts, grad_task, &j);
    ls_parallel_for(threads_for(a, j.sums.parts * j.sums.width), (j.k + 15) / 16, join_task, &j);
}
