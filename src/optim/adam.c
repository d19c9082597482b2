/* adam.c - Adam and AdamW, as PyTorch defines them. */
#define LS_NO_CALL_SITES
#include "rules.h"

ls_value ls_optimizer_adam(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                           const ls_update_inputs *in)
{
    const ls_value p = ls_update_parameters(g, u, in);
    const ls_adam_attrs a = { o->beta1, o->beta2, o->eps, o->weight_decay, o->kind == LS_ADAMW };
    const ls_value m = ls_update_moment(g, LS_EXP_AVG, u, in), v = ls_update_moment(g, LS_EXP_AVG_SQ, u, in);
    return ls_graph_apply(
        g, &ls_op_adam, 9,
        (ls_value[]){ p, in->gradient, m, v, in->step, in->lr, in->scale, in->apply, in->weights }, &a);
}
