/* planned.h - planning a graph for the tests of sessions. */
#pragma once
#include "lockstep/graph.h"
#include "execute/internal.h"

ls_graph *new_graph(const char *name);

ls_plan *plan_of(ls_graph *g, const char *dev, int threads);
