/* totals.c - rows of softmax, cross-entropy, argmax for GPUs; those of sums over a batch and of the gradient
 * norm are in totals_sums.c. */
#include "totals.h"
#include "kernels/loss.h"
#include "kernels/softmax.h"
#include "row_plan.h"

static void run_softmax(const ls_kernel_args *a, const char *function, const softmax_args *s, int most)
{
    const bool aligned = row_aligned(&a->in[0]) && row_aligned(&a->out[0]) &&
                         (a->n_in < 2 || row_aligned(&a->in[1]));
    const row_plan p = row_plan_of(&a->in[0], s->k, most, 1, aligned);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "softmax.cu", function, p.before, ls_gpu_blocks(s->rows, p.teams),
                                           s, sizeof *s });
}
static void run_forward(const ls_kernel_args *a, const char *function) /* x -> y */
{
    run_softmax(a, function,
                &(softmax_args){ .x = ls_gpu_at(a->in[0].data),
                                 .y = ls_gpu_at(a->out[0].data),
                                 .rows = ls_type_rows(&a->in[0].type),
                                 .k = row_length(&a->in[0]) },
                8);
}
static void run_backward(const ls_kernel_args *a, const char *function) /* dy, y -> dx */
{
    run_softmax(a, function,
                &(softmax_args){ .dy = ls_gpu_at(a->in[0].data),
                                 .y = ls_gpu_at(a->in[1].data),
                                 .dx = ls_gpu_at(a->out[0].data),
                                 .rows = ls_type_rows(&a->in[0].type),
                                 .k = row_length(&a->in[0]) },
                4);
}
static void softmax(const ls_kernel_args *a) { run_forward(a, "softmax"); }
static void log_softmax(const ls_kernel_args *a) { run_forward(a, "log_softmax"); }
static void softmax_grad(const ls_kernel_args *a) { run_backward(a, "softmax_grad"); }
static void log_softmax_grad(const ls_kernel_args *a) { run_backward(a, "log_softmax_grad"); }

/* ---- cross-entropy */

static loss_args loss_of(const ls_kernel_args *a)
{
    const ls_loss_attrs *attrs = a->attrs;
    const int64_t k = row_length(&a->in[0]), classes = ls_at_whole(a, 1, k);
    return (loss_args){ .logits = ls_gpu_at(a->in[0].data),
                        .labels = ls_gpu_at(a->in[1].data),
                        .rows = ls_type_rows(&a->in[0].type),
                        .k = k,
                        .first = ls_at_start(a, 1),
                        .classes = classes,
                        .ignore = attrs->ignore_index,
                        .own = (float)(1 - attrs->smoothing),
                        .each = (float)(attrs->smoothing / (double)classes) };
}
static void run_loss(const ls_kernel_args *a, const char *function, const loss_args *l, int most)
{
    const row_plan p = row_plan_of(&a->in[0], l->k, most, 1,
                                   row_aligned(&a->in[0]) && row_aligned(&a->out[0]));
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "loss.cu", function, p.before, ls_gpu_blocks(l->rows, p.teams), l,
                                           sizeof *l });
}

static void cross_entropy_part(const ls_kernel_args *a) /* logits, labels -> parts */
{
    loss_args l = loss_of(a);
    l.parts = ls_gpu_at(a->out[0].data);
    run_loss(a, "loss_part", &l, 8);
}

static void cross_entropy(const ls_kernel_args *a) /* logits, labels, count?, parts? -> loss, lse, rows */
{
    loss_args l = loss_of(a);
    l.lse = ls_gpu_at(a->out[1].data);
    l.losses = ls_gpu_at(a->out[2].data);
    if (a->n_in > 3 && ls_gpu_present(&a->in[3])) {
        l.parts = ls_gpu_at(a->in[3].data);
        l.n_parts = a->in[3].type.dims[0];
        const row_plan p = row_plan_of(&a->in[0], 1, 8, 1, false); /* what the file wants to be told */
        ls_gpu_run(a->queue, &(ls_gpu_launch){ "loss.cu", "loss_join", p.before,
                                               ls_gpu_blocks(l.rows, JOIN_THREADS), &l, sizeof l });
    } else {
        run_loss(a, "loss_rows", &l, 8);
    }
    ls_gpu_sum_rows(a, &a->out[2], &a->in[2], &a->out[0]);
}
static size_t cross_entropy_workspace(const ls_kernel_args *a)
{
    return ls_gpu_sum_rows_workspace(a->in[0].type.dims[0]);
}

static void cross_entropy_grad(const ls_kernel_args *a) /* logits, labels, lse, count?, dloss -> dlogits */
{
    loss_args l = loss_of(a);
    l.lse = ls_gpu_at(a->in[2].data);
    l.count = ls_gpu_present(&a->in[3]) ? ls_gpu_at(a->in[3].data) : 0;
    l.dloss = ls_gpu_at(a->in[4].data);
    l.dloss_stride = a->in[4].type.ndim ? 1 : 0;
    l.dx = ls_gpu_at(a->out[0].data);
    run_loss(a, "loss_grad", &l, 4);
}

/* ---- argmax */

static argmax_args argmax_of(const ls_kernel_args *a)
{
    return (argmax_args){ .x = ls_gpu_at(a->in[0].data),
                          .y = ls_gpu_at(a->out[0].data),
                          .rows = ls_type_rows(&a->in[0].type),
                          .k = row_length(&a->in[0]) };
}
static void run_argmax(const ls_kernel_args *a, const argmax_args *m)
{
    const row_plan p = row_plan_of(&a->in[0], m->k, 8, 1, row_aligned(&a->in[0]));
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "argmax.cu", "argmax", p.before, ls_gpu_blocks(m->rows, p.teams),
                                           m, sizeof *m });
}
static void argmax(const ls_kernel_args *a)
{
    const argmax_args m = argmax_of(a);
    run_argmax(a, &m);
}
static void argmax_part(const ls_kernel_args *a)
{
    argmax_args m = argmax_of(a);
    m.pairs = 1;
    m.first = ls_at_start(a, a->in[0].type.ndim - 1);
    run_argmax(a, &m);
}
static void argmax_join(const ls_kernel_args *a) /* [n_parts, rows.., 2] -> [rows..] */
{
    argmax_args m = argmax_of(a);
    m.n_parts = a->in[0].type.dims[0];
    m.rows = ls_type_count(&a->out[0].type);
    const row_plan p = row_plan_of(&a->in[0], 1, 8, 1, false);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "argmax.cu", "argmax_join", p.before,
                                           ls_gpu_blocks(m.rows, JOIN_THREADS), &m, sizeof m });
}

#define ROW(name, ...)                                                   \
    {                                                                    \
        .op = #name, .run = name, .supports = ls_gpu_no_f64, __VA_ARGS__ \
    }
#define SUM_ROW(name, ...)                                                        \
    {                                                                             \
        .op = #name, .run = ls_gpu_##name, .supports = ls_gpu_no_f64, __VA_ARGS__ \
    }
const ls_kernel ls_gpu_totals[] = {
    ROW(softmax),
    ROW(softmax_grad),
    ROW(log_softmax),
    ROW(log_softmax_grad),
    ROW(cross_entropy, .workspace = cross_entropy_workspace),
    ROW(cross_entropy_part),
    ROW(cross_entropy_grad),
    ROW(argmax),
    ROW(argmax_part),
    ROW(argmax_join),
    SUM_ROW(row_sum, .workspace = ls_gpu_row_sum_workspace),
    SUM_ROW(row_sum_grad),
    SUM_ROW(max_abs, .workspace = ls_gpu_max_abs_workspace),
    SUM_ROW(sum_squares, .workspace = ls_gpu_sum_squares_workspace),
    SUM_ROW(norm_from_squares),
    SUM_ROW(is_finite),
    { 0 },
};
