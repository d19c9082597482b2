/* interpret.h - runs a graph node by node on ref, with separate memory for every value: without schedule,
 * shared memory or plan. It is slow and simple, and checks the planner and the executor. */
#pragma once
#include "graph/graph.h"

typedef struct interpreter interpreter;
interpreter *interpret_create(const ls_graph *g); /* the graph must outlive it */
void interpret_destroy(interpreter *it);
/* stays in place; sources are the caller's to fill */
ls_tensor interpret_tensor(const interpreter *it, ls_value v);
void interpret_run(interpreter *it, int n_nodes); /* nodes 0 .. n_nodes-1, in order */
