/* cumsum.c - running sums along a dimension, in f32, one after the other. A tensor is seen as [outer, n,
 * inner], n along the dimension: columns of `inner` are vectors. */
#include "tensor_ops.h"
#include "kernel.h"
#include "graph/tensor_attrs.h"

enum { VECTORS = 4 };

typedef struct cumsum_job {
    const ls_kernel_args *a;
    int64_t n, inner, blocks; /* blocks of columns in `inner` */
    bool reverse;
} cumsum_job;

/* Rows of contiguous elements: a vector of them lies in `part` while its sums are made, one after the other.
 */
SIMD_FN void sum_rows(ls_dtype T, const cumsum_job *j, int64_t begin, int64_t end)
{
    const int64_t vectors = (j->n + VF_LANES - 1) / VF_LANES;
    for (int64_t r = begin; r < end; r++) {
        const char *x = elem_at(&j->a->in[0], r * j->n);
        char *y = elem_at(&j->a->out[0], r * j->n);
        float sum = 0.0f, part[VF_LANES];
        for (int64_t s = 0; s < vectors; s++) {
            const int64_t c = (j->reverse ? vectors - 1 - s : s) * VF_LANES;
            const int width = (int)min_i64(VF_LANES, j->n - c);
            vf_store(part, get_padded(T, x, c, width, 0.0f));
            if (j->reverse)
                for (int k = VF_LANES - 1; k >= 0; k--)
                    part[k] = sum += part[k];
            else
                for (int k = 0; k < VF_LANES; k++)
                    part[k] = sum += part[k];
            vf_put_n(y, T, c, vf_load(part), width);
        }
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
