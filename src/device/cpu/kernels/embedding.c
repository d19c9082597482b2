/* embedding.c - rows of a table by number, and the gradient of the table.
 *
 * For the gradient, the positions are sorted by their ids with a stable sort. So the positions that read one
 * row follow each other in order, and the row is their sum, one after the other, whatever the threads.
 * Threads share rows of the table. An id without a row gives NaN in the forward pass, which stops the run
 * with this op's name; it has no gradient. */
#include "table.h"
#include "kernel.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, BLOCK_ROWS = 64 };

typedef struct embedding_job {
    const ls_kernel_args *a;
    const int32_t *ids;
    int64_t n, rows, k, first; /* number of ids; the table's rows and columns; the number of its first row */
    int32_t *order; /* gradient: positions sorted by (id, position), without ids that have no row */
    int64_t ordered;
} embedding_job;

SIMD_FN void gather_rows(ls_dtype T, const embedding_job *j, int64_t begin, int64_t end)
{
    const ls_tensor *table = &j->a->in[1], *out = &j->a->out[0];
    const int64_t from = row_stride(table), to = row_stride(out), of = ls_at_whole(j->a, 0, j->rows);
    for (int64_t i = begin; i < end; i++) {
        char *y = elem_at(out, i * to);
        const int64_t row = j->ids[i] - j->first;
        if (row >= 0 && row < j->rows)
            memcpy(y, elem_at(table, row * from), (size_t)(j->k * elem_size(T)));
        else if (j->ids[i] >= 0 && j->ids[i] < of)
            memset(y, 0, (size_t)(j->k * elem_size(T)));
        else
            for (int64_t c = 0; c < j->k; c++)
                f_put(y, T, c, __builtin_nanf(""));
    }
}

static void gather_task(void *context, int64_t begin, int64_t end, int worker)
{
    const embedding_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, gather_rows, j, begin, end);
}

KERNEL(embedding)
{ /* ids, table -> rows */
    embedding_job j = { .a = a,
                        .ids = a->in[0].data,
                        .n = count_of(&a->in[0]),
                        .rows = a->in[1].type.dims[0],
                        .k = cols_of(&a->in[1]),
                        .first = ls_at_start(a, 0) };
    ls_parallel_for(threads_for(a, j.n * j.k), j.n, gather_task, &j);
}

/* ---- gradient */

static int64_t row_at(const embedding_job *j, int32_t place) { return j->ids[place] - j->first; }

/* One pass of a stable radix sort, by DIGIT_BITS bits of the row number. */
static void sort_digit(const embedding_job *j, const int32_t *from, int32_t *to, int shift)
{
    int64_t at[DIGITS] = { 0 }, sum = 0;
    for (int64_t i = 0; i < j->ordered; i++)
        at[row_at(j, from[i]) >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
        const int64_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < j->ordered; i++)
        to[at[row_at(j, from[i]) >> shift & (DIGITS - 1)]++] = from[i];
}

static void sort_places(embedding_job *j, int32_t *order, int32_t *other)
{
    j->ordered = 0;
    for (int64_t i = 0; i < j->n; i++)
        if (row_at(j, (int32_t)i) >= 0 && row_at(j, (int32_t)i) < j->rows)
            order[j->ordered++] = (int32_t)i;
    for (int shift = 0; shift < 31 && (j->rows - 1) >> shift; shift += DIGIT_BITS) {
        sort_digit(j, order, other, shift);
        int32_t *t = order;
        order = other;
        other = t;
    }
    j->order = order;
}

/* The first index in the order whose position reads `row` or a later row. */
static int64_t first_of(const embedding_job *j, int64_t row)
{
    int64_t low = 0, high = j->ordered;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (row_at(j, j->order[middle]) < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Writes row `to`: the sum of dy at the positions [from, stop) of the order, plus the addend. */
SIMD_FN void sum_row(ls_dtype T, const embedding_job *j, char *to, const char *addend, int64_t from,
                     int64_t stop)
{
    const ls_tensor *dy = &j->a->in[0];
    const int64_t stride = row_stride(dy);
    for (int64_t c = 0; c < j->k; c += 4 * VF_LANES) {
        vf sum[4] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
        int width[4];
        for (int v = 0; v < 4; v++) {
            const int64_t left = j->k - c - v * VF_LANES;
            width[v] = left <= 0 ? 0 : (int)min_i64(left, VF_LANES);
        }
        for (int64_t i = from; i < stop; i++) {
            const char *x = elem_at(dy, j->order[i] * stride);
            for (int v = 0; v < 4 && width[v]; v++)
                sum[v] += get_padded(T, x, c + v * VF_LANES, width[v], 0.0f);
        }
        for (int v = 0; v < 4 && width[v]; v++) {
            if (addend)
                sum[v] = vf_round_to(sum[v], T) + get_padded(T, addend, c + v * VF_LANES, width[v], 0.0f);
            vf_put_n(to, T, c + v * VF_LANES, sum[v], width[v]);
        }
    }
}

SIMD_FN void table_blocks(ls_dtype T, const embedding_job *j, int64_t begin, int64_t end)
{
    const ls_kernel_args *a = j->a;
    const char *addend = a->n_in > 2 && present(&a->in[2]) ? a->in[2].data : NULL;
    const size_t bytes = (size_t)(j->k * elem_size(T));
    for (int64_t b = begin; b < end; b++) {
        const int64_t row = b * BLOCK_ROWS, stop = min_i64(row + BLOCK_ROWS, j->rows);
        int64_t i = first_of(j, row);
        for (int64_t r = row; r < stop; r++) {
            const int64_t first = i;
            while (i < j->ordered && row_at(j, j->order[i]) == r)
                i++;
            char *to = elem_at(&a->out[0], r * j->k);
            const char *add = addend ? addend + (size_t)r * bytes : NULL;
            if (i > first)
                sum_row(T, j, to, add, first, i);
            else if (!add)
                memset(to, 0, bytes);
            else if (add != to)
                memcpy(to, add, bytes);
        }
    }
}

static void table_task(void *context, int64_t begin, int64_t end, int worker)
{
    const embedding_job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, table_blocks, j, begin, end);
}

KERNEL_WORKSPACE(embedding_grad) { return 2 * sizeof(int32_t) * (size_t)count_of(&a->in[1]); }

KERNEL(embedding_grad)
{ /* dy, ids, addend? -> dtable */
    embedding_job j = { .a = a,
                        .ids = a->in[1].data,
                        .n = count_of(&a->in[1]),
                        .rows = a->out[0].type.dims[0],
                        .k = cols_of(&a->in[0]),
                        .first = ls_at_start(a, 0) };
    sort_places(&j, a->workspace, (int32_t *)a->workspace + j.n);
    ls_parallel_for(threads_for(a, j.rows * j.k), (j.rows + BLOCK_ROWS - 1) / BLOCK_ROWS, table_task, &j);
}

KERNEL_SUPPORTS(embedding_grad)
{
    return count_of(&a->in[1]) > INT32_MAX ? "more than 2^31 - 1 ids" : LS_NAME(ls_no_f64)(a);
}
