/* undo.c - what the program `micro` changes in place: the running statistics of batch norm. They advance
 * before it is known whether the step is applied. So each step begins with a copy in spares of the session,
 * which a skipped step puts back. */
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
    int spare;
    for (int i = 0; i < k->n; i++)
        if (!ls_identity_order(ls_source_is(k->source[i]), ls_source_name(k->source[i]), ls_source_is(source),
                               ls_source_name(source)))
            return LS_OK;
    k->source[k->n] = source;
    LS_TRY(ls_trainer_spare(t, ls_type_of(t->compiled.plans[LS_MICRO]->graph, source->out[0]), &spare));
    k->first = k->n++ ? k->first : spare;
    return LS_OK;
}

ls_status ls_trainer_undo_find(ls_trainer *t)
{
    const ls_graph *g = t->compiled.plans[LS_MICRO] ? t->compiled.plans[LS_MICRO]->graph : NULL;
    int most = 0;
    for (int i = 0; g && i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            most += changed(g, g->nodes[i], k) != NULL;
    t->undo.now = ls_sys_calloc((size_t)most + 1, sizeof *t->undo.now);
    t->undo.source = ls_sys_calloc((size_t)most + 1, sizeof *t->undo.source);
    if (!t->undo.now || !t->undo.source)
        return ls_fail(LS_E_MEMORY, "out of memory for a trainer");
    for (int i = 0; g && i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_out; k++)
            if (changed(g, g->nodes[i], k))
                LS_TRY(add(t, changed(g, g->nodes[i], k)));
    return LS_OK;
}

ls_status ls_trainer_undo_bind(ls_trainer *t)
{
    ls_undo *k = &t->undo;
    for (int i = 0; i < k->n; i++)
        LS_TRY(ls_session_place_of(t->session, ls_source_is(k->source[i]), ls_source_name(k->source[i]),
                                   &k->now[i]));
    return LS_OK;
}

void ls_trainer_undo_keep(ls_trainer *t)
{
    ls_undo *k = &t->undo;
    k->moved = t->buffers_moved;
    for (int i = 0; i < k->n; i++) {
        const ls_place before = ls_session_spare(t->session, k->first + i);
        ls_session_copy(&before, &k->now[i]);
    }
}

void ls_trainer_undo(ls_trainer *t)
{
    const ls_undo *k = &t->undo;
    t->buffers_moved = k->moved;
    for (int i = 0; i < k->n; i++) {
        const ls_place before = ls_session_spare(t->session, k->first + i);
        ls_session_copy(&k->now[i], &before);
    }
}

void ls_undo_release(ls_undo *k)
{
    free(k->now);
    free(k->source);
    *k = (ls_undo){ 0 };
}
