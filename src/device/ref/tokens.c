/* tokens.c - what models of text begin with: rows of a table by number, and positions as rotations. */
#include "ref.h"
#include "device/position.h"

void ls_ref_embedding(const ls_kernel_args *a) /* ids, table -> y */
{
    const int64_t n = ls_type_count(&a->in[0].type), rows = a->in[1].type.dims[0], K = a->in[1].type.dims[1];
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = (int64_t)flat_get(&a->in[0], i), row = id - ls_at_start(a, 0);
        const bool here = row >= 0 && row < rows, elsewhere = id >= 0 && id < ls_at_whole(a, 0, rows);
        for (int64_t k = 0; k < K; k++)
            row_put(ref_row(&a->out[0], i), k,
                    here        ? row_get(ref_row(&a->in[1], row), k)
                    : elsewhere ? 0
                                : (double)NAN);
    }
}

void ls_ref_embedding_grad(const ls_kernel_args *a) /* dy, ids, addend? -> dtable */
{
    const int64_t n = ls_type_count(&a->in[1].type), rows = a->out[0].type.dims[0],
                  K = a->out[0].type.dims[1];
    const int64_t first = ls_at_start(a, 0);
    double *sum = a->workspace; /* [K] */
    for (int64_t v = 0; v < rows; v++) {
        for (int64_t k = 0; k < K; k++)
            sum[k] = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; (int64_t)flat_get(&a->in[1], i) == first + v && k < K; k++)
                sum[k] += row_get(ref_row(&a->in[0], i), k);
        for (int64_t k = 0; k < K; k++) /* the unfused graph stores the sum before it adds */
            row_put(ref_row(&a->out[0], v), k,
                    given(a, 2)
                        ? ls_ref_round(sum[k], a->out[0].type.dtype) + row_get(ref_row(&a->in[2], v), k)
                        : sum[k]);
    }
}

size_t ls_ref_embedding_grad_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)columns(&a->in[0].type);
}

void ls_ref_rope(const ls_kernel_args *a) /* x, positions? -> y; y may be x */
{
    const ls_rope_attrs *at = a->attrs;
    const int64_t rows = ls_type_rows(&a->in[0].type), half = at->head_dim / 2,
                  heads = columns(&a->in[0].type) / at->head_dim;
    for (int64_t r = 0; r < rows; r++) {
        const double position = given(a, 1) ? flat_get(&a->in[1], r)
                                            : (double)(ls_at_start(a, 1) + r % a->in[0].type.dims[1]);
        const ls_ref_row x = ref_row(&a->in[0], r), y = ref_row(&a->out[0], r);
        for (int64_t i = 0; i < half; i++) {
            const double angle = position * ls_rope_frequency(at, i);
            const double c = cos(angle), s = at->inverse ? -sin(angle) : sin(angle);
            for (int64_t h = 0; h < heads; h++) {
                const int64_t k = h * at->head_dim + i;
                const double u = row_get(x, k), v = row_get(x, k + half);
                row_put(y, k, u * c - v * s);
                row_put(y, k + half, v * c + u * s);
            }
        }
    }
}

void ls_ref_shift_right(const ls_kernel_args *a) /* ids -> y */
{
    const ls_shift_attrs *at = a->attrs;
    const int64_t rows = ls_type_rows(&a->in[0].type), T = columns(&a->in[0].type);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t t = 0; t < T; t++) {
            const double id = t ? row_get(ref_row(&a->in[0], r), t - 1) : (double)at->start;
            row_put(ref_row(&a->out[0], r), t, id < 0 ? (double)at->pad : id);
        }
}

void ls_ref_position_bias(const ls_kernel_args *a) /* table -> y */
{
    const ls_position_bias_attrs *at = a->attrs;
    const ls_tensor *table = &a->in[0], *y = &a->out[0];
    for (int64_t h = 0; h < y->type.dims[0]; h++)
        for (int64_t d = 0; d < y->type.dims[1]; d++)
            row_put(ref_row(y, h), d,
                    row_get(ref_row(table, ls_position_bucket(at, d - at->queries + 1)), h));
}

void ls_ref_position_bias_grad(const ls_kernel_args *a) /* dy -> dtable */
{
    const ls_position_bias_attrs *at = a->attrs;
    const ls_tensor *dy = &a->in[0], *dtable = &a->out[0];
    double *sum = a->workspace; /* [buckets] */
    for (int64_t h = 0; h < dy->type.dims[0]; h++) {
        for (int64_t n = 0; n < at->buckets; n++)
            sum[n] = 0;
        for (int64_t d = 0; d < dy->type.dims[1]; d++)
            sum[ls_position_bucket(at, d - at->queries + 1)] += row_get(ref_row(dy, h), d);
        for (int64_t n = 0; n < at->buckets; n++)
            row_put(ref_row(dtable, n), h, sum[n]);
    }
}

size_t ls_ref_position_bias_grad_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * (size_t)((const ls_position_bias_attrs *)a->attrs)->buckets;
}
