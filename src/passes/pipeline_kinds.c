/* pipeline_kinds.c - see pipeline_kinds.h.
 *
 * A gather that reshard.c repeats in the backward pass is made for each micro-batch, in both passes. If it
 * were made once, its result would live from the first forward pass to the last one, and that of the second
 * gather from the first backward pass to the last one: nearly the whole step. */
#include "pipeline_kinds.h"

#include "graph/identity.h"
#include "ops/rules.h"

/* Marks nodes whose values do not depend on the micro-batch, and which must be made once: another stage or
 * the other phase reads them, or what follows from them. */
static void find_once(bool *once, const ls_graph *g, const bool *varies)
{
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const ls_node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            if (!ls_present(n->in[k]))
                continue;
            const ls_node *from = ls_node_of(g, n->in[k]);
            once[from->id] |= from->stage != n->stage || from->phase != n->phase || (once[i] && !varies[i]);
        }
    }
}

/* The gather of the forward pass that n repeats in the backward pass, from the same slice; NULL: none. */
static const ls_node *repeated(const ls_graph *g, const ls_node *n)
{
    const ls_node *of = n->op == &ls_op_all_gather && n->clone_of >= 0 ? g->nodes[n->clone_of] : NULL;
    return of && of->in[0].id == n->in[0].id ? of : NULL;
}

static void find_varying(bool *varies, const ls_graph *g, const bool *again)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        varies[i] = n->op == &ls_op_input || again[i];
        for (int k = 0; k < n->n_in; k++)
            varies[i] |= ls_present(n->in[k]) && varies[ls_node_of(g, n->in[k])->id];
    }
}

ls_status ls_pipeline_kinds(bool *bound, bool *varies, const ls_graph *g, ls_arena *a)
{
    bool *again = LS_ARENA_ARRAY(a, bool, g->n_nodes + 1), *once = LS_ARENA_ARRAY(a, bool, g->n_nodes + 1);
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        bound[i] = (n->op->flags & (LS_OP_COLLECTIVE | LS_OP_EFFECT)) ||
                   (n->op == &ls_op_state && ls_is_parameters(ls_source_is(n)));
        for (int k = 0; k < n->n_in; k++)
            bound[i] |= ls_present(n->in[k]) && bound[ls_node_of(g, n->in[k])->id];
    }
    find_varying(varies, g, again);
    find_once(once, g, varies);
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *of = repeated(g, g->nodes[i]);
        if (of && !varies[i] && !once[i] && !once[of->id])
            again[i] = again[of->id] = true;
    }
    find_varying(varies, g, again);
    return LS_OK;
}
