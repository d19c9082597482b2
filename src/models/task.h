/* task.h - the losses of a recipe for a model that has outputs and declares no loss of its own. */
#pragma once
#include "lockstep/models.h"

/* Declares them, unscaled, with the metrics of their outputs, and finishes the graph. A target, weight or
 * mask that is not an input yet becomes one. LS_E_USAGE: `of` names no output [batch, ..]. */
ls_status ls_task_declare(ls_graph *g, int n, const ls_task_loss *losses, int64_t batch);
