/* rewrite.h - how a pass makes a new graph from an old one: walk the old nodes in order, copy each or emit
 * something else, and keep a map from old values to new ones. Shape rules run again on every copy, so a type
 * changed upstream spreads by itself.
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
    ls_value *map;           /* per old value id; {0} = not (yet) there */
    const ls_scope **scopes; /* per old scope id */
} ls_rewrite;

ls_status ls_rewrite_begin(ls_rewrite *r, const ls_graph *from);
/* absent stays absent; -1 if its producer was dropped */
ls_value ls_rewrite_value(const ls_rewrite *r, ls_value old);
/* New nodes take scope, phase, box and call site of old node `n` from here on. */
void ls_rewrite_like(ls_rewrite *r, const ls_node *n);
/* Copies n with mapped operands and maps its outputs; NULL after an error. */
ls_node *ls_rewrite_copy(ls_rewrite *r, const ls_node *n);
/* The same with other operands or attributes. */
ls_node *ls_rewrite_copy_with(ls_rewrite *r, const ls_node *n, const ls_value *in, const void *attrs);
/* The same with operands of which that with @ is `at` of its whole tensor. */
ls_node *ls_rewrite_copy_at(ls_rewrite *r, const ls_node *n, const ls_value *in, const ls_box *at);
/* Copies the outputs, destroys *g and puts the new graph in its place; after an error *g stays and the error
 * is returned. */
ls_status ls_rewrite_end(ls_rewrite *r, ls_graph **g);
void ls_rewrite_abort(ls_rewrite *r);

/* Who uses what: uses[v] is the number of operands (and graph outputs) that read value v; user[v] the last
 * such node, -1 for none. */
typedef struct ls_uses {
    int *count;
    int *user;
} ls_uses;
void ls_uses_init(ls_uses *u, const ls_graph *g);
void ls_uses_release(ls_uses *u);
