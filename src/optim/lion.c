/* lion.c - Lion (Chen et al. 2023, algorithm 2). It has one moment, exp_avg, and decoupled weight decay. */
#define LS_NO_CALL_SITES
#include "graph/update_attrs.h"
#include "rules.h"

ls_value ls_optimizer_lion(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                           const ls_update_inputs *in)
{
    const ls_value p = ls_update_parameters(g, u, in), m = ls_update_moment(g, LS_EXP_AVG, u, in);
    const ls_lion_attrs a = { o->beta1, o->beta2, o->weight_decay };
    const ls_value updated = ls_graph_apply(
        g, &ls_op_lion, 6, (ls_value[]){ p, in->gradient, m, in->lr, in->scale, in->apply }, &a);
    ls_update_weights(g, u, in, updated);
    return updated;
}
