/* interpret.h - computes a graph without a planner: every value has memory of its own, every view is copied.
 */
#pragma once
#include "graph/graph.h"

/* values[v] for every value of g, contiguous, malloc'ed; sources must be set before (others NULL). Uses the
 * kernels of device ref. */
void interpret(const ls_graph *g, void **values);
void interpret_release(const ls_graph *g, void **values);
