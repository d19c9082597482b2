/* norms.c - rows of layer_norm, rms_norm and their gradients for GPUs; those of batch_norm and group_norm are
 * in norms_channels.c. */
#include "norms.h"
#include "kernels/norm.h"
#include "row_plan.h"

/* ---- forward: x, gain, bias? -> y, mean?, rstd */

static void run_norm(const ls_kernel_args *a, bool rms)
{
    const ls_tensor *x = &a->in[0], *y = &a->out[0];
    norm_args n = { .x = ls_gpu_at(x->data),
                    .gain = ls_gpu_at(a->in[1].data),
                    .bias = rms ? 0 : ls_gpu_at(a->in[2].data),
                    .y = ls_gpu_at(y->data),
                    .mean = rms ? 0 : ls_gpu_at(a->out[1].data),
                    .rstd = ls_gpu_at(a->out[rms ? 1 : 2].data),
                    .rows = ls_type_rows(&x->type),
                    .k = row_length(x),
                    .x_stride = row_stride(x),
                    .y_stride = row_stride(y),
                    .eps = (float)((const ls_norm_attrs *)a->attrs)->eps };
    const bool aligned = row_aligned(x) && row_aligned(y) && row_aligned(&a->in[1]) &&
                         (rms || row_aligned(&a->in[2]));
    row_plan p = row_plan_of(x, n.k, 8, 1, aligned);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "norm.cu", "norm_rows", row_plan_with(&p, "RMS", rms),
                                           ls_gpu_blocks(n.rows, p.teams), &n, sizeof n });
}
static void layer_norm(const ls_kernel_args *a) { run_norm(a, false); }
static void rms_norm(const ls_kernel_args *a) { run_norm(a, true); }

/* ---- gradient: dy, x, gain, mean?, rstd, addend? -> dx, dgain, dbias? */

enum { MOST_PARTS = 264 }; /* blocks of rows: enough for a large GPU, few enough for their sums to be small */

typedef struct grad_plan {
    row_plan rows;
    int64_t n, k, part_rows, parts, width;
} grad_plan;

static grad_plan grad_plan_of(const ls_kernel_args *a, bool rms, bool aligned)
{
    const ls_tensor *x = &a->in[1];
    grad_plan g = { .n = ls_type_rows(&x->type), .k = row_length(x) };
    g.rows = row_plan_of(x, g.k, 4, 8, aligned);
    g.part_rows = ls_gpu_blocks(g.n, MOST_PARTS);
    g.part_rows = ls_gpu_blocks(g.part_rows, g.rows.teams) * g.rows.teams;
    g.parts = ls_gpu_blocks(g.n, g.part_rows);
    g.width = (rms ? 1 : 2) * g.k;
    return g;
}

static void run_grad(const ls_kernel_args *a, bool rms)
{
    const int rstd = rms ? 3 : 4;
    const ls_tensor *dy = &a->in[0], *x = &a->in[1], *dx = &a->out[0],
                    *addend = a->n_in > rstd + 1 && ls_gpu_present(&a->in[rstd + 1]) ? &a->in[rstd + 1]
                                                                                     : NULL;
    grad_plan g = grad_plan_of(a, rms,
                               row_aligned(dy) && row_aligned(x) && row_aligned(dx) &&
                                   row_aligned(&a->in[2]) && (!addend || row_aligned(addend)));
    const norm_grad_args n = { .dy = ls_gpu_at(dy->data),
                               .x = ls_gpu_at(x->data),
                               .gain = ls_gpu_at(a->in[2].data),
                               .mean = rms ? 0 : ls_gpu_at(a->in[3].data),
                               .rstd = ls_gpu_at(a->in[rstd].data),
                               .addend = addend ? ls_gpu_at(addend->data) : 0,
                               .dx = ls_gpu_at(dx->data),
                               .parts = ls_gpu_at(a->workspace),
                               .rows = g.n,
                               .k = g.k,
                               .dy_stride = row_stride(dy),
                               .x_stride = row_stride(x),
                               .addend_stride = addend ? row_stride(addend) : 0,
                               .dx_stride = row_stride(dx),
                               .part_rows = g.part_rows,
                               .width = g.width };
    const norm_join_args join = { .parts = n.parts,
                                  .dgain = ls_gpu_at(a->out[1].data),
                                  .dbias = rms ? 0 : ls_gpu_at(a->out[2].data),
                                  .n_parts = g.parts,
                                  .k = g.k,
                                  .width = g.width };
    const char *before = row_plan_with(&g.rows, "RMS", rms);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "norm_grad.cu", "norm_grad", before, g.rows.again ? g.n : g.parts,
                                           &n, sizeof n });
    if (g.rows.again)
        ls_gpu_run(a->queue, &(ls_gpu_launch){ "norm_grad.cu", "norm_columns", before,
                                               g.parts * ls_gpu_blocks(g.k, COLUMN_THREADS), &n, sizeof n });
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "norm_grad.cu", "norm_join", before,
                                           ls_gpu_blocks(g.width, JOIN_COLUMNS), &join, sizeof join });
}
static void layer_norm_grad(const ls_kernel_args *a) { run_grad(a, false); }
static void rms_norm_grad(const ls_kernel_args *a) { run_grad(a, true); }

static size_t grad_workspace(const ls_kernel_args *a, bool rms)
{
    const grad_plan g = grad_plan_of(a, rms, false);
    return sizeof(float) * (size_t)(g.parts * g.width);
}
static size_t layer_norm_grad_workspace(const ls_kernel_args *a) { return grad_workspace(a, false); }
static size_t rms_norm_grad_workspace(const ls_kernel_args *a) { return grad_workspace(a, true); }

#define ROW(name, ...)                                                   \
    {                                                                    \
        .op = #name, .run = name, .supports = ls_gpu_no_f64, __VA_ARGS__ \
    }
#define CHANNEL_ROW(name, ...)                                                               \
    {                                                                                        \
        .op = #name, .run = ls_gpu_##name, .supports = ls_gpu_channels_supports, __VA_ARGS__ \
    }
const ls_kernel ls_gpu_norms[] = {
    ROW(layer_norm, .rows_in = LS_OPERAND(0), .rows_out = LS_OPERAND(0)),
    ROW(layer_norm_grad, .workspace = layer_norm_grad_workspace,
        .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(5), .rows_out = LS_OPERAND(0)),
    ROW(rms_norm, .rows_in = LS_OPERAND(0), .rows_out = LS_OPERAND(0)),
    ROW(rms_norm_grad, .workspace = rms_norm_grad_workspace,
        .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(4), .rows_out = LS_OPERAND(0)),
    CHANNEL_ROW(batch_norm, .workspace = ls_gpu_batch_norm_workspace),
    CHANNEL_ROW(batch_norm_grad, .workspace = ls_gpu_batch_norm_grad_workspace),
    CHANNEL_ROW(batch_norm_eval),
    CHANNEL_ROW(batch_norm_update),
    CHANNEL_ROW(group_norm, .workspace = ls_gpu_group_norm_workspace),
    CHANNEL_ROW(group_norm_grad, .workspace = ls_gpu_group_norm_grad_workspace),
    { 0 },
};
