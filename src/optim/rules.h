/* rules.h - an optimizer as the library knows it: a function that is found by its kind. To add one: a file
 * like sgd.c, a value of ls_optimizer_kind, a line in update.c. Recipes name it in recipe/optim_row.c. */
#pragma once
#include "lockstep/optim.h"
#include "ops/rules.h"

/* What an update is of, and what it reads besides the unit's state. */
typedef struct ls_update_inputs {
    int unit;          /* its number */
    ls_value gradient; /* of the unit, as its state is laid out */
    ls_value step;     /* i64 []: of this update, from 1 */
    ls_value lr;       /* f64 [] */
    ls_value scale;    /* [], absent: 1. The gradient is multiplied by it */
    ls_value apply;    /* i32 [], absent: 1. 0 leaves everything as it is */
} ls_update_inputs;

/* Adds to g the update of one unit's state in place, with the moments that it needs. */
typedef void (*ls_optimizer_rule)(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                                  const ls_update_inputs *in);
void ls_optimizer_adam(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                       const ls_update_inputs *in); /* and adamw */
void ls_optimizer_sgd(ls_graph *g, const ls_update_unit *u, const ls_optimizer *o,
                      const ls_update_inputs *in);

/* States of the unit's type: its parameters; a moment of them, zeros at first. A new kind of moment is a
 * value of ls_moment and its name in graph/identity.c. */
ls_value ls_update_parameters(ls_graph *g, const ls_update_unit *u, const ls_update_inputs *in);
ls_value ls_update_moment(ls_graph *g, ls_moment m, const ls_update_unit *u, const ls_update_inputs *in);
