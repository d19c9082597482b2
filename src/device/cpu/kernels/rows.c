/* rows.c - sums of a loss over the rows of a batch, without its padding. There are a few thousand rows: one
 * thread is enough. */
#include "table.h"
#include "kernel.h"
#include "tree_sum.h"

enum { ROW_BLOCK = 64 };

SIMD_FN bool has(const ls_kernel_args *a, int k) { return k < a->n_in && present(&a->in[k]); }

typedef struct row_job {
    const float *weights;
    const int32_t *valid;
    int32_t ignore;
    int64_t n, end; /* rows; those from `end` on are padding */
    float divisor;
} row_job;

static row_job rows_job_of(const ls_kernel_args *a)
{
    const ls_row_sum_attrs *at = a->attrs;
    const int64_t n = count_of(&a->in[0]), here = a->in[0].type.dims[0];
    const bool weighed = has(a, 1), masks = weighed && a->in[1].type.dtype == LS_I32;
    int64_t samples = here;
    if (has(a, 2))
        samples = *(const int32_t *)a->in[2].data * at->each - ls_at_start(a, 0);
    samples = samples < 0 ? 0 : min_i64(samples, here);
    return (row_job){ .weights = weighed && !masks ? a->in[1].data : NULL,
                      .valid = masks ? a->in[1].data : NULL,
                      .ignore = (int32_t)at->ignore_index,
                      .n = n,
                      .end = samples * (n / here),
                      .divisor = has(a, 3) ? *(const float *)a->in[3].data : 1.0f };
}

KERNEL(row_sum)
{
    const row_job j = rows_job_of(a);
    const float *rows = a->in[0].data;
    tree_f64 tree = { .count = 0 };
    for (int64_t r = 0; r < j.end; r += ROW_BLOCK) {
        double block = 0.0;
        for (int64_t i = r; i < min_i64(r + ROW_BLOCK, j.end); i++) {
            if (j.weights)
                block += j.weights[i] == 0.0f ? 0.0 : (double)j.weights[i] * (double)rows[i];
            else if (!j.valid || j.valid[i] != j.ignore)
                block += (double)rows[i];
        }
        tree_f64_add(&tree, block);
    }
    *(float *)a->out[0].data = (float)(tree_f64_total(&tree) / (double)j.divisor);
}

KERNEL(row_sum_grad)
{
    const row_job j = rows_job_of(a);
    const float d = *(const float *)a->in[4].data / j.divisor;
    float *to = a->out[0].data;
    for (int64_t i = 0; i < j.end; i++)
        to[i] = j.weights ? j.weights[i] * d : !j.valid || j.valid[i] != j.ignore ? d : 0.0f;
    memset(to + j.end, 0, sizeof *to * (size_t)(j.n - j.end));
}
