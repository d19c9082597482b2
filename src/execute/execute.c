/* execute.c - runs a program: a loop over resolved calls, and a slow version of it that checks every number.
 * A run allocates nothing. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/finite.h"
#include "internal.h"

#ifdef LS_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* Makes arena memory unusable outside of lifetimes, so that a use after the end is noticed: unreadable under
 * AddressSanitizer, otherwise filled with NaN. */
void ls_watch_dead(char *at, size_t bytes)
{
#ifdef LS_ASAN
    __asan_poison_memory_region(at, bytes);
#else
    memset(at, 0xff, bytes);
#endif
}

/* Makes memory usable again: because a value begins there, or because the mapping is returned to the system,
 * whose next user must not find it poisoned. */
void ls_watch_end(char *at, size_t bytes)
{
#ifdef LS_ASAN
    __asan_unpoison_memory_region(at, bytes);
#else
    (void)at;
    (void)bytes;
#endif
}

static void begin(const ls_program *g, int i)
{
#ifdef LS_WATCH_ARENA
    for (int k = g->born_at[i]; k < g->born_at[i + 1]; k++)
        ls_watch_end(g->where[g->born[k]], g->plan->allocs[g->born[k]].bytes);
#else
    (void)g, (void)i;
#endif
}

static void end(const ls_program *g, int i)
{
#ifdef LS_WATCH_ARENA
    for (int k = g->dead_at[i]; k < g->dead_at[i + 1]; k++)
        ls_watch_dead(g->where[g->dead[k]], g->plan->allocs[g->dead[k]].bytes);
#else
    (void)g, (void)i;
#endif
}

enum { LS_BAD_TEXT = 1024 }; /* room for what is said of a bad number */

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
    char type[128];
    return ls_fail(LS_E_NUMERIC,
                   "%s: %s %s, has %lld of %lld elements NaN or infinite, the first is element %lld (step %d "
                   "of %d of \"%s\", "
                   "%s:%d)",
                   n->scope->path[0] ? n->scope->path : "(top level)", what, ls_type_text(type, &t->type),
                   (long long)bad_count(t), (long long)ls_type_count(&t->type), (long long)i, step,
                   g->plan->n_steps, g->plan->graph->name, n->file ? n->file : "?", n->line);
}

/* Checks what a step reads from outside, and afterwards what it made. So the first number that is not finite
 * is found where it arises. */
static ls_status look(const ls_program *g, int step, bool after)
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
        const int64_t i = first_bad(t);
        if (i < 0)
            continue;
        if (after)
            snprintf(what, sizeof what, "output %d of %s", k, n->op->name);
        else
            snprintf(what, sizeof what, "%s \"%s\", read by %s", source->op->name, ls_source_name(source),
                     n->op->name);
        return blame(g, step, n, what, t, i);
    }
    return LS_OK;
}

/* Numbers of the queue's tasks, for messages: of a program's steps, of its fence, and of everything else. */
enum { ELSEWHERE = -1, FENCE = -2 };
static int64_t number_of(const ls_program *g, int step)
{
    return (g - g->session->programs) * ((int64_t)1 << 32) + step;
}

static ls_status half(void *context)
{
    const ls_call *c = context;
    ls_ranks_doing(c->session->ranks, c->doing);
    return c->part == LS_PART_START ? ls_collective_start(c->collective) : ls_collective_wait(c->collective);
}

static inline void call(ls_session *s, ls_call *c)
{
    if (c->collective) {
        s->ops->host(s->queue, half, c);
        return;
    }
    if (c->doing && !s->ops->apart)
        ls_ranks_doing(s->ranks, c->doing);
    if (c->kernel)
        s->ops->run(s->queue, c->kernel, &c->args);
}

/* What `look` says of step k, unless an earlier step was bad. The run goes on: other ranks wait for what this
 * one sends. */
static void note(ls_session *s, const ls_program *g, int k, bool after, char message[LS_BAD_TEXT])
{
    if (s->bad_step >= 0 || look(g, k, after) == LS_OK)
        return;
    s->bad_step = k;
    snprintf(message, LS_BAD_TEXT, "%s", ls_error_message());
}

static ls_status fence(void *context)
{
    const ls_program *g = context;
    return ls_axis_fence(g->session->ranks->world, g->plan->graph->name);
}

static ls_status arrive(void *context)
{
    const ls_program *g = context;
    ls_axis_arrive(g->session->ranks->world);
    return LS_OK;
}

ls_status ls_session_run(ls_session *s, int i, bool check_finite)
{
    if (i < 0 || i >= s->n_programs)
        return ls_fail(LS_E_ARG, "session: program %d of %d", i, s->n_programs);
    ls_program *g = &s->programs[i];
    const int n = g->plan->n_steps;
    char message[LS_BAD_TEXT];
    s->bad_step = -1;
    if (s->profile)
        g->began = ls_now();
    if (s->ranks)
        s->ops->host(s->queue, fence, g);
    for (int k = 0; k < n; k++) {
        const double t = s->profile ? ls_now() : 0;
        begin(g, k);
        const ls_part part = g->plan->steps[k].part;
        if (check_finite && part != LS_PART_WAIT)
            note(s, g, k, false, message);
        call(s, &g->calls[k]);
        if (check_finite && part != LS_PART_START)
            note(s, g, k, true, message);
        end(g, k);
        if (s->profile) {
            g->times[k] = t - g->began;
            g->times[n + k] = ls_now() - t;
        }
    }
    if (s->ranks)
        s->ops->host(s->queue, arrive, g);
    if (!s->ops->apart)
        LS_TRY(s->ops->wait(s->queue, NULL));
    return s->bad_step < 0 ? LS_OK : ls_fail(LS_E_NUMERIC, "%s", message);
}

ls_status ls_session_wait(ls_session *s)
{
    s->waits++;
    return s->ops->wait(s->queue, NULL);
}

int64_t ls_session_waits(const ls_session *s) { return s->waits; }

int ls_session_bad_step(const ls_session *s) { return s->bad_step; }

void ls_session_profile(ls_session *s, bool on) { s->profile = on; }
const double *ls_session_times(const ls_session *s, int i) { return s->programs[i].times; }
