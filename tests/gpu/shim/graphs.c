/* graphs.c - captures and graphs of the shim's libcuda.so.1: the tasks of one stream, and of others that
 * waited for an event of the capture (branches). A branch runs in a thread of its own, so the order that a
 * missing event leaves open shows. */
#include "streams.h"

#include <stdlib.h>
#include <string.h>

#define DECLARE(field, symbol, arguments) EXPORT cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)

static cu_graph graphs;
static cu_graph_exec execs;

static void drop_graph(cu_graph g)
{
    if (--g->uses)
        return;
    for (task *t = g->first, *after; t; t = after) {
        after = t->next;
        shim_free_task(t);
    }
    free(g);
}

void shim_drop_exec(cu_graph_exec e)
{
    if (--e->uses)
        return;
    drop_graph(e->graph);
    free(e);
}

void shim_drop_run(graph_run *r)
{
    if (--r->uses == 0)
        free(r);
}

void shim_run_graph(cu_stream s, task *t)
{
    graph_run *r = t->graph_run;
    for (task *each = t->graph->graph->first; each; each = each->next)
        if (each->branch != t->branch) {
            continue;
        } else if (each->kind == RECORD) {
            r->done[each->node] = true;
            shim_release(&r->done[each->node]);
            shim_changed();
        } else if (each->kind == AWAIT) {
            while (!r->done[each->node] && !shim.failed)
                shim_wait();
            shim_acquire(&r->done[each->node]);
        } else {
            shim_run_task(s, each);
        }
}

/* ---- events of a capture */

cu_result shim_record_captured(cu_stream s, cu_event e)
{
    task *t = shim_new_task(RECORD, 0);
    t->node = s->capture->records++;
    e->captured = s->capture->number;
    e->node = t->node;
    memcpy(e->known, s->known, sizeof e->known);
    return shim_put(s, t);
}

/* The capture with this number, if it goes on. */
static cu_graph capture_of(uint64_t number)
{
    for (cu_stream s = shim_streams; s; s = s->next)
        if (s->capture && s->capture->number == number)
            return s->capture;
    return NULL;
}

static cu_result spoil(cu_graph a, cu_graph b, cu_result r, const char *what)
{
    if (a)
        a->invalid = true;
    if (b)
        b->invalid = true;
    return shim_wrong(r, "cuStreamWaitEvent", "%s", what);
}

cu_result shim_await_captured(cu_stream s, cu_event e)
{
    cu_graph g = e->captured ? capture_of(e->captured) : NULL;
    if (!e->captured)
        return spoil(s->capture, NULL, CU_STREAM_CAPTURE_ISOLATION,
                     "the stream captures, and the event was recorded outside of the capture");
    if (!g)
        return spoil(s->capture, NULL, CU_CAPTURED_EVENT,
                     "the event was recorded in a capture that has ended");
    if (s->capture && s->capture != g)
        return spoil(s->capture, g, CU_STREAM_CAPTURE_MERGE, "the event is of another capture");
    if (!s->capture && g->branches == BRANCHES)
        return spoil(g, NULL, CU_INVALID_VALUE, "the shim's captures have at most 8 streams");
    if (!s->capture) {
        s->capture = g;
        s->branch = g->branches++;
        memset(s->known, 0, sizeof s->known);
    }
    for (int b = 0; b < BRANCHES; b++)
        if (e->known[b] > s->known[b])
            s->known[b] = e->known[b];
    if ((int64_t)++shim.awaits == shim.set.skip)
        return CU_SUCCESS;
    task *t = shim_new_task(AWAIT, 0);
    t->node = e->node;
    return shim_put(s, t);
}

/* ---- captures */

cu_result cuStreamBeginCapture_v2(cu_stream s, int mode)
{
    static uint64_t captures;
    ENTER_STREAM(s);
    if (s->capture || mode < 0 || mode > 2)
        return shim_leave(WRONG(CU_INVALID_VALUE, "the stream captures already, or mode %d", mode));
    cu_graph g = calloc(1, sizeof *g);
    if (!g)
        return shim_leave(CU_OUT_OF_MEMORY);
    g->end = &g->first;
    g->uses = 1;
    g->number = ++captures;
    g->origin = s;
    g->branches = 1;
    s->capture = g;
    s->branch = 0;
    memset(s->known, 0, sizeof s->known);
    return shim_leave(CU_SUCCESS);
}

/* Whether a stream has tasks that the first one does not wait for. */
static bool unjoined(const struct cu_graph_st *g)
{
    for (int b = 1; b < g->branches; b++)
        if (g->origin->known[b] < g->tasks[b])
            return true;
    return false;
}

cu_result cuStreamEndCapture(cu_stream s, cu_graph *out)
{
    ENTER();
    *out = NULL;
    if (!IS_LIVE(shim_streams, s) || !s->capture)
        return shim_leave(WRONG(CU_INVALID_VALUE, "the stream does not capture"));
    cu_graph g = s->capture;
    cu_result r = g->invalid ? CU_STREAM_CAPTURE_INVALIDATED : CU_SUCCESS;
    if (g->origin != s) {
        g->invalid = true;
        return shim_leave(WRONG(CU_STREAM_CAPTURE_UNMATCHED, "another stream began this capture"));
    }
    if (!g->invalid && unjoined(g))
        r = WRONG(CU_STREAM_CAPTURE_UNJOINED,
                  "the stream that began does not wait for the end of another one");
    for (cu_stream each = shim_streams; each; each = each->next)
        if (each->capture == g)
            each->capture = NULL;
    if (r != CU_SUCCESS) {
        drop_graph(g);
        return shim_leave(r);
    }
    g->next = graphs;
    graphs = g;
    shim.live_graphs++;
    *out = g;
    return shim_leave(CU_SUCCESS);
}

/* ---- graphs */

cu_result cuGraphDestroy(cu_graph g)
{
    ENTER();
    if (!IS_LIVE(graphs, g))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no graph, or it was destroyed"));
    UNLINK(graphs, g);
    shim.live_graphs--;
    drop_graph(g);
    return shim_leave(CU_SUCCESS);
}

cu_result cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph g, unsigned long long flags)
{
    ENTER();
    if (!IS_LIVE(graphs, g) || flags)
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no graph, or it was destroyed, or flags %llu", flags));
    cu_graph_exec e = calloc(1, sizeof *e);
    if (!e)
        return shim_leave(CU_OUT_OF_MEMORY);
    e->graph = g;
    g->uses++;
    e->uses = 1;
    e->next = execs;
    execs = e;
    shim.live_graphs++;
    *out = e;
    return shim_leave(CU_SUCCESS);
}

cu_result cuGraphLaunch(cu_graph_exec e, cu_stream s)
{
    ENTER_STREAM(s);
    if (!IS_LIVE(execs, e))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no graph, or it was destroyed"));
    if (s->capture)
        return shim_leave(shim_not_in_capture(__func__, s, "another graph"));
    cu_graph g = e->graph;
    for (const task *each = g->first; each; each = each->next)
        if (each->allowed && !each->allowed(each->context))
            return shim_leave(
                WRONG(CU_INVALID_VALUE, "a graph with calls of a communicator that was aborted"));
    for (int b = 1; b < g->branches; b++)
        if (!s->beside[b - 1] && !(s->beside[b - 1] = shim_new_stream()))
            return shim_leave(CU_OUT_OF_MEMORY);
    graph_run *r = calloc(1, sizeof *r + (size_t)g->records * sizeof *r->done);
    if (!r)
        return shim_leave(CU_OUT_OF_MEMORY);
    for (int b = 0; b < g->branches; b++) {
        task *t = shim_new_task(GRAPH, 0);
        t->graph = e;
        t->graph_run = r;
        t->branch = b;
        e->uses++;
        r->uses++;
        shim_append(b ? s->beside[b - 1] : s, t);
    }
    for (const task *each = g->first; each; each = each->next)
        if (each->kind == KERNEL)
            shim.launches++;
    return shim_leave(CU_SUCCESS);
}

cu_result cuGraphExecDestroy(cu_graph_exec e)
{
    ENTER();
    if (!IS_LIVE(execs, e))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no graph, or it was destroyed"));
    UNLINK(execs, e);
    shim.live_graphs--;
    shim_drop_exec(e);
    return shim_leave(CU_SUCCESS);
}
