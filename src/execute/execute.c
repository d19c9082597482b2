/* execute.c - runs a program: a loop over resolved calls, which allocates nothing. Further versions of this
 * loop check every number, replay recorded tasks (on an apart device), or time each task (there, too). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/finite.h"
#include "base/sys.h"
#include "internal.h"

#ifdef LS_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* Makes arena memory unusable outside of lifetimes, so that a use after the end is noticed: unreadable under
 * AddressSanitizer, otherwise filled with NaN. */
void ls_poison(char *at, size_t bytes)
{
#ifdef LS_ASAN
    __asan_poison_memory_region(at, bytes);
#else
    memset(at, 0xff, bytes);
#endif
}

/* Makes memory usable again: a value begins there, or the mapping is returned to the system, whose next user
 * must not find it poisoned. */
void ls_unpoison(char *at, size_t bytes)
{
#ifdef LS_ASAN
    __asan_unpoison_memory_region(at, bytes);
#else
    (void)at;
    (void)bytes;
#endif
}

/* The same as a task, where the memory is the device's. */
static void poison(const ls_program *g, int alloc, bool dead)
{
    const ls_session *s = g->session;
    const size_t bytes = g->plan->allocs[alloc].bytes;
    if (s->ops->apart && dead)
        s->ops->fill(s->queue, g->where[alloc], 0xff, bytes);
    else if (!s->ops->apart)
        (dead ? ls_poison : ls_unpoison)(g->where[alloc], bytes);
}

static void execute_begin(const ls_program *g, int i)
{
#ifdef LS_POISON_ARENA
    for (int k = g->born_at[i]; k < g->born_at[i + 1]; k++)
        poison(g, g->born[k], false);
#else
    (void)g, (void)i, (void)poison;
#endif
}

static void end(const ls_program *g, int i)
{
#ifdef LS_POISON_ARENA
    for (int k = g->dead_at[i]; k < g->dead_at[i + 1]; k++)
        poison(g, g->dead[k], true);
#else
    (void)g, (void)i;
#endif
}

/* Whether element i, in row-major order, of a view is finite. */
static bool finite_at(const ls_tensor *t, int64_t i)
{
    int64_t at = 0;
    for (int d = t->type.ndim - 1; d >= 0; i /= t->type.dims[d--])
        at += i % t->type.dims[d] * t->strides[d];
    const char *element = (const char *)t->data + at * (int64_t)ls_dtype_size(t->type.dtype);
    return ls_first_wild(t->type.dtype, element, 1, false) < 0;
}

/* The number of the first element that is not finite; -1: all are finite. */
static int64_t first_bad(const ls_tensor *t)
{
    const int64_t n = t->data ? ls_type_count(&t->type) : 0;
    if (ls_tensor_is_contiguous(t))
        return ls_first_wild(t->type.dtype, t->data, n, false);
    for (int64_t i = 0; i < n; i++)
        if (!finite_at(t, i))
            return i;
    return -1;
}

static int64_t bad_count(const ls_tensor *t)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < ls_type_count(&t->type); i++)
        bad += !finite_at(t, i);
    return bad;
}

static ls_status blame(const ls_program *g, int step, const ls_node *n, const char *what, const ls_tensor *t,
                       int64_t i)
{
    char type[128], site[LS_SITE_SIZE];
    return ls_fail(LS_E_NUMERIC,
                   "%s: %s %s, has %lld of %lld elements NaN or infinite, the first is element %lld (step %d "
                   "of %d of \"%s\")%s",
                   n->scope->path[0] ? n->scope->path : "(top level)", what, ls_type_text(type, &t->type),
                   (long long)bad_count(t), (long long)ls_type_count(&t->type), (long long)i, step,
                   g->plan->n_steps, g->plan->graph->name, ls_site_after(site, n->file, n->line));
}

/* A value that the host can read: the value itself, or a copy of it in *room, which the caller frees. */
static ls_status bring(ls_session *s, const ls_tensor *t, ls_tensor *out, void **room)
{
    *out = *t;
    if (!s->ops->apart || !t->data)
        return LS_OK;
    const size_t bytes = (size_t)ls_strides_extent(t) * ls_dtype_size(t->type.dtype);
    LS_TRY(ls_sys_have(*room = out->data = ls_sys_malloc(bytes)));
    s->ops->copy(s->queue, *room, t->data, bytes);
    return ls_session_wait(s);
}

/* Checks one operand or result, `what`. */
static ls_status look_at(ls_session *s, const ls_program *g, int step, const ls_node *n, const char *what,
                         const ls_tensor *t)
{
    ls_tensor here;
    void *room = NULL;
    ls_status status = bring(s, t, &here, &room);
    const int64_t i = status == LS_OK ? first_bad(&here) : -1;
    if (i >= 0)
        status = blame(g, step, n, what, &here, i);
    free(room);
    return status;
}

/* Cross-entropy makes NaN of a label that is not a class: says which one, if that is the cause. */
static ls_status blame_label(ls_session *s, const ls_node *n, const ls_kernel_args *a)
{
    char site[LS_SITE_SIZE];
    ls_tensor labels;
    void *room = NULL;
    const int64_t classes = a->in[0].type.dims[a->in[0].type.ndim - 1];
    ls_status status = bring(s, &a->in[1], &labels, &room);
    for (int64_t i = 0; status == LS_OK && i < labels.type.dims[0]; i++) {
        const int32_t label = ((const int32_t *)labels.data)[i * labels.strides[0]];
        if (label != LS_IGNORE_LABEL && (label < 0 || label >= classes))
            status = ls_fail(
                LS_E_NUMERIC,
                "%s: cross_entropy: label %d of row %lld is not a class: labels are 0 to %lld, or "
                "%d for none%s",
                n->scope->path[0] ? n->scope->path : "(top level)", label, (long long)i,
                (long long)classes - 1, LS_IGNORE_LABEL, ls_site_after(site, n->file, n->line));
    }
    free(room);
    return status == LS_OK ? LS_E_NUMERIC : status; /* the message is there */
}

/* Checks the values that a step reads from outside, and afterwards the values that it made. So the first
 * number that is not finite is found where it arises. */
static ls_status execute_look(ls_session *s, const ls_program *g, int step, bool after)
{
    const ls_node *n = g->plan->graph->nodes[g->plan->steps[step].node];
    const ls_kernel_args *a = &g->calls[step].args;
    char what[300];
    for (int k = 0; k < (after ? n->n_out : n->n_in); k++) {
        const ls_tensor *t = after ? &a->out[k] : &a->in[k];
        const ls_node *source = after ? n : ls_present(n->in[k]) ? ls_node_of(g->plan->graph, n->in[k]) : n;
        while (!after && ls_is_view(source))
            source = ls_node_of(g->plan->graph, source->in[0]);
        if (!after && !ls_is_source(source))
            continue;
        if (after)
            snprintf(what, sizeof what, "output %d of %s", k, n->op->name);
        else
            snprintf(what, sizeof what, "%s \"%s\", read by %s", source->op->name, ls_source_name(source),
                     n->op->name);
        const ls_status status = look_at(s, g, step, n, what, t);
        const bool labels = after && !strcmp(n->op->name, "cross_entropy") &&
                            (n->n_in < 4 || !ls_present(n->in[3])); /* not a part of the classes */
        LS_TRY(status == LS_E_NUMERIC && labels ? blame_label(s, n, a) : status);
    }
    return LS_OK;
}

/* Records the result of `execute_look` for step k, unless an earlier step was bad. The run goes on, because
 * other ranks wait for this rank's data. */
static ls_status note(ls_session *s, const ls_program *g, int k, bool after, char message[LS_BAD_TEXT])
{
    const ls_status status = s->bad_step >= 0 ? LS_OK : execute_look(s, g, k, after);
    if (status != LS_E_NUMERIC)
        return status;
    s->bad_step = k;
    snprintf(message, LS_BAD_TEXT, "%s", ls_error_message());
    return LS_OK;
}

/* ---- runs */

static ls_status run_on_host(void *context)
{
    const ls_call *c = context;
    if (c->doing)
        ls_ranks_doing(c->session->ranks, c->doing);
    c->kernel->run(&c->args);
    return LS_OK;
}

static inline void call(ls_session *s, ls_call *c)
{
    if (c->collective)
        ls_ranks_half(s, c);
    else if (c->crossing)
        ls_link_half(s, c);
    else if (c->move)
        ls_transfer_half(s, c);
    else if (c->kernel && c->on_host)
        s->ops->host(s->queue, run_on_host, c);
    else if (c->kernel)
        s->ops->run(s->queue, c->kernel, &c->args);
}

/* Gives the call's task the number of its step, which messages name if the task fails. */
static void call_named(ls_session *s, ls_program *g, int k)
{
    const int64_t number = (g - s->programs) * (int64_t)LS_STEPS_MOST + k;
    s->ops->number(s->queue, number);
    if (g->calls[k].crossing)
        s->ops->number(ls_links_queue(s), number);
    call(s, &g->calls[k]);
    s->ops->number(s->queue, -1);
}

/* In host memory each call is complete when it returns. */
static ls_status run_direct(ls_session *s, ls_program *g)
{
    const int n = g->plan->n_steps;
    for (int k = 0; k < n; k++) {
        const double t = s->profile ? ls_now() : 0;
        execute_begin(g, k);
        if (g->calls[k].doing && g->calls[k].kernel)
            ls_ranks_doing(s->ranks, g->calls[k].doing);
        call(s, &g->calls[k]);
        if (g->calls[k].collective)
            LS_TRY(s->ops->wait(s->queue, NULL));
        end(g, k);
        if (s->profile) {
            g->times[k] = t - g->began;
            g->times[n + k] = ls_now() - t;
        }
    }
    return LS_OK;
}

/* Runs the program and checks every number. */
static ls_status run_checked(ls_session *s, ls_program *g, char message[LS_BAD_TEXT])
{
    for (int k = 0; k < g->plan->n_steps; k++) {
        const ls_part part = g->plan->steps[k].part;
        execute_begin(g, k);
        if (g->calls[k].doing && g->calls[k].kernel)
            ls_ranks_doing(s->ranks, g->calls[k].doing);
        if (part != LS_PART_WAIT)
            LS_TRY(note(s, g, k, false, message));
        call_named(s, g, k);
        LS_TRY(ls_session_wait(s));
        if (part != LS_PART_START)
            LS_TRY(note(s, g, k, true, message));
        end(g, k);
    }
    return LS_OK;
}

/* Kernels that a device compiles when they are first used: those of a program are compiled together, because
 * a capture that is thrown away names all of them. */
static ls_status make_known(ls_session *s, ls_program *g)
{
    ls_recording *r = NULL;
    if (g->known || !s->ops->compiles)
        return LS_OK;
    s->ops->capture(s->queue, NULL);
    for (int k = 0; k < g->plan->n_steps; k++)
        if (g->calls[k].kernel && !g->calls[k].on_host)
            s->ops->run(s->queue, g->calls[k].kernel, &g->calls[k].args);
    LS_TRY(s->ops->captured(s->queue, &r));
    s->ops->discard(&r);
    g->known = true;
    return LS_OK;
}

static void put_all(ls_session *s, ls_program *g)
{
    if (s->ranks)
        ls_ranks_begin(s, g);
    for (int k = 0; k < g->plan->n_steps; k++) {
        execute_begin(g, k);
        call_named(s, g, k);
        end(g, k);
    }
    if (s->ranks)
        ls_ranks_end(s, g);
}

/* The tasks of a program are the same in every run. A device that can record them gets them one by one only
 * once. It records the tasks of two queues; transfers have a third queue, so programs with transfers are not
 * recorded. */
static ls_status run_queued(ls_session *s, ls_program *g)
{
    if (!s->ops->capture || g->plan->n_transfers) {
        LS_TRY(make_known(s, g));
        put_all(s, g);
        return LS_OK;
    }
    if (!g->recording) {
        s->ops->capture(s->queue, ls_links_queue(s));
        put_all(s, g);
        LS_TRY(s->ops->captured(s->queue, &g->recording));
    }
    s->ops->replay(s->queue, g->recording);
    return LS_OK;
}

/* Runs the calls one by one, with an event after each. */
static ls_status run_timed(ls_session *s, ls_program *g)
{
    const int n = g->plan->n_steps;
    LS_TRY(make_known(s, g));
    if (!g->events) {
        g->events = LS_ARENA_ARRAY(&s->arena, ls_event *, n + 1);
        LS_TRY(ls_arena_status(&s->arena));
    }
    for (int k = 0; k <= n; k++)
        if (!g->events[k])
            LS_TRY(s->ops->event(&g->events[k], &g->plan->device));
    if (s->ranks)
        ls_ranks_begin(s, g);
    s->ops->record(s->queue, g->events[0]);
    for (int k = 0; k < n; k++) {
        execute_begin(g, k);
        call_named(s, g, k);
        end(g, k);
        s->ops->record(s->queue, g->events[k + 1]);
    }
    if (s->ranks)
        ls_ranks_end(s, g);
    LS_TRY(ls_session_wait(s));
    for (int k = 0; k < n; k++) {
        g->times[k] = s->ops->elapsed(g->events[0], g->events[k]);
        g->times[n + k] = s->ops->elapsed(g->events[k], g->events[k + 1]);
    }
    double *moved = g->times + 2 * n;
    for (int k = 0; k < g->plan->n_transfers; k++) {
        moved[2 * k] = s->ops->elapsed(g->events[0], g->moves[k].began);
        moved[2 * k + 1] = s->ops->elapsed(g->moves[k].began, g->moves[k].done);
    }
    if (g->crossings)
        ls_links_times(g, moved + 2 * g->plan->n_transfers);
    return LS_OK;
}

ls_status ls_session_run(ls_session *s, int i, bool check_finite)
{
    if (i < 0 || i >= s->n_programs)
        return ls_fail(LS_E_ARG, "session: program %d does not exist: the programs are 0 to %d", i,
                       s->n_programs - 1);
    ls_program *g = &s->programs[i];
    char message[LS_BAD_TEXT];
    s->bad_step = -1;
    if (s->profile)
        g->began = ls_now();
    if (s->ops->apart)
        ls_numbers_run(s);
    if (g->crossings)
        ls_links_begin(g);
    if (s->ops->apart && !check_finite) {
        ls_links_wait(s, true); /* (a link's first tasks are put in when all members put them in) */
        const ls_status status = s->profile ? run_timed(s, g) : run_queued(s, g);
        ls_links_wait(s, false);
        return status == LS_OK && !g->plan->device.linked ? ls_ranks_settle(s) : status;
    }
    LS_TRY(make_known(s, g));
    if (s->ranks)
        ls_ranks_begin(s, g);
    LS_TRY(check_finite ? run_checked(s, g, message) : run_direct(s, g));
    if (s->ranks)
        ls_ranks_end(s, g);
    LS_TRY(s->ops->wait(s->queue, NULL));
    return s->bad_step < 0 ? LS_OK : ls_fail(LS_E_NUMERIC, "%s", message);
}

int ls_session_bad_step(const ls_session *s) { return s->bad_step; }

void ls_session_profile(ls_session *s, bool on) { s->profile = on; }
const double *ls_session_times(const ls_session *s, int i) { return s->programs[i].times; }
