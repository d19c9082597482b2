/* totals_sums.c - rows of sums over a batch (kernels/totals.cu) and of the gradient norm (kernels/squares.cu)
 * for GPUs. */
#include "totals.h"
#include <string.h>

#include "kernels/totals.h"

/* ---- sums of rows */

static gpu_address address(const ls_kernel_args *a, int k)
{
    return k < a->n_in && ls_gpu_present(&a->in[k]) ? ls_gpu_at(a->in[k].data) : 0;
}

static void run_sum(const ls_kernel_args *a, row_sum_args *r)
{
    r->parts = ls_gpu_at(a->workspace);
    r->n_parts = ls_gpu_blocks(r->n, ROW_SUM_THREADS * ROW_SUM_EACH);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "totals.cu", "row_sum", NULL, r->n_parts, r, sizeof *r });
    if (r->n_parts > 1)
        ls_gpu_run(a->queue, &(ls_gpu_launch){ "totals.cu", "row_sum_join", NULL, 1, r, sizeof *r });
}

void ls_gpu_sum_rows(const ls_kernel_args *a, const ls_tensor *rows, const ls_tensor *divisor,
                     const ls_tensor *sum)
{
    const int64_t n = ls_type_count(&rows->type);
    run_sum(a, &(row_sum_args){ .rows = ls_gpu_at(rows->data),
                                .divisor = ls_gpu_present(divisor) ? ls_gpu_at(divisor->data) : 0,
                                .sum = ls_gpu_at(sum->data),
                                .n = n,
                                .here = n,
                                .inner = 1 });
}
size_t ls_gpu_sum_rows_workspace(int64_t n)
{
    return sizeof(double) * (size_t)ls_gpu_blocks(n, ROW_SUM_THREADS * ROW_SUM_EACH);
}

/* rows, weights?, real?, divisor? */
static row_sum_args row_sum_of(const ls_kernel_args *a)
{
    const ls_row_sum_attrs *attrs = a->attrs;
    const bool masks = address(a, 1) && a->in[1].type.dtype == LS_I32;
    const int64_t n = ls_type_count(&a->in[0].type), here = a->in[0].type.dims[0];
    return (row_sum_args){ .rows = ls_gpu_at(a->in[0].data),
                           .weights = masks ? 0 : address(a, 1),
                           .valid = masks ? address(a, 1) : 0,
                           .real = address(a, 2),
                           .divisor = address(a, 3),
                           .n = n,
                           .here = here,
                           .inner = n / here,
                           .each = attrs->each,
                           .start = ls_at_start(a, 0),
                           .ignore = (int32_t)attrs->ignore_index };
}

void ls_gpu_row_sum(const ls_kernel_args *a)
{
    row_sum_args r = row_sum_of(a);
    r.sum = ls_gpu_at(a->out[0].data);
    run_sum(a, &r);
}
size_t ls_gpu_row_sum_workspace(const ls_kernel_args *a)
{
    return ls_gpu_sum_rows_workspace(ls_type_count(&a->in[0].type));
}

void ls_gpu_row_sum_grad(const ls_kernel_args *a) /* .., dsum -> drows */
{
    row_sum_args r = row_sum_of(a);
    r.dsum = address(a, 4);
    r.drows = ls_gpu_at(a->out[0].data);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "totals.cu", "row_sum_grad", NULL,
                                           ls_gpu_blocks(r.n, ROW_SUM_THREADS), &r, sizeof r });
}

/* ---- the gradient norm */

static int64_t blocks_of(const ls_tensor *x)
{
    const int64_t each = 16 / (int64_t)ls_dtype_size(x->type.dtype) * TENSOR_THREADS * TENSOR_PIECES,
                  blocks = ls_gpu_blocks(ls_type_count(&x->type), each);
    return blocks < TENSOR_BLOCKS ? blocks : TENSOR_BLOCKS;
}
static int64_t all_blocks(const ls_kernel_args *a, int first)
{
    int64_t n = 0;
    for (int i = first; i < a->n_in; i++)
        n += blocks_of(&a->in[i]);
    return n;
}

/* Inputs `first` and on, as many of one type as possible in each launch; then their parts. */
static void run_tensors(const ls_kernel_args *a, int first, gpu_address max, const char *function,
                        const char *join)
{
    char before[64];
    int64_t block = 0;
    for (int i = first; i < a->n_in;) {
        tensors_args t = { .max = max, .parts = ls_gpu_at(a->workspace), .before = block };
        const ls_dtype type = a->in[i].type.dtype;
        bool aligned = true;
        snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(&a->in[i]));
        for (; i < a->n_in && t.count < TENSORS && a->in[i].type.dtype == type; i++, t.count++) {
            const ls_tensor *x = &a->in[i];
            t.x[t.count] = ls_gpu_at(x->data);
            t.n[t.count] = ls_type_count(&x->type);
            t.first[t.count] = block;
            block += blocks_of(x);
            aligned = aligned && (uintptr_t)x->data % 16 == 0;
        }
        snprintf(before + strlen(before), sizeof before - strlen(before), "#define VECTOR %d\n", aligned);
        ls_gpu_run(a->queue,
                   &(ls_gpu_launch){ "squares.cu", function, before, block - t.before, &t, sizeof t });
    }
    const tensors_join_args j = { ls_gpu_at(a->workspace), ls_gpu_at(a->out[0].data), block };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "squares.cu", join, before, 1, &j, sizeof j });
}

void ls_gpu_max_abs(const ls_kernel_args *a) { run_tensors(a, 0, 0, "max_abs", "max_abs_join"); }
size_t ls_gpu_max_abs_workspace(const ls_kernel_args *a) { return 4 * (size_t)all_blocks(a, 0); }

void ls_gpu_sum_squares(const ls_kernel_args *a) /* max, x.. */
{
    run_tensors(a, 1, ls_gpu_at(a->in[0].data), "sum_squares", "sum_squares_join");
}
size_t ls_gpu_sum_squares_workspace(const ls_kernel_args *a) { return 16 * (size_t)all_blocks(a, 1); }

void ls_gpu_norm_from_squares(const ls_kernel_args *a) /* max, total */
{
    const scalar_args s = { address(a, 0), address(a, 1), ls_gpu_at(a->out[0].data) };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "squares.cu", "norm_from_squares",
                                           "#define X f32\n#define VECTOR 1\n", 1, &s, sizeof s });
}

void ls_gpu_is_finite(const ls_kernel_args *a)
{
    const scalar_args s = { .max = address(a, 0), .out = ls_gpu_at(a->out[0].data) };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "totals.cu", "is_finite", NULL, 1, &s, sizeof s });
}
