/* dropout.c - random masks. A mask is a function of the layer's path and of what the trainer sets: the seed,
 * the step, and which samples of the step these are. */
#define LS_NO_CALL_SITES
#include "base/argument.h"
#include "base/hash.h"
#include "graph/identity.h"
#include "lockstep/nn.h"
#include "ops/rules.h"

/* The graph's random key, made by the first layer that needs it. It is in the root's scope, so that
 * recomputing a block does not repeat it. */
static ls_value random_key(ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_random_key)
            return g->nodes[i]->out[0];
    const ls_scope *scope = g->scope;
    const ls_type number = LS_SCALAR(LS_I64);
    g->scope = &g->root;
    ls_value in[] = { ls_state_of(g, (ls_identity){ .what = LS_IS_SEED }, "", number, (ls_init){ 0 }),
                      ls_state_of(g, (ls_identity){ .what = LS_IS_STEP }, "", number, (ls_init){ 0 }),
                      ls_input_of(g, (ls_identity){ .what = LS_IS_PLACES }, "", LS_TYPE(LS_I64, 2)) };
    ls_value key = ls_graph_apply(g, &ls_op_random_key, 3, in, NULL);
    g->scope = scope;
    return key;
}

static bool is_taken(const ls_graph *g, uint64_t hash)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        const bool taken = n->op == &ls_op_dropout
                               ? ((const ls_dropout_attrs *)n->attrs)->purpose == hash
                               : n->op == &ls_op_attention &&
                                     ((const ls_attention_attrs *)n->attrs)->purpose == hash;
        if (taken)
            return true;
    }
    return false;
}

/* Hash of the layer's path. It is an error if another layer has the same path, unless layers are used again
 * (g->shares): each use drops other elements. */
static uint64_t purpose(ls_graph *g, const char *name)
{
    const char *path = g->scope->path[0] ? ls_arena_printf(&g->arena, "%s.%s", g->scope->path, name) : name;
    uint64_t hash = ls_hash_text(path);
    while (g->shares && is_taken(g, hash))
        hash = ls_hash64_more(hash, "again", 5);
    if (is_taken(g, hash))
        ls_graph_error(g, LS_E_ARG, "there is a dropout \"%s\" already, which would drop the same elements",
                       path);
    return hash;
}

static bool nothing_to_do(const ls_graph *g, ls_value v, double p)
{
    return v.id < 0 || ls_graph_is_evaluation(g) || p == 0;
}

ls_value ls_dropout(ls_graph *g, const char *name, ls_value x, double p)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    if (nothing_to_do(g, x, p))
        return x;
    const ls_dropout_attrs a = { .p = p, .purpose = purpose(g, name) };
    LS_SCOPE(g, name, "Dropout");
    return ls_graph_apply(g, &ls_op_dropout, 2, (ls_value[]){ x, random_key(g) }, &a);
}

ls_value ls_attention_dropout(ls_graph *g, const char *name, ls_value y, double p)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    if (nothing_to_do(g, y, p))
        return y;
    const ls_node *n = ls_node_of(g, y);
    enum { KEY = 5, POSITIONS };
    if (n->op != &ls_op_attention || (n->n_in > KEY && ls_present(n->in[KEY]))) {
        ls_graph_error(g, LS_E_ARG, "%s has no probabilities to drop; give what ls_attention returned",
                       n->op->name);
        return (ls_value){ .id = -1 };
    }
    ls_attention_attrs a = *(const ls_attention_attrs *)n->attrs;
    ls_value in[POSITIONS + 1] = { { 0 } };
    for (int k = 0; k < n->n_in; k++)
        in[k] = n->in[k];
    a.dropout = p;
    a.purpose = purpose(g, name);
    in[KEY] = random_key(g);
    return ls_graph_apply(g, &ls_op_attention, ls_present(in[POSITIONS]) ? POSITIONS + 1 : KEY + 1, in, &a);
}
