/* groups.c - rows that go to groups: the largest elements of a row, rows sorted by group, copied into that
 * order and added up from it. Numbers of rows are data, so what is not a row is NaN and never read. */
#include "tensor_ops.h"
#include "kernel.h"
#include "graph/tensor_attrs.h"

/* ---- top_k */

/* NaN is larger than all numbers. */
SIMD_FN bool is_larger(float a, float b) { return a > b || (a != a && b == b); }

/* The numbers of the k largest elements so far stay sorted in `best`; of equals the first stays in front. */
SIMD_FN void top_rows(ls_dtype T, const ls_kernel_args *a, int64_t begin, int64_t end)
{
    const int64_t n = cols_of(&a->in[0]), k = cols_of(&a->out[0]);
    for (int64_t i = begin; i < end; i++) {
        const char *x = elem_at(&a->in[0], i * n);
        char *values = elem_at(&a->out[0], i * k);
        int32_t *best = (int32_t *)a->out[1].data + i * k;
        for (int64_t e = 0; e < n; e++) {
            int64_t at = min_i64(e, k);
            for (; at > 0 && is_larger(f_get(x, T, e), f_get(x, T, best[at - 1])); at--)
                if (at < k)
                    best[at] = best[at - 1];
            if (at < k)
                best[at] = (int32_t)e;
        }
        for (int64_t s = 0; s < k; s++)
            memcpy(values + s * elem_size(T), x + best[s] * elem_size(T), (size_t)elem_size(T));
    }
}

static void top_task(void *context, int64_t begin, int64_t end, int worker)
{
    const ls_kernel_args *a = context;
    (void)worker;
    BY_FLOAT(a->in[0].type.dtype, top_rows, a, begin, end);
}

KERNEL(top_k) /* x -> values, numbers */
{
    ls_kernel_args args = *a;
    ls_parallel_for(threads_for(a, count_of(&a->in[0])), rows_of(&a->in[0]), top_task, &args);
}

/* ---- group_order: a counting sort. Rows of no group come last. */

KERNEL(group_order) /* index -> order, place, offsets */
{
    const int32_t *index = a->in[0].data;
    int32_t *order = a->out[0].data, *place = a->out[1].data, *offsets = a->out[2].data;
    const int64_t rows = count_of(&a->out[0]), groups = count_of(&a->out[2]) - 1;
    memset(offsets, 0, sizeof *offsets * (size_t)(groups + 1));
    for (int64_t i = 0; i < rows; i++)
        if (index[i] >= 0 && index[i] < groups)
            offsets[index[i] + 1]++;
    for (int64_t g = 0; g < groups; g++)
        offsets[g + 1] += offsets[g];
    int32_t none = offsets[groups];
    for (int64_t i = 0; i < rows; i++) { /* offsets[g] is where the next row of group g goes */
        int32_t *at = index[i] >= 0 && index[i] < groups ? &offsets[index[i]] : &none;
        order[*at] = (int32_t)i;
        place[i] = (*at)++;
    }
    for (int64_t g = groups - 1; g > 0; g--)
        offsets[g] = offsets[g - 1];
    offsets[0] = 0;
}

KERNEL(received_groups) /* offsets of all ranks -> those here: by rank, then by group */
{
    const ls_received_attrs *r = a->attrs;
    const int32_t *begins = a->in[0].data;
    int32_t *offsets = a->out[0].data;
    const int64_t groups = count_of(&a->out[0]) - 1, own = groups / r->ranks;
    offsets[0] = 0;
    for (int64_t g = 0; g < groups; g++) {
        const int32_t *from = begins + g / own * (groups + 1) + r->position * own + g % own;
        offsets[g + 1] = offsets[g] + from[1] - from[0];
    }
}

/* ---- dispatch, combine */

typedef struct rows_job {
    const ls_kernel_args *a;
    int64_t rows, k, each; /* rows in the order; of a token; elements of a row */
} rows_job;

SIMD_FN bool is_row_of(const rows_job *j, int32_t i) { return i >= 0 && i < j->rows; }

SIMD_FN void dispatch_rows(ls_dtype T, const rows_job *j, int64_t begin, int64_t end)
{
    const int32_t *order = j->a->in[1].data;
    for (int64_t i = begin; i < end; i++) {
        char *y = elem_at(&j->a->out[0], i * j->each);
        if (is_row_of(j, order[i]))
            memcpy(y, elem_at(&j->a->in[0], order[i] / j->k * j->each), (size_t)(j->each * elem_size(T)));
        else
            for (int64_t c = 0; c < j->each; c++)
                f_put(y, T, c, __builtin_nanf(""));
    }
}

/* Adds in the order of a token's rows, 0 to k - 1. */
SIMD_FN void combine_rows(ls_dtype T, const rows_job *j, int64_t begin, int64_t end)
{
    const int32_t *place = j->a->in[2].data;
    for (int64_t i = begin; i < end; i++)
        for (int64_t c = 0; c < j->each; c += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, j->each - c);
            vf sum = vf_zero();
            for (int64_t s = 0; s < j->k; s++) {
                const int32_t from = place[i * j->k + s];
                sum = sum + (is_row_of(j, from) ? get_padded(T, j->a->in[0].data, from * j->each + c, n, 0.0f)
                                                : vf_set1(__builtin_nanf("")));
            }
            vf_put_n(j->a->out[0].data, T, i * j->each + c, sum, n);
        }
}

static void dispatch_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, dispatch_rows, j, begin, end);
}
static void combine_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rows_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, combine_rows, j, begin, end);
}

static rows_job rows_job_of(const ls_kernel_args *a, const ls_tensor *of_tokens)
{
    const int64_t rows = count_of(&a->in[1]), tokens = of_tokens->type.dims[0];
    return (rows_job){ a, rows, rows / tokens, count_of(of_tokens) / tokens };
}

KERNEL(dispatch) /* x, order, place -> y */
{
    rows_job j = rows_job_of(a, &a->in[0]);
    ls_parallel_for(threads_for(a, count_of(&a->out[0])), j.rows, dispatch_task, &j);
}

KERNEL(combine) /* x, order, place -> y */
{
    rows_job j = rows_job_of(a, &a->out[0]);
    ls_parallel_for(threads_for(a, count_of(&a->in[0])), j.rows / j.k, combine_task, &j);
}
