/* placed_node.h - the types of a node's whole operands and results, and its box, for rules of ops. Private to
 * src/passes. */
#pragma once
#include "redistribute.h"
#include "graph/op.h"

/* LS_E_UNSUPPORTED: the node has more than LS_PLACED_IN operands. */
enum { LS_PLACED_IN = 520 }; /* model.experts, and what else their product takes */
typedef struct ls_placed_node {
    ls_infer infer;
    ls_type in[LS_PLACED_IN];
} ls_placed_node;
ls_status ls_placed_node_of(ls_placed_node *p, const ls_graph *g, const ls_node *n);
/* The node's attributes for a rank that has a block of dimension `dim` of result 0 (-1: all of it), copied to
 * `a`: an op with `local` has sizes in them. False: the ranks do not divide it. */
bool ls_placed_attrs(void **attrs, ls_arena *a, const ls_placed_node *p, int dim, const ls_shard_axis *axis);
