/* batch_norm.c - batch normalisation of x [N, C, ..], its gradient, and the running statistics.
 *
 * An image is taken as one row of C * inner columns, so that vectors are full however small the pictures are (1 x 1 at the end of a ResNet).
 * A task is a few whole channels, about PIECE columns, small enough that the passes over all images after the first find them in the
 * second cache; larger pictures are done in pieces. Statistics of channels are spread to columns once for a piece.
 * Sums: every column over the images in ascending order; then a channel's columns as vectors, whose totals are added in f64. None
 * depends on how channels are cut into tasks. */
#include "table.h"
#include "kernel.h"

enum { PIECE = 1024, MOST = PIECE + 16 };

typedef struct norm {
    const ls_kernel_args *a;
    int64_t images, channels, inner, tasks;
} norm;

static norm norm_of(const ls_kernel_args *a, const ls_tensor *x) {
    norm j = { .a = a, .images = x->type.dims[0], .channels = x->type.dims[1], .inner = 1 };
    for (int d = 2; d < x->type.ndim; d++)
        j.inner *= x->type.dims[d];
    const int64_t each = j.inner < PIECE ? PIECE / j.inner : 1; /* channels of a task, at most */
    j.tasks = (j.channels + each - 1) / each;
    return j;
}

/* Columns at hand: `count` of them from `first` on, of channels c0 .. c1. Either whole channels or a piece of one. */
typedef struct piece { int64_t c0, c1, first, count; } piece;

/* The k-th piece of task t: false when there is none. */
SIMD_FN bool piece_of(const norm *j, int64_t t, int64_t k, piece *p) {
    p->c0 = j->channels * t / j->tasks;
    p->c1 = j->channels * (t + 1) / j->tasks;
    p->first = p->c0 * j->inner + k * PIECE;
    p->count = min_i64(PIECE, p->c1 * j->inner - p->first);
    return p->count > 0;
}

SIMD_FN int lanes_of(int64_t left) { return (int)min_i64(left, VF_LANES); }
#define EACH_VECTOR(i, count) for (int64_t i = 0; i < (count); i += VF_LANES)
SIMD_FN vf column_get(const ls_tensor *t, ls_dtype T, const norm *j, const piece *p, int64_t n, int64_t i) {
    const int64_t at = n * j->channels * j->inner + p->first + i;
    return p->count - i >= VF_LANES ? vf_get(t->data, T, at) : vf_get_n(t->data, T, at, lanes_of(p->count - i));
}
SIMD_FN void column_put(const ls_tensor *t, ls_dtype T, const norm *j, const piece *p, int64_t n, int64_t i, vf v) {
    const int64_t at = n * j->channels * j->inner + p->first + i;
    if (p->count - i >= VF_LANES)
        vf_put(t->data, T, at, v);
    else
        vf_put_n(t->data, T, at, v, lanes_of(p->count - i));
}

/* A number of every channel, for every column of the piece. */
static void spread(float *to, const norm *j, const piece *p, const float *by_channel) {
    if (p->count == PIECE && p->c1 - p->c0 == 1) {
        for (int64_t i = 0; i < p->count; i++)
            to[i] = by_channel[0];
        return;
    }
    for (int64_t i = 0, c = 0; i < p->count; c++)
        for (int64_t k = 0; k < j->inner && i < p->count; k++)
            to[i++] = by_channel[c];
}

/* sums of columns, added to the totals of their channels. */
static void gather(double *by_channel, const norm *j, const piece *p, const float *sums) {
    for (int64_t i = 0, c = 0; i < p->count; c++) {
        const int64_t end = min_i64(p->count, i + j->inner);
        for (; i < end; i += VF_LANES)
            by_channel[c] += (double)vf_sum(vf_load_n(sums + i, lanes_of(end - i)));
        i = end;
    }
}

/* ---- forward --------------------------------------------------------------------------------------------------------------- */

/* y = (x - mean) * scale + bias for the channels of a task. */
SIMD_FN void apply(ls_dtype T, const norm *j, int64_t task, const float *mean, const float *scale, const float *bias) {
    float m[MOST], s[MOST], b[MOST];
    piece p;
    for (int64_t k = 0; piece_of(j, task, k, &p); k++) {
        spread(m, j, &p, mean);
        spread(s, j, &p, scale);
        spread(b, j, &p, bias);
        for (int64_t n = 0; n < j->images; n++)
            EACH_VECTOR(i, p.count)
                column_put(&j->a->out[0], T, j, &p, n, i,
                           vf_fma(column_get(&j->a->in[0], T, j, &p, n, i) - vf_load(m + i), vf_load(s + i), vf_load(b + i)));
    }
}

/* Sums over x - center and its square; a channel's numbers are added to `sum` and `squares`. */
SIMD_FN void moments(ls_dtype T, const norm *j, int64_t task, const float *center, double *sum, double *squares) {
    float m[MOST], s[MOST], q[MOST];
    piece p;
    for (int64_t k = 0; piece_of(j, task, k, &p); k++) {
        spread(m, j, &p, center);
        memset(s, 0, sizeof s);
        memset(q, 0, sizeof q);
        for (int64_t n = 0; n < j->images; n++)
            EACH_VECTOR(i, p.count) {
                const vf d = column_get(&j->a->in[0], T, j, &p, n, i) - vf_load(m + i);
                vf_store(s + i, vf_load(s + i) + d);
                vf_store(q + i, vf_fma(d, d, vf_load(q + i)));
            }
        gather(sum, j, &p, s);
        gather(squares, j, &p, q);
    }
}

SIMD_FN void norm_tasks(ls_dtype T, const norm *j, int64_t begin, int64_t end) {
    const ls_kernel_args *a = j->a;
    const double eps = ((const ls_norm_attrs *)a->attrs)->eps, values = (double)(j->images * j->inner);
    for (int64_t t = begin; t < end; t++) {
        const int64_t c0 = j->channels * t / j->tasks, n = j->channels * (t + 1) / j->tasks - c0;
        float *mean = (float *)a->out[1].data + c0, *rstd = (float *)a->out[2].data + c0, *variance = (float *)a->out[3].data + c0;
        float scale[PIECE] = { 0 }, bias[PIECE];
        double sum[PIECE] = { 0 }, squares[PIECE] = { 0 };
        moments(T, j, t, scale, sum, squares); /* around 0 */
        for (int64_t c = 0; c < n; c++) {
            mean[c] = (float)(sum[c] / values);
            sum[c] = squares[c] = 0;
        }
        moments(T, j, t, mean, sum, squares);
        for (int64_t c = 0; c < n; c++) {
            const double all = squares[c] - sum[c] * sum[c] / values; /* the mean was rounded */
            rstd[c] = (float)(1 / __builtin_sqrt(all / values + eps));
            variance[c] = (float)(all / (values - 1));
            scale[c] = rstd[c] * f_get(a->in[1].data, T, c0 + c);
            bias[c] = f_get(a->in[2].data, T, c0 + c);
        }
        apply(T, j, t, mean, scale, bias);
    }
}

SIMD_FN void eval_tasks(ls_dtype T, const norm *j, int64_t begin, int64_t end) {
    const ls_kernel_args *a = j->a;
    const double eps = ((const ls_norm_attrs *)a->attrs)->eps;
    for (int64_t t = begin; t < end; t++) {
        const int64_t c0 = j->channels * t / j->tasks, n = j->channels * (t + 1) / j->tasks - c0;
        const float *mean = (const float *)a->in[3].data + c0, *variance = (const float *)a->in[4].data + c0;
        float scale[PIECE], bias[PIECE];
        for (int64_t c = 0; c < n; c++) {
            scale[c] = (float)((double)f_get(a->in[1].data, T, c0 + c) / __builtin_sqrt((double)variance[c] + eps));
            bias[c] = f_get(a->in[2].data, T, c0 + c);
        }
        apply(T, j, t, mean, scale, bias);
    }
}

/* ---- gradient -------------------------------------------------------------------------------------------------------------- */

/* Sums of dy and dy * (x - mean). */
SIMD_FN void grad_sums(ls_dtype T, const norm *j, int64_t task, const float *mean, double *sum, double *product) {
    float m[MOST], s[MOST], q[MOST];
    piece p;
    for (int64_t k = 0; piece_of(j, task, k, &p); k++) {
        spread(m, j, &p, mean);
        memset(s, 0, sizeof s);
        memset(q, 0, sizeof q);
        for (int64_t n = 0; n < j->images; n++)
            EACH_VECTOR(i, p.count) {
                const vf dy = column_get(&j->a->in[0], T, j, &p, n, i);
                vf_store(s + i, vf_load(s + i) + dy);
                vf_store(q + i, vf_fma(dy, column_get(&j->a->in[1], T, j, &p, n, i) - vf_load(m + i), vf_load(q + i)));
            }
        gather(sum, j, &p, s);
        gather(product, j, &p, q);
    }
}

SIMD_FN void grad_tasks(ls_dtype T, const norm *j, int64_t begin, int64_t end) {
    const ls_kernel_args *a = j->a;
    const double values = (double)(j->images * j->inner);
    for (int64_t t = begin; t < end; t++) {
        const int64_t c0 = j->channels * t / j->tasks, count = j->channels * (t + 1) / j->tasks - c0;
        const float *mean = (const float *)a->in[3].data + c0, *rstd = (const float *)a->in[4].data + c0;
        float scale[PIECE], shift[PIECE], slope[PIECE];
        double sum[PIECE] = { 0 }, product[PIECE] = { 0 };
        grad_sums(T, j, t, mean, sum, product);
        for (int64_t c = 0; c < count; c++) {
            const double r = (double)rstd[c];
            f_put(a->out[1].data, T, c0 + c, (float)(product[c] * r));
            f_put(a->out[2].data, T, c0 + c, (float)sum[c]);
            scale[c] = (float)(r * (double)f_get(a->in[2].data, T, c0 + c));
            shift[c] = (float)(sum[c] / values);
            slope[c] = (float)(product[c] * r * r / values);
        }
        float m[MOST], s[MOST], b[MOST], g[MOST]; /* dx = (dy - shift - (x - mean) * slope) * scale */
        piece p;
        for (int64_t k = 0; piece_of(j, t, k, &p); k++) {
            spread(m, j, &p, mean);
            spread(s, j, &p, scale);
            spread(b, j, &p, shift);
            spread(g, j, &p, slope);
            for (int64_t n = 0; n < j->images; n++)
                EACH_VECTOR(i, p.count) {
                    const vf d = column_get(&a->in[1], T, j, &p, n, i) - vf_load(m + i);
                    const vf h = column_get(&a->in[0], T, j, &p, n, i) - vf_load(b + i);
                    column_put(&a->out[0], T, j, &p, n, i, vf_fnma(d, vf_load(g + i), h) * vf_load(s + i));
                }
        }
    }
}

#define TASK(name, body)                                                       \
    static void name(void *context, int64_t begin, int64_t end, int worker) {  \
        const norm *j = context;                                               \
        (void)worker;                                                          \
        BY_FLOAT(j->a->in[0].type.dtype, body, j, begin, end);                 \
    }
TASK(norm_task, norm_tasks)
TASK(eval_task, eval_tasks)
TASK(grad_task, grad_tasks)

static void run(const ls_kernel_args *a, const ls_tensor *x, ls_range_fn task) {
    norm j = norm_of(a, x);
    ls_parallel_for(threads_for(a, count_of(x)), j.tasks, task, &j);
}
KERNEL(batch_norm) { run(a, &a->in[0], norm_task); }
KERNEL(batch_norm_eval) { run(a, &a->in[0], eval_task); }
KERNEL(batch_norm_grad) { run(a, &a->in[1], grad_task); }

KERNEL(batch_norm_update) { /* running mean, running variance, tracked, mean, variance, apply? */
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
