/* update.c - the second program of a step: from summed gradients to new parameters, all of it data flow. Whether to skip an overflowed
 * f16 step is a value (`apply`), not a branch; the step counter advances only when the step is applied. */
#define LS_NO_CALL_SITES
#include "lockstep/optim.h"
#include "ops/rules.h"

static ls_value state_like(ls_graph *g, const char *prefix, const char *unit, ls_type t)
{
    return ls_state(g, ls_arena_printf(&g->arena, "%s.%s", prefix, unit), t, (ls_init){ 0 });
}

static ls_value scalar(ls_graph *g, ls_value like, double x) { return ls_fill(g, LS_SCALAR(ls_value_type(g, like).dtype), x); }

/* min(1, clip / (norm + 1e-6)) */
static ls_value clip_factor(ls_graph *g, ls_value norm, double clip)
{
    ls_value ratio = ls_div(g, scalar(g, norm, clip), ls_add_const(g, norm, 1e-6));
    return ls_min(g, ratio, scalar(g, norm, 1.0));
}

static ls_value times(ls_graph *g, ls_value a, ls_value b) { return ls_present(a) ? ls_mul(g, a, b) : b; }

ls_status ls_update_build(ls_graph *g, const char *unit, ls_type t, const ls_update_opts *o)
{
    g->phase = LS_PHASE_UPDATE;
    const ls_optimizer *opt = &o->optimizer;
    ls_value p = ls_state(g, unit, t, (ls_init){ 0 });
    ls_value grad = ls_input(g, ls_arena_printf(&g->arena, "grad.%s", unit), t);
    ls_value lr = ls_input(g, "lr", LS_SCALAR(LS_F64));
    ls_value counter = ls_state(g, "step", LS_SCALAR(LS_I64), (ls_init){ 0 });
    ls_value scale = LS_NONE, apply = LS_NONE, largest = LS_NONE, loss_scale = LS_NONE, good = LS_NONE;

    if (o->clip_norm > 0 || o->loss_scaling)
        largest = ls_graph_apply(g, &ls_op_max_abs, 1, &grad, NULL);
    if (o->loss_scaling) {
        loss_scale = ls_state(g, "loss_scale", LS_SCALAR(LS_F32), (ls_init){ LS_INIT_CONST, 65536, 0 });
        good = ls_state(g, "loss_scale_good_steps", LS_SCALAR(LS_I32), (ls_init){ 0 });
        apply = ls_graph_apply(g, &ls_op_is_finite, 1, &largest, NULL);
        scale = ls_div(g, scalar(g, loss_scale, 1.0), loss_scale);
        ls_output(g, "applied", apply);
    }
    if (o->clip_norm > 0) {
        ls_value squares = ls_graph_apply(g, &ls_op_sum_squares, 2, (ls_value[]){ largest, grad }, NULL);
        ls_value norm = ls_graph_apply(g, &ls_op_norm_from_squares, 2, (ls_value[]){ largest, squares }, NULL);
        norm = times(g, scale, norm);
        ls_output(g, "grad_norm", norm);
        scale = times(g, scale, clip_factor(g, norm, o->clip_norm));
    }
    ls_value step = ls_graph_apply(g, &ls_op_count_step, 2, (ls_value[]){ counter, apply }, NULL);
    if (opt->kind == LS_SGD) {
        ls_sgd_attrs a = { opt->momentum, opt->dampening, opt->weight_decay, opt->nesterov };
        ls_value buffer = opt->momentum != 0 ? state_like(g, "momentum_buffer", unit, t) : LS_NONE;
        ls_graph_apply(g, &ls_op_sgd, 7, (ls_value[]){ p, grad, buffer, step, lr, scale, apply }, &a);
    } else {
        ls_adam_attrs a = { opt->beta1, opt->beta2, opt->eps, opt->weight_decay, opt->kind == LS_ADAMW };
        ls_value m = state_like(g, "exp_avg", unit, t), v = state_like(g, "exp_avg_sq", unit, t);
        ls_graph_apply(g, &ls_op_adam, 8, (ls_value[]){ p, grad, m, v, step, lr, scale, apply }, &a);
    }
    if (o->loss_scaling) { /* last: it overwrites what the others read */
        ls_scale_update_attrs a = { .growth = 2.0, .backoff = 0.5, .interval = 2000 }; /* torch.amp.GradScaler's defaults */
        ls_graph_apply(g, &ls_op_loss_scale_update, 3, (ls_value[]){ loss_scale, good, apply }, &a);
    }
    return ls_graph_finish(g);
}
