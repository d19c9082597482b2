/* placed_node.c - the types of a node, for the rules of ops (placed_node.h). */
#include "placed_node.h"

#include "base/field.h"

ls_status ls_placed_node_of(ls_placed_node *p, const ls_graph *g, const ls_node *n)
{
    p->infer = (ls_infer){
        .op = n->op, .n_in = n->n_in, .in = p->in, .attrs = n->attrs, .at = n->at, .n_out = n->n_out
    };
    if (n->n_in > LS_PLACED_IN)
        return ls_fail_field(LS_E_UNSUPPORTED, "tensor", "%s in %s has %d operands, and %d can be placed",
                             n->op->name, n->scope->path, n->n_in, LS_PLACED_IN);
    for (int k = 0; k < n->n_in; k++)
        p->in[k] = *ls_type_of(g, n->in[k]);
    for (int k = 0; k < n->n_out; k++)
        p->infer.out[k] = *ls_type_of(g, n->out[k]);
    return LS_OK;
}

bool ls_placed_attrs(void **attrs, ls_arena *a, const ls_placed_node *p, int dim, const ls_shard_axis *axis)
{
    ls_type mine = p->infer.out[0];
    *attrs = ls_attrs_copy(a, p->infer.op, p->infer.attrs);
    if (!p->infer.op->local)
        return true;
    if (dim >= 0 && !ls_placed_type(&mine, &p->infer.out[0], LS_SHARDED(dim), axis))
        return false;
    if (ls_arena_status(a) == LS_OK)
        p->infer.op->local(a, *attrs, &mine);
    return true;
}
