/* sgd.c - SGD with momentum, as PyTorch defines it. */
#define LS_NO_CALL_SITES
#include "rules.h"

ls_value ls_optimizer_sgd(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                          const ls_update_inputs *in)
{
    const ls_value p = ls_update_parameters(g, u, in);
    const ls_sgd_attrs a = { o->momentum, o->dampening, o->weight_decay, o->nesterov };
    const ls_value buffer = o->momentum != 0 ? ls_update_moment(g, LS_MOMENTUM_BUFFER, u, in) : LS_NONE;
    const ls_value updated = ls_graph_apply(
        g, &ls_op_sgd, 7, (ls_value[]){ p, in->gradient, buffer, in->step, in->lr, in->scale, in->apply },
        &a);
    ls_update_weights(g, u, in, updated);
    return updated;
}
