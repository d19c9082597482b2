/* whole_parameters.c - Muon and Adafactor, which look at whole parameters. A rank has the gradient (Muon: the
 * momentum) of a whole unit, and of the parameters the part p that begins with element `first`: it changes
 * those elements, and skips a matrix of which it has none. Sums have a fixed order, so results do not depend
 * on threads or ranks. */
#include <math.h>

#include "whole_parameters.h"
#include "graph/update_attrs.h"
#include "kernel.h"
#include "level.h"

enum { WHOLE_BLOCK = 4096, COLUMNS = 64 };

SIMD_FN const ls_tensor *given(const ls_kernel_args *a, int i)
{
    return i < a->n_in && present(&a->in[i]) ? &a->in[i] : NULL;
}
SIMD_FN bool passed_over(const ls_kernel_args *a, int i)
{
    return given(a, i) && *(const int32_t *)a->in[i].data == 0;
}

/* ---- Muon */

KERNEL_SUPPORTS(muon_momentum)
{
    return is_float16_or_32(a->in[0].type.dtype) && a->in[1].type.dtype == LS_F32
               ? NULL
               : "momentum is f32, gradients f32, bf16 or f16 (f64 is for device ref)";
}

KERNEL_SUPPORTS(muon)
{
    return a->in[0].type.dtype == LS_F32 ? NULL : "parameters are f32 (f64 is for device ref)";
}

typedef struct momentum_job {
    float *u, *buf;
    const void *g;
    ls_dtype from;
    int64_t n;
    float scale, momentum, part;
    bool scaled;
} momentum_job;

SIMD_FN void momentum_blocks(ls_dtype T, const momentum_job *j, int64_t begin, int64_t end)
{
    const momentum_job o = *j;
    const int64_t stop = min_i64(end * WHOLE_BLOCK, o.n);
    for (int64_t i = begin * WHOLE_BLOCK; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        vf g = vf_get_n(o.g, T, i, n), b = vf_load_n(o.buf + i, n);
        if (o.scaled)
            g *= o.scale;
        b = vf_fma(g - b, vf_set1(o.part), b);
        vf_store_n(o.buf + i, b, n);
        vf_store_n(o.u + i, vf_fma(b - g, vf_set1(o.momentum), g), n);
    }
}

static void momentum_task(void *context, int64_t begin, int64_t end, int worker)
{
    const momentum_job *j = context;
    (void)worker;
    BY_FLOAT(j->from, momentum_blocks, j, begin, end);
}

KERNEL(muon_momentum)
{ /* g, buf, scale?, apply? -> u, buf */
    const ls_tensor *scale = given(a, 2);
    const double momentum = ((const ls_muon_momentum_attrs *)a->attrs)->momentum;
    momentum_job j = { .u = a->out[0].data,
                       .buf = a->out[1].data,
                       .g = a->in[0].data,
                       .from = a->in[0].type.dtype,
                       .n = count_of(&a->in[1]),
                       .scaled = scale != NULL,
                       .scale = scale ? *(const float *)scale->data : 1.0f,
                       .momentum = (float)momentum,
                       .part = (float)(1.0 - momentum) };
    if (passed_over(a, 3))
        memset(j.u, 0, sizeof *j.u * (size_t)j.n); /* nobody reads it, but other ranks may gather it */
    else
        ls_parallel_for(threads_for(a, j.n), (j.n + WHOLE_BLOCK - 1) / WHOLE_BLOCK, momentum_task, &j);
}

/* out = s x + t y */
typedef struct sum_job {
    float *out;
    const float *x, *y;
    float s, t;
    int64_t n;
} sum_job;

static void sum_task(void *context, int64_t begin, int64_t end, int worker)
{
    const sum_job j = *(const sum_job *)context;
    const int64_t stop = min_i64(end * WHOLE_BLOCK, j.n);
    (void)worker;
    for (int64_t i = begin * WHOLE_BLOCK; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        const vf y = vf_load_n(j.y + i, n) * j.t;
        vf_store_n(j.out + i, vf_fma(vf_load_n(j.x + i, n), vf_set1(j.s), y), n);
    }
}

static void sum(const ls_kernel_args *a, int64_t n, float *out, double s, const float *x, double t,
                const float *y)
{
    sum_job j = { out, x, y, (float)s, (float)t, n };
    ls_parallel_for(threads_for(a, n), (n + WHOLE_BLOCK - 1) / WHOLE_BLOCK, sum_task, &j);
}

SIMD_FN ls_tensor flat_matrix(const float *data, int64_t rows, int64_t cols)
{
    const ls_type t = LS_TYPE(LS_F32, rows, cols);
    return ls_tensor_of((float *)(uintptr_t)data, &t);
}

/* out [m, n] = x [m, k] w, where w is [n, k] (row of the table 0: linear) or [k, n] (1: linear_dx); run NULL:
 * only *bytes, of scratch memory, are found */
static void whole_parameters_product(const ls_kernel_args *a, int row, float *out, const float *x,
                                     const float *w, int64_t m, int64_t k, int64_t n, void *scratch,
                                     size_t *bytes)
{
    const ls_kernel *kernel = &LS_NAME(ls_gemm_kernels)[row];
    const ls_tensor none = { .type = { .ndim = -1 } },
                    in[] = { flat_matrix(x, m, k), row ? flat_matrix(w, k, n) : flat_matrix(w, n, k), none,
                             none },
                    y = flat_matrix(out, m, n);
    const ls_linear_attrs attrs = { LS_ACT_NONE };
    const ls_kernel_args args = { .n_in = 4,
                                  .n_out = 1,
                                  .in = in,
                                  .out = &y,
                                  .attrs = &attrs,
                                  .workspace = scratch,
                                  .threads = a->threads,
                                  .arch = a->arch };
    if (bytes)
        *bytes = kernel->workspace(&args);
    else
        kernel->run(&args);
}

SIMD_FN size_t rounded(int64_t floats) { return ((size_t)floats * sizeof(float) + 63) / 64 * 64; }

typedef struct muon_room {
    int64_t m, n; /* the matrix, lying: m <= n */
    float *x, *y, *gram, *square;
    void *scratch;
    size_t bytes;
} muon_room;

static muon_room room_of(const ls_kernel_args *a)
{
    const ls_muon_attrs *o = a->attrs;
    const int64_t m = min_i64(o->rows, o->cols), n = o->rows + o->cols - m;
    char *at = a->workspace;
    muon_room r = { .m = m, .n = n };
    size_t most = 0, bytes[3];
    r.x = (float *)at;
    r.y = (float *)(at + rounded(m * n));
    r.gram = (float *)(at + 2 * rounded(m * n));
    r.square = (float *)(at + 2 * rounded(m * n) + rounded(m * m));
    r.scratch = at + 2 * rounded(m * n) + 2 * rounded(m * m);
    whole_parameters_product(a, 0, NULL, NULL, NULL, m, n, m, NULL, &bytes[0]);
    whole_parameters_product(a, 0, NULL, NULL, NULL, m, m, m, NULL, &bytes[1]);
    whole_parameters_product(a, 1, NULL, NULL, NULL, m, m, n, NULL, &bytes[2]);
    for (int i = 0; i < 3; i++)
        most = bytes[i] > most ? bytes[i] : most;
    r.bytes = 2 * rounded(m * n) + 2 * rounded(m * m) + most;
    return r;
}

KERNEL_WORKSPACE(muon) { return room_of(a).bytes; }

/* The elements of p that are the parameter's: [from, to) of the parameter. */
SIMD_FN bool part_of(const ls_kernel_args *a, int64_t offset, int64_t first, int64_t n, int64_t *from,
                     int64_t *to)
{
    const int64_t begin = first - offset, end = begin + count_of(&a->in[0]);
    *from = begin > 0 ? begin : 0;
    *to = min_i64(end, n);
    return *from < *to;
}

KERNEL(muon)
{ /* p, u, lr, apply? -> p */
    const ls_muon_attrs *o = a->attrs;
    const muon_room r = room_of(a);
    const float *u = (const float *)a->in[1].data + o->offset;
    const double lr = *(const double *)a->in[2].data;
    const bool high = o->rows > o->cols;
    const int64_t m = r.m, n = r.n;
    int64_t from, to;
    double norm = 0;
    if (passed_over(a, 3) || !part_of(a, o->offset, o->first, m * n, &from, &to))
        return;
    for (int64_t k = 0; k < m * n; k++)
        norm += (double)u[k] * (double)u[k];
    const float whole = (float)(1.0 / fmax(sqrt(norm), LS_MUON_EPS));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            r.x[i * n + j] = u[high ? j * m + i : i * n + j] * whole;
    for (int step = 0; step < LS_MUON_STEPS; step++) { /* gram and its square are symmetric */
        whole_parameters_product(a, 0, r.gram, r.x, r.x, m, n, m, r.scratch, NULL);
        whole_parameters_product(a, 0, r.square, r.gram, r.gram, m, m, m, r.scratch, NULL);
        sum(a, m * m, r.gram, LS_MUON_B, r.gram, LS_MUON_C, r.square);
        whole_parameters_product(a, 1, r.y, r.gram, r.x, m, m, n, r.scratch, NULL);
        sum(a, m * n, r.x, LS_MUON_A, r.x, 1, r.y);
    }
    float *p = (float *)a->out[0].data + (o->offset - o->first);
    const float shrink = (float)(1.0 - lr * o->weight_decay), rate = (float)(lr * o->ratio);
    for (int64_t k = from; k < to; k++)
        p[k] = p[k] * shrink - rate * (high ? r.x[k % m * n + k / m] : r.x[k]);
}

/* ---- Adafactor */

KERNEL_SUPPORTS(adafactor)
{
    return a->in[0].type.dtype == LS_F32 && is_float16_or_32(a->in[1].type.dtype)
               ? NULL
               : "parameters and moments are f32, gradients f32, bf16 or f16 (f64 is for device ref)";
}

typedef struct factor_job {
    const ls_adafactor_attrs *o;
    const float *g; /* of the parameter */
    float *row, *col;
    double *sums; /* [batch * rows]: of squared updates */
    float scale, keep, part;
    float *mean; /* [batch]: of the moments of the rows */
} factor_job;

SIMD_FN double square(float g, float scale)
{
    const double x = (double)(g * scale);
    return x * x + LS_ADAFACTOR_EPS;
}

static void row_task(void *context, int64_t begin, int64_t end, int worker)
{
    const factor_job *j = context;
    const int64_t cols = j->o->cols;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        double total = 0;
        for (int64_t k = 0; k < cols; k++)
            total += square(j->g[i * cols + k], j->scale);
        j->row[i] = j->keep * j->row[i] + j->part * (float)(total / (double)cols);
    }
}

/* Columns in blocks: each is added over the rows in their order. */
static void col_task(void *context, int64_t begin, int64_t end, int worker)
{
    const factor_job *j = context;
    const int64_t cols = j->o->cols, rows = j->o->rows, blocks = (cols + COLUMNS - 1) / COLUMNS;
    (void)worker;
    for (int64_t t = begin; t < end; t++) {
        const int64_t b = t / blocks, first = t % blocks * COLUMNS, n = min_i64(COLUMNS, cols - first);
        double total[COLUMNS] = { 0 };
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < n; k++)
                total[k] += square(j->g[(b * rows + i) * cols + first + k], j->scale);
        for (int64_t k = 0; k < n; k++) {
            float *c = &j->col[b * cols + first + k];
            *c = j->keep * *c + j->part * (float)(total[k] / (double)rows);
        }
    }
}

/* The update of element k of the parameter, before it is clipped. */
SIMD_FN float update_at(const factor_job *j, int64_t k)
{
    const int64_t cols = j->o->cols, i = cols ? k / cols : k;
    const float g = j->g[k] * j->scale;
    if (!cols)
        return g / __builtin_sqrtf(j->row[k]);
    const int64_t b = i / j->o->rows;
    return g / __builtin_sqrtf(j->row[i] / j->mean[b]) / __builtin_sqrtf(j->col[b * cols + k % cols]);
}

static void square_task(void *context, int64_t begin, int64_t end, int worker)
{
    const factor_job *j = context;
    const int64_t each = j->o->cols ? j->o->cols : 1;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        double total = 0;
        for (int64_t k = i * each; k < (i + 1) * each; k++) {
            const double u = (double)update_at(j, k);
            total += u * u;
        }
        j->sums[i] = total;
    }
}

KERNEL_WORKSPACE(adafactor)
{
    const ls_adafactor_attrs *o = a->attrs;
    const int64_t n = o->batch * o->rows * (o->cols ? o->cols : 1);
    return sizeof(double) * (size_t)(o->batch * o->rows) + rounded(o->batch) + rounded(n) + 64;
}

/* The gradient of the parameter as f32: where it lies, or widened. */
static const float *wide(const ls_kernel_args *a, int64_t offset, int64_t n, float *room)
{
    const ls_tensor *g = &a->in[1];
    if (g->type.dtype == LS_F32)
        return (const float *)g->data + offset;
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int k = (int)min_i64(VF_LANES, n - i);
        const vf v = g->type.dtype == LS_BF16 ? vf_get_n(g->data, LS_BF16, offset + i, k)
                                              : vf_get_n(g->data, LS_F16, offset + i, k);
        vf_store_n(room + i, v, k);
    }
    return room;
}

static double root_mean_square(const float *x, int64_t n)
{
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += (double)x[i] * (double)x[i];
    return sqrt(total / (double)n);
}

/* The moments of this step, and the root mean square of the update that they give. */
static double second_moments(const ls_kernel_args *a, factor_job *j)
{
    const ls_adafactor_attrs *o = j->o;
    const int64_t lines = o->batch * o->rows, n = lines * (o->cols ? o->cols : 1);
    const int threads = threads_for(a, n);
    double total = 0;
    if (o->cols) {
        ls_parallel_for(threads, lines, row_task, j);
        ls_parallel_for(threads, o->batch * ((o->cols + COLUMNS - 1) / COLUMNS), col_task, j);
        for (int64_t b = 0; b < o->batch; b++) {
            double mean = 0;
            for (int64_t i = 0; i < o->rows; i++)
                mean += (double)j->row[b * o->rows + i];
            j->mean[b] = (float)(mean / (double)o->rows);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            j->row[i] = j->keep * j->row[i] + j->part * (float)square(j->g[i], j->scale);
    }
    ls_parallel_for(threads, lines, square_task, j);
    for (int64_t i = 0; i < lines; i++)
        total += j->sums[i];
    return sqrt(total / (double)n);
}

KERNEL(adafactor)
{ /* p, g, whole p? (absent: p is whole), row, col?, lr, step, scale?, apply? -> p, row, col? */
    const ls_adafactor_attrs *o = a->attrs;
    const int64_t lines = o->batch * o->rows, n = lines * (o->cols ? o->cols : 1);
    const double t = (double)*(const int64_t *)a->in[6].data, part = pow(t, o->decay_rate);
    double rate = *(const double *)a->in[5].data;
    int64_t from, to;
    if (passed_over(a, 8))
        return;
    if (o->relative_step)
        rate = fmin(o->warmup_init ? 1e-6 * t : 1e-2, 1 / sqrt(t));
    if (o->scale_parameter)
        rate *= fmax(o->min_scale,
                     root_mean_square((const float *)a->in[given(a, 2) ? 2 : 0].data + o->offset, n));
    factor_job j = { .o = o,
                     .row = a->out[1].data,
                     .col = o->cols ? a->out[2].data : NULL,
                     .sums = a->workspace,
                     .scale = given(a, 7) ? *(const float *)a->in[7].data : 1.0f,
                     .keep = (float)(1 - part),
                     .part = (float)part };
    j.mean = (float *)(j.sums + lines);
    j.g = wide(a, o->offset, n, j.mean + rounded(o->batch) / sizeof(float));
    const double shrink = fmax(1, second_moments(a, &j) / o->clip_threshold);
    if (!part_of(a, o->offset, o->first, n, &from, &to))
        return; /* the moments are every rank's */
    float *p = (float *)a->out[0].data + (o->offset - o->first);
    const float keep = (float)(1 - o->weight_decay * rate), step = (float)(rate / shrink);
    for (int64_t k = from; k < to; k++)
        p[k] = p[k] * keep - step * update_at(&j, k);
}
