/* identity.h - what a source or an output is to the programs of a step, by type and number (device/attrs.h).
 * Whoever looks for a unit's parameters, its gradient, a moment or the step counter compares identities.
 * Their names are made here alone, for people and files; nobody reads them back. A name that a model chooses
 * is never taken for one of them, though it be the same text. */
#pragma once
#include "graph.h"

/* `unit`: the unit's name; for what belongs to none, anything. */
const char *ls_identity_name(ls_arena *arena, ls_identity is, const char *unit);
const char *ls_moment_name(ls_moment m); /* "exp_avg", ... */

/* 0: the same, so one memory in all programs of a session. Names count for LS_IS_NAMED only. */
int ls_identity_order(ls_identity a, const char *name_a, ls_identity b, const char *name_b);

ls_value ls_input_of(ls_graph *g, ls_identity is, const char *unit, ls_type type);
ls_value ls_state_of(ls_graph *g, ls_identity is, const char *unit, ls_type type, ls_init init);
void ls_output_of(ls_graph *g, ls_identity is, const char *unit, ls_value v);
/* An output like another graph's. */
void ls_output_like(ls_graph *g, const ls_output_entry *like, ls_value v);

static inline ls_identity ls_source_is(const ls_node *n) { return ((const ls_source_attrs *)n->attrs)->is; }
