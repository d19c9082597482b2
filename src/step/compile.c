/* compile.c - compiles a model to the programs of a step. This file has the order of passes;
 * compile_forward.c has it for programs without a step. */
#include "compile.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/field.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/axes.h"
#include "compile_own.h"
#include "device/queue.h"
#include "graph/identity.h"
#include "graph/rewrite.h"
#include "memory.h"
#include "nn/measure.h"
#include "ops/rules.h"
#include "passes/autodiff.h"
#include "passes/pipeline_order.h"
#include "passes/stages.h"
#include "state_lists.h"

const char *const ls_program_names[LS_PROGRAMS] = { "micro", "update", "eval" };

ls_value ls_output_named(const ls_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, name))
            return g->outputs[i].value;
    return LS_NONE;
}

/* Refuses rows that a model computes in 16 bits: they are rounded already, so their sum would not be exact.
 * Their types are known after ls_pass_units. */
static ls_status check_rows(const ls_graph *g, const ls_objective *o)
{
    for (int i = 0; i < g->n_outputs; i++) {
        const ls_identity is = g->outputs[i].is;
        const ls_type t = ls_value_type(g, g->outputs[i].value);
        char text[128];
        if ((is.what == LS_IS_ROWS || is.what == LS_IS_TARGETS) && ls_dtype_size(t.dtype) < 4)
            return ls_fail(
                LS_E_SHAPE,
                "%s \"%s\" is %s, which rounds it: compute it between ls_wide_begin and ls_wide_end",
                o->terms[is.unit].loss ? "loss" : "metric", o->terms[is.unit].name, ls_type_text(text, &t));
    }
    return LS_OK;
}

/* Refuses a parameter that no loss depends on: training would not have it, but evaluations and checkpoints
 * would. The outputs are those of the losses. */
static ls_status check_trained(const ls_graph *g)
{
    bool *live = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *live);
    ls_status s = ls_sys_have(live);
    LS_TRY(s);
    for (int i = 0; i < g->n_outputs; i++)
        live[ls_node_of(g, g->outputs[i].value)->id] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = 0; k < g->nodes[i]->n_in && live[i]; k++)
            if (ls_present(g->nodes[i]->in[k]))
                live[ls_node_of(g, g->nodes[i]->in[k])->id] = true;
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        char line[16] = "";
        if (n->file)
            snprintf(line, sizeof line, ":%d: ", n->line);
        if (n->op == &ls_op_param && !live[i])
            s = ls_fail(LS_E_USAGE,
                        "%s%sno loss depends on parameter %s, so training would not change it: leave it out, "
                        "or use it in a loss",
                        n->file ? n->file : "", line, ((const ls_source_attrs *)n->attrs)->name);
    }
    free(live);
    return s;
}

ls_precision ls_trainer_precision(const ls_trainer_opts *o)
{
    return (ls_precision){ .param = o->param,
                           .output = o->output,
                           .reduce = o->parallel.reduce,
                           .cast_forward_inputs = o->cast_forward_inputs,
                           .weights = !o->eval_only,
                           .modules = o->modules };
}

ls_status ls_trainer_trained(ls_trained *out, const char *words[LS_GROUPS_MOST], const ls_trainer_opts *o)
{
    *out = (ls_trained){ .freeze = o->freeze,
                         .n_groups = o->n_groups,
                         .groups = words,
                         .matrices = o->optimizer.kind == LS_MUON };
    if (o->n_groups < 0 || o->n_groups > LS_GROUPS_MOST)
        return ls_fail_field(LS_E_USAGE, "groups", "%d groups are out of range: 0 to %d are possible",
                             o->n_groups, LS_GROUPS_MOST);
    for (int k = 0; k < o->n_groups; k++) {
        const ls_optimizer_group *g = &o->groups[k];
        words[k] = g->match ? g->match : "";
        out->plain |= (uint64_t)g->adamw << k;
        if (g->adamw && !out->matrices)
            return ls_fail_field(LS_E_USAGE, "groups", "group %d: adamw is for optimizer muon", k + 1);
        if (o->optimizer.kind == LS_ADAFACTOR && o->optimizer.relative_step && g->lr_factor != 1)
            return ls_fail_field(LS_E_USAGE, "groups",
                                 "group %d: lr_factor %g has no effect with adafactor's relative_step, which "
                                 "sets the rate",
                                 k + 1, g->lr_factor);
        if (!(g->lr_factor >= 0 && g->lr_factor < INFINITY) || !(g->weight_decay < INFINITY))
            return ls_fail_field(
                LS_E_USAGE, "groups",
                "group %d: lr_factor %g and weight_decay %g: both are numbers, the factor from 0 "
                "on",
                k + 1, g->lr_factor, g->weight_decay);
    }
    return LS_OK;
}

ls_value ls_predicted(ls_graph *g, ls_value logits)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_argmax && g->nodes[i]->in[0].id == logits.id)
            return g->nodes[i]->out[0];
    return ls_argmax(g, logits);
}

static ls_status note_mixing(ls_compiled *c, const ls_graph *g, int64_t batch)
{
    const ls_status s = ls_objective_check_mixing(g, batch);
    if (s != LS_E_USAGE)
        return s;
    c->mixing = ls_sys_strdup(ls_error_message());
    return ls_sys_have(c->mixing);
}

/* Builds the model for a batch, chooses the outputs of the program, and removes nodes that these do
 * not need. */
static ls_status forward(ls_graph **out, ls_compiled *c, ls_build_fn build, const void *config,
                         const ls_trainer_opts *o, bool training)
{
    const ls_precision precision = ls_trainer_precision(o);
    const int64_t batch = training ? c->micro_batch : c->eval_batch;
    const char *words[LS_GROUPS_MOST];
    ls_trained trained;
    ls_graph *g = NULL;
    ls_status s;
    LS_TRY(ls_trainer_trained(&trained, words, o));
    LS_TRY(ls_graph_create(&g, training ? "micro" : "eval"));
    if (!training)
        ls_graph_evaluate(g);
    g->metrics = o->metrics;
    LS_TRY_TO(s, build(g, config, batch), fail);
    LS_TRY_TO(s, ls_measure_check_asked(g), fail);
    if (!training) {
        LS_TRY_TO(s, ls_rewrite_clone(&c->model, g), fail);
        LS_TRY_TO(s, note_mixing(c, g, batch), fail);
    }
    ls_value logits = ls_output_named(g, "logits");
    if (training && o->padding)
        LS_TRY_TO(s, ls_objective_check_padding(g, batch), fail);
    g->n_outputs = 0;
    ls_objective_release(&c->objective); /* evaluation has the same objective */
    LS_TRY_TO(s, ls_objective_lower(&c->objective, g, batch, training), fail);
    if (training)
        LS_TRY_TO(s, check_trained(g), fail);
    const ls_type scores = ls_present(logits) ? ls_value_type(g, logits) : LS_SCALAR(LS_I32);
    const bool classifies = !training && scores.ndim == 2 && ls_dtype_is_float(scores.dtype);
    if (classifies) {
        c->classes = scores.dims[1];
        ls_output_of(g, (ls_identity){ .what = LS_IS_PREDICTED }, "", ls_predicted(g, logits));
        /* Only with one target a sample. A text has a target for each token, and probabilities of the whole
         * vocabulary for each token would be large and unused. */
        if (scores.dims[0] == batch)
            (ls_output)(g, "logits", logits);
    }
    if (o->param == LS_F64)
        LS_TRY_TO(s, ls_pass_to_float(&g, LS_F64), fail);
    LS_TRY_TO(s, ls_pass_slices_up(&g), fail);
    LS_TRY_TO(s, ls_pass_dce(&g), fail);
    LS_TRY_TO(s, ls_pass_narrow(&g), fail);
    LS_TRY_TO(s, ls_pass_low_rank(&g), fail);
    LS_TRY_TO(s, ls_pass_propagate(&g, &o->parallel), fail);
    LS_TRY_TO(s, ls_pass_stages(g, &o->parallel), fail);
    LS_TRY_TO(s, ls_pass_experts(&g, &o->parallel), fail);
    LS_TRY_TO(s, ls_pass_units(&g, &precision, &o->parallel, &trained, &c->units), fail);
    if (training)
        LS_TRY_TO(s, ls_units_check_codes(&c->units, trained.freeze), fail);
    if (training)
        LS_TRY_TO(s, ls_pass_sync_batch_norm(&g, &o->parallel, &c->units), fail);
    LS_TRY_TO(s, check_rows(g, &c->objective), fail);
    logits = ls_output_named(g, "logits");
    if (ls_present(logits)) { /* their type is known since ls_pass_units */
        g->n_outputs--;
        g->stage = ls_node_of(g, logits)->stage;
        logits = ls_pass_output(g, logits, o->output);
        logits = o->param == LS_F64 ? logits : ls_cast(g, logits, LS_F32);
        ls_output_of(g, (ls_identity){ .what = LS_IS_PROBABILITY }, "",
                     ls_cast(g, ls_softmax(g, logits), LS_F32));
    }
    if (!training && (c->eval_batch != c->micro_batch || c->unrolled > 1))
        LS_TRY_TO(s, ls_pass_eval_inputs(g), fail);
    LS_TRY_TO(s, ls_graph_status(g), fail);
    *out = g;
    return LS_OK;
fail:
    ls_graph_destroy(&g);
    return s;
}

/* Keeps the largest |loss| of the micro-batches that a step runs. The update program skips a step with a
 * loss that is not finite. Input and output are the same memory, which each step clears. */
static void keep_largest(ls_graph *g, ls_value loss)
{
    const ls_identity is = { .what = LS_IS_LARGEST_LOSS };
    const ls_value before = ls_input_of(g, is, "", LS_SCALAR(ls_stat_dtype(ls_value_type(g, loss).dtype)));
    ls_output_of(g, is, "", ls_graph_apply(g, &ls_op_max_abs, 2, (ls_value[]){ before, loss }, NULL));
}

/* Appends the backward pass. The gradient of each unit becomes an output: this rank's slice of the sum over
 * ranks or, if the update program reduces, the whole gradient of this rank. */
static ls_status differentiate(ls_graph **g, const ls_compiled *c, const ls_trainer_opts *o)
{
    const ls_units *u = &c->units;
    ls_value loss = LS_NONE;
    for (int i = 0; i < (*g)->n_outputs; i++)
        if ((*g)->outputs[i].is.what == LS_IS_LOSS && (*g)->outputs[i].is.unit == 0)
            loss = (*g)->outputs[i].value;
    ls_value *use = LS_ARENA_ARRAY(&(*g)->arena, ls_value, u->trained),
             *grad = LS_ARENA_ARRAY(&(*g)->arena, ls_value, u->trained);
    LS_TRY(ls_arena_status(&(*g)->arena));
    int n = 0;
    for (int i = 0; i < u->trained; i++)
        if (ls_present(u->units[i].use)) /* else other ranks have it */
            use[n++] = u->units[i].use;
    (*g)->stage = ls_node_of(*g, loss)->stage;
    keep_largest(*g, loss);
    (*g)->phase = LS_PHASE_BACKWARD;
    ls_value seed = c->loss_scaling
                        ? ls_state_of(*g, (ls_identity){ .what = LS_IS_LOSS_SCALE }, "", LS_SCALAR(LS_F32),
                                      (ls_init){ LS_INIT_CONST, o->scaler.init, 0 })
                        : ls_fill(*g, ls_value_type(*g, loss), 1.0);
    LS_TRY(ls_backward(*g, loss, seed, n, use, grad));
    for (int i = 0, k = 0; i < u->trained; i++) {
        if (!ls_present(u->units[i].use))
            continue;
        const bool in_weights = c->gradients_in_weights && u->units[i].weights;
        (*g)->stage = u->units[i].stage;
        const ls_identity is = { .what = in_weights ? LS_IS_WEIGHTS : LS_IS_GRADIENT, .unit = i };
        ls_value whole = in_weights ? grad[k] : ls_cast(*g, grad[k], u->dtype);
        k++;
        if (ls_updates_on_host(c) && !u->sharding.each) /* else it is at the end of the unit's chain */
            whole = ls_graph_apply(*g, &ls_op_to_host, 1, &whole, NULL);
        ls_output_of(*g, is, u->units[i].state, whole);
    }
    (*g)->phase = LS_PHASE_FORWARD;
    (*g)->stage = 0;
    LS_TRY(ls_graph_status(*g));
    LS_TRY(ls_pass_dce(g)); /* before ls_pass_recompute: it clones only what the backward pass reads */
    LS_TRY(ls_pass_add_terms(g));
    LS_TRY(ls_program_join_loss(g, &c->device));
    LS_TRY(ls_pass_recompute(g, o->recompute ? o->recompute : ""));
    LS_TRY(ls_pass_reshard(g, &o->parallel, u));
    return ls_pass_pipeline(g, &o->parallel, c->unrolled, o->accumulation == LS_SUM_RUNNING);
}

static ls_status plan(ls_compiled *c, int which, ls_graph **g, const ls_parallel *parallel,
                      const ls_calibration *calibration)
{
    double t = ls_now();
    const ls_device *d = which == LS_UPDATE ? &c->updater : &c->device;
    ls_status s = which == LS_EVAL ? ls_evaluation_finish(g, d) : ls_program_finish(g, d);
    double mid = ls_now();
    if (s == LS_OK)
        s = ls_plan_create(&c->plans[which], *g, d,
                           &(ls_plan_opts){ .calibration = calibration,
                                            .parallel = parallel,
                                            .gradients_in_arena = c->gradients_in_arena,
                                            .on_host = which == LS_UPDATE && ls_updates_on_host(c) });
    c->graph_seconds += mid - t;
    c->plan_seconds += ls_now() - mid;
    ls_graph_destroy(g);
    return s;
}

static int tree_buffers(int64_t micro_batches, ls_accumulation how)
{
    if (micro_batches < 2)
        return 0;
    if (how == LS_SUM_RUNNING)
        return 1;
    int levels = 0;
    while ((int64_t)1 << levels < micro_batches)
        levels++;
    return levels;
}

/* Whether the planner could put gradients in the arena. It cannot if other ranks read them. */
static bool has_gradients_in_arena(const ls_plan *p)
{
    for (int i = 0; i < p->n_allocs; i++)
        if (p->allocs[i].memory == LS_MEM_GRADIENT)
            return true;
    return false;
}

static ls_status compile_all(ls_compiled *c, ls_build_fn build, const void *config, const ls_trainer_opts *o,
                             const ls_calibration *calibration)
{
    ls_graph *g = NULL;
    double t = ls_now();
    LS_TRY(forward(&g, c, build, config, o, false));
    ls_status cut = ls_pass_add_terms(&g);
    if (cut == LS_OK)
        cut = ls_pass_pipeline(&g, &o->parallel, 1, false);
    if (cut != LS_OK) {
        ls_graph_destroy(&g);
        return cut;
    }
    c->graph_seconds += ls_now() - t;
    LS_TRY(plan(c, LS_EVAL, &g, &o->parallel, calibration));
    if (o->eval_only)
        return ls_plans_share_host(1, &c->plans[LS_EVAL]);
    c->gradients_in_weights = c->share.count == 1 && !o->parallel.slices && c->units.sharding.shards == 1 &&
                              c->units.sharding.replicas == 1 && c->units.sharding.stages == 1;
    ls_units_release(&c->units);
    t = ls_now();
    LS_TRY(forward(&g, c, build, config, o, true));
    ls_status s = differentiate(&g, c, o);
    if (s != LS_OK) {
        ls_graph_destroy(&g);
        return s;
    }
    c->graph_seconds += ls_now() - t;
    const ls_sharding *sharding = &c->units.sharding;
    const bool gathers = sharding->shards > 1 &&
                         (o->optimizer.kind == LS_MUON || o->optimizer.kind == LS_ADAFACTOR);
    c->gradients_in_arena = sharding->each && !sharding->offload && !gathers;
    LS_TRY(plan(c, LS_MICRO, &g, &o->parallel, calibration));
    c->gradients_in_arena = has_gradients_in_arena(c->plans[LS_MICRO]);
    LS_TRY(ls_update_program(&g, c, o));
    LS_TRY(plan(c, LS_UPDATE, &g, &o->parallel, calibration));
    return ls_plans_share_host(LS_PROGRAMS, c->plans);
}

/* NaN fails these comparisons. */
static ls_status check_optimizer(const ls_optimizer *o, double clip_norm, double ema_decay)
{
    const struct {
        const char *name;
        double value, below;
    } numbers[] = { { "beta1", o->beta1, 1 },
                    { "beta2", o->beta2, 1 },
                    { "eps", o->eps, INFINITY },
                    { "weight_decay", o->weight_decay, INFINITY },
                    { "momentum", o->momentum, INFINITY },
                    { "dampening", o->dampening, INFINITY },
                    { "ema_decay", ema_decay, 1 },
                    { "muon_momentum", o->muon_momentum, 1 },
                    { "min_scale", o->min_scale, INFINITY },
                    { "clip_norm", clip_norm, INFINITY } };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(numbers[i].value >= 0 && numbers[i].value < numbers[i].below))
            return ls_fail(LS_E_USAGE, "%s is %g: it must be a number from 0 on%s", numbers[i].name,
                           numbers[i].value, isinf(numbers[i].below) ? "" : " and below 1");
    return LS_OK;
}

/* The conditions of PyTorch's GradScaler; the scale is an f32. */
static ls_status check_scaler(const ls_scaler *s)
{
    if (s->init > 0 && s->init <= (double)FLT_MAX && s->growth > 1 && s->growth <= (double)FLT_MAX &&
        s->backoff > 0 && s->backoff < 1 && s->interval > 0)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "scaler: init %g, growth %g, backoff %g, interval %lld: init is above 0, growth above 1, "
                   "backoff between 0 and 1, interval above 0",
                   s->init, s->growth, s->backoff, (long long)s->interval);
}

ls_status ls_compiled_keep(ls_compiled *c, const ls_precision *p)
{
    c->precision = *p;
    c->precision.modules = c->modules = ls_sys_strdup(p->modules);
    return p->modules ? ls_sys_have(c->modules) : LS_OK;
}

ls_status ls_compile_check_type(ls_dtype param, const ls_device *d)
{
    if (param != LS_F64 || !strcmp(d->ops->name, "ref"))
        return LS_OK;
    return ls_fail_field(LS_E_UNSUPPORTED, "param", "f64 runs on device ref only; this is %s", d->ops->name);
}

/* Too many groups are refused later. */
static void keep_optimizer(ls_compiled *c, const ls_trainer_opts *o)
{
    c->optimizer = o->optimizer;
    c->n_groups = o->n_groups;
    for (int k = 0; k < o->n_groups && k < LS_GROUPS_MOST; k++) {
        c->groups[k] = o->groups[k];
        c->groups[k].match = NULL;
    }
}

ls_status ls_compile(ls_compiled *c, ls_build_fn build, const void *config, const ls_trainer_opts *given,
                     const ls_calibration *calibration)
{
    ls_trainer_opts resolved = *given, *o = &resolved;
    LS_ARG_ENUM(ls_optimizer_kind, o->optimizer.kind, LS_ADAFACTOR);
    LS_ARG_ENUM(ls_accumulation, o->accumulation, LS_SUM_RUNNING);
    if (o->parallel.synchronize == LS_SYNCHRONIZE_AUTO &&
        o->micro_batches == ls_mesh_data_ranks(&o->parallel.mesh))
        /* With one micro-batch a rank both settings mean the same, and with this one sums start during the
         * backward pass. */
        o->parallel.synchronize = LS_SYNCHRONIZE_EACH;
    *c = (ls_compiled){ .micro_batch = o->micro_batch,
                        .micro_batches = o->micro_batches,
                        .eval_batch = o->eval_batch ? o->eval_batch : o->micro_batch,
                        .clipping = o->clip_norm > 0,
                        .averaging = o->ema_decay > 0 && !o->eval_only,
                        .mean_of_means = o->mean_of_means,
                        .padding = o->padding,
                        .nonfinite = o->nonfinite,
                        .max_skips = o->max_skips,
                        .accumulation = o->accumulation,
                        .parallel = o->parallel };
    const ls_precision precision = ls_trainer_precision(o);
    keep_optimizer(c, o);
    LS_TRY(ls_parallel_check(&o->parallel));
    LS_TRY(ls_precision_check(&precision));
    c->loss_scaling = ls_precision_has_f16(&precision);
    LS_TRY(ls_parallel_share(&c->share, &o->parallel, o->micro_batches));
    c->unrolled = ls_parallel_stages(&o->parallel) > 1 ? c->share.count : 1;
    const ls_pipeline_shape shape = ls_parallel_pipeline(&o->parallel, c->share.count);
    LS_TRY(ls_pipeline_check(&shape));
    LS_TRY(ls_pipeline_idle(&c->idle, &shape));
    c->tree_buffers = tree_buffers(ls_compiled_runs(c), o->accumulation);
    if (o->micro_batch < 1 || o->micro_batches < 1 || c->eval_batch < 1)
        return ls_fail(LS_E_USAGE,
                       "micro_batch %lld, micro_batches %lld and eval_batch %lld must be positive",
                       (long long)o->micro_batch, (long long)o->micro_batches, (long long)c->eval_batch);
    LS_TRY(check_optimizer(&o->optimizer, o->clip_norm, o->ema_decay));
    LS_TRY(check_scaler(&o->scaler));
    if ((o->nonfinite != LS_NONFINITE_STOP && o->nonfinite != LS_NONFINITE_SKIP) || o->max_skips < 1)
        return ls_fail(LS_E_USAGE,
                       "nonfinite %d, max_skips %lld: nonfinite is LS_NONFINITE_STOP or LS_NONFINITE_SKIP, "
                       "max_skips at least 1",
                       (int)o->nonfinite, (long long)o->max_skips);
    if (!ls_dtype_is_float(o->param) || !ls_dtype_is_float(o->output))
        return ls_fail(LS_E_USAGE, "precision must be a float type, not %s / %s", ls_dtype_name(o->param),
                       ls_dtype_name(o->output));
    ls_device_opts d = {
        .isa = o->isa, .threads = o->threads, .kernels = o->kernels, .elsewhere = o->elsewhere
    };
    LS_TRY(ls_device_open(&c->device, o->device, &d));
    if (ls_device_apart(&c->device)) {
        LS_TRY(ls_parallel_apart(&o->parallel, c->device.ops->name));
        c->parallel.gather = o->parallel.gather;
    }
    /* (how many rows go to an expert is data, which the host reads: then all collectives go through it) */
    if (ls_mesh_ranks(&o->parallel.mesh) > 1 &&
        ls_mesh_group_size(&o->parallel.mesh, ls_mesh_axis(&o->parallel.mesh, LS_ROLE_EXPERT)) < 2)
        LS_TRY(ls_device_link(&c->device));
    LS_TRY(ls_compile_check_type(o->param, &c->device));
    LS_TRY(ls_update_device(c, &d));
    ls_status s = ls_compiled_keep(c, &precision);
    if (s == LS_OK)
        s = compile_all(c, build, config, o, calibration);
    if (s == LS_OK)
        s = ls_spares_list(&c->spares, &c->units.arena, c);
    if (s == LS_OK)
        s = ls_compiled_fits(c);
    size_t share = 0;
    if (s == LS_OK && !o->eval_only)
        s = ls_state_share_bytes(&share, c); /* fails if a checkpoint cannot hold the state */
    c->staging_bytes = o->stage_saves ? share : 0;
    if (s != LS_OK)
        ls_compiled_release(c);
    return s;
}

void ls_compiled_release(ls_compiled *c)
{
    for (int i = 0; i < LS_PROGRAMS; i++)
        ls_plan_destroy(&c->plans[i]);
    ls_units_release(&c->units);
    ls_objective_release(&c->objective);
    ls_graph_destroy(&c->model);
    free(c->mixing);
    c->mixing = NULL;
    free(c->modules);
    c->modules = NULL;
}
