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
#include "graph/identity.h"
#include "ops/rules.h"

static ls_status bind_units(ls_trainer *t, bool training)
{
    const ls_units *u = &t->compiled.units;
    for (int i = 0; i < u->n; i++) {
        const char *name = u->units[i].state;
        LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_UNIT, .unit = i }, name,
                                   &t->units[i]));
        if (!training || u->units[i].frozen)
            continue;
        if (u->units[i].weights)
            LS_TRY(ls_trainer_bind_weights(t, i));
        const bool there = u->units[i].weights && t->compiled.gradients_in_weights;
        LS_TRY(ls_session_place_of(t->session,
                                   (ls_identity){ .what = there ? LS_IS_WEIGHTS : LS_IS_GRADIENT, .unit = i },
                                   name, &t->grads[i]));
        LS_TRY(ls_tree_create(&t->trees[i], &t->compiled.device, t->grads[i].type, t->compiled.tree_buffers,
                              t->compiled.accumulation == LS_SUM_RUNNING));
    }
    return LS_OK;
}

static ls_status number(ls_session *s, int what, const char *name, bool wanted, ls_place *out)
{
    return wanted ? ls_session_place_of(s, (ls_identity){ .what = what }, name, out) : LS_OK;
}

static int count_buffers(const ls_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->op == &ls_op_buffer;
    return n;
}

static bool has_input(const ls_graph *g, int what)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_input && ls_source_is(g->nodes[i]).what == what)
            return true;
    return false;
}

static bool has_output(const ls_graph *g, int what)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].is.what == what)
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
        ls_trainer_buffer *b = &t->buffers[t->n_buffers];
        if (g->nodes[i]->op != &ls_op_buffer)
            continue;
        b->name = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
        LS_TRY(ls_session_place_of(t->session, (ls_identity){ 0 }, b->name, &b->place));
        t->n_buffers++;
    }
    if (t->group && t->n_buffers)
        LS_TRY(ls_sys_have(t->shared_buffers = ls_sys_malloc(ls_trainer_buffer_bytes(t))));
    return number(t->session, LS_IS_TRACK, "track", micro && has_input(micro, LS_IS_TRACK), &t->track);
}

/* One tensor for each loss or metric. */
static ls_status bind_terms(ls_trainer *t, bool training)
{
    const ls_objective *o = &t->compiled.objective;
    for (int i = 0; i < o->n; i++) {
        const ls_term *term = &o->terms[i];
        if (ls_term_has_rows(term))
            LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_ROWS, .unit = i }, term->name,
                                       &t->rows[i]));
        if (ls_term_has_targets(term))
            LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_TARGETS, .unit = i },
                                       term->name, &t->targets[i]));
    }
    for (int i = 0; i < t->losses && training; i++)
        LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_LOSS, .unit = i }, "loss",
                                   &t->loss[i]));
    for (int i = 0; i < o->n_losses && training; i++)
        LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_DIVISOR, .unit = i },
                                   o->terms[i].name, &t->divisor[i]));
    return LS_OK;
}

static ls_status bind(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    ls_session *s = t->session;
    const bool training = c->plans[LS_MICRO] != NULL;
    const ls_graph *micro = training ? c->plans[LS_MICRO]->graph : NULL, *eval = c->plans[LS_EVAL]->graph;
    LS_TRY(bind_units(t, training));
    LS_TRY(bind_buffers(t));
    LS_TRY(ls_trainer_undo_find(t));
    LS_TRY(ls_trainer_bind_fields(t));
    LS_TRY(bind_terms(t, training));
    LS_TRY(number(s, LS_IS_PREDICTED, "predicted", has_output(eval, LS_IS_PREDICTED), &t->eval_predicted));
    LS_TRY(number(s, LS_IS_PROBABILITY, "probability", has_output(eval, LS_IS_PROBABILITY),
                  &t->eval_probability));
    LS_TRY(number(s, LS_IS_REAL, "real", micro && has_input(micro, LS_IS_REAL), &t->real));
    LS_TRY(number(s, LS_IS_RATE, "lr", training, &t->lr));
    LS_TRY(number(s, LS_IS_STEP, "step", training, &t->step));
    const bool random = micro && has_input(micro, LS_IS_PLACES);
    LS_TRY(number(s, LS_IS_SEED, "random_seed", random, &t->random_seed));
    LS_TRY(number(s, LS_IS_PLACES, "sample_places", random, &t->sample_places));
    LS_TRY(number(s, LS_IS_GRAD_NORM, "grad_norm", training && c->clipping, &t->grad_norm));
    LS_TRY(number(s, LS_IS_APPLIED, "applied",
                  training && has_output(c->plans[LS_UPDATE]->graph, LS_IS_APPLIED), &t->applied));
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
    t->weights = ls_sys_calloc(units, sizeof *t->weights);
    t->trees = ls_sys_calloc(units, sizeof *t->trees);
    t->round_to = ls_sys_calloc(units, sizeof *t->round_to);
    const ls_objective *o = &t->compiled.objective;
    t->losses = ls_objective_losses(o);
    /* a message has the losses, or the divisors and the samples, of each micro-batch */
    const int64_t columns = t->losses > o->n_losses ? t->losses : o->n_losses + 1,
                  message = 1 + compiled->share.count * columns, ranks = t->group ? ls_group_size(group) : 0;
    t->loss = ls_sys_calloc((size_t)t->losses, sizeof *t->loss);
    t->divisor = ls_sys_calloc((size_t)o->n_losses, sizeof *t->divisor);
    t->rows = ls_sys_calloc((size_t)o->n, sizeof *t->rows);
    t->targets = ls_sys_calloc((size_t)o->n, sizeof *t->targets);
    t->each = ls_sys_calloc((size_t)o->n_losses, sizeof *t->each);
    t->own = ls_sys_calloc((size_t)compiled->share.count, sizeof *t->own);
    t->sums = ls_sys_calloc((size_t)(compiled->share.count * columns), sizeof *t->sums);
    t->total = ls_sys_calloc((size_t)o->n_losses + 1, sizeof *t->total);
    t->loss_of = ls_sys_calloc((size_t)(compiled->micro_batches * columns), sizeof *t->loss_of);
    t->exchange = ls_sys_calloc((size_t)(message * (1 + ranks)), sizeof *t->exchange);
    if (!t->units || !t->weights || !t->grads || !t->trees || !t->round_to || !t->loss || !t->divisor ||
        !t->rows || !t->targets || !t->each || !t->own || !t->sums || !t->total || !t->loss_of ||
        !t->exchange)
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
    LS_TRY_TO(s,
              ls_session_create_with(&t->session, n, plans,
                                     &(ls_session_opts){ .group = t->group,
                                                         .parallel = &t->compiled.parallel,
                                                            .runs = (int)t->compiled.share.count + 1,
                                                         .n_spares = t->compiled.averaging,
                                                         .spares = &LS_TYPE(LS_F32, 1 << 20) }),
              fail);
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
    if (t->guest)
        t->guest->gone(t->guest->context);
    for (int i = 0; t->trees && i < t->compiled.units.n; i++)
        ls_tree_release(&t->trees[i]);
    free(t->units);
    free(t->weights);
    free(t->grads);
    free(t->trees);
    free(t->round_to);
    free(t->loss);
    free(t->divisor);
    free(t->rows);
    free(t->targets);
    free(t->each);
    free(t->own);
    free(t->sums);
    free(t->total);
    free(t->loss_of);
    free(t->exchange);
    for (int i = 0; i < t->n_fields; i++)
        free(t->fields[i].put);
    free(t->fields);
    free(t->fed);
    free(t->buffers);
    free(t->shared_buffers);
    ls_undo_release(&t->undo);
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

/* Exchanges requests and losses with the other ranks. Each rank sends its request and its losses; t->loss_of
 * gets those of all micro-batches in order. */
static ls_status exchange(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    t->requested = t->request;
    if (!t->group)
        return LS_OK;
    const int64_t count = c->share.count * t->losses;
    const int ranks = ls_group_size(t->group);
    double *out = t->exchange, *in = out + 1 + count;
    out[0] = t->request;
    memcpy(out + 1, t->loss_of, sizeof(double) * (size_t)count);
    ls_status s = ls_group_all_gather_same(t->group, out, sizeof(double) * (size_t)(1 + count), in);
    for (int r = 0; r < ranks && s == LS_OK; r++) {
        ls_parallel p = c->parallel;
        ls_share share;
        p.rank = r;
        s = ls_parallel_share(&share, &p, c->micro_batches);
        t->requested |= (uint32_t)in[(1 + count) * r];
        for (int64_t k = 0; k < share.count && s == LS_OK; k++)
            memcpy(t->loss_of + (share.first + k * share.stride) * t->losses,
                   in + (1 + count) * r + 1 + k * t->losses, sizeof(double) * (size_t)t->losses);
    }
    return s;
}

/* All ranks get the same status if they pass the same arguments. */
ls_status ls_trainer_check_step(const ls_trainer *t, double lr, const char *call)
{
    if (!t->compiled.plans[LS_MICRO])
        return ls_fail(LS_E_ARG, "this trainer was made for evaluation only");
    LS_TRY(ls_trainer_needs_weights(t, call));
    LS_TRY(ls_trainer_needs_parameters(t, call));
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
    if (r->skip != LS_SKIP_OVERFLOW || r->loss_scale >= LOWEST_SCALE)
        return LS_OK;
    return ls_fail(LS_E_NUMERIC,
                   "the gradients overflow f16 even with a loss scale of %g, so every step would be skipped: "
                   "training has diverged, or its numbers are too "
                   "large for f16 (a lower learning rate, clipping, or bf16 or f32 in place of f16)",
                   2 * r->loss_scale);
}

static bool losses_finite(const ls_trainer *t)
{
    for (int64_t m = 0; m < t->compiled.micro_batches; m++)
        if (!isfinite(t->loss_of[m * t->losses])) /* in f16, too: the loss scale multiplies only gradients */
            return false;
    return true;
}

/* Runs `update`, unless that is known to change nothing. The same outcome on all ranks. */
static ls_status apply(ls_trainer *t, double lr, bool nothing, ls_skip *skip)
{
    *skip = nothing ? LS_SKIP_NOTHING : losses_finite(t) ? LS_SKIP_NONE : LS_SKIP_LOSS;
    if (*skip)
        return LS_OK;
    LS_TRY(ls_put_scalar(&t->lr, lr));
    if (!ls_place_present(&t->applied))
        return ls_trainer_program(t, LS_UPDATE);
    int32_t applied = 1; /* device null writes nothing */
    LS_TRY(ls_session_write(&t->applied, &applied, sizeof applied));
    LS_TRY(ls_trainer_program(t, LS_UPDATE));
    LS_TRY(ls_session_read(&t->applied, &applied, sizeof applied));
    if (!applied)
        *skip = t->compiled.loss_scaling ? LS_SKIP_OVERFLOW : LS_SKIP_GRADIENT;
    return LS_OK;
}

/* A number of the step was not finite. Puts back what `micro` has changed, and counts. After an overflow of
 * f16 running statistics stay as they have moved, as with PyTorch's GradScaler. */
static ls_status refuse(ls_trainer *t, const ls_step_result *r)
{
    const ls_compiled *c = &t->compiled;
    t->skips++;
    if (r->skip == LS_SKIP_OVERFLOW)
        return check_scale(r);
    LS_TRY(ls_trainer_undo(t));
    t->bad_skips++;
    if (c->nonfinite == LS_NONFINITE_SKIP && t->bad_skips < c->max_skips)
        return LS_OK;
    const ls_status s = ls_trainer_explain(t, r->skip);
    return s != LS_E_NUMERIC || c->nonfinite == LS_NONFINITE_STOP
               ? s
               : ls_fail(s, "%s; it is step %lld in a row that was skipped, and max_skips is %lld",
                         ls_error_message(), (long long)t->bad_skips, (long long)c->max_skips);
}

/* The sum over the step's micro-batches of the i-th number of each. */
static double loss_sum(ls_trainer *t, int i)
{
    const ls_compiled *c = &t->compiled;
    double *one = t->exchange; /* its message has arrived */
    if (t->losses == 1)
        one = t->loss_of;
    for (int64_t m = 0; m < c->micro_batches && t->losses > 1; m++)
        one[m] = t->loss_of[m * t->losses + i];
    return ls_tree_sum(one, c->micro_batches, c->accumulation == LS_SUM_RUNNING);
}

/* A loss of which nothing counted has no value. */
static void result(ls_trainer *t, ls_step_result *r, bool nothing)
{
    const ls_objective *o = &t->compiled.objective;
    const bool targets = o->n_losses == 1 && o->terms[0].weigh == LS_BY_VALID;
    r->loss = nothing ? NAN : loss_sum(t, 0);
    r->count = nothing ? 0 : targets ? (int64_t)t->total[0] : t->samples;
    for (int i = 1; i < t->losses; i++)
        t->each[i - 1] = (ls_metric){ o->terms[i - 1].name, t->total[i - 1] > 0 ? loss_sum(t, i) : NAN };
    r->n_losses = t->losses - 1;
    r->losses = r->n_losses ? t->each : NULL;
}

ls_status ls_trainer_check_whole(const ls_trainer *t, int64_t samples, int64_t room)
{
    const int64_t batch = t->compiled.micro_batch;
    return t->compiled.padding || samples == room
               ? LS_OK
               : ls_fail(LS_E_ARG,
                         "a micro-batch of %lld of %lld samples must be padded, for which the trainer was "
                         "not made: say .padding = true",
                         (long long)(samples % batch), (long long)batch);
}

/* One step of what was fed. */
static ls_status step(ls_trainer *t, int64_t samples, double lr, ls_step_result *r)
{
    const ls_compiled *c = &t->compiled;
    const double start = ls_now();
    bool nothing;
    char label[48];
    snprintf(label, sizeof label, "step %lld", (long long)++t->step_number);
    ls_session_label(t->session, label);
    if (samples >= 0) /* on all ranks, also those whose own micro-batches are whole */
        LS_TRY(ls_trainer_check_whole(t, samples, c->micro_batch * c->micro_batches));
    LS_TRY(ls_trainer_divisors(t, samples, &nothing));
    memset(t->loss_of, 0, sizeof *t->loss_of * (size_t)(c->micro_batches * t->losses));
    LS_TRY(ls_trainer_undo_keep(t));
    for (int i = 0; i < c->units.trained; i++)
        ls_tree_begin(&t->trees[i]);
    for (int64_t k = 0; k < c->share.count && !nothing; k++) {
        LS_TRY(ls_trainer_micro(t, k));
        for (int i = 0; i < c->units.trained; i++)
            ls_tree_add(&t->trees[i], ls_place_host(&t->grads[i]).data, k + 1 == c->share.count);
    }
    t->buffers_moved = t->n_buffers > 0;
    LS_TRY(exchange(t));
    ls_skip skip;
    LS_TRY(apply(t, lr, nothing, &skip));
    const bool updated = skip != LS_SKIP_NOTHING && skip != LS_SKIP_LOSS;
    *r = (ls_step_result){ .grad_norm = -1, .skipped = skip != LS_SKIP_NONE, .skip = skip };
    if (c->clipping && updated)
        LS_TRY(ls_get_scalar(&t->grad_norm, &r->grad_norm));
    if (c->loss_scaling)
        LS_TRY(ls_get_scalar(&t->loss_scale, &r->loss_scale));
    result(t, r, nothing);
    ls_status s = LS_OK;
    if (skip == LS_SKIP_NONE)
        t->skips = t->bad_skips = 0;
    else if (skip != LS_SKIP_NOTHING)
        s = refuse(t, r);
    r->seconds = ls_now() - start;
    return s;
}

ls_status ls_trainer_step_fed(ls_trainer *t, int64_t samples, double lr, ls_step_result *r)
{
    const ls_status s = step(t, samples, lr, r);
    ls_trainer_unfeed(t);
    return s;
}

ls_status ls_trainer_eval_fed(ls_trainer *t)
{
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_eval"));
    LS_TRY(ls_trainer_share_buffers(t));
    ls_status s = ls_trainer_fill(t, 0);
    if (s == LS_OK)
        s = ls_trainer_program(t, LS_EVAL);
    ls_trainer_unfeed(t);
    return s;
}

ls_trainer_opts ls_trainer_opts_default(void) { return (ls_trainer_opts){ LS_TRAINER_DEFAULTS }; }
