/* positions.c - ops of T5 besides attention: the bias by distance from a table of buckets, and shifting ids
 * by one position. They are small, so they use one thread. */
#include "device/position.h"
#include "table.h"
#include "kernel.h"

KERNEL(shift_right)
{ /* ids -> y */
    const ls_shift_attrs *at = a->attrs;
    const int64_t rows = rows_of(&a->in[0]), n = cols_of(&a->in[0]);
    for (int64_t r = 0; r < rows; r++) {
        const int32_t *ids = (const int32_t *)a->in[0].data + r * n;
        int32_t *y = (int32_t *)a->out[0].data + r * n;
        for (int64_t t = 0; t < n; t++) {
            const int64_t id = t ? ids[t - 1] : at->start;
            y[t] = (int32_t)(id < 0 ? at->pad : id);
        }
    }
}

KERNEL(position_bias)
{ /* table [buckets, H] -> y [H, distances] */
    const ls_position_bias_attrs *at = a->attrs;
    const ls_tensor *table = &a->in[0], *y = &a->out[0];
    const int64_t heads = y->type.dims[0], n = y->type.dims[1];
    for (int64_t d = 0; d < n; d++) {
        const int64_t bucket = ls_position_bucket(at, d - at->queries + 1);
        for (int64_t h = 0; h < heads; h++)
            f_put(y->data, y->type.dtype, h * n + d,
                  f_get(table->data, table->type.dtype, bucket * heads + h));
    }
}

KERNEL_WORKSPACE(position_bias_grad)
{
    return sizeof(double) *
           (size_t)(((const ls_position_bias_attrs *)a->attrs)->buckets * a->in[0].type.dims[0]);
}

KERNEL(position_bias_grad)
{ /* dy -> dtable */
    const ls_position_bias_attrs *at = a->attrs;
    const ls_tensor *dy = &a->in[0], *dtable = &a->out[0];
    const int64_t heads = dy->type.dims[0], n = dy->type.dims[1];
    double *sum = a->workspace;
    memset(sum, 0, sizeof *sum * (size_t)(at->buckets * heads));
    for (int64_t d = 0; d < n; d++) {
        const int64_t bucket = ls_position_bucket(at, d - at->queries + 1);
        for (int64_t h = 0; h < heads; h++)
            sum[bucket * heads + h] += (double)f_get(dy->data, dy->type.dtype, h * n + d);
    }
    for (int64_t i = 0; i < at->buckets * heads; i++)
        f_put(dtable->data, dtable->type.dtype, i, (float)sum[i]);
}
