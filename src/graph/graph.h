/* graph.h - the program as data: nodes apply ops to values. Private to the library; models use
 * include/lockstep/graph.h.
 *
 * A graph owns everything in it through one arena. It is only ever appended to: passes build a new graph
 * (graph/rewrite.h) instead of changing one, so an id, once given, means the same for ever, and node order is
 * a valid execution order by construction. */
#pragma once
#include "base/arena.h"
#include "base/box.h"
#include "device/attrs.h"
#include "graph/placement.h"
#include "lockstep/graph.h"

typedef struct ls_op ls_op;

/* Where a node comes from in the model. Scopes form a tree; `path` is dotted
 * ("encoder.layers.encoder_layer_3"), `block` is the class name given to LS_SCOPE ("EncoderBlock") or "" for
 * a plain prefix. */
typedef struct ls_scope {
    const struct ls_scope *parent;
    const char *path, *block;
    int id;
} ls_scope;

typedef enum ls_phase { LS_PHASE_FORWARD, LS_PHASE_BACKWARD, LS_PHASE_UPDATE } ls_phase;

typedef struct ls_node {
    const ls_op *op;
    int id, n_in, n_out;
    ls_value *in; /* an absent optional input is {0} */
    ls_value *out;
    void *attrs;
    /* with LS_OP_AT: where the operand with @ in the op's rule is in its whole tensor; NULL: all of it */
    const ls_box *at;
    const ls_scope *scope;
    ls_phase phase;
    /* recompute: id of the node this one repeats (its own when that is gone), else -1; common subexpressions
     * never merge it back */
    int clone_of;
    const char *file; /* the builder call that made it */
    int line;
} ls_node;

typedef struct ls_val {
    ls_type type;
    int node, out;           /* producer and which of its outputs */
    const ls_placed *placed; /* NULL: not known, or on no axis */
} ls_val;

typedef struct ls_output_entry {
    const char *name;
    ls_value value;
    ls_identity is;
} ls_output_entry;

struct ls_graph {
    ls_arena arena;
    const char *name;
    uint32_t number; /* in this process: values that builder calls return carry it */
    ls_node **nodes;
    int n_nodes, cap_nodes;
    ls_val *vals;
    int n_vals, cap_vals; /* vals[0] is the absent value */
    ls_output_entry *outputs;
    int n_outputs, cap_outputs;
    const ls_scope *scope; /* where new nodes go */
    ls_scope root;
    int n_scopes;
    ls_phase phase;
    const ls_box *at;        /* new nodes have it, if their op has LS_OP_AT; copied */
    bool evaluation;         /* layers are those of evaluation */
    const char *tensor_plan; /* the model's own words of parallel.tensor; NULL: none */
    ls_status status;        /* sticky: first error of a builder call */
    char *message;
    const char *file;
    int line; /* call site of the current builder call */
    int site_depth;
};

static inline const ls_val *ls_val_of(const ls_graph *g, ls_value v) { return &g->vals[v.id]; }
static inline const ls_type *ls_type_of(const ls_graph *g, ls_value v) { return &g->vals[v.id].type; }
static inline ls_node *ls_node_of(const ls_graph *g, ls_value v) { return g->nodes[g->vals[v.id].node]; }
static inline bool ls_present(ls_value v) { return v.id > 0; }

/* Whether v can be a value of g: made by it, or without a graph's number (inside the library a value is its
 * id). 0, absent, can. */
bool ls_graph_has(const ls_graph *g, ls_value v);

/* Appends a node: runs the op's shape rule, makes its outputs, returns the node or NULL after an error
 * (sticky). `attrs` is copied deeply. Inputs that are absent must be allowed by the op; an invalid (error)
 * input makes the result invalid silently. */
ls_node *ls_graph_add(ls_graph *g, const ls_op *op, int n_in, const ls_value *in, const void *attrs);
/* First output of the same. */
ls_value ls_graph_apply(ls_graph *g, const ls_op *op, int n_in, const ls_value *in, const void *attrs);

/* Sticky failure at the current call site. */
void ls_graph_error(ls_graph *g, ls_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A builder call's argument that must not be NULL; the value is what the call returns (nothing: leave it
 * empty). */
#define LS_BUILD_ARG(g, x, value)                                          \
    do {                                                                   \
        if (!(x)) {                                                        \
            ls_graph_error((g), LS_E_ARG, "%s: %s is NULL", __func__, #x); \
            return value;                                                  \
        }                                                                  \
    } while (0)

/* Everything that must hold of a graph: operands before use, types as the shape rules say, names unique,
 * outputs live. Local. */
ls_status ls_graph_verify(const ls_graph *g);
