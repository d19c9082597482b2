/* verify.c - checks the invariants of every graph: when a model is complete, and after every pass in dev
 * builds and tests. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/check.h"
#include "base/field.h"
#include "base/sys.h"
#include "graph.h"
#include "op.h"

static ls_status verify_node(const ls_graph *g, const ls_node *n, int index)
{
    const char *name = n->op->name;
    if (n->at && !(n->op->flags & LS_OP_AT))
        return ls_fail(LS_E_INTERNAL, "node %d (%s) has a box that its op does not ask for", index, name);
    if (n->id != index)
        return ls_fail(LS_E_INTERNAL, "node %d (%s) carries the id %d", index, name, n->id);
    ls_type *types = ls_sys_malloc(sizeof(ls_type) * (size_t)(n->n_in + 1));
    ls_status s = ls_sys_have(types);
    for (int i = 0; i < n->n_in && s == LS_OK; i++) {
        int v = n->in[i].id;
        if (v < 0 || v >= g->n_vals)
            s = ls_fail(LS_E_INTERNAL, "operand %d of node %d (%s) is not a value", i, index, name);
        else if (v > 0 && g->vals[v].node >= index)
            s = ls_fail(LS_E_INTERNAL, "operand %d of node %d (%s) is computed later, by node %d", i, index,
                        name, g->vals[v].node);
        else if (v == 0 && !(i < 32 && (n->op->optional_in >> i & 1)))
            s = ls_fail(LS_E_INTERNAL, "operand %d of node %d (%s) is missing", i, index, name);
        else
            types[i] = g->vals[v].type;
    }
    ls_infer infer = {
        .op = n->op, .n_in = n->n_in, .in = types, .attrs = n->attrs, .at = n->at, .n_out = n->op->n_out
    };
    if (s == LS_OK)
        s = n->op->infer(&infer);
    free(types);
    LS_TRY(s);
    if (infer.n_out != n->n_out)
        return ls_fail(LS_E_INTERNAL, "node %d (%s) has %d outputs, its rule says %d", index, name, n->n_out,
                       infer.n_out);
    for (int i = 0; i < n->n_out; i++) {
        const ls_val *v = ls_val_of(g, n->out[i]);
        char a[128], b[128];
        if (v->node != index || v->out != i)
            return ls_fail(LS_E_INTERNAL, "output %d of node %d (%s) points to node %d", i, index, name,
                           v->node);
        if (!ls_type_equal(&v->type, &infer.out[i]))
            return ls_fail(LS_E_INTERNAL, "output %d of node %d (%s) is %s, its rule says %s", i, index, name,
                           ls_type_text(a, &v->type), ls_type_text(b, &infer.out[i]));
    }
    return LS_OK;
}

ls_status ls_graph_verify(const ls_graph *g)
{
    LS_TRY(ls_graph_status(g));
    for (int i = 0; i < g->n_nodes; i++)
        LS_TRY(verify_node(g, g->nodes[i], i));
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value.id <= 0 || g->outputs[i].value.id >= g->n_vals)
            return ls_fail(LS_E_INTERNAL, "output \"%s\" is not a value", g->outputs[i].name);
    return LS_OK;
}

ls_status ls_graph_finish(ls_graph *g)
{
    LS_ARG(g);
    LS_TRY(ls_graph_status(g));
    if (g->scope != &g->root)
        return ls_fail(LS_E_ARG, "graph \"%s\": scope \"%s\" is still open", g->name, g->scope->path);
    if (g->lora_unused && *g->lora_unused)
        return ls_fail_field(LS_E_USAGE, "targets",
                             "%s: the model has no linear layer whose name ends so (lockstep inspect RECIPE "
                             "lists its parameters)",
                             g->lora_unused);
    return ls_graph_verify(g);
}
