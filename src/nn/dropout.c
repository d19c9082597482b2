/* dropout.c - random numbers of a model: what they are for follows from the layer's path, when and for whom from three numbers that the trainer gives. */
#define LS_NO_CALL_SITES
#include "base/hash.h"
#include "lockstep/nn.h"
#include "ops/rules.h"

/* The graph's one key, made by the first layer that needs it. At the root's scope: no block's recomputation takes it along. */
static ls_value random_key(ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_random_key)
            return g->nodes[i]->out[0];
    const ls_scope *scope = g->scope;
    const ls_type number = LS_SCALAR(LS_I64);
    g->scope = &g->root;
    ls_value in[] = { ls_state(g, "random_seed", number, (ls_init){ 0 }), ls_state(g, "step", number, (ls_init){ 0 }), ls_input(g, "sample_places", LS_TYPE(LS_I64, 2)) };
    ls_value key = ls_graph_apply(g, &ls_op_random_key, 3, in, NULL);
    g->scope = scope;
    return key;
}

ls_value ls_dropout(ls_graph *g, const char *name, ls_value x, double p)
{
    if (ls_graph_is_evaluation(g) || p == 0)
        return x;
    LS_SCOPE(g, name, "Dropout");
    const ls_dropout_attrs a = { .p = p, .purpose = ls_hash_text(g->scope->path) };
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_dropout && ((const ls_dropout_attrs *)g->nodes[i]->attrs)->purpose == a.purpose) {
            ls_graph_error(g, LS_E_ARG, "there is a dropout \"%s\" already, which would drop the same elements", g->scope->path);
            return (ls_value){ -1 };
        }
    return ls_graph_apply(g, &ls_op_dropout, 2, (ls_value[]){ x, random_key(g) }, &a);
}
