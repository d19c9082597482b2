/* schedule.c - decides which nodes run, and in which order. The order is that of the graph, with one
 * exception: cheap or repeated nodes (constants, casts of parameters, clones of recomputation) wait until a
 * node needs them, so that their results live as shortly as possible.
 *
 * An update must not overtake a waiting node that reads the state. So before the first write in place, all
 * nodes that stand before it in the graph are run. The order is a function of the graph alone. */
#include "internal.h"
#include "ops/rules.h"

#include <string.h>

static void mark_live(const ls_graph *g, bool *live)
{
    for (int i = 0; i < g->n_outputs; i++)
        live[g->vals[g->outputs[i].value.id].node] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const ls_node *n = g->nodes[i];
        /* Sources stay even if nothing reads them: callers fill inputs and save parameters without knowing
         * which program reads them. */
        live[i] = live[i] || (n->op->flags & (LS_OP_EFFECT | LS_OP_COLLECTIVE | LS_OP_SOURCE));
        if (!live[i])
            continue;
        for (int j = 0; j < n->n_in; j++)
            if (ls_present(n->in[j]))
                live[g->vals[n->in[j].id].node] = true;
    }
}

static bool writes_in_place(const ls_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->op->alias[i])
            return true;
    return false;
}

static bool may_wait(const ls_planner *p, const ls_node *n)
{
    if (ls_is_source(n) || (n->op->flags & (LS_OP_EFFECT | LS_OP_COLLECTIVE)) || writes_in_place(n))
        return false;
    if (ls_is_view(n) || n->clone_of >= 0 || n->n_in == 0)
        return true;
    return n->op == &ls_op_cast && ls_is_source(ls_node_of(p->old, (ls_value){ .id = p->root[n->in[0].id] }));
}

static void run_node(ls_planner *p, int id)
{
    const ls_node *n = p->old->nodes[id];
    for (int j = 0; j < n->n_in; j++)
        if (ls_present(n->in[j]) && p->when[p->old->vals[n->in[j].id].node] < 0)
            run_node(p, p->old->vals[n->in[j].id].node);
    p->when[id] = p->n_order;
    p->order[p->n_order++] = id;
}

ls_status ls_planner_schedule(ls_planner *p)
{
    const ls_graph *g = p->old;
    bool *live = LS_ARENA_ARRAY(&p->scratch, bool, g->n_nodes);
    p->order = LS_ARENA_ARRAY(&p->scratch, int, g->n_nodes);
    p->when = LS_ARENA_ARRAY(&p->scratch, int, g->n_nodes);
    p->root = LS_ARENA_ARRAY(&p->scratch, int, g->n_vals);
    LS_TRY(ls_arena_status(&p->scratch));
    mark_live(g, live);
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        p->when[i] = -1;
        for (int k = 0; k < n->n_out; k++) {
            int over = ls_is_view(n) ? 1 : n->op->alias[k];
            bool shares = over && over <= n->n_in && ls_present(n->in[over - 1]);
            p->root[n->out[k].id] = shares ? p->root[n->in[over - 1].id] : n->out[k].id;
        }
    }

    int flushed = 0; /* all live nodes with smaller ids have been scheduled */
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (!live[i] || p->when[i] >= 0 || may_wait(p, n))
            continue;
        if (writes_in_place(n))
            for (; flushed < i; flushed++)
                if (live[flushed] && p->when[flushed] < 0)
                    run_node(p, flushed);
        run_node(p, i);
    }
    for (; flushed < g->n_nodes; flushed++) /* outputs that nothing else needs */
        if (live[flushed] && p->when[flushed] < 0)
            run_node(p, flushed);
    return LS_OK;
}
