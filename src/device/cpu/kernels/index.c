/* index.c - elements and slices by their numbers along a dimension, and sums of those with each number. A
 * tensor is seen as [outer, n, inner], n along the dimension. Threads share the columns of scatter_add, so
 * that each sum is made by one thread, in the order of the numbers. */
#include "tensor_ops.h"
#include "kernel.h"
#include "device/tensor_attrs.h"

enum { COLUMNS = 16 }; /* of a task of scatter_add */

typedef struct index_job {
    const ls_kernel_args *a;
    const int32_t *index;
    int64_t outer, inner, n, size; /* n elements are taken, of a dimension of `size` */
    int64_t blocks;                /* scatter_add: of COLUMNS columns, in `inner` */
    bool slices;                   /* one number for all columns */
    float *sums;                   /* scatter_add: [outer, size, inner] */
} index_job;

static index_job job_of(const ls_kernel_args *a, const ls_tensor *whole, const ls_tensor *taken)
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

/* Rows [begin, end) of [outer * n] rows of the result. */
SIMD_FN void gather_rows(ls_dtype T, const index_job *j, int64_t begin, int64_t end)
{
    const int64_t inner = j->inner;
    const char *x = j->a->in[0].data;
    for (int64_t r = begin; r < end; r++) {
        const int64_t base = r / j->n * j->size;
        char *y = elem_at(&j->a->out[0], r * inner);
        if (!j->slices) {
            for (int64_t k = 0; k < inner; k++) {
                const int64_t i = j->index[r * inner + k];
                if (i >= 0 && i < j->size)
                    memcpy(y + k * elem_size(T), x + ((base + i) * inner + k) * elem_size(T),
                           (size_t)elem_size(T));
                else
                    f_put(y, T, k, __builtin_nanf(""));
            }
            continue;
        }
        const int64_t i = j->index[r % j->n];
        if (i >= 0 && i < j->size)
            memcpy(y, x + (base + i) * inner * elem_size(T), (size_t)(inner * elem_size(T)));
        else
            for (int64_t k = 0; k < inner; k++)
                f_put(y, T, k, __builtin_nanf(""));
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
    index_job j = job_of(a, &a->in[0], &a->out[0]);
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
                          int width)
{
    for (int64_t i = 0; i < j->n; i++)
        for (int k = 0; k < width; k++) {
            const int64_t to = index[i * j->inner + k];
            const bool there = to >= 0 && to < j->size;
            sums[(there ? to : 0) * j->inner + k] += there ? f_get(x, T, i * j->inner + k)
                                                           : __builtin_nanf("");
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
        for (int64_t i = 0; i < j->size; i++)
            memset(sums + i * j->inner, 0, sizeof(float) * (size_t)width);
        if (j->slices)
            add_slices(T, j, x, sums, width);
        else
            add_elements(T, j, x, j->index + from, sums, width);
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
    index_job j = job_of(a, &a->out[0], &a->in[0]);
    j.sums = a->out[0].type.dtype == LS_F32 ? a->out[0].data : a->workspace;
    ls_parallel_for(threads_for(a, count_of(&a->in[0])), j.outer * j.blocks, add_task, &j);
}
