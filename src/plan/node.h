/* node.h - questions about nodes that planner and executor ask. */
#pragma once
#include "base/str.h"
#include "plan.h"

/* How many operands a node's kernel may look at: trailing optional operands that the graph left out count
 * too, and are absent. ls_operands: the number of these operands and the results; ls_operand_value: number i
 * of them. */
static inline int ls_operands_in(const ls_node *n)
{
    return n->op->max_in > n->n_in ? n->op->max_in : n->n_in;
}
static inline int ls_operands(const ls_node *n) { return ls_operands_in(n) + n->n_out; }
static inline ls_value ls_operand_value(const ls_node *n, int i)
{
    const int k = i - ls_operands_in(n);
    return k >= 0 ? n->out[k] : i < n->n_in ? n->in[i] : (ls_value){ 0 };
}
/* Appends "linear(f32 [2, 3], f32 [4, 3])", for messages. */
void ls_node_text(ls_str *s, const ls_graph *g, const ls_node *n);
static inline bool ls_is_source(const ls_node *n) { return n->op->flags & LS_OP_SOURCE; }
static inline bool ls_is_collective(const ls_node *n) { return n->op->flags & LS_OP_COLLECTIVE; }
static inline bool ls_is_view(const ls_node *n) { return n->op->flags & LS_OP_VIEW; }
static inline const char *ls_source_name(const ls_node *n)
{
    return ((const ls_source_attrs *)n->attrs)->name;
}
/* What a collective or a transfer moves, for people: "unit root"; "" for scalars. */
static inline const char *ls_half_unit(const ls_plan *p, const ls_step *s)
{
    return s->collective >= 0 ? p->collectives[s->collective].unit : p->transfers[s->transfer].unit;
}
/* Whether a gather only maps: its result is the other ranks' memory itself, without conversion. */
bool ls_is_alias_gather(const ls_graph *g, const ls_node *n);
