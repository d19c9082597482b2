/* recording.c - tasks that a queue of the device cuda keeps, and the graph that they become. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "queue_own.h"

/* ---- keeping */

/* Which events order tasks of the recording, and which ones reach beyond it. */
static void note_event(ls_recording *r, const cuda_task *t)
{
    ls_event *e = t->event;
    const bool here = e && e->recording == r->nth;
    if (t->kind == RECORD) {
        r->unawaited += !here || e->awaited;
        e->recording = r->nth;
        e->awaited = false;
    } else if (t->kind == AWAIT) {
        r->reaches_out |= !here;
        r->unawaited -= here && !e->awaited;
        e->awaited = true;
    }
    if (t->queue == r->beside && !r->forked) {
        r->forked = true;
        r->reaches_out |= t->kind != AWAIT;
    }
}

/* What it has no memory for, the arena remembers. */
void ls_cuda_keep(ls_recording *r, const cuda_task *t, size_t arg_bytes)
{
    cuda_task *own = ls_arena_dup(&r->arena, t, sizeof *t);
    if (own && t->args)
        own->args = ls_arena_dup(&r->arena, t->args, arg_bytes);
    if (own && t->host)
        own->host = ls_arena_dup(&r->arena, t->host, sizeof *t->host);
    if (r->arena.no_memory)
        return;
    note_event(r, t);
    if (t->call.ended) {
        own->next_call = r->calls;
        r->calls = own;
    }
    *r->end = own;
    r->end = &own->next;
    r->n++;
}

void ls_cuda_discard(ls_recording **r)
{
    const cu_driver *cu;
    if (!*r)
        return;
    if ((*r)->graph && *(*r)->graph && ls_cuda_enter(&cu) == LS_OK)
        cu->graph_exec_destroy(*(*r)->graph);
    ls_arena_release(&(*r)->arena);
    free(*r);
    *r = NULL;
}

void ls_cuda_capture(ls_queue *q, ls_queue *beside)
{
    static _Atomic int64_t recordings;
    if (ls_cuda_elsewhere(q))
        return;
    ls_recording *r = ls_sys_calloc(1, sizeof *r);
    if (!r) {
        ls_cuda_no_memory(q);
        return;
    }
    ls_arena_init(&r->arena);
    r->end = &r->first;
    r->nth = atomic_fetch_add(&recordings, 1) + 1;
    r->queue = q;
    r->beside = beside;
    q->recording = r;
    if (beside)
        beside->recording = r;
}

/* Tasks are kept no more. */
ls_recording *ls_cuda_end_capture(ls_queue *q)
{
    ls_recording *r = q->recording;
    if (r) {
        r->queue->recording = NULL;
        if (r->beside)
            r->beside->recording = NULL;
    }
    return r;
}

static ls_status get_ready(const ls_recording *r)
{
    int n = 0;
    ls_cuda_kernel **list = ls_sys_malloc((size_t)(r->n + 1) * sizeof *list);
    LS_TRY(ls_sys_have(list));
    for (const cuda_task *t = r->first; t; t = t->next)
        if (t->kind == KERNEL && !t->kernel->function)
            list[n++] = t->kernel;
    const ls_status s = n ? ls_cuda_ready(list, n) : LS_OK;
    free(list);
    return s;
}

static bool skips(const ls_recording *r)
{
    return atomic_load(&r->queue->skips) || (r->beside && atomic_load(&r->beside->skips));
}

/* What fails when a task is put in, its queue keeps. */
static void make_graph(ls_queue *q, const ls_recording *r)
{
    const cu_driver *cu = q->cu;
    cu_graph graph = NULL;
    char what[128];
    snprintf(what, sizeof what, "a graph of %d tasks (LOCKSTEP_CUDA_GRAPHS=0 does without)", r->n);
    cu_result e = cu->capture(q->stream, CU_CAPTURE_MODE_RELAXED);
    if (e == CU_SUCCESS) {
        for (const cuda_task *t = r->first; t; t = t->next)
            ls_cuda_enter_task(t);
        e = cu->captured(q->stream, &graph);
    }
    if (e == CU_SUCCESS && !skips(r))
        e = cu->graph_instantiate(r->graph, graph, 0);
    if (graph)
        cu->graph_destroy(graph);
    ls_cuda_check_put(q, e, -1, what);
}

static bool wants_graphs(const ls_queue *q)
{
    const char *said = getenv("LOCKSTEP_CUDA_GRAPHS");
    return !q->one_by_one && (!said || strcmp(said, "0") != 0);
}

ls_status ls_cuda_captured(ls_queue *q, ls_recording **out)
{
    const cu_driver *cu;
    *out = NULL;
    if (ls_cuda_elsewhere(q) || !q->recording)
        return ls_cuda_wait(q, NULL);
    ls_recording *r = ls_cuda_end_capture(q);
    ls_status s = ls_arena_status(&r->arena);
    if (s == LS_OK)
        s = ls_cuda_enter(&cu);
    if (s == LS_OK)
        s = get_ready(r);
    if (s == LS_OK && !r->reaches_out && !r->unawaited && r->n && wants_graphs(q))
        s = ls_sys_have(r->graph = LS_ARENA_NEW(&r->arena, cu_graph_exec));
    if (s != LS_OK)
        ls_cuda_discard(&r);
    *out = r;
    return s;
}

/* Whether one of its calls must not be made again. */
static bool ended(const ls_recording *r)
{
    for (const cuda_task *t = r->calls; t; t = t->next_call)
        if (atomic_load(t->call.ended))
            return true;
    return false;
}

/* A graph whose making failed is made again, which gives the same message. */
void ls_cuda_replay(ls_queue *q, const ls_recording *r)
{
    const cu_driver *cu;
    if (ls_cuda_elsewhere(q) || skips(r) || ended(r))
        return;
    if (ls_cuda_enter(&cu) != LS_OK) {
        ls_cuda_fail(q, LS_E_DEVICE, -1, ls_error_message());
    } else if (r->graph) {
        if (!*r->graph)
            make_graph(q, r);
        if (*r->graph)
            ls_cuda_check_put(q, cu->graph_launch(*r->graph, q->stream), -1, "a graph");
    } else {
        for (const cuda_task *t = r->first; t && !skips(r); t = t->next)
            ls_cuda_enter_task(t);
    }
}
