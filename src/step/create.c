/* create.c - makes a trainer of compiled programs: its session with spare memory, and the places of all
 * values of a step. trainer.c runs the steps. */
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/argument.h"
#include "base/str.h"
#include "base/sys.h"
#include "digest.h"
#include "graph/identity.h"
#include "ops/rules.h"
#include "trainer.h"

static ls_status bind_units(ls_trainer *t, bool training)
{
    const ls_units *u = &t->compiled.units;
    for (int i = 0; i < u->n; i++) {
        const char *name = u->units[i].state;
        if (!ls_unit_is_here(u, i))
            continue;
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
        LS_TRY(ls_tree_init(&t->trees[i], &t->compiled.updater, &t->grads[i], i * t->compiled.spares.levels,
                            t->compiled.tree_buffers, t->compiled.accumulation == LS_SUM_RUNNING));
    }
    return LS_OK;
}

static ls_status create_number(ls_session *s, int what, const char *name, bool wanted, ls_place *out)
{
    return wanted ? ls_session_place_of(s, (ls_identity){ .what = what }, name, out) : LS_OK;
}

/* The same for each micro-batch of a run of `micro`. */
static ls_status create_numbers(ls_trainer *t, int what, const char *name, bool wanted, ls_place *out)
{
    for (int64_t m = 0; m < t->compiled.unrolled && wanted; m++)
        LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = what, .moment = m }, name, &out[m]));
    return LS_OK;
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
    return create_numbers(t, LS_IS_TRACK, "track", micro && has_input(micro, LS_IS_TRACK), t->track);
}

/* One tensor for each loss or metric. */
static ls_status bind_terms(ls_trainer *t, bool training)
{
    const ls_objective *o = &t->compiled.objective;
    const int64_t runs = t->compiled.unrolled;
    const bool results = ls_trainer_has_results(t);
    for (int i = 0; i < o->n; i++) {
        const ls_term *term = &o->terms[i];
        if (ls_term_has_rows(term) && results)
            LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_ROWS, .unit = i }, term->name,
                                       &t->rows[i]));
        if (ls_term_has_targets(term) && results)
            LS_TRY(ls_session_place_of(t->session, (ls_identity){ .what = LS_IS_TARGETS, .unit = i },
                                       term->name, &t->targets[i]));
    }
    for (int64_t i = 0; i < runs * t->losses && training && results; i++)
        LS_TRY(ls_session_place_of(
            t->session, (ls_identity){ .what = LS_IS_LOSS, .unit = i % t->losses, .moment = i / t->losses },
            "loss", &t->loss[i]));
    for (int64_t i = 0; i < runs * o->n_losses && training; i++)
        LS_TRY(ls_session_place_of(
            t->session,
            (ls_identity){ .what = LS_IS_DIVISOR, .unit = i % o->n_losses, .moment = i / o->n_losses },
            o->terms[i % o->n_losses].name, &t->divisor[i]));
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
    LS_TRY(ls_trainer_undo_bind(t));
    LS_TRY(ls_trainer_bind_fields(t));
    LS_TRY(bind_terms(t, training));
    LS_TRY(create_number(s, LS_IS_PREDICTED, "predicted", has_output(eval, LS_IS_PREDICTED),
                         &t->eval_predicted));
    LS_TRY(create_number(s, LS_IS_PROBABILITY, "probability", has_output(eval, LS_IS_PROBABILITY),
                         &t->eval_probability));
    LS_TRY(create_numbers(t, LS_IS_REAL, "real samples", micro && has_input(micro, LS_IS_REAL), t->real));
    LS_TRY(create_number(s, LS_IS_REAL, "real samples", has_input(eval, LS_IS_REAL), &t->real[0]));
    LS_TRY(create_number(s, LS_IS_LARGEST_LOSS, "largest_loss", training, &t->largest_loss));
    LS_TRY(create_number(s, LS_IS_RATE, "lr", training, &t->lr));
    LS_TRY(create_number(s, LS_IS_STEP, "step", training, &t->step));
    const bool random = micro && has_input(micro, LS_IS_PLACES);
    LS_TRY(create_number(s, LS_IS_SEED, "random_seed", random, &t->random_seed));
    LS_TRY(create_numbers(t, LS_IS_PLACES, "sample_places", random, t->sample_places));
    LS_TRY(create_number(s, LS_IS_GRAD_NORM, "grad_norm", training && c->clipping, &t->grad_norm));
    LS_TRY(create_number(s, LS_IS_APPLIED, "applied",
                         training && has_output(c->plans[LS_UPDATE]->graph, LS_IS_APPLIED), &t->applied));
    t->of_update.applied = 1; /* device null writes nothing, and its steps count as applied */
    if (ls_place_present(&t->applied))
        LS_TRY(ls_session_write(&t->applied, &t->of_update.applied, sizeof t->of_update.applied));
    LS_TRY(create_number(s, LS_IS_LOSS_SCALE, "loss_scale", training && c->loss_scaling, &t->loss_scale));
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
    t->last_lr = NAN;
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
    const int64_t run = compiled->unrolled;
    t->real = ls_sys_calloc((size_t)run, sizeof *t->real);
    t->track = ls_sys_calloc((size_t)run, sizeof *t->track);
    t->sample_places = ls_sys_calloc((size_t)run, sizeof *t->sample_places);
    t->loss = ls_sys_calloc((size_t)(run * t->losses), sizeof *t->loss);
    t->divisor = ls_sys_calloc((size_t)(run * o->n_losses), sizeof *t->divisor);
    t->rows = ls_sys_calloc((size_t)o->n, sizeof *t->rows);
    t->targets = ls_sys_calloc((size_t)o->n, sizeof *t->targets);
    t->each = ls_sys_calloc((size_t)o->n_losses, sizeof *t->each);
    t->own = ls_sys_calloc((size_t)compiled->share.count, sizeof *t->own);
    t->sums = ls_sys_calloc((size_t)(compiled->share.count * columns), sizeof *t->sums);
    t->total = ls_sys_calloc((size_t)o->n_losses + 1, sizeof *t->total);
    t->loss_of = ls_sys_calloc((size_t)(compiled->micro_batches * columns), sizeof *t->loss_of);
    t->exchange = ls_sys_calloc((size_t)(message * (1 + ranks)), sizeof *t->exchange);
    t->micro = ls_sys_calloc((size_t)compiled->share.count, sizeof *t->micro);
    t->numbers = ls_sys_calloc((size_t)(compiled->share.count * (o->n_losses + t->losses)),
                               sizeof *t->numbers);
    if (!t->real || !t->track || !t->sample_places || !t->units || !t->weights || !t->grads || !t->trees ||
        !t->round_to || !t->loss || !t->divisor || !t->rows || !t->targets || !t->each || !t->own ||
        !t->sums || !t->total || !t->loss_of || !t->exchange || !t->micro || !t->numbers)
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    for (int64_t k = 0; k < compiled->share.count; k++) {
        t->micro[k].divisor = t->numbers + k * (o->n_losses + t->losses);
        t->micro[k].loss = t->micro[k].divisor + o->n_losses;
    }
    for (int i = 0; i < LS_PROGRAMS; i++) {
        t->session_plan[i] = t->compiled.plans[i] ? *n : -1;
        if (t->compiled.plans[i])
            plans[(*n)++] = t->compiled.plans[i];
    }
    return LS_OK;
}

static ls_status make_session(ls_trainer *t, int n, ls_plan *const *plans)
{
    const ls_compiled *c = &t->compiled;
    char bytes[32];
    const ls_status s = ls_session_create(&t->session, n, plans,
                                          &(ls_session_opts){ .group = t->group,
                                                              .parallel = &c->parallel,
                                                              .n_spares = c->spares.n,
                                                              .spares = c->spares.types,
                                                              .on_host = c->spares.on_host,
                                                              .runs = (int)c->share.count + 1 });
    if (s != LS_E_MEMORY || !c->tree_buffers)
        return s;
    return ls_fail(s,
                   "%s; %s of it are %d buffers of gradients: a larger micro_batch or the running "
                   "accumulation needs fewer",
                   ls_error_message(), ls_format_bytes(bytes, c->spares.level_bytes), c->tree_buffers);
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
        LS_TRY_TO(s, ls_programs_agree(t->group, &t->compiled.parallel.mesh, n, plans), fail);
    LS_TRY_TO(s, make_session(t, n, plans), fail);
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
    ls_session_destroy(&t->session); /* first: after a failure its queue may still use the memory below */
    free(t->units);
    free(t->weights);
    free(t->grads);
    free(t->trees);
    free(t->round_to);
    free(t->real);
    free(t->track);
    free(t->sample_places);
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
    free(t->micro);
    free(t->numbers);
    for (int i = 0; i < t->n_fields; i++) {
        free(t->fields[i].put);
        free(t->fields[i].converted);
    }
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
    ls_compiled_release(&t->compiled);
    free(t);
    *tp = NULL;
}

ls_trainer_opts ls_trainer_opts_default(void) { return (ls_trainer_opts){ LS_TRAINER_DEFAULTS }; }
