/* op.h - what an op is: one row with its constants, shape rule, gradient and cost, in one file of src/ops.
 * Kernels live in src/device under the same name. To add an op: a file in src/ops with its row, a line in
 * ops/table.c, kernels in ref and cpu, a case in tests/ops/cases.c (a test walks the table and fails without
 * one). */
#pragma once
#include "graph.h"

#define LS_MAX_OUT 4

typedef enum ls_field_kind {
    LS_FIELD_I64,
    LS_FIELD_F64,
    LS_FIELD_I64S,
    LS_FIELD_F64S,
    LS_FIELD_TEXT,
    LS_FIELD_TYPE
} ls_field_kind;
typedef struct ls_attr_field {
    const char *name;
    ls_field_kind kind;
    size_t offset;
    const char *const *words; /* optional: names for the values 0, 1, ... of an I64 (activations, dtypes) */
} ls_attr_field;

enum ls_op_flags {
    LS_OP_SOURCE = 1 << 0,      /* no inputs: input, param, state */
    LS_OP_VIEW = 1 << 1,        /* output is the first input's memory under another shape; see `view` */
    LS_OP_ELEMENTWISE = 1 << 2, /* has an ls_ew opcode; can be fused; broadcasts */
    LS_OP_EFFECT = 1 << 3,      /* writes state: never removed, never merged */
    /* a function of (seed, purpose, step, position): may be cloned, never merged across purposes */
    LS_OP_RANDOM = 1 << 4,
    LS_OP_COLLECTIVE = 1 << 5, /* has a group and bytes; order kept */
    /* between host and device memory; where they are one memory, the device's `copy` */
    LS_OP_TRANSFER = 1 << 7,
    /* never differentiated: integer results, gradients, optimizers (an op without `grad` is refused on a
       gradient's path) */
    LS_OP_NO_GRAD = 1 << 6,
    /* nodes keep where an operand is in its whole tensor (ls_node.at): that with @ in the op's rule.
       Gradients and expansions have it from the node that they stand for, for the same tensor or one of its
       shape */
    LS_OP_AT = 1 << 8,
};

/* What a shape rule sees. Pure: reads types and attrs, writes out[] and n_out; returns ls_fail(LS_E_SHAPE,
 * ...) with the shapes. */
typedef struct ls_infer {
    const ls_op *op;
    int n_in;
    const ls_type *in; /* absent: ndim -1 */
    const void *attrs;
    const ls_box *at; /* with LS_OP_AT */
    int n_out;        /* starts as op->n_out */
    ls_type out[LS_MAX_OUT];
} ls_infer;

/* What a gradient rule sees. dout[i] may be absent (nothing flows from there). It fills din[j] for inputs
 * that need one. */
typedef struct ls_grad {
    ls_graph *g;
    const ls_node *node;
    const ls_value *dout;
    ls_value *din;
    const bool *needs; /* per input */
} ls_grad;

/* FLOPs counted as the field does (multiply-add = 2); bytes are the floor: each operand moved once. */
typedef struct ls_cost {
    double flops, bytes;
} ls_cost;

struct ls_rule;

/* What an op that cannot be split by a sum alone makes of its operands on one rank of an axis: `expand`
 * builds it and fills out[]. */
typedef struct ls_expansion {
    ls_graph *g;
    const ls_node *node; /* as it would be on one rank */
    const ls_value *in;  /* this rank's operands */
    ls_value *out;
    const char *group, *unit; /* of its collectives */
    int ranks, position;
} ls_expansion;

struct ls_op {
    const char *name;
    /* its loops (ops/rule.h); LS_RULE_LATER: it is made after values are placed. NULL: `dims`, or it has no
     * operand */
    const char *rule;
    /* loops that follow from shapes, or what attributes forbid */
    ls_status (*dims)(struct ls_rule *r, const ls_infer *i);
    ls_status (*expand)(ls_expansion *e); /* over a loop that the rule joins */
    /* rewrites sizes in attributes for a result of type `out` */
    void (*local)(ls_arena *a, void *attrs, const ls_type *out);
    int min_in, max_in; /* max_in -1: any number */
    int n_out;          /* outputs, unless infer says otherwise */
    uint32_t flags;
    uint32_t optional_in; /* bit j: input j may be absent */
    size_t attrs_size;
    const ls_attr_field *fields; /* ended by name NULL */
    ls_status (*infer)(ls_infer *i);
    void (*grad)(ls_grad *c);           /* NULL with LS_OP_NO_GRAD */
    ls_cost (*cost)(const ls_infer *i); /* NULL: no arithmetic, bytes of operands */
    /* LS_OP_VIEW: layout of the output on the input's memory; false if these strides cannot express it (then
     * it is copied). */
    bool (*view)(const ls_infer *i, const ls_tensor *in, ls_tensor *out, int64_t *offset);
    /* out i must be input alias[i]-1's memory (updates of state); 0 none */
    int8_t alias[LS_MAX_OUT];
    /* bit j: out 0 may overwrite input j when j dies here and has the same size */
    uint32_t inplace;
    int ew;              /* LS_OP_ELEMENTWISE: opcode */
    const char *summary; /* one line: formula, shapes, source */
};

/* Helpers on attribute records, driven by the field table. */
bool ls_attrs_equal(const ls_op *op, const void *a, const void *b);
void *ls_attrs_copy(ls_arena *arena, const ls_op *op, const void *attrs);
uint64_t ls_attrs_digest(const ls_op *op, const void *attrs, uint64_t h);

/* For shape rules. */
ls_status ls_infer_fail(const ls_infer *i, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *ls_type_text(char buffer[128], const ls_type *t); /* "f32 [64, 17, 128]" */
