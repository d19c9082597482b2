/* rewrite.h - how a pass makes a new graph from an old one. It goes through the old nodes in order and copies
 * each one or builds something in its place. A map leads from old values to new ones. Shape rules run again
 * for every copy, so a changed type reaches all that depends on it.
 *
 *     ls_rewrite r;
 *     ls_rewrite_begin(&r, *g);
 *     for each node n of r.from:  ls_rewrite_copy(&r, n)  or  build on r.to and set r.map[n->out[0].id]
 *     return ls_rewrite_end(&r, g);     // outputs are mapped, *g becomes the new graph */
#pragma once
#include "graph.h"

typedef struct ls_rewrite {
    const ls_graph *from;
    ls_graph *to;
    ls_value *map;           /* [old value ids]; {0}: no new value (yet) */
    const ls_scope **scopes; /* [old scope ids] */
} ls_rewrite;

ls_status ls_rewrite_begin(ls_rewrite *r, const ls_graph *from);
/* The new value of `old`. Absent stays absent; -1 if the node that made it was left out. */
ls_value ls_rewrite_value(const ls_rewrite *r, ls_value old);
/* From here on, new nodes take scope, phase, box and call site of the old node `n`. */
void ls_rewrite_like(ls_rewrite *r, const ls_node *n);
/* Copies n, with new operands, and maps its outputs. NULL after an error. */
ls_node *ls_rewrite_copy(ls_rewrite *r, const ls_node *n);
/* n's operands in the new graph, in its arena, with room for one more. NULL after an error. */
ls_value *ls_rewrite_operands(ls_rewrite *r, const ls_node *n);
/* Copies n with these operands and attributes instead of its own. */
ls_node *ls_rewrite_copy_with(ls_rewrite *r, const ls_node *n, const ls_value *in, const void *attrs);
/* The same for operands of which the one with @ in the op's rule is the box `at` of its whole tensor. */
ls_node *ls_rewrite_copy_at(ls_rewrite *r, const ls_node *n, const ls_value *in, const ls_box *at);
/* Copies the outputs, destroys *g and replaces it by the new graph. After an error *g stays as it is. */
ls_status ls_rewrite_end(ls_rewrite *r, ls_graph **g);
void ls_rewrite_abort(ls_rewrite *r);
/* Copies a graph with its outputs, but without what it declares (ls_loss, ls_measure). */
ls_status ls_rewrite_clone(ls_graph **out, const ls_graph *g);

/* The readers of values. uses[v]: how many operands and graph outputs are value v. user[v]: the last node
 * that reads v, -1 if none does. */
typedef struct ls_uses {
    int *count;
    int *user;
} ls_uses;
ls_status ls_uses_init(ls_uses *u, const ls_graph *g); /* LS_E_MEMORY; to be released then, too */
void ls_uses_release(ls_uses *u);
