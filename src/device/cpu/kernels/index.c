/* index.c - elements and slices by their numbers along a dimension, and sums of those with each number. A
 * tensor is seen as [outer, n, inner], n along the dimension. Threads share the columns of scatter_add, so
 * that each sum is made by one thread, in the order of the numbers. */
#include "tensor_ops.h"
#include "kernel.h"
#include "graph/tensor_attrs.h"

enum { COLUMNS = 16 }; /* of a task of scatter_add */

typedef struct index_job {
    const ls_kernel_args *a;
    const int32_t *index;
    int64_t outer, inner, n, size; /* n elements are taken, of a dimension of `size` */
    int64_t blocks;                /* scatter_add: of COLUMNS columns, in `inner` */
    bool slices;                   /* one number for all columns */
    float *sums;                   /* scatter_add: [outer, size, inner] */
} index_job;

static index_job index_job_of(const ls_kernel_args *a, const ls_tensor *whole, const ls_tensor *taken)
{
    const ls_type *t = &whole->type;
    const int64_t dim = ((const ls_index_attrs *)a->attrs)->dim;
    index_job j = { .a = a, .index = a->in[1].data, .outer = 1, .inner = 1, .size = t->dims[dim] };
    for (int d = 0; d < dim; d++)
        j.outer *= t->dims[d];
    for (int d = (int)dim + 1; d < t->ndim; d++)
        j.inner *= t->dims[d];
    j.n = taken->type.dims[dim];
    j.slices = a->in[1].type.ndim == 1 && t->ndim > 1;
    j.blocks = (j.inner + COLUMNS - 1) / COLUMNS;
    return j;
}

/* `count` elements of the result, from rows `base` and on of x: of one row, or of rows of one element. */
SIMD_FN void gather_elements(ls_dtype T, const index_job *j, const int32_t *index, int64_t base,
                             int64_t inner, int64_t count, char *y)
{
    const char *x = (const char *)j->a->in[0].data + base * inner * elem_size(T);
    const int64_t size = j->size;
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = index[k];
        if (i >= 0 && i < size)
            memcpy(y + k * elem_size(T), x + (inner == 1 ? i : i * inner + k) * elem_size(T),
                   (size_t)elem_size(T));
        else
            f_put(y, T, k, __builtin_nanf(""));
    }
}

SIMD_FN void gather_slice(ls_dtype T, const index_job *j, int64_t i, int64_t base, char *y)
{
    const char *x = j->a->in[0].data;
    if (i >= 0 && i < j->size)
        memcpy(y, x + (base + i) * j->inner * elem_size(T), (size_t)(j->inner * elem_size(T)));
    else
        for (int64_t k = 0; k < j->inner; k++)
            f_put(y, T, k, __builtin_nanf(""));
}

/* Rows [begin, end) of [outer * n] rows of the result. */
SIMD_FN void gather_rows(ls_dtype T, const index_job *j, int64_t begin, int64_t end)
{
    const int64_t inner = j->inner;
    int64_t o = begin / j->n, row = begin % j->n;
    for (int64_t r = begin, n; r < end; r += n, row = 0, o++) { /* n rows of slice o of the result */
        n = min_i64(end - r, j->n - row);
        const int64_t base = o * j->size;
        if (!j->slices && inner == 1)
            gather_elements(T, j, j->index + r, base, 1, n, elem_at(&j->a->out[0], r));
        for (int64_t i = 0; i < n && (j->slices || inner > 1); i++) {
            char *y = elem_at(&j->a->out[0], (r + i) * inner);
            if (j->slices)
                gather_slice(T, j, j->index[row + i], base, y);
            else
                gather_elements(T, j, j->index + (r + i) * inner, base, inner, inner, y);
        }
    }
}

static void gather_task(void *context, int64_t begin, int64_t end, int worker)
{
    const index_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, gather_rows, j, begin, end);
}

KERNEL(gather) /* a, index -> y */
{
    index_job j = index_job_of(a, &a->in[0], &a->out[0]);
    ls_parallel_for(threads_for(a, count_of(&a->out[0])), j.outer * j.n, gather_task, &j);
}

/* Adds columns [k, k + width) of n rows, each to the row with its number; NaN to row 0 if there is none. */
SIMD_FN void add_slices(ls_dtype T, const index_job *j, const char *x, float *sums, int width)
{
    for (int64_t i = 0; i < j->n; i++) {
        const int64_t to = j->index[i];
        const bool there = to >= 0 && to < j->size;
        float *row = sums + (there ? to : 0) * j->inner;
        for (int k = 0; k < width; k += VF_LANES) {
            const int lanes = (int)min_i64(VF_LANES, width - k);
            const vf add = there ? get_padded(T, x, i * j->inner + k, lanes, 0.0f)
                                 : vf_set1(__builtin_nanf(""));
            vf_store_n(row + k, vf_load_n(row + k, lanes) + add, lanes);
        }
    }
}

SIMD_FN void add_elements(ls_dtype T, const index_job *j, const char *x, const int32_t *index, float *sums,
                          int64_t inner, int width)
{
    for (int64_t i = 0; i < j->n; i++)
        for (int k = 0; k < width; k++) {
            const int64_t to = index[i * inner + k];
            if (to >= 0 && to < j->size)
                sums[to * inner + k] += f_get(x, T, i * inner + k);
            else
                sums[k] = __builtin_nanf("");
        }
}

SIMD_FN void add_blocks(ls_dtype T, const index_job *j, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end; b++) {
        const int64_t o = b / j->blocks, k = b % j->blocks * COLUMNS, to = o * j->size * j->inner + k,
                      from = o * j->n * j->inner + k;
        const int width = (int)min_i64(COLUMNS, j->inner - k);
        const char *x = elem_at(&j->a->in[0], from);
        float *sums = j->sums + to;
        const bool all = width == j->inner;
        for (int64_t i = 0; i < (all ? 1 : j->size); i++)
            memset(sums + i * j->inner, 0, sizeof(float) * (size_t)(all ? j->size * width : width));
        if (j->slices)
            add_slices(T, j, x, sums, width);
        else if (j->inner == 1)
            add_elements(T, j, x, j->index + from, sums, 1, 1);
        else
            add_elements(T, j, x, j->index + from, sums, j->inner, width);
        if (T == LS_F32)
            continue;
        for (int64_t i = 0; i < j->size; i++)
            for (int c = 0; c < width; c++)
                f_put(j->a->out[0].data, T, to + i * j->inner + c, sums[i * j->inner + c]);
    }
}

static void add_task(void *context, int64_t begin, int64_t end, int worker)
{
    const index_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, add_blocks, j, begin, end);
}

KERNEL_WORKSPACE(scatter_add)
{
    return a->out[0].type.dtype == LS_F32 ? 0 : sizeof(float) * (size_t)count_of(&a->out[0]);
}

KERNEL(scatter_add) /* x, index -> y */
{
    index_job j = index_job_of(a, &a->out[0], &a->in[0]);
    j.sums = a->out[0].type.dtype == LS_F32 ? a->out[0].data : a->workspace;
    ls_parallel_for(threads_for(a, count_of(&a->in[0])), j.outer * j.blocks, add_task, &j);
}
