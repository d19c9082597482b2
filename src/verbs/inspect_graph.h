/* inspect_graph.h - the model of a recipe in the order of its forward pass, for the page of `lockstep
 * inspect`. */
#pragma once
#include "base/json.h"
#include "graph/graph.h"

/* Adds the member "graph" to the open object of j, and to `out` its figure: a table of blocks with what each
 * computes. scripts/model.js draws it. `g`: as the model built it, for one sample. LS_E_MEMORY. */
ls_status ls_inspect_graph(ls_json *j, ls_str *out, const ls_graph *g);
