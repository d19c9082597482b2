/* placed_node.h - a node as the rules of ops see it: whole types, and its box. Private to src/passes. */
#pragma once
#include "graph/op.h"

/* A node with the types of its operands and results, for rules. LS_E_UNSUPPORTED with more of them than there
 * is room for. */
enum { LS_PLACED_IN = 64 };
typedef struct ls_placed_node {
    ls_infer infer;
    ls_type in[LS_PLACED_IN];
} ls_placed_node;
ls_status ls_placed_node_of(ls_placed_node *p, const ls_graph *g, const ls_node *n);
