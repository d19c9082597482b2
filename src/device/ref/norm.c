/* norm.c - layer normalisation and root mean square normalisation over the last dimension, and their
 * gradients. */
#include "ref.h"

void ls_ref_layer_norm(const ls_kernel_args *a) /* x, gain, bias -> y, mean, rstd */
{
    const double eps = ((const ls_norm_attrs *)a->attrs)->eps;
    const int64_t rows = ls_type_rows(&a->in[0].type), K = columns(&a->in[0].type);
    const ls_ref_row gain = ref_row(&a->in[1], 0), bias = ref_row(&a->in[2], 0);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[0], r), y = ref_row(&a->out[0], r);
        double mean = 0, variance = 0;
        for (int64_t k = 0; k < K; k++)
            mean += row_get(x, k);
        mean /= (double)K;
        for (int64_t k = 0; k < K; k++)
            variance += (row_get(x, k) - mean) * (row_get(x, k) - mean);
        variance /= (double)K;
        const double rstd = 1 / sqrt(variance + eps);
        for (int64_t k = 0; k < K; k++)
            row_put(y, k, (row_get(x, k) - mean) * rstd * row_get(gain, k) + row_get(bias, k));
        flat_put(&a->out[1], r, mean);
        flat_put(&a->out[2], r, rstd);
    }
}

/* dy, x, gain, mean, rstd, addend? -> dx, dgain, dbias. With xhat = (x - mean) * rstd and h = dy * gain:
 * dx = rstd * (h - mean(h) - xhat * mean(h * xhat)), dgain = sum of dy * xhat, dbias = sum of dy over rows.
 */
void ls_ref_layer_norm_grad(const ls_kernel_args *a)
{
    const int64_t rows = ls_type_rows(&a->in[1].type), K = columns(&a->in[1].type);
    const ls_ref_row gain = ref_row(&a->in[2], 0);
    double *dgain = a->workspace, *dbias = dgain + K; /* [K] each */
    for (int64_t k = 0; k < K; k++)
        dgain[k] = dbias[k] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row dy = ref_row(&a->in[0], r), x = ref_row(&a->in[1], r), dx = ref_row(&a->out[0], r);
        const double mean = flat_get(&a->in[3], r), rstd = flat_get(&a->in[4], r);
        double mean_h = 0, mean_hx = 0;
        for (int64_t k = 0; k < K; k++) {
            const double xhat = (row_get(x, k) - mean) * rstd, h = row_get(dy, k) * row_get(gain, k);
            mean_h += h / (double)K;
            mean_hx += h * xhat / (double)K;
            dgain[k] += row_get(dy, k) * xhat;
            dbias[k] += row_get(dy, k);
        }
        for (int64_t k = 0; k < K; k++) {
            const double xhat = (row_get(x, k) - mean) * rstd, h = row_get(dy, k) * row_get(gain, k);
            double d = rstd * (h - mean_h - xhat * mean_hx);
            if (given(a, 5)) /* the unfused graph stores d before it adds */
                d = ls_ref_round(d, a->out[0].type.dtype) + row_get(ref_row(&a->in[5], r), k);
            row_put(dx, k, d);
        }
    }
    for (int64_t k = 0; k < K; k++) {
        flat_put(&a->out[1], k, dgain[k]);
        flat_put(&a->out[2], k, dbias[k]);
    }
}

size_t ls_ref_layer_norm_grad_workspace(const ls_kernel_args *a)
{
    return 2 * sizeof(double) * (size_t)columns(&a->in[1].type);
}

void ls_ref_rms_norm(const ls_kernel_args *a) /* x, gain -> y, rstd */
{
    const double eps = ((const ls_norm_attrs *)a->attrs)->eps;
    const int64_t rows = ls_type_rows(&a->in[0].type), K = columns(&a->in[0].type);
    const ls_ref_row gain = ref_row(&a->in[1], 0);
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row x = ref_row(&a->in[0], r), y = ref_row(&a->out[0], r);
        double squares = 0;
        for (int64_t k = 0; k < K; k++)
            squares += row_get(x, k) * row_get(x, k);
        const double rstd = 1 / sqrt(squares / (double)K + eps);
        for (int64_t k = 0; k < K; k++)
            row_put(y, k, row_get(x, k) * rstd * row_get(gain, k));
        flat_put(&a->out[1], r, rstd);
    }
}

/* dy, x, gain, rstd, addend? -> dx, dgain. With xhat = x * rstd and h = dy * gain: dx = rstd * (h - xhat *
 * mean(h * xhat)). */
void ls_ref_rms_norm_grad(const ls_kernel_args *a)
{
    const int64_t rows = ls_type_rows(&a->in[1].type), K = columns(&a->in[1].type);
    const ls_ref_row gain = ref_row(&a->in[2], 0);
    double *dgain = a->workspace; /* [K] */
    for (int64_t k = 0; k < K; k++)
        dgain[k] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const ls_ref_row dy = ref_row(&a->in[0], r), x = ref_row(&a->in[1], r), dx = ref_row(&a->out[0], r);
        const double rstd = flat_get(&a->in[3], r);
        double mean_hx = 0;
        for (int64_t k = 0; k < K; k++) {
            const double xhat = row_get(x, k) * rstd;
            mean_hx += row_get(dy, k) * row_get(gain, k) * xhat / (double)K;
            dgain[k] += row_get(dy, k) * xhat;
        }
        for (int64_t k = 0; k < K; k++) {
            double d = rstd * (row_get(dy, k) * row_get(gain, k) - row_get(x, k) * rstd * mean_hx);
            if (given(a, 4)) /* the unfused graph stores d before it adds */
                d = ls_ref_round(d, a->out[0].type.dtype) + row_get(ref_row(&a->in[4], r), k);
            row_put(dx, k, d);
        }
    }
    for (int64_t k = 0; k < K; k++)
        flat_put(&a->out[1], k, dgain[k]);
}

size_t ls_ref_rms_norm_grad_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)columns(&a->in[1].type);
}
