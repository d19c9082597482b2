/* eval_inputs.c - the inputs of an evaluation with a batch of its own. A session has one memory for an input
 * of several programs, of one size; with another identity an input has memory of its own. */
#include "graph/identity.h"
#include "graph/op.h"
#include "ops/rules.h"
#include "passes.h"

ls_status ls_pass_eval_inputs(ls_graph *g)
{
    for (int i = 0, n = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->op != &ls_op_input || ls_source_is(g->nodes[i]).what != LS_IS_NAMED)
            continue;
        ls_source_attrs *own = LS_ARENA_ARRAY(&g->arena, ls_source_attrs, 1);
        if (!ls_graph_room(g))
            return ls_graph_status(g);
        *own = *(const ls_source_attrs *)g->nodes[i]->attrs;
        own->is = (ls_identity){ .what = LS_IS_EVAL_INPUT, .unit = n++ };
        g->nodes[i]->attrs = own;
    }
    return LS_OK;
}
