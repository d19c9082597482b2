/* graph.h - a program as data: nodes apply ops to values. Private to the library; models use
 * include/lockstep/graph.h.
 *
 * A graph owns everything in it through one arena. Nodes are only ever appended: a pass builds a new graph
 * (graph/rewrite.h) and does not change the old one. So an id keeps its meaning, and the order of the nodes
 * is a valid order of execution. */
#pragma once
#include "base/arena.h"
#include "base/box.h"
#include "graph/attrs.h"
#include "graph/collective_attrs.h"
#include "graph/placement.h"
#include "graph/source_attrs.h"
#include "lockstep/graph.h"

typedef struct ls_op ls_op;

/* Where a node comes from in the model. Scopes form a tree. `path` is dotted
 * ("encoder.layers.encoder_layer_3"). `block` is the class name given to LS_SCOPE ("EncoderBlock"), or "" for
 * a plain prefix. `wide`: between ls_wide_begin and ls_wide_end. */
typedef struct ls_scope {
    const struct ls_scope *parent;
    const char *path, *block;
    int id;
    bool wide;
} ls_scope;

typedef enum ls_phase { LS_PHASE_FORWARD, LS_PHASE_BACKWARD, LS_PHASE_UPDATE } ls_phase;

typedef struct ls_node {
    const ls_op *op;
    int id, n_in, n_out;
    ls_value *in; /* an absent optional input is {0} */
    ls_value *out;
    void *attrs;
    /* With LS_OP_AT: the box, in its whole tensor, of the operand that has @ in the op's rule; NULL: the
     * operand is whole. */
    const ls_box *at;
    const ls_scope *scope;
    ls_phase phase;
    int stage; /* of a pipeline: the ranks that compute it (passes/stages.h) */
    /* Recomputation: the id of the node that this one repeats (its own id if that node is gone), else -1.
     * Merging equal nodes must not undo it. */
    int clone_of;
    const char *file; /* where the builder call that made it stands in the model's source */
    int line;
} ls_node;

typedef struct ls_val {
    ls_type type;
    int node, out;           /* producer and which of its outputs */
    const ls_placed *placed; /* NULL: not known, or it is not placed on any axis */
} ls_val;

typedef struct ls_output_entry {
    const char *name;
    ls_value value;
    ls_identity is;
} ls_output_entry;

/* A loss or a metric that the model declares. Its rows are a value of the graph that the model built.
 * passes/objective.c makes operations of the declaration before the first pass, so no other pass knows it. */
typedef struct ls_declared {
    const char *name, *field; /* field: NULL: none */
    ls_value rows, targets;   /* targets: values that a metric of a kind needs in addition to its rows */
    double factor;
    ls_weigh weigh;
    ls_how how;
    int kind;        /* ls_metric_kind; 0: rows, reduced as `how` says; LS_AUC_BOUND */
    int64_t classes; /* LS_ACCURACY, LS_F1: of the logits; 1: scores; 0: accuracy of too many for a matrix */
    bool loss, scalar;
    /* rows compare a sample with the others of its micro-batch, and leave its padding out (ls_objective_real)
     */
    bool among;
    const char *file;
    int line;
} ls_declared;

/* A separate metric: the possible error of the LS_AUC that is declared before it. It has no sums. */
enum { LS_AUC_BOUND = LS_AUC + 1 };
/* Adds it, unless it is refused (ls_graph_status). */
void ls_graph_declare(ls_graph *g, ls_declared d);

struct ls_graph {
    ls_arena arena;
    const char *name;
    uint32_t number; /* number of the graph in this process; values that builder calls return carry it */
    ls_node **nodes;
    int n_nodes, cap_nodes;
    /* of the sources among the first n_indexed nodes: their numbers + 1, by a hash of their identity
     * (ops/source.c); a power of two, at least twice as many as they are */
    int *sources;
    int n_indexed, n_sources, cap_sources;
    ls_val *vals;
    int n_vals, cap_vals; /* vals[0] is the absent value */
    ls_output_entry *outputs;
    int n_outputs, cap_outputs;
    ls_declared *declared;
    int n_declared, cap_declared;
    const ls_scope *scope; /* the scope of new nodes */
    ls_scope root;
    int n_scopes;
    ls_phase phase;
    int stage;                       /* of new nodes */
    const ls_box *at;                /* the box of new nodes whose op has LS_OP_AT (copied) */
    bool keeps_sources;              /* sources stay in the graph, even if nothing reads them */
    bool evaluation;                 /* the model is built for evaluation */
    const char *metrics;             /* words of ls_trainer_opts.metrics; NULL: none */
    bool shares;                     /* ls_param gives the parameter of that name, if there is one */
    bool nf4;                        /* linear layers that follow have weights of 4 bits */
    const struct ls_lora_opts *lora; /* adapters of the linear layers that follow; NULL: none */
    char *lora_unused;               /* words of its targets that have named no layer yet; NULL: none */
    const char *tensor_plan; /* the model's tensor plan, which parallel.tensor may replace; NULL: none */
    ls_status status;        /* the first error of a builder call; later calls do nothing */
    char *message;
    const char *file;
    int line; /* call site of the current builder call */
    int site_depth;
};

/* The call site in a message: "FILE:LINE: " before it, " (FILE:LINE)" behind it. Nothing if the builder is
 * one of this library's. */
enum { LS_SITE_SIZE = 512 };
const char *ls_site_before(char out[LS_SITE_SIZE], const char *file, int line);
const char *ls_site_after(char out[LS_SITE_SIZE], const char *file, int line);

static inline const ls_val *ls_val_of(const ls_graph *g, ls_value v) { return &g->vals[v.id]; }
static inline const ls_type *ls_type_of(const ls_graph *g, ls_value v) { return &g->vals[v.id].type; }
static inline ls_node *ls_node_of(const ls_graph *g, ls_value v) { return g->nodes[g->vals[v.id].node]; }
static inline bool ls_present(ls_value v) { return v.id > 0; }

/* Whether v can be a value of g: made by g, or without a graph's number (inside the library a value is its id
 * alone). The absent value (0) can. */
bool ls_graph_has(const ls_graph *g, ls_value v);

/* Appends a node: runs the op's shape rule and makes its outputs. Returns NULL after an error (sticky).
 * `attrs` is copied deeply. Absent inputs must be allowed by the op. If an input is the result of a failed
 * call, the result is invalid too, without another message. */
ls_node *ls_graph_add(ls_graph *g, const ls_op *op, int n_in, const ls_value *in, const void *attrs);
/* Whether the graph has no error, and no allocation in its arena has failed. */
bool ls_graph_room(ls_graph *g);
/* ls_graph_add that returns the node's first output. */
ls_value ls_graph_apply(ls_graph *g, const ls_op *op, int n_in, const ls_value *in, const void *attrs);

/* Records an error of the current builder call; later calls do nothing. */
void ls_graph_error(ls_graph *g, ls_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks that a pointer argument of a builder call is not NULL. `value` is what the call then returns (leave
 * it empty for void). */
#define LS_BUILD_ARG(g, x, value)                                          \
    do {                                                                   \
        if (!(x)) {                                                        \
            ls_graph_error((g), LS_E_ARG, "%s: %s is NULL", __func__, #x); \
            return value;                                                  \
        }                                                                  \
    } while (0)

/* The same for a value of the enum `type`, whose values go from 0 to `last`. */
#define LS_BUILD_ENUM(g, type, x, last, value)                                                      \
    do {                                                                                            \
        if ((unsigned)(x) > (unsigned)(last)) {                                                     \
            ls_graph_error((g), LS_E_ARG, "%s: %s is %d, which is not a value of %s", __func__, #x, \
                           (int)(x), #type);                                                        \
            return value;                                                                           \
        }                                                                                           \
    } while (0)

/* Checks the invariants of every graph: operands are made before they are used, types follow from the shape
 * rules, names are unique, outputs are live. Local. */
ls_status ls_graph_verify(const ls_graph *g);
