/* cumsum.c - running sums along a dimension, in f32, one after the other. A tensor is seen as [outer, n,
 * inner], n along the dimension: columns of `inner` are vectors; where inner is 1, several rows run together,
 * because each sum waits for the one before it. */
#include "tensor_ops.h"
#include "kernel.h"
#include "device/tensor_attrs.h"

enum { ROWS = 8, VECTORS = 4 };

typedef struct cumsum_job {
    const ls_kernel_args *a;
    int64_t n, inner, blocks; /* blocks of columns in `inner` */
    bool reverse;
} cumsum_job;

/* Elements x[at], x[at + step], .. of up to ROWS rows that are n apart. */
SIMD_FN void row_group(ls_dtype T, const cumsum_job *j, int64_t row, int rows)
{
    const char *x = elem_at(&j->a->in[0], row * j->n);
    char *y = elem_at(&j->a->out[0], row * j->n);
    float sum[ROWS] = { 0 };
    for (int64_t s = 0; s < j->n; s++) {
        const int64_t i = j->reverse ? j->n - 1 - s : s;
        for (int r = 0; r < rows; r++) {
            sum[r] += f_get(x, T, r * j->n + i);
            f_put(y, T, r * j->n + i, sum[r]);
        }
    }
}

SIMD_FN void sum_rows(ls_dtype T, const cumsum_job *j, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end;) {
        const int rows = (int)min_i64(ROWS, end - r);
        if (rows == ROWS)
            row_group(T, j, r, ROWS);
        else
            row_group(T, j, r, rows);
        r += rows;
    }
}

/* Block b % blocks of the columns of slice b / blocks. */
SIMD_FN void sum_columns(ls_dtype T, const cumsum_job *j, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end; b++) {
        const int64_t first = b % j->blocks * VECTORS * VF_LANES, base = b / j->blocks * j->n * j->inner;
        vf sum[VECTORS] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
        for (int64_t s = 0; s < j->n; s++) {
            const int64_t row = base + (j->reverse ? j->n - 1 - s : s) * j->inner;
            for (int v = 0; v < VECTORS && first + v * VF_LANES < j->inner; v++) {
                const int64_t c = first + v * VF_LANES;
                const int width = (int)min_i64(VF_LANES, j->inner - c);
                sum[v] += get_padded(T, j->a->in[0].data, row + c, width, 0.0f);
                vf_put_n(j->a->out[0].data, T, row + c, sum[v], width);
            }
        }
    }
}

static void row_task(void *context, int64_t begin, int64_t end, int worker)
{
    const cumsum_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, sum_rows, j, begin, end);
}

static void column_task(void *context, int64_t begin, int64_t end, int worker)
{
    const cumsum_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->in[0].type.dtype, sum_columns, j, begin, end);
}

KERNEL(cumsum)
{
    const ls_cumsum_attrs *at = a->attrs;
    const ls_type *t = &a->in[0].type;
    cumsum_job j = { .a = a, .n = t->dims[at->dim], .inner = 1, .reverse = at->reverse };
    for (int d = (int)at->dim + 1; d < t->ndim; d++)
        j.inner *= t->dims[d];
    j.blocks = (j.inner + VECTORS * VF_LANES - 1) / (VECTORS * VF_LANES);
    const int64_t count = count_of(&a->in[0]), outer = count / (j.n * j.inner);
    ls_parallel_for(threads_for(a, count), outer * j.blocks, j.inner == 1 ? row_task : column_task, &j);
}
