/* rules.h - an optimizer: a function that is found by its kind. ARCHITECTURE.md ("How to add") says how to
 * add one. */
#pragma once
#include "lockstep/optim.h"
#include "ops/rules.h"

/* Operands of an update, besides the unit's states. */
typedef struct ls_update_inputs {
    int unit;          /* number of the unit */
    ls_value gradient; /* the unit's gradient, laid out as its state */
    ls_value step;     /* i64 []: number of this update, from 1 on */
    ls_value lr;       /* f64 [] */
    ls_value scale;    /* []: the gradient is multiplied by it; absent: 1 */
    ls_value apply;    /* i32 []: 0 leaves everything unchanged; absent: 1 */
    ls_value weights;  /* state: the parameters in the type of computation; absent: there is none */
    const char *shard; /* the group that the unit is sliced over, and its size */
    int shards;
} ls_update_inputs;

/* Adds to g the update of one unit's states, in place. It makes the moments that it needs. Returns the new
 * parameters. */
typedef ls_value (*ls_optimizer_rule)(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                                      const ls_update_inputs *in);
ls_value ls_optimizer_adam(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                           const ls_update_inputs *in); /* and adamw */
ls_value ls_optimizer_sgd(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                          const ls_update_inputs *in);
ls_value ls_optimizer_muon(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                           const ls_update_inputs *in);
ls_value ls_optimizer_adafactor(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                                const ls_update_inputs *in);
ls_value ls_optimizer_lion(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                           const ls_update_inputs *in);

/* Ends the rule of an optimizer whose op does not write weights: casts the new parameters to them. */
void ls_update_weights(ls_graph *g, const ls_update_unit *u, const ls_update_inputs *in, ls_value parameters);

/* States with the type of the unit: its parameters, and a moment of them, which begins with zeros. A new kind
 * of moment needs a value of ls_moment and its name in graph/identity.c. */
ls_value ls_update_parameters(ls_graph *g, const ls_update_unit *u, const ls_update_inputs *in);
ls_value ls_update_moment(ls_graph *g, ls_moment m, const ls_update_unit *u, const ls_update_inputs *in);
