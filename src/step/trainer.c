/* trainer.c - runs a compiled step: feed, run `micro`, accumulate, run `update`. After creation nothing here
 * allocates. parameters.c has the parameters by name, state.c saving and loading. */
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/argument.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/group_calls.h"
#include "digest.h"
#include "lockstep/data.h"
#include "ops/rules.h"

static void put_scalar(const ls_tensor *t, double x)
{
    if (t->type.dtype == LS_F64)
        *(double *)t->data = x;
    else
        *(float *)t->data = (float)x;
}

static double scalar(const ls_tensor *t)
{
    return t->type.dtype == LS_F64 ? *(double *)t->data : (double)*(float *)t->data;
}

static ls_status optional(ls_session *s, const char *name, bool wanted, ls_tensor *out)
{
    return wanted ? ls_session_tensor(s, name, out) : LS_OK;
}

static ls_status bind_units(ls_trainer *t, bool training)
{
    const ls_units *u = &t->compiled.units;
    for (int i = 0; i < u->n; i++) {
        const char *name = u->units[i].state;
        LS_TRY(
            ls_session_find(t->session, (ls_identity){ .what = LS_IS_UNIT, .unit = i }, name, &t->units[i]));
        if (!training || u->units[i].frozen)
            continue;
        LS_TRY(ls_session_find(t->session, (ls_identity){ .what = LS_IS_GRADIENT, .unit = i }, name,
                               &t->grads[i]));
        LS_TRY(ls_tree_create(&t->trees[i], &t->compiled.device, t->grads[i].type, t->compiled.tree_buffers,
                              t->compiled.accumulation == LS_SUM_RUNNING));
    }
    return LS_OK;
}

static ls_status number(ls_session *s, ls_what what, const char *name, bool wanted, ls_tensor *out)
{
    return wanted ? ls_session_find(s, (ls_identity){ .what = what }, name, out) : LS_OK;
}

static int count_buffers(const ls_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->op == &ls_op_buffer;
    return n;
}

static bool has_input(const ls_graph *g, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_input &&
            !strcmp(((const ls_source_attrs *)g->nodes[i]->attrs)->name, name))
            return true;
    return false;
}

static bool has_output(const ls_graph *g, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, name))
            return true;
    return false;
}

/* Finds the buffers, in the order of the model, and `track`, the input that says when they change. */
static ls_status bind_buffers(ls_trainer *t)
{
    const ls_graph *g = t->compiled.plans[LS_EVAL]->graph,
                   *micro = t->compiled.plans[LS_MICRO] ? t->compiled.plans[LS_MICRO]->graph : NULL;
    t->buffers = ls_sys_calloc((size_t)count_buffers(g) + 1, sizeof *t->buffers);
    if (!t->buffers)
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    for (int i = 0; i < g->n_nodes; i++) {
        ls_named_tensor *b = &t->buffers[t->n_buffers];
        if (g->nodes[i]->op != &ls_op_buffer)
            continue;
        b->name = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
        LS_TRY(ls_session_find(t->session, (ls_identity){ 0 }, b->name, &b->tensor));
        t->n_buffers++;
    }
    return optional(t->session, "track", micro && has_input(micro, "track"), &t->track);
}

static ls_status bind(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    ls_session *s = t->session;
    bool training = c->plans[LS_MICRO] != NULL;
    LS_TRY(bind_units(t, training));
    LS_TRY(bind_buffers(t));
    const ls_graph *eval = c->plans[LS_EVAL]->graph;
    const char *inputs, *targets;
    LS_TRY(ls_batch_inputs(eval, &inputs, &targets));
    LS_TRY(ls_session_tensor(s, inputs, &t->inputs));
    LS_TRY(ls_session_tensor(s, targets, &t->targets));
    LS_TRY(ls_session_binding(s, inputs, &t->inputs_at));
    LS_TRY(ls_session_binding(s, targets, &t->targets_at));
    LS_TRY(ls_session_tensor(s, "eval.rows", &t->eval_rows));
    LS_TRY(ls_session_tensor(s, "eval.predicted", &t->eval_predicted));
    LS_TRY(optional(s, "eval.probability", has_output(eval, "eval.probability"), &t->eval_probability));
    LS_TRY(ls_session_tensor(s, "count", &t->count));
    LS_TRY(optional(s, "loss", training, &t->loss));
    LS_TRY(number(s, LS_IS_RATE, "lr", training, &t->lr));
    LS_TRY(number(s, LS_IS_STEP, "step", training, &t->step));
    const bool random = training && has_input(c->plans[LS_MICRO]->graph, "sample_places");
    LS_TRY(optional(s, "random_seed", random, &t->random_seed));
    LS_TRY(optional(s, "sample_places", random, &t->sample_places));
    LS_TRY(number(s, LS_IS_GRAD_NORM, "grad_norm", training && c->clipping, &t->grad_norm));
    LS_TRY(number(s, LS_IS_APPLIED, "applied", training && c->loss_scaling, &t->applied));
    LS_TRY(number(s, LS_IS_LOSS_SCALE, "loss_scale", training && c->loss_scaling, &t->loss_scale));
    return LS_OK;
}

/* Creates the struct with its arrays. Takes ownership of the plans, and lists them for the session. */
static ls_status adopt(ls_trainer **out, ls_compiled *compiled, ls_group *group, ls_plan **plans, int *n)
{
    ls_trainer *t = *out = ls_sys_calloc(1, sizeof *t);
    if (!t) {
        ls_compiled_release(compiled);
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    }
    t->compiled = *compiled;
    t->group = group && ls_group_size(group) > 1 ? group : NULL;
    size_t units = (size_t)compiled->units.n;
    t->units = ls_sys_calloc(units, sizeof *t->units);
    t->grads = ls_sys_calloc(units, sizeof *t->grads);
    t->trees = ls_sys_calloc(units, sizeof *t->trees);
    t->losses = ls_sys_calloc((size_t)compiled->micro_batches, sizeof *t->losses);
    t->exchange = ls_sys_calloc(
        (size_t)((1 + compiled->share.count) * (1 + (t->group ? ls_group_size(group) : 0))),
        sizeof *t->exchange);
    if (!t->units || !t->grads || !t->trees || !t->losses || !t->exchange)
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    for (int i = 0; i < LS_PROGRAMS; i++) {
        t->session_plan[i] = t->compiled.plans[i] ? *n : -1;
        if (t->compiled.plans[i])
            plans[(*n)++] = t->compiled.plans[i];
    }
    return LS_OK;
}

/* Takes the page faults of the staging memory before the first save. For fresh memory they take many times as
 * long as copying to it. */
static ls_status prefault_staging(void *context)
{
    const ls_trainer *t = context;
    for (size_t at = 0; at < t->compiled.staging_bytes && !__atomic_load_n(&t->closing, __ATOMIC_RELAXED);
         at += 4096)
        t->staging[at] = 0;
    return LS_OK;
}

static ls_status map_staging(ls_trainer *t)
{
    const size_t bytes = t->compiled.staging_bytes;
    char text[32];
    if (!bytes)
        return LS_OK;
    void *p = ls_sys_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return ls_fail(LS_E_MEMORY,
                       "the system refuses %s for the copy that a save while training goes on needs "
                       "(stage_saves); other saves need none",
                       ls_format_bytes(text, bytes));
    t->staging = p;
    madvise(p, bytes, MADV_HUGEPAGE); /* a failure does no harm */
    return ls_background_start(&t->prefault, prefault_staging, t);
}

ls_status ls_trainer_from_compiled(ls_trainer **out, ls_compiled *compiled, ls_group *group)
{
    ls_plan *plans[LS_PROGRAMS];
    int n = 0;
    ls_trainer *t = NULL;
    ls_status s;
    *out = NULL;
    LS_TRY_TO(s, adopt(&t, compiled, group, plans, &n), fail);
    if (t->group)
        LS_TRY_TO(s, ls_programs_agree(t->group, n, plans), fail);
    LS_TRY_TO(s, ls_session_create_on(&t->session, n, plans, t->group, &t->compiled.parallel), fail);
    LS_TRY_TO(s, bind(t), fail);
    LS_TRY_TO(s, map_staging(t), fail);
    *out = t;
    return LS_OK;
fail:
    ls_trainer_destroy(&t);
    return s;
}

ls_status ls_trainer_create_with(ls_trainer **out, ls_build_fn build, const void *config,
                                 const ls_trainer_opts *o)
{
    LS_ARG(out);
    LS_ARG(build);
    o = o ? o : &(const ls_trainer_opts){ LS_TRAINER_DEFAULTS };
    ls_compiled c;
    if (o->elsewhere)
        return ls_fail(LS_E_ARG, "a trainer runs here; plan for another machine with ls_compile");
    LS_TRY(ls_compile(&c, build, config, o, NULL));
    return ls_trainer_from_compiled(out, &c, o->group);
}

void ls_trainer_destroy(ls_trainer **tp)
{
    if (!tp)
        return;
    ls_trainer *t = *tp;
    if (!t)
        return;
    for (int i = 0; t->trees && i < t->compiled.units.n; i++)
        ls_tree_release(&t->trees[i]);
    free(t->units);
    free(t->grads);
    free(t->trees);
    free(t->losses);
    free(t->exchange);
    free(t->buffers);
    free(t->whole);
    __atomic_store_n(&t->closing, true, __ATOMIC_RELAXED);
    ls_background_wait(&t->prefault);
    if (t->staging)
        munmap(t->staging, t->compiled.staging_bytes);
    ls_session_destroy(&t->session);
    ls_compiled_release(&t->compiled);
    free(t);
    *tp = NULL;
}

static ls_status run(ls_trainer *t, int program)
{
    t->used = true;
    LS_TRY(ls_session_run(t->session, t->session_plan[program], false));
    if (t->after_run)
        t->after_run(t->context, t, program);
    return LS_OK;
}

/* The loss of micro-batch m is not finite. Runs it again and checks every value, so that the message names
 * the op that computed the first bad one. */
static ls_status blame(ls_trainer *t, int64_t m)
{
    ls_status s = ls_session_run(t->session, t->session_plan[LS_MICRO], true);
    if (s != LS_OK)
        return ls_fail_in(
            s, "the loss of micro-batch %lld is not a number%s", (long long)m,
            t->compiled.loss_scaling ? ", which no loss scale mends (f16 ends at 65504; bf16 does not)" : "");
    return ls_fail(LS_E_NUMERIC,
                   "the loss of micro-batch %lld is not a number, though every value of a second run is; is "
                   "memory damaged?",
                   (long long)m);
}

/* With loss_mean: micro_batch a micro-batch divides the sum of its losses by this: the number of its targets
 * times the number of micro-batches. */
static int64_t own_count(const ls_trainer *t, const int32_t *targets)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ls_type_count(&t->targets.type); i++)
        n += targets[i] != LS_IGNORE_LABEL;
    return (n ? n : 1) * t->compiled.micro_batches;
}

/* Binds inputs and targets: the next run reads them in the caller's memory. */
static void feed(ls_trainer *t, const void *inputs, const int32_t *targets, int64_t count)
{
    ls_session_bind(t->inputs_at, inputs);
    ls_session_bind(t->targets_at, targets);
    put_scalar(&t->count, (double)count);
}

/* Unbinds them after a run with status s, so no pointer to the caller's memory is kept. Returns s. */
static ls_status fed(ls_trainer *t, ls_status s)
{
    ls_session_bind(t->inputs_at, NULL);
    ls_session_bind(t->targets_at, NULL);
    return s;
}

/* Runs this rank's micro-batch k. Its loss goes to t->losses[k], its gradients to t->grads. */
static ls_status run_micro(ls_trainer *t, int64_t k, const void *inputs, const int32_t *targets,
                           int64_t count)
{
    const ls_compiled *c = &t->compiled;
    const int64_t number = c->share.first + k * c->share.stride;
    feed(t, inputs, targets, c->mean_of_means ? own_count(t, targets) : count);
    if (t->track.data) /* buffers change once a step, in micro-batch 0, with any number of ranks */
        *(int32_t *)t->track.data = number == 0;
    if (t->sample_places.data) {
        /* as in data/order.c: row r of micro-batch m is sample m + r M of the step */
        ((int64_t *)t->sample_places.data)[0] = number;
        ((int64_t *)t->sample_places.data)[1] = c->micro_batches;
    }
    LS_TRY(run(t, LS_MICRO));
    t->losses[k] = scalar(&t->loss);
    /* in f16, too: the loss scale multiplies only gradients */
    return isfinite(t->losses[k]) ? LS_OK : blame(t, number);
}

/* Exchanges requests and losses with the other ranks. Each rank sends its request and its losses; t->losses
 * gets those of all micro-batches in order. */
static ls_status exchange(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    t->requested = t->request;
    if (!t->group)
        return LS_OK;
    const int64_t count = c->share.count;
    const int ranks = ls_group_size(t->group);
    double *out = t->exchange, *in = out + 1 + count;
    out[0] = t->request;
    memcpy(out + 1, t->losses, sizeof(double) * (size_t)count);
    ls_status s = ls_group_all_gather_same(t->group, out, sizeof(double) * (size_t)(1 + count), in);
    for (int r = 0; r < ranks && s == LS_OK; r++) {
        ls_parallel p = c->parallel;
        ls_share share;
        p.rank = r;
        s = ls_parallel_share(&share, &p, c->micro_batches);
        t->requested |= (uint32_t)in[(1 + count) * r];
        for (int64_t k = 0; k < count; k++)
            t->losses[share.first + k * share.stride] = in[(1 + count) * r + 1 + k];
    }
    return s;
}

/* All ranks get the same status if they pass the same arguments. */
static ls_status check_step(const ls_trainer *t, int64_t count, double lr)
{
    if (!t->compiled.plans[LS_MICRO])
        return ls_fail(LS_E_ARG, "this trainer was made for evaluation only");
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_step"));
    if (count < 1)
        return ls_fail(LS_E_ARG, "a step needs at least one target, this one has %lld", (long long)count);
    if (!(lr >= 0) || isinf(lr))
        return ls_fail(LS_E_ARG,
                       "a step's learning rate is %g: it must be a number from 0 on; look at the schedule",
                       lr);
    return LS_OK;
}

/* The smallest loss scale for f16. Below it small gradients are lost. Gradients that overflow even with this
 * scale mean that training has diverged. */
static const double LOWEST_SCALE = 1;

static ls_status check_scale(const ls_step_result *r)
{
    if (!r->skipped || r->loss_scale >= LOWEST_SCALE)
        return LS_OK;
    return ls_fail(LS_E_NUMERIC,
                   "the gradients overflow f16 even with a loss scale of %g, so every step would be skipped: "
                   "training has diverged, or its numbers are too "
                   "large for f16 (a lower learning rate, clipping, or bf16 or f32 in place of f16)",
                   2 * r->loss_scale);
}

ls_status ls_trainer_step(ls_trainer *t, const void *inputs, const int32_t *targets, int64_t count, double lr,
                          ls_step_result *r)
{
    LS_ARG(t);
    LS_ARG(inputs);
    LS_ARG(targets);
    LS_ARG(r);
    LS_TRAINER_USE(t);
    const ls_compiled *c = &t->compiled;
    LS_TRY(check_step(t, count, lr));
    double start = ls_now();
    size_t input_bytes = ls_type_bytes(&t->inputs.type);
    int64_t each = ls_type_count(&t->targets.type);
    char label[48];
    snprintf(label, sizeof label, "step %lld", (long long)++t->step_number);
    ls_session_label(t->session, label);
    for (int i = 0; i < c->units.trained; i++)
        ls_tree_begin(&t->trees[i]);
    for (int64_t k = 0; k < c->share.count; k++) {
        LS_TRY(fed(
            t, run_micro(t, k, (const char *)inputs + (size_t)k * input_bytes, targets + k * each, count)));
        for (int i = 0; i < c->units.trained; i++)
            ls_tree_add(&t->trees[i], t->grads[i].data, k + 1 == c->share.count);
    }
    t->buffers_moved = t->n_buffers > 0;
    LS_TRY(exchange(t));
    put_scalar(&t->lr, lr);
    LS_TRY(run(t, LS_UPDATE));
    *r = (ls_step_result){ .loss = ls_tree_sum(t->losses, c->micro_batches,
                                               c->accumulation == LS_SUM_RUNNING),
                           .grad_norm = c->clipping ? scalar(&t->grad_norm) : -1,
                           .loss_scale = c->loss_scaling ? scalar(&t->loss_scale) : 0,
                           .skipped = c->loss_scaling && !*(int32_t *)t->applied.data,
                           .seconds = ls_now() - start };
    return check_scale(r);
}

static bool same_sample(const ls_type *of_set, const ls_type *of_batch)
{
    bool same = of_set->dtype == of_batch->dtype && of_set->ndim == of_batch->ndim - 1;
    for (int i = 0; same && i < of_set->ndim; i++)
        same = of_set->dims[i] == of_batch->dims[i + 1];
    return same;
}

ls_status ls_trainer_check_data(const ls_trainer *t, const ls_dataset *set)
{
    LS_ARG(t);
    LS_ARG(set);
    char have[2][128], want[2][128];
    if (same_sample(&set->input, &t->inputs.type) && same_sample(&set->target, &t->targets.type))
        return LS_OK;
    return ls_fail(LS_E_SHAPE,
                   "%s (%s) has samples of %s with targets %s, the model takes batches of %s with targets %s",
                   set->name, set->source, ls_type_text(have[0], &set->input),
                   ls_type_text(have[1], &set->target), ls_type_text(want[0], &t->inputs.type),
                   ls_type_text(want[1], &t->targets.type));
}

ls_status ls_trainer_eval(ls_trainer *t, const void *inputs, const int32_t *targets, float *loss,
                          int32_t *predicted, float *probability)
{
    LS_ARG(t);
    LS_ARG(inputs);
    LS_ARG(targets);
    LS_TRAINER_USE(t);
    int64_t n = ls_type_count(&t->targets.type);
    if (probability && !t->eval_probability.data)
        return ls_fail(LS_E_ARG, "a language model's evaluation gives no probabilities");
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_eval"));
    LS_TRY(ls_trainer_share_buffers(t));
    feed(t, inputs, targets, 1);
    LS_TRY(fed(t, run(t, LS_EVAL)));
    for (int64_t i = 0; i < n && loss; i++)
        loss[i] = t->eval_rows.type.dtype == LS_F64 ? (float)((double *)t->eval_rows.data)[i]
                                                    : ((float *)t->eval_rows.data)[i];
    if (predicted)
        memcpy(predicted, t->eval_predicted.data, sizeof(int32_t) * (size_t)n);
    if (probability)
        memcpy(probability, t->eval_probability.data, ls_type_bytes(&t->eval_probability.type));
    return LS_OK;
}

ls_trainer_opts ls_trainer_opts_default(void) { return (ls_trainer_opts){ LS_TRAINER_DEFAULTS }; }
