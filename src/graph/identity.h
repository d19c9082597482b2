/* identity.h - identities: the meaning of a source or an output for the programs of a step, as a type and a
 * number (ls_identity in graph/meaning.h). Code that looks for a unit's parameters, its gradient, a moment
 * or the step counter compares identities. Names for people and files are made from them here, and nothing
 * reads the names back. So a model may use such a name for a state of its own. */
#pragma once
#include "graph.h"

/* `unit` is the unit's name; it is ignored for an identity that belongs to no unit. */
const char *ls_identity_name(ls_arena *arena, ls_identity is, const char *unit);
const char *ls_moment_name(ls_moment m); /* "exp_avg", ... */
/* The moving average of a unit's parameters: laid out and stored as their moments are. */
enum { LS_EMA = LS_MOMENTS, LS_STORED_MOMENTS };

/* 0: the same identity, so the same memory in all programs of a session. Names are compared for LS_IS_NAMED
 * only. */
int ls_identity_order(ls_identity a, const char *name_a, ls_identity b, const char *name_b);

ls_value ls_input_of(ls_graph *g, ls_identity is, const char *unit, ls_type type);
ls_value ls_state_of(ls_graph *g, ls_identity is, const char *unit, ls_type type, ls_init init);
void ls_output_of(ls_graph *g, ls_identity is, const char *unit, ls_value v);
/* Makes `value` an output with the name and identity of another graph's output. */
void ls_output_like(ls_graph *g, const ls_output_entry *like, ls_value v);

/* Whether it is the state of a unit's parameters, as the optimizer or as the model reads them. */
static inline bool ls_is_parameters(ls_identity is)
{
    return is.what == LS_IS_UNIT || is.what == LS_IS_WEIGHTS;
}

static inline ls_identity ls_source_is(const ls_node *n) { return ((const ls_source_attrs *)n->attrs)->is; }
