/* whole_parameters.c - Muon and Adafactor, which look at whole parameters. A rank has the gradient (Muon: the
 * momentum) of a whole unit, and of the parameters the part p that begins with element `first`. */
#include <math.h>
#include <string.h>

#include "graph/update_attrs.h"
#include "ref.h"

static bool skipped(const ls_kernel_args *a, int apply)
{
    return given(a, apply) && scalar_get(&a->in[apply]) == 0;
}

/* g, buf, scale?, apply? -> u, buf: buf += (1 - momentum) (g - buf), u = g + momentum (buf - g) */
void ls_ref_muon_momentum(const ls_kernel_args *a)
{
    const double momentum = ((const ls_muon_momentum_attrs *)a->attrs)->momentum;
    for (int64_t i = 0; i < ls_type_count(&a->in[1].type); i++) {
        double g = flat_get(&a->in[0], i), buf = flat_get(&a->in[1], i);
        if (given(a, 2))
            g = ls_ref_round(g * scalar_get(&a->in[2]), a->in[1].type.dtype);
        buf += (1 - momentum) * (g - buf);
        flat_put(&a->out[0], i, skipped(a, 3) ? 0 : g + momentum * (buf - g));
        if (!skipped(a, 3))
            flat_put(&a->out[1], i, buf);
    }
}

size_t ls_ref_muon_workspace(const ls_kernel_args *a)
{
    const ls_muon_attrs *o = a->attrs;
    const int64_t m = o->rows < o->cols ? o->rows : o->cols;
    return sizeof(double) * (size_t)(2 * o->rows * o->cols + 2 * m * m);
}

/* y [m, n] = a [m, k] b, where b is [k, n], or [n, k] if it is transposed */
static void ref_whole_parameters_product(double *y, const double *a, const double *b, int64_t m, int64_t k,
                                         int64_t n, bool transposed)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * k + l] * (transposed ? b[j * k + l] : b[l * n + j]);
            y[i * n + j] = sum;
        }
}

/* p, u, lr, apply? -> p. torch.optim.Muon, which computes the iteration in bf16. */
void ls_ref_muon(const ls_kernel_args *a)
{
    const ls_muon_attrs *o = a->attrs;
    const bool high = o->rows > o->cols;
    const int64_t m = high ? o->cols : o->rows, n = high ? o->rows : o->cols;
    double *x = a->workspace, *y = x + m * n, *gram = y + m * n, *square = gram + m * m, norm = 0;
    const double lr = scalar_get(&a->in[2]);
    if (skipped(a, 3))
        return;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            x[i * n + j] = flat_get(&a->in[1], o->offset + (high ? j * m + i : i * n + j));
            norm += x[i * n + j] * x[i * n + j];
        }
    for (int64_t i = 0; i < m * n; i++)
        x[i] /= fmax(sqrt(norm), LS_MUON_EPS);
    for (int step = 0; step < LS_MUON_STEPS; step++) {
        ref_whole_parameters_product(gram, x, x, m, n, m, true);
        ref_whole_parameters_product(square, gram, gram, m, m, m, true);
        for (int64_t i = 0; i < m * m; i++)
            gram[i] = LS_MUON_B * gram[i] + LS_MUON_C * square[i];
        ref_whole_parameters_product(y, gram, x, m, m, n, false);
        for (int64_t i = 0; i < m * n; i++)
            x[i] = LS_MUON_A * x[i] + y[i];
    }
    for (int64_t k = 0; k < m * n; k++) {
        const int64_t at = o->offset + k - o->first;
        if (at < 0 || at >= ls_type_count(&a->in[0].type))
            continue;
        const double p = flat_get(&a->in[0], at) * (1 - lr * o->weight_decay);
        flat_put(&a->out[0], at, p - lr * o->ratio * (high ? x[k % m * n + k / m] : x[k]));
    }
}

size_t ls_ref_adafactor_workspace(const ls_kernel_args *a)
{
    const ls_adafactor_attrs *o = a->attrs;
    return sizeof(double) * (size_t)(o->batch * o->rows * (o->cols ? o->cols : 1));
}

/* g[k] of the parameter, times the scale */
static double gradient(const ls_kernel_args *a, int64_t k)
{
    const ls_adafactor_attrs *o = a->attrs;
    const double g = flat_get(&a->in[1], o->offset + k);
    return given(a, 7) ? ls_ref_round(g * scalar_get(&a->in[7]), a->in[0].type.dtype) : g;
}

static double rms(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)n);
}

/* A moment: keep * itself + (1 - keep) * what is new. Returns it. */
static double moved(const ls_tensor *from, const ls_tensor *to, int64_t i, double keep, double now)
{
    flat_put(to, i, keep * flat_get(from, i) + (1 - keep) * now);
    return flat_get(to, i);
}

/* The update of one matrix, number b, before it is clipped: u [rows, cols]. */
static void matrix(const ls_kernel_args *a, int64_t b, double keep, double *u)
{
    const ls_adafactor_attrs *o = a->attrs;
    const int64_t rows = o->rows, cols = o->cols, begin = b * rows * cols;
    double mean = 0;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < cols; j++)
            sum += pow(gradient(a, begin + i * cols + j), 2) + LS_ADAFACTOR_EPS;
        mean += moved(&a->in[3], &a->out[1], b * rows + i, keep, sum / (double)cols) / (double)rows;
    }
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += pow(gradient(a, begin + i * cols + j), 2) + LS_ADAFACTOR_EPS;
        moved(&a->in[4], &a->out[2], b * cols + j, keep, sum / (double)rows);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            u[i * cols + j] = gradient(a, begin + i * cols + j) /
                              sqrt(flat_get(&a->out[1], b * rows + i) / mean) /
                              sqrt(flat_get(&a->out[2], b * cols + j));
}

/* p, g, whole p? (absent: p is whole), row, col?, lr, step, scale?, apply? -> p, row, col?. Adafactor of
 * transformers without beta1. */
void ls_ref_adafactor(const ls_kernel_args *a)
{
    const ls_adafactor_attrs *o = a->attrs;
    const int64_t size = o->rows * (o->cols ? o->cols : 1), n = o->batch * size;
    const double t = scalar_get(&a->in[6]), keep = 1 - pow(t, o->decay_rate);
    double *u = a->workspace, rate = scalar_get(&a->in[5]);
    if (skipped(a, 8))
        return;
    if (o->relative_step)
        rate = fmin(o->warmup_init ? 1e-6 * t : 1e-2, 1 / sqrt(t));
    if (o->scale_parameter) {
        for (int64_t i = 0; i < n; i++)
            u[i] = flat_get(&a->in[given(a, 2) ? 2 : 0], o->offset + i);
        rate *= fmax(o->min_scale, rms(u, n));
    }
    for (int64_t b = 0; b < o->batch && o->cols; b++)
        matrix(a, b, keep, u + b * size);
    for (int64_t i = 0; i < n && !o->cols; i++) {
        const double g = gradient(a, i);
        u[i] = g / sqrt(moved(&a->in[3], &a->out[1], i, keep, g * g + LS_ADAFACTOR_EPS));
    }
    const double shrink = fmax(1, rms(u, n) / o->clip_threshold);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = o->offset + i - o->first;
        if (at < 0 || at >= ls_type_count(&a->in[0].type))
            continue;
        const double p = flat_get(&a->in[0], at);
        flat_put(&a->out[0], at, p * (1 - o->weight_decay * rate) - rate / shrink * u[i]);
    }
}
