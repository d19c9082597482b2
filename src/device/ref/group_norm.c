/* group_norm.c - group normalisation and its gradient. A sample's group is a run of elements. */
#include "ref.h"
#include "graph/tensor_attrs.h"

typedef struct groups {
    int64_t samples, groups, channels, positions; /* channels of a group */
} groups;

static groups groups_of(const ls_kernel_args *a, const ls_type *x)
{
    groups g = { x->dims[0], 0, ((const ls_group_norm_attrs *)a->attrs)->channels, 1 };
    g.groups = x->dims[1] / g.channels;
    for (int d = 2; d < x->ndim; d++)
        g.positions *= x->dims[d];
    return g;
}

void ls_ref_group_norm(const ls_kernel_args *a) /* x, gain, bias -> y, mean, rstd */
{
    const double eps = ((const ls_group_norm_attrs *)a->attrs)->eps;
    const groups g = groups_of(a, &a->in[0].type);
    const int64_t n = g.channels * g.positions;
    for (int64_t r = 0; r < g.samples * g.groups; r++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += flat_get(&a->in[0], r * n + i) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow(flat_get(&a->in[0], r * n + i) - mean, 2) / (double)n;
        const double rstd = 1 / sqrt(variance + eps);
        flat_put(&a->out[1], r, mean);
        flat_put(&a->out[2], r, rstd);
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = r % g.groups * g.channels + i / g.positions;
            flat_put(&a->out[0], r * n + i,
                     (flat_get(&a->in[0], r * n + i) - mean) * rstd * flat_get(&a->in[1], c) +
                         flat_get(&a->in[2], c));
        }
    }
}

size_t ls_ref_group_norm_grad_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * 2 * (size_t)a->in[1].type.dims[1];
}

void ls_ref_group_norm_grad(const ls_kernel_args *a) /* dy, x, gain, mean, rstd -> dx, dgain, dbias */
{
    const groups g = groups_of(a, &a->in[1].type);
    const int64_t n = g.channels * g.positions, channels = g.groups * g.channels;
    double *dgain = a->workspace, *dbias = dgain + channels;
    for (int64_t c = 0; c < channels; c++)
        dgain[c] = dbias[c] = 0;
    for (int64_t r = 0; r < g.samples * g.groups; r++) {
        const double mean = flat_get(&a->in[3], r), rstd = flat_get(&a->in[4], r);
        double sum = 0, along = 0; /* of h = dy * gain, and of h * xhat */
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = r % g.groups * g.channels + i / g.positions;
            const double dy = flat_get(&a->in[0], r * n + i),
                         xhat = (flat_get(&a->in[1], r * n + i) - mean) * rstd;
            dgain[c] += dy * xhat;
            dbias[c] += dy;
            sum += dy * flat_get(&a->in[2], c);
            along += dy * flat_get(&a->in[2], c) * xhat;
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = r % g.groups * g.channels + i / g.positions;
            const double xhat = (flat_get(&a->in[1], r * n + i) - mean) * rstd;
            flat_put(&a->out[0], r * n + i,
                     rstd * (flat_get(&a->in[0], r * n + i) * flat_get(&a->in[2], c) - sum / (double)n -
                             xhat * along / (double)n));
        }
    }
    for (int64_t c = 0; c < channels; c++) {
        flat_put(&a->out[1], c, dgain[c]);
        flat_put(&a->out[2], c, dbias[c]);
    }
}
