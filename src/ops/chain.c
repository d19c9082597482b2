/* chain.c - the chain of ops that leads from a rank's slice of a unit to the unit's buffer, of which its
 * parameters are views, and the chain of its gradient. The links are listed in order. passes/units.c makes
 * the first chain; the program that reduces gradients once a step (optim/update.c) makes the second. */
#include "rules.h"

int ls_unit_chain(ls_chain_link out[LS_UNIT_LINKS], const ls_unit_use *u)
{
    int n = 0;
    if (u->offload)
        out[n++] = (ls_chain_link){ .op = &ls_op_to_device };
    if (u->replicas > 1)
        out[n++] = (ls_chain_link){
            .op = &ls_op_replicate,
            .replicate = { .group = u->replicate, .unit = u->unit, .ranks = u->replicas, .via = u->via }
        };
    if (u->shards > 1)
        out[n++] = (ls_chain_link){ .op = &ls_op_all_gather,
                                    .gather = { .group = u->shard,
                                                .unit = u->unit,
                                                .ranks = u->shards,
                                                .to = u->to,
                                                .via = u->via,
                                                .map = u->map,
                                                .is = { .what = LS_IS_UNIT, .unit = u->number } } };
    return n;
}

ls_value ls_chain_use(ls_graph *g, ls_value v, int n, const ls_chain_link *links)
{
    for (int k = 0; k < n; k++)
        v = ls_graph_apply(g, links[k].op, 1, &v, &links[k].gather);
    return v;
}

ls_value ls_chain_gradient(ls_graph *g, ls_value dy, int n, const ls_chain_link *links, ls_dtype to)
{
    for (int k = n - 1; k >= 0; k--)
        dy = links[k].op == &ls_op_all_gather  ? ls_gather_gradient(g, dy, &links[k].gather, to)
             : links[k].op == &ls_op_replicate ? ls_replicate_gradient(g, dy, &links[k].replicate)
                                               : ls_graph_apply(g, &ls_op_to_host, 1, &dy, NULL);
    return dy;
}
