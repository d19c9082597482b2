/* undo.c - what the program `micro` changes in place: the running statistics of batch norm. They advance
 * before it is known whether the step is applied. So each step begins with a copy, which a skipped step puts
 * back. */
#include <stdlib.h>

#include "base/sys.h"
#include "graph/identity.h"
#include "plan/node.h"
#include "trainer.h"

/* The source whose memory output k of a node has; NULL: it has memory of its own. */
static const ls_node *changed(const ls_graph *g, const ls_node *n, int k)
{
    if (!(n->op->flags & LS_OP_EFFECT) || !n->op->alias[k])
        return NULL;
    const ls_node *source = ls_node_of(g, n->in[n->op->alias[k] - 1]);
    while (ls_is_view(source))
        source = ls_node_of(g, source->in[0]);
    return ls_is_source(source) ? source : NULL;
}

static ls_status add(ls_trainer *t, const ls_node *source)
{
    ls_undo *k = &t->undo;
    LS_TRY(ls_session_place_of(t->session, ls_source_is(source), ls_source_name(source), &k->now[k->n]));
    for (int i = 0; i < k->n; i++)
        if (ls_place_same(&k->now[i], &k->now[k->n]))
            return LS_OK;
    k->before[k->n] = ls_sys_malloc(ls_type_bytes(&k->now[k->n].type));
    return ls_sys_have(k->before[k->n++]);
}

ls_status ls_trainer_undo_find(ls_trainer *t)
{
    const ls_graph *g = t->compiled.plans[LS_MICRO] ? t->compiled.plans[LS_MICRO]->graph : NULL;
    int most = 0;
    for (int i = 0; g && i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            most += changed(g, g->nodes[i], k) != NULL;
    t->undo.now = ls_sys_calloc((size_t)most + 1, sizeof *t->undo.now);
    t->undo.before = ls_sys_calloc((size_t)most + 1, sizeof *t->undo.before);
    if (!t->undo.now || !t->undo.before)
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    for (int i = 0; g && i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            if (changed(g, g->nodes[i], k))
                LS_TRY(add(t, changed(g, g->nodes[i], k)));
    return LS_OK;
}

ls_status ls_trainer_undo_keep(ls_trainer *t)
{
    const ls_undo *k = &t->undo;
    t->undo.moved = t->buffers_moved;
    for (int i = 0; i < k->n; i++)
        LS_TRY(ls_session_read(&k->now[i], k->before[i], ls_type_bytes(&k->now[i].type)));
    return LS_OK;
}

ls_status ls_trainer_undo(ls_trainer *t)
{
    const ls_undo *k = &t->undo;
    t->buffers_moved = k->moved;
    for (int i = 0; i < k->n; i++)
        LS_TRY(ls_session_write(&k->now[i], k->before[i], ls_type_bytes(&k->now[i].type)));
    return LS_OK;
}

void ls_undo_release(ls_undo *k)
{
    for (int i = 0; i < k->n; i++)
        free(k->before[i]);
    free(k->now);
    free(k->before);
    *k = (ls_undo){ 0 };
}

size_t ls_undo_bytes(const ls_undo *k)
{
    size_t bytes = 0;
    for (int i = 0; i < k->n; i++)
        bytes += ls_type_bytes(&k->now[i].type);
    return bytes;
}
