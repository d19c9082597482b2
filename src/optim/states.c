/* states.c - the states that updates read and change: a unit's parameters and their moments. */
#define LS_NO_CALL_SITES
#include "graph/identity.h"
#include "rules.h"

static ls_value state_of(ls_graph *g, ls_identity is, const ls_update_unit *u)
{
    return ls_state_of(g, is, u->name, u->type, (ls_init){ 0 });
}

ls_value ls_update_parameters(ls_graph *g, const ls_update_unit *u, const ls_update_inputs *in)
{
    return state_of(g, (ls_identity){ .what = LS_IS_UNIT, .unit = in->unit }, u);
}

void ls_update_weights(ls_graph *g, const ls_update_unit *u, const ls_update_inputs *in, ls_value parameters)
{
    if (ls_present(in->weights))
        ls_output_of(g, (ls_identity){ .what = LS_IS_WEIGHTS, .unit = in->unit }, u->name,
                     ls_cast(g, parameters, u->weight_type));
}

ls_value ls_update_moment(ls_graph *g, ls_moment m, const ls_update_unit *u, const ls_update_inputs *in)
{
    return state_of(g, (ls_identity){ .what = LS_IS_MOMENT, .unit = in->unit, .moment = m }, u);
}
