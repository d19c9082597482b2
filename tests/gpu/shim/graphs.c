/* graphs.c - captures and graphs of the shim's libcuda.so.1: a list of the tasks of one stream. */
#include "streams.h"

#include <stdlib.h>

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

cu_result cuStreamBeginCapture_v2(cu_stream s, int mode)
{
    ENTER_STREAM(s);
    if (s->capture || mode < 0 || mode > 2)
        return shim_leave(WRONG(CU_INVALID_VALUE, "the stream captures already, or mode %d", mode));
    cu_graph g = calloc(1, sizeof *g);
    if (!g)
        return shim_leave(CU_OUT_OF_MEMORY);
    g->end = &g->first;
    g->uses = 1;
    s->capture = g;
    return shim_leave(CU_SUCCESS);
}

cu_result cuStreamEndCapture(cu_stream s, cu_graph *out)
{
    ENTER();
    if (!IS_LIVE(shim_streams, s) || !s->capture)
        return shim_leave(WRONG(CU_INVALID_VALUE, "the stream does not capture"));
    cu_graph g = s->capture;
    s->capture = NULL;
    *out = NULL;
    if (s->invalid) {
        s->invalid = false;
        drop_graph(g);
        return shim_leave(901);
    }
    g->next = graphs;
    graphs = g;
    shim.live_graphs++;
    *out = g;
    return shim_leave(CU_SUCCESS);
}

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
    task *t = shim_new_task(GRAPH, 0);
    t->graph = e;
    e->uses++;
    for (const task *each = e->graph->first; each; each = each->next)
        if (each->kind == KERNEL)
            shim.launches++;
    return shim_leave(shim_put(s, t));
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
