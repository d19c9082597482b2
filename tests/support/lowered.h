/* lowered.h - a model's graph with its losses as operations, without the passes of a step: output "loss",
 * divided by the input "loss, divisor". */
#pragma once
#include "passes/objective.h"
#include "support/support.h"

static inline void lowered(ls_graph *g, int64_t batch)
{
    ls_objective o;
    ASSERT_OK(ls_objective_lower(&o, g, batch, true));
    ls_objective_release(&o);
}
