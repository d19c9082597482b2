/* node.h - what planner and executor ask of a node. */
#pragma once
#include "base/str.h"
#include "plan.h"

/* Operands that a node's kernel may look at: also the trailing optional ones that the graph left out, which
 * are absent like any other. */
static inline int ls_slots_in(const ls_node *n) { return n->op->max_in > n->n_in ? n->op->max_in : n->n_in; }
static inline int ls_slots(const ls_node *n) { return ls_slots_in(n) + n->n_out; }
static inline ls_value ls_slot_value(const ls_node *n, int i)
{
    const int k = i - ls_slots_in(n);
    return k >= 0 ? n->out[k] : i < n->n_in ? n->in[i] : (ls_value){ 0 };
}
/* "linear(f32 [2, 3], f32 [4, 3])" into s; for messages. */
void ls_node_text(ls_str *s, const ls_graph *g, const ls_node *n);
static inline bool ls_is_source(const ls_node *n) { return n->op->flags & LS_OP_SOURCE; }
static inline bool ls_is_collective(const ls_node *n) { return n->op->flags & LS_OP_COLLECTIVE; }
static inline bool ls_is_view(const ls_node *n) { return n->op->flags & LS_OP_VIEW; }
static inline const char *ls_source_name(const ls_node *n)
{
    return ((const ls_source_attrs *)n->attrs)->name;
}
/* Values that peers read in place of a copy of their own: a mapped gather without conversion. */
bool ls_is_alias_gather(const ls_graph *g, const ls_node *n);
