/* batch_norm.c - batch normalisation of x [N, C, ..] with what the fuse pass joins to it (a residual, ReLU),
 * its gradient, and the running statistics.
 *
 * A task is some neighbouring channels. It goes through their pictures several times; after the first time
 * they are in L2. These pictures are one contiguous part of each image, which is faster to read than many
 * small parts. If pictures are smaller than SMALL, a block of columns is summed over all images, so that
 * vectors are full however small the pictures are (1 x 1 at the end of a ResNet).
 *
 * Sums of a picture: four chains, each of every fourth vector; their total is added in f64, in the order of
 * the images. Sums of columns: each column over the images in ascending order; then the columns of a channel
 * as vectors, whose totals are added in f64. No sum depends on how channels are divided among tasks. */
#include "table.h"
#include "kernel.h"

enum {
    SMALL = 32,
    COLUMNS = 1024, /* of small pictures: numbers of an image in a task; channels of any task, at most */
    MOST = COLUMNS + 16,
    BLOCK = 24 * 1024, /* of larger ones: numbers of a task, about; three tensors share L2 */
};

typedef struct norm {
    const ls_kernel_args *a;
    int64_t images, channels, inner, tasks;
    /* Forward: it is added. Gradient: dy counts where it is positive. NULL: there is none. */
    const ls_tensor *residual, *y;
    bool relu;
} norm;

static norm norm_of(const ls_kernel_args *a, const ls_tensor *x)
{
    norm j = { .a = a, .images = x->type.dims[0], .channels = x->type.dims[1], .inner = 1 };
    for (int d = 2; d < x->type.ndim; d++)
        j.inner *= x->type.dims[d];
    const int64_t own = j.inner < SMALL ? j.inner : j.images * j.inner, /* 0: there are no images */
        fit = own ? (j.inner < SMALL ? COLUMNS : BLOCK) / own : COLUMNS,
                  each = fit < 1 ? 1 : min_i64(fit, COLUMNS); /* channels of a task */
    j.tasks = (j.channels + each - 1) / each;
    return j;
}

/* What a sweep does with each element x of a channel: */
enum { MEAN, SCALE, SHIFT, SLOPE, NUMBERS };
typedef enum sweep {
    SUM,      /* sums x */
    MOMENTS,  /* sums x - mean, and its square */
    APPLY,    /* y = relu((x - mean) * scale + shift + residual) */
    PRODUCTS, /* sums of dy and dy * (x - mean) */
    GRADIENT  /* dx = (dy - shift - (x - mean) * slope) * scale */
} sweep;

/* One step for the n elements from `at` on. of: the numbers of their channels. s, q: sums, one for each
 * lane. */
SIMD_FN void elements(sweep what, ls_dtype T, const norm *j, int64_t at, int n, const vf *of, vf *s, vf *q)
{
    const ls_kernel_args *a = j->a;
    const ls_tensor *x = what < PRODUCTS ? &a->in[0] : &a->in[1];
    const bool full = n == VF_LANES;
    vf v = full ? vf_get(x->data, T, at) : vf_get_n(x->data, T, at, n);
    if (what == SUM) {
        *s += v;
        return;
    }
    v -= of[MEAN];
    if (what == MOMENTS) {
        v = full ? v : vf_first(v, vf_zero(), n);
        *s += v;
        *q = vf_fma(v, v, *q);
    } else if (what == APPLY) {
        v = vf_fma(v, of[SCALE], of[SHIFT]);
        if (j->residual) /* the unfused graph rounds v before it adds */
            v = vf_round_to(v, T) +
                (full ? vf_get(j->residual->data, T, at) : vf_get_n(j->residual->data, T, at, n));
        if (j->relu)
            v = vf_relu(v);
    } else {
        vf dy = full ? vf_get(a->in[0].data, T, at) : vf_get_n(a->in[0].data, T, at, n);
        if (j->y) {
            const vf y = full ? vf_get(j->y->data, T, at) : vf_get_n(j->y->data, T, at, n);
            dy = vf_select(vf_lt(vf_zero(), y), dy, vf_zero());
        }
        if (what == PRODUCTS) {
            *s += dy;
            *q = vf_fma(dy, full ? v : vf_first(v, vf_zero(), n), *q);
        } else {
            v = vf_fnma(v, of[SLOPE], dy - of[SHIFT]) * of[SCALE];
        }
    }
    if (what != APPLY && what != GRADIENT)
        return;
    if (full)
        vf_put(a->out[0].data, T, at, v);
    else
        vf_put_n(a->out[0].data, T, at, v, n);
}

SIMD_FN void sweep_pictures(sweep what, ls_dtype T, const norm *j, int64_t c0, int64_t channels,
                            float (*of)[COLUMNS], double *sum, double *product)
{
    for (int64_t k = 0; k < j->images * channels; k++) { /* image by image */
        const int64_t c = k % channels, at = (k / channels * j->channels + c0 + c) * j->inner;
        int64_t i = 0;
        vf numbers[NUMBERS], s[4] = { { 0 } }, q[4] = { { 0 } };
        for (int v = 0; v < NUMBERS; v++)
            numbers[v] = vf_set1(of[v][c]);
        for (; i + 4 * VF_LANES <= j->inner; i += 4 * VF_LANES)
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                elements(what, T, j, at + i + v * VF_LANES, VF_LANES, numbers, &s[v], &q[v]);
        for (; i < j->inner; i += VF_LANES)
            elements(what, T, j, at + i, (int)min_i64(VF_LANES, j->inner - i), numbers, &s[0], &q[0]);
        if (what == APPLY || what == GRADIENT)
            continue;
        sum[c] += (double)vf_sum((s[0] + s[1]) + (s[2] + s[3]));
        if (what != SUM)
            product[c] += (double)vf_sum((q[0] + q[1]) + (q[2] + q[3]));
    }
}

/* Adds sums of columns to the totals of their channels. */
static void batch_norm_gather(double *by_channel, int64_t inner, int64_t count, const float *sums)
{
    for (int64_t i = 0, c = 0; i < count; c++)
        for (const int64_t end = i + inner; i < end;) {
            const int64_t n = min_i64(VF_LANES, end - i);
            by_channel[c] += (double)vf_sum(vf_load_n(sums + i, (int)n));
            i += n;
        }
}

/* Up to four vectors of columns, over all images. */
SIMD_FN void sweep_block(sweep what, ls_dtype T, const norm *j, int64_t at, int vectors, int n,
                         float (*wide)[MOST], int64_t i, float *s, float *q)
{
    vf of[4][NUMBERS], sums[4] = { { 0 } }, squares[4] = { { 0 } };
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 4
        for (int k = 0; k < NUMBERS; k++)
            of[v][k] = vf_load(wide[k] + i + v * VF_LANES);
    for (int64_t image = 0; image < j->images; image++, at += j->channels * j->inner)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            elements(what, T, j, at + v * VF_LANES, n, of[v], &sums[v], &squares[v]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        vf_store(s + i + v * VF_LANES, sums[v]);
        vf_store(q + i + v * VF_LANES, squares[v]);
    }
}

SIMD_FN void sweep_columns(sweep what, ls_dtype T, const norm *j, int64_t c0, int64_t channels,
                           float (*of)[COLUMNS], double *sum, double *product)
{
    float wide[NUMBERS][MOST], s[MOST], q[MOST];
    const int64_t count = channels * j->inner, first = c0 * j->inner;
    for (int k = 0; k < NUMBERS; k++)
        for (int64_t i = 0; i < count; i++)
            wide[k][i] = of[k][i / j->inner];
    int64_t i = 0;
    for (; i + 4 * VF_LANES <= count; i += 4 * VF_LANES)
        sweep_block(what, T, j, first + i, 4, VF_LANES, wide, i, s, q);
    for (; i < count; i += VF_LANES)
        sweep_block(what, T, j, first + i, 1, (int)min_i64(VF_LANES, count - i), wide, i, s, q);
    if (what == APPLY || what == GRADIENT)
        return;
    batch_norm_gather(sum, j->inner, count, s);
    if (what != SUM)
        batch_norm_gather(product, j->inner, count, q);
}

/* All elements of a task's channels, from c0 on. Their sums are added to the totals. */
SIMD_FN void sweep_task(sweep what, ls_dtype T, const norm *j, int64_t c0, int64_t channels,
                        float (*of)[COLUMNS], double *sum, double *product)
{
    if (j->inner < SMALL)
        sweep_columns(what, T, j, c0, channels, of, sum, product);
    else
        sweep_pictures(what, T, j, c0, channels, of, sum, product);
}

SIMD_FN void norm_tasks(ls_dtype T, const norm *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const double eps = ((const ls_batch_norm_attrs *)a->attrs)->eps, values = (double)(j->images * j->inner);
    for (int64_t t = begin; t < end; t++) {
        const int64_t c0 = j->channels * t / j->tasks, n = j->channels * (t + 1) / j->tasks - c0;
        float *mean = (float *)a->out[1].data + c0, *rstd = (float *)a->out[2].data + c0,
              *variance = (float *)a->out[3].data + c0;
        float of[NUMBERS][COLUMNS] = { { 0 } };
        double sum[COLUMNS] = { 0 }, squares[COLUMNS] = { 0 };
        sweep_task(SUM, T, j, c0, n, of, sum, squares);
        for (int64_t c = 0; c < n; c++) {
            mean[c] = of[MEAN][c] = (float)(sum[c] / values);
            sum[c] = 0;
        }
        sweep_task(MOMENTS, T, j, c0, n, of, sum, squares);
        for (int64_t c = 0; c < n; c++) {
            /* subtracts the error of the mean, which was rounded */
            const double all = squares[c] - sum[c] * sum[c] / values;
            rstd[c] = (float)(1 / __builtin_sqrt(all / values + eps));
            variance[c] = (float)(all / (values - 1));
            of[SCALE][c] = rstd[c] * f_get(a->in[1].data, T, c0 + c);
            of[SHIFT][c] = f_get(a->in[2].data, T, c0 + c);
        }
        sweep_task(APPLY, T, j, c0, n, of, NULL, NULL);
    }
}

SIMD_FN void eval_tasks(ls_dtype T, const norm *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const double eps = ((const ls_batch_norm_attrs *)a->attrs)->eps;
    for (int64_t t = begin; t < end; t++) {
        const int64_t c0 = j->channels * t / j->tasks, n = j->channels * (t + 1) / j->tasks - c0;
        float of[NUMBERS][COLUMNS] = { { 0 } };
        for (int64_t c = 0; c < n; c++) {
            of[MEAN][c] = ((const float *)a->in[3].data)[c0 + c];
            of[SCALE][c] = (float)((double)f_get(a->in[1].data, T, c0 + c) /
                                   __builtin_sqrt((double)((const float *)a->in[4].data)[c0 + c] + eps));
            of[SHIFT][c] = f_get(a->in[2].data, T, c0 + c);
        }
        sweep_task(APPLY, T, j, c0, n, of, NULL, NULL);
    }
}

SIMD_FN void grad_tasks(ls_dtype T, const norm *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const double values = (double)(j->images * j->inner);
    for (int64_t t = begin; t < end; t++) {
        const int64_t c0 = j->channels * t / j->tasks, n = j->channels * (t + 1) / j->tasks - c0;
        float of[NUMBERS][COLUMNS] = { { 0 } };
        double sum[COLUMNS] = { 0 }, product[COLUMNS] = { 0 };
        memcpy(of[MEAN], (const float *)a->in[3].data + c0, sizeof(float) * (size_t)n);
        sweep_task(PRODUCTS, T, j, c0, n, of, sum, product);
        for (int64_t c = 0; c < n; c++) {
            const double r = (double)((const float *)a->in[4].data)[c0 + c];
            f_put(a->out[1].data, T, c0 + c, (float)(product[c] * r));
            f_put(a->out[2].data, T, c0 + c, (float)sum[c]);
            of[SCALE][c] = (float)(r * (double)f_get(a->in[2].data, T, c0 + c));
            of[SHIFT][c] = (float)(sum[c] / values);
            of[SLOPE][c] = (float)(product[c] * r * r / values);
        }
        sweep_task(GRADIENT, T, j, c0, n, of, NULL, NULL);
    }
}

#define TASK(name, body)                                                    \
    static void name(void *context, int64_t begin, int64_t end, int worker) \
    {                                                                       \
        const norm *j = context;                                            \
        (void)worker;                                                       \
        BY_FLOAT(j->a->in[0].type.dtype, body, j, begin, end);              \
    }
TASK(norm_task, norm_tasks)
TASK(eval_task, eval_tasks)
TASK(grad_task, grad_tasks)

static void batch_norm_run(norm j, ls_range_fn task)
{
    ls_parallel_for(threads_for(j.a, j.images * j.channels * j.inner), j.tasks, task, &j);
}
/* The forward pass; operand k is the residual. */
static void run_forward(const ls_kernel_args *a, int k, ls_range_fn task)
{
    norm j = norm_of(a, &a->in[0]);
    j.residual = present(&a->in[k]) ? &a->in[k] : NULL;
    j.relu = ((const ls_batch_norm_attrs *)a->attrs)->act == LS_ACT_RELU;
    batch_norm_run(j, task);
}
KERNEL(batch_norm) { run_forward(a, 3, norm_task); }
KERNEL(batch_norm_eval) { run_forward(a, 5, eval_task); }
KERNEL(batch_norm_grad)
{
    norm j = norm_of(a, &a->in[1]);
    j.y = present(&a->in[5]) ? &a->in[5] : NULL;
    batch_norm_run(j, grad_task);
}

KERNEL(batch_norm_update)
{ /* running mean, running variance, tracked, mean, variance, apply? */
    if (present(&a->in[5]) && *(const int32_t *)a->in[5].data == 0)
        return;
    const double momentum = ((const ls_batch_norm_update_attrs *)a->attrs)->momentum;
    const float keep = (float)(1 - momentum), take = (float)momentum;
    for (int k = 0; k < 2; k++) {
        float *running = a->out[k].data;
        const float *batch = a->in[3 + k].data;
        for (int64_t c = 0; c < a->in[0].type.dims[0]; c++)
            running[c] = keep * running[c] + take * batch[c];
    }
    ++*(int64_t *)a->out[2].data;
}
