/* pipeline_kinds.h - which nodes of a program are of a stage, and which are made for each micro-batch. */
#pragma once
#include "graph/graph.h"

/* bound: [nodes] it belongs to its stage. varies: [nodes] its values depend on the micro-batch, or are made
 * anew for each. `a` has scratch memory. */
ls_status ls_pipeline_kinds(bool *bound, bool *varies, const ls_graph *g, ls_arena *a);
