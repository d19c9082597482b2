/* layer_norm.c - layer normalisation over the last dimension, and its gradient.
 *
 * The forward pass reads a row three times (mean, variance, result), and the row stays in L1. A row's sums
 * are four vectors of lanes over columns, which are added pairwise, so the bits of a row depend only on K and
 * the level. dgain and dbias are sums over rows (column_sums.h). */
#include "table.h"
#include "column_sums.h"

typedef struct norm_job {
    const ls_kernel_args *a;
    int64_t rows, k;
    column_sums sums; /* [dgain, dbias] side by side */
} norm_job;

/* ---- forward */

SIMD_FN void norm_row(ls_dtype T, char *y, const char *x, const char *gain, const char *bias, int64_t k,
                      float eps, float *mean, float *rstd)
{
    vf s0 = vf_zero(), s1 = s0, s2 = s0, s3 = s0;
    int64_t c = 0;
    vf x0, x1, x2, x3;
    for (; c + 4 * VF_LANES <= k; c += 4 * VF_LANES) {
        vf_get_pair(x, T, c, &x0, &x1);
        vf_get_pair(x, T, c + 2 * VF_LANES, &x2, &x3);
        s0 += x0;
        s1 += x1;
        s2 += x2;
        s3 += x3;
    }
    for (; c + VF_LANES <= k; c += VF_LANES)
        s0 += vf_get(x, T, c);
    const int64_t full = c;
    const int tail = (int)(k - c);
    if (tail)
        s0 += vf_get_n(x, T, c, tail);
    const float m = vf_sum((s0 + s1) + (s2 + s3)) / (float)k;
    const vf mv = vf_set1(m);

    s0 = s1 = s2 = s3 = vf_zero();
    for (c = 0; c + 4 * VF_LANES <= k; c += 4 * VF_LANES) {
        vf_get_pair(x, T, c, &x0, &x1);
        vf_get_pair(x, T, c + 2 * VF_LANES, &x2, &x3);
        s0 = vf_fma(x0 - mv, x0 - mv, s0);
        s1 = vf_fma(x1 - mv, x1 - mv, s1);
        s2 = vf_fma(x2 - mv, x2 - mv, s2);
        s3 = vf_fma(x3 - mv, x3 - mv, s3);
    }
    for (; c < full; c += VF_LANES) {
        const vf d = vf_get(x, T, c) - mv;
        s0 = vf_fma(d, d, s0);
    }
    if (tail) {
        const vf d = vf_first(vf_get_n(x, T, c, tail) - mv, vf_zero(), tail);
        s0 = vf_fma(d, d, s0);
    }
    const float r = 1.0f / __builtin_sqrtf(vf_sum((s0 + s1) + (s2 + s3)) / (float)k + eps);
    const vf vr = vf_set1(r);
    for (c = 0; c + 2 * VF_LANES <= k; c += 2 * VF_LANES) {
        vf g0, g1, b0, b1;
        vf_get_pair(x, T, c, &x0, &x1);
        vf_get_pair(gain, T, c, &g0, &g1);
        vf_get_pair(bias, T, c, &b0, &b1);
        vf_put_pair(y, T, c, vf_fma((x0 - mv) * vr, g0, b0), vf_fma((x1 - mv) * vr, g1, b1));
    }
    for (; c < full; c += VF_LANES)
        vf_put(y, T, c, vf_fma((vf_get(x, T, c) - mv) * vr, vf_get(gain, T, c), vf_get(bias, T, c)));
    if (tail)
        vf_put_n(y, T, c,
                 vf_fma((vf_get_n(x, T, c, tail) - mv) * vr, vf_get_n(gain, T, c, tail),
                        vf_get_n(bias, T, c, tail)),
                 tail);
    *mean = m;
    *rstd = r;
}

SIMD_FN void norm_rows(ls_dtype T, const norm_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t xs = row_stride(&a->in[0]), ys = row_stride(&a->out[0]);
    const float eps = (float)((const ls_norm_attrs *)a->attrs)->eps;
    float *mean = a->out[1].data, *rstd = a->out[2].data;
    for (int64_t r = begin; r < end; r++)
        norm_row(T, elem_at(&a->out[0], r * ys), elem_at(&a->in[0], r * xs), a->in[1].data, a->in[2].data,
                 j->k, eps, mean + r, rstd + r);
}

static void norm_task(void *context, int64_t begin, int64_t end, int worker)
{
    const norm_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, norm_rows, j, begin, end);
}

KERNEL(layer_norm)
{
    norm_job j = { .a = a, .rows = rows_of(&a->in[0]), .k = cols_of(&a->in[0]) };
    ls_parallel_for(threads_for(a, j.rows * j.k), j.rows, norm_task, &j);
}

/* ---- gradient */

/* One vector of columns in the first pass: s += h, t += h * xhat; and adds to the sums over rows. */
#define GRAD_SUMS(dy, x, g, s, t, dgain, dbias, load, store) \
    do {                                                     \
        const vf hat = ((x)-mean) * rstd, h = (dy) * (g);    \
        s += h;                                              \
        t = vf_fma(h, hat, t);                               \
        store(dgain, vf_fma(dy, hat, load(dgain)));          \
        store(dbias, load(dbias) + (dy));                    \
    } while (0)

SIMD_FN void grad_row(ls_dtype T, char *dx, const char *dy, const char *x, const char *gain,
                      const char *addend, float m, float r, float *dgain, float *dbias, int64_t k)
{
    const vf mean = vf_set1(m), rstd = vf_set1(r);
    vf s0 = vf_zero(), s1 = s0, t0 = s0, t1 = s0;
    int64_t c = 0;
    for (; c + 2 * VF_LANES <= k; c += 2 * VF_LANES) {
        const int64_t e = c + VF_LANES;
        const vf y0 = vf_get(dy, T, c), y1 = vf_get(dy, T, e);
        GRAD_SUMS(y0, vf_get(x, T, c), vf_get(gain, T, c), s0, t0, dgain + c, dbias + c, vf_load, vf_store);
        GRAD_SUMS(y1, vf_get(x, T, e), vf_get(gain, T, e), s1, t1, dgain + e, dbias + e, vf_load, vf_store);
    }
    for (; c < k; c += VF_LANES) { /* (absent lanes have dy = gain = 0 and add nothing) */
        const int n = (int)min_i64(k - c, VF_LANES);
#define LOAD_N(p) vf_load_n(p, n)
#define STORE_N(p, v) vf_store_n(p, v, n)
        const vf y = vf_get_n(dy, T, c, n);
        GRAD_SUMS(y, vf_get_n(x, T, c, n), vf_get_n(gain, T, c, n), s0, t0, dgain + c, dbias + c, LOAD_N,
                  STORE_N);
    }
    const vf mh = vf_set1(vf_sum(s0 + s1) / (float)k), mhx = vf_set1(vf_sum(t0 + t1) / (float)k);
#define GRAD_DX(x, dy, gain) (rstd * vf_fnma(((x)-mean) * rstd, mhx, (dy) * (gain)-mh))
    for (c = 0; c + 2 * VF_LANES <= k; c += 2 * VF_LANES) {
        vf x0, x1, y0, y1, g0, g1;
        vf_get_pair(x, T, c, &x0, &x1);
        vf_get_pair(dy, T, c, &y0, &y1);
        vf_get_pair(gain, T, c, &g0, &g1);
        vf d0 = GRAD_DX(x0, y0, g0), d1 = GRAD_DX(x1, y1, g1);
        if (addend) {
            vf_round2(T, &d0, &d1);
            vf_get_pair(addend, T, c, &x0, &x1);
            d0 += x0;
            d1 += x1;
        }
        vf_put_pair(dx, T, c, d0, d1);
    }
    for (; c < k; c += VF_LANES) {
        const int n = (int)min_i64(k - c, VF_LANES);
        vf d = GRAD_DX(vf_get_n(x, T, c, n), vf_get_n(dy, T, c, n), vf_get_n(gain, T, c, n));
        if (addend)
            d = vf_round_to(d, T) + vf_get_n(addend, T, c, n);
        vf_put_n(dx, T, c, d, n);
    }
}

SIMD_FN void grad_parts(ls_dtype T, const norm_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const int64_t k = j->k, dys = row_stride(&a->in[0]), xs = row_stride(&a->in[1]),
                  dxs = row_stride(&a->out[0]);
    const ls_tensor *addend = a->n_in > 5 && present(&a->in[5]) ? &a->in[5] : NULL;
    const int64_t as = addend ? row_stride(addend) : 0;
    const float *mean = a->in[3].data, *rstd = a->in[4].data;
    for (int64_t p = begin; p < end; p++) {
        int64_t stop;
        float *sums = column_sums_begin(&j->sums, p, &stop);
        for (int64_t r = p * j->sums.rows_per_part; r < stop; r++)
            grad_row(T, elem_at(&a->out[0], r * dxs), elem_at(&a->in[0], r * dys), elem_at(&a->in[1], r * xs),
                     a->in[2].data, addend ? elem_at(addend, r * as) : NULL, mean[r], rstd[r], sums, sums + k,
                     k);
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
    const int64_t from = begin * 16, to = min_i64(end * 16, j->sums.width);
    (void)worker;
    column_sums_join(&j->sums, from, to);
    const ls_tensor *gain = &j->a->out[1], *bias = &j->a->out[2];
    for (int64_t c = from; c < to; c++)
        if (c < j->k)
            f_put(gain->data, gain->type.dtype, c, j->sums.part[c]);
        else
            f_put(bias->data, bias->type.dtype, c - j->k, j->sums.part[c]);
}

static norm_job grad_job(const ls_kernel_args *a)
{
    norm_job j = { .a = a, .rows = rows_of(&a->in[1]), .k = cols_of(&a->in[1]) };
    j.sums = column_sums_of(j.rows, 2 * j.k, a->workspace);
    return j;
}

KERNEL_WORKSPACE(layer_norm_grad)
{
    const norm_job j = grad_job(a);
    return column_sums_bytes(&j.sums);
}

KERNEL(layer_norm_grad)
{
    norm_job j = grad_job(a);
    ls_parallel_for(threads_for(a, j.rows * j.k), j.sums.parts, grad_task, &j);
    ls_parallel_for(threads_for(a, j.sums.parts * j.sums.width), (2 * j.k + 15) / 16, join_task, &j);
}
