/* update.c - the program `update`: from summed gradients to new parameters. It has no branches. If a gradient
 * or a loss is not finite, the value `apply` is 0 on all ranks, and then nothing changes, including the step
 * counter; with loss scaling only the scale does. The host learns of it after the step. */
#define LS_NO_CALL_SITES
#include "base/argument.h"
#include "graph/update_attrs.h"
#include "graph/identity.h"
#include "rules.h"

/* A scalar of the step: a source that is read, a state, or an output. */
static ls_value number_in(ls_graph *g, ls_what what, ls_dtype t)
{
    return ls_input_of(g, (ls_identity){ .what = what }, "", LS_SCALAR(t));
}
static ls_value number_kept(ls_graph *g, ls_what what, ls_dtype t, ls_init init)
{
    return ls_state_of(g, (ls_identity){ .what = what }, "", LS_SCALAR(t), init);
}
static void number_out(ls_graph *g, ls_what what, ls_value v)
{
    ls_output_of(g, (ls_identity){ .what = what }, "", v);
}

static ls_value scalar(ls_graph *g, ls_value like, double x)
{
    return ls_fill(g, LS_SCALAR(ls_value_type(g, like).dtype), x);
}

/* min(1, clip / (norm + 1e-6)) */
static ls_value clip_factor(ls_graph *g, ls_value norm, double clip)
{
    ls_value ratio = ls_div(g, scalar(g, norm, clip), ls_add_const(g, norm, 1e-6));
    return ls_min(g, ratio, scalar(g, norm, 1.0));
}

static ls_value times(ls_graph *g, ls_value a, ls_value b) { return ls_present(a) ? ls_mul(g, a, b) : b; }

static ls_value weights(ls_graph *g, int k, const ls_update_unit *u)
{
    ls_type t = u->type;
    t.dtype = u->weight_type;
    return u->weights
               ? ls_state_of(g, (ls_identity){ .what = LS_IS_WEIGHTS, .unit = k }, u->name, t, (ls_init){ 0 })
               : LS_NONE;
}

/* The unit, with its groups. */
static ls_update_unit unit_over(const ls_update_unit *u, const ls_update_opts *o)
{
    ls_update_unit own = *u;
    if (own.shard)
        return own;
    own.shard = o->shard;
    own.replicate = o->replicate;
    own.shards = o->shards;
    own.replicas = o->replicas;
    return own;
}

/* The gradient of this rank's part of unit k. Either `micro` has reduced it over the ranks, or this program
 * does (o->reduce). */
static ls_value gradient(ls_graph *g, int k, const ls_update_unit *u, const ls_update_opts *o)
{
    ls_chain_link links[LS_UNIT_LINKS];
    const ls_update_unit over = unit_over(u, o);
    ls_type t = u->type;
    if (u->gradient_there)
        return weights(g, k, u);
    if (o->reduce)
        t.dims[0] *= over.shards;
    const ls_value v = ls_input_of(g, (ls_identity){ .what = LS_IS_GRADIENT, .unit = k }, u->name, t);
    const int n = ls_unit_chain(links, &(ls_unit_use){ .unit = u->name,
                                                       .number = k,
                                                       .shard = over.shard,
                                                       .replicate = over.replicate,
                                                       .shards = over.shards,
                                                       .replicas = over.replicas,
                                                       .offload = o->offload,
                                                       .to = (int64_t)u->type.dtype,
                                                       .via = (int64_t)u->via });
    return o->reduce ? ls_chain_gradient(g, v, n, links, u->type.dtype) : v;
}

/* Combines one number of each rank: to the maximum over all ranks, or to the exact sum over the ranks that
 * have different parts of the gradient. */
static ls_value agreed(ls_graph *g, ls_value v, const ls_update_opts *o, int64_t how)
{
    const struct {
        const char *name;
        int ranks;
    } axes[] = { { o->replicate, how == LS_HOW_MAX ? o->replicas : 1 },
                 { o->shard, o->shards },
                 { o->model, o->models } };
    const char *group = "";
    int ranks = 1;
    for (int i = 0; i < 3; i++) {
        if (axes[i].ranks == 1)
            continue;
        group = *group ? ls_arena_printf(&g->arena, "%s*%s", group, axes[i].name) : axes[i].name;
        ranks *= axes[i].ranks;
    }
    return ranks == 1
               ? v
               : ls_all_reduce(g, v,
                               &(ls_reduce_attrs){ .group = group, .unit = "", .ranks = ranks, .how = how });
}

/* 0 if the step's losses are finite, else NaN. */
static ls_value bad_loss(ls_graph *g, ls_dtype gradients)
{
    const ls_value largest = number_in(g, LS_IS_LARGEST_LOSS, ls_stat_dtype(gradients));
    return ls_sub(g, largest, largest);
}

static const ls_optimizer_rule RULES[] = {
    [LS_ADAM] = ls_optimizer_adam, [LS_ADAMW] = ls_optimizer_adam, [LS_SGD] = ls_optimizer_sgd,
    [LS_LION] = ls_optimizer_lion, [LS_MUON] = ls_optimizer_muon,  [LS_ADAFACTOR] = ls_optimizer_adafactor
};

/* The optimizer with the settings of a group. */
static ls_optimizer settings(const ls_optimizer *o, const ls_optimizer_group *group, int n_tensors)
{
    ls_optimizer own = *o;
    if (group && group->weight_decay >= 0)
        own.weight_decay = group->weight_decay;
    if (own.kind == LS_MUON && !n_tensors) /* no matrices */
        own.kind = LS_ADAMW;
    return own;
}
static ls_value rate(ls_graph *g, ls_value lr, const ls_optimizer_group *group)
{
    return group && group->lr_factor != 1
               ? ls_graph_apply(g, &ls_op_group_rate, 1, &lr, &(ls_rate_attrs){ group->lr_factor })
               : lr;
}

ls_status ls_update_build(ls_graph *g, int n, const ls_update_unit *units, const ls_update_opts *o)
{
    LS_ARG(g);
    if (n)
        LS_ARG(units);
    for (int i = 0; i < n; i++) {
        LS_ARG_DTYPE(units[i].type.dtype);
        LS_ARG_DTYPE(units[i].via);
        LS_ARG_DTYPE(units[i].weight_type);
    }
    o = o ? o : &(const ls_update_opts){ LS_UPDATE_DEFAULTS };
    LS_ARG_ENUM(ls_optimizer_kind, o->optimizer.kind, LS_ADAFACTOR);
    g->phase = LS_PHASE_UPDATE;
    ls_value *grads = LS_ARENA_ARRAY(&g->arena, ls_value, n + 1);
    LS_TRY(ls_arena_status(&g->arena));
    for (int i = 0; i < n; i++)
        grads[i] = units[i].elsewhere ? LS_NONE : gradient(g, i, &units[i], o);
    ls_value lr = number_in(g, LS_IS_RATE, LS_F64);
    ls_value counter = number_kept(g, LS_IS_STEP, LS_I64, (ls_init){ 0 });
    ls_value scale = LS_NONE, apply = LS_NONE, largest = LS_NONE, loss_scale = LS_NONE, good = LS_NONE;

    if (n) { /* the largest |gradient|; NaN after a bad loss, and 0 beside it changes no bit */
        ls_value *mine = LS_ARENA_ARRAY(&g->arena, ls_value, n + 1);
        int count = 0;
        LS_TRY(ls_arena_status(&g->arena));
        for (int i = 0; i < n; i++)
            if (!units[i].elsewhere)
                mine[count++] = grads[i];
        mine[count++] = bad_loss(g, units[0].type.dtype);
        largest = agreed(g, ls_graph_apply(g, &ls_op_max_abs, count, mine, NULL), o, LS_HOW_MAX);
    }
    if (o->loss_scaling) {
        loss_scale = number_kept(g, LS_IS_LOSS_SCALE, LS_F32, (ls_init){ LS_INIT_CONST, o->scaler.init, 0 });
        good = number_kept(g, LS_IS_GOOD_STEPS, LS_I32, (ls_init){ 0 });
        scale = ls_div(g, scalar(g, loss_scale, 1.0), loss_scale);
    }
    if (n && o->clip_norm > 0) {
        ls_value *mine = LS_ARENA_ARRAY(&g->arena, ls_value, n + 1);
        int count = 0;
        LS_TRY(ls_arena_status(&g->arena));
        mine[count++] = largest;
        for (int i = 0; i < n; i++)
            if (!units[i].copy && !units[i].elsewhere)
                mine[count++] = grads[i];
        if (count == 1) /* other ranks have all that is trained */
            mine[count++] = ls_fill(g, LS_TYPE(units[0].type.dtype, 1), 0.0);
        ls_value squares = agreed(g, ls_graph_apply(g, &ls_op_sum_squares, count, mine, NULL), o,
                                  LS_HOW_WIDE);
        ls_value norm = ls_graph_apply(g, &ls_op_norm_from_squares, 2, (ls_value[]){ largest, squares },
                                       NULL);
        norm = times(g, scale, norm);
        number_out(g, LS_IS_GRAD_NORM, norm);
        apply = ls_graph_apply(g, &ls_op_is_finite, 1, &norm, NULL);
        scale = times(g, scale, clip_factor(g, norm, o->clip_norm));
    } else if (n) {
        /* the square, which Adam and Adafactor would keep for ever if it were infinite */
        const ls_value most = times(g, scale, largest), square = ls_mul(g, most, most);
        apply = ls_graph_apply(g, &ls_op_is_finite, 1, &square, NULL);
    }
    if (n)
        number_out(g, LS_IS_APPLIED, apply);
    ls_value step = ls_graph_apply(g, &ls_op_count_step, 2, (ls_value[]){ counter, apply }, NULL);
    for (int i = 0; i < n; i++) {
        if (units[i].elsewhere)
            continue;
        const ls_update_unit over = unit_over(&units[i], o);
        const ls_optimizer own = settings(&o->optimizer, units[i].group, units[i].n_tensors);
        const ls_update_inputs in = { i,
                                      grads[i],
                                      step,
                                      rate(g, lr, units[i].group),
                                      scale,
                                      apply,
                                      units[i].gradient_there ? grads[i] : weights(g, i, &units[i]),
                                      over.shard,
                                      over.shards };
        const ls_value updated = RULES[own.kind](g, &units[i], &own, &in);
        if (o->ema_decay > 0)
            ls_graph_apply(
                g, &ls_op_ema, 4,
                (ls_value[]){ ls_update_moment(g, (ls_moment)LS_EMA, &units[i], &in), updated, step, apply },
                &(ls_ema_attrs){ o->ema_decay });
    }
    if (n && o->loss_scaling) { /* last, because it overwrites what the other ops read */
        const ls_scale_update_attrs a = { o->scaler.growth, o->scaler.backoff, o->scaler.interval };
        ls_graph_apply(g, &ls_op_loss_scale_update, 3, (ls_value[]){ loss_scale, good, apply }, &a);
    }
    return ls_graph_finish(g);
}

ls_optimizer ls_optimizer_default(void) { return (ls_optimizer){ LS_OPTIMIZER_DEFAULTS }; }

ls_scaler ls_scaler_default(void) { return (ls_scaler){ LS_SCALER_DEFAULTS }; }

ls_optimizer_group ls_optimizer_group_default(void)
{
    return (ls_optimizer_group){ LS_OPTIMIZER_GROUP_DEFAULTS };
}

ls_update_opts ls_update_opts_default(void) { return (ls_update_opts){ LS_UPDATE_DEFAULTS }; }
