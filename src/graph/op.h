/* op.h - an op: a row with its loops, shape rule, gradient and cost, in a file of src/ops. Kernels of the
 * same name are in src/device. ARCHITECTURE.md ("How to add") lists what a new op needs; a test goes through
 * the table of ops and fails where something is missing. */
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
    const char *const *words; /* optional: names of the values 0, 1, ... of an I64 (activations, dtypes) */
} ls_attr_field;

enum ls_op_flags {
    LS_OP_SOURCE = 1 << 0,      /* no inputs: input, param, state */
    LS_OP_VIEW = 1 << 1,        /* the output has the first input's memory under another shape; see `view` */
    LS_OP_ELEMENTWISE = 1 << 2, /* has an opcode (ls_ew), broadcasts, and can be fused */
    LS_OP_EFFECT = 1 << 3,      /* writes state: must not be removed, or merged with an equal node */
    /* The result is a function of (seed, purpose, step, position): the node may be repeated, but not merged
     * with one of another purpose. */
    LS_OP_RANDOM = 1 << 4,
    /* communicates: has a group and a number of bytes; the order of collectives is kept */
    LS_OP_COLLECTIVE = 1 << 5,
    /* Copies between host and device memory. If they are the same memory, the device's kernel `copy` does
     * it. */
    LS_OP_TRANSFER = 1 << 7,
    /* Is never differentiated: integer results, gradients, optimizers. (An op without this flag and without
     * `grad` is an error on a gradient's path.) */
    LS_OP_NO_GRAD = 1 << 6,
    /* Its nodes know the box of one operand in its whole tensor (ls_node.at): the operand that has @ in the
     * op's rule. Nodes that gradients and `expand` make take over the box of the node that they belong to. */
    LS_OP_AT = 1 << 8,
};

/* Arguments of a shape rule. It reads types and attributes and writes out[] and n_out, nothing else. If the
 * operands do not fit, it fails with LS_E_SHAPE and their shapes. */
typedef struct ls_infer {
    const ls_op *op;
    int n_in;
    const ls_type *in; /* of an absent input: ndim -1 */
    const void *attrs;
    const ls_box *at; /* with LS_OP_AT */
    int n_out;        /* starts as op->n_out */
    ls_type out[LS_MAX_OUT];
} ls_infer;

/* Arguments of a gradient rule. It sets din[j] for each input with needs[j]. dout[i] is absent if no gradient
 * reaches output i. */
typedef struct ls_grad {
    ls_graph *g;
    const ls_node *node;
    const ls_value *dout;
    ls_value *din;
    const bool *needs; /* [inputs]: a gradient is wanted */
} ls_grad;

/* FLOPs (a multiply-add counts as 2), and the bytes that are moved at least: each operand once. */
typedef struct ls_cost {
    double flops, bytes;
} ls_cost;

struct ls_rule;

/* Arguments of `expand`, which builds the operations that one rank of an axis computes instead of the node,
 * and sets out[]. It is for ops whose ranks' results cannot simply be added up. */
typedef struct ls_expansion {
    ls_graph *g;
    const ls_node *node; /* the node without splitting */
    const ls_value *in;  /* this rank's operands */
    ls_value *out;
    const char *group, *unit; /* group and unit of the collectives that it makes */
    int ranks, position;
} ls_expansion;

struct ls_op {
    const char *name;
    /* The op's loops (ops/rule.h). LS_RULE_LATER: its nodes are made after values are placed. NULL: `dims`
     * sets all loops, or the op has no operand. */
    const char *rule;
    /* sets loops that depend on shapes, and forbids splits that attributes rule out */
    ls_status (*dims)(struct ls_rule *r, const ls_infer *i);
    ls_status (*expand)(ls_expansion *e); /* for a loop that the rule marks with `join` */
    /* Sets the sizes in attributes to those of `out`, the result's type on one rank. */
    void (*local)(ls_arena *a, void *attrs, const ls_type *out);
    int min_in, max_in; /* max_in -1: unlimited */
    int n_out;          /* number of outputs; infer may set another one */
    uint32_t flags;
    uint32_t optional_in; /* bit j: input j may be absent */
    size_t attrs_size;
    const ls_attr_field *fields; /* ended by name NULL */
    ls_status (*infer)(ls_infer *i);
    void (*grad)(ls_grad *c);           /* NULL: see LS_OP_NO_GRAD */
    ls_cost (*cost)(const ls_infer *i); /* NULL: no arithmetic, and each operand is moved once */
    /* LS_OP_VIEW: the output's layout in the input's memory. False: strides cannot express it, and the input
     * is copied. */
    bool (*view)(const ls_infer *i, const ls_tensor *in, ls_tensor *out, int64_t *offset);
    /* Output i must have the memory of input alias[i] - 1 (updates of state); 0: it need not. */
    int8_t alias[LS_MAX_OUT];
    /* Bit j: output 0 may have the memory of input j, if nothing else reads the input later and the sizes are
     * equal. */
    uint32_t inplace;
    int ew;              /* LS_OP_ELEMENTWISE: the opcode (ls_ew) */
    const char *summary; /* what the op computes: one sentence, which step.html shows */
};

/* Attributes of any op, by its field table. */
bool ls_attrs_equal(const ls_op *op, const void *a, const void *b);
void *ls_attrs_copy(ls_arena *arena, const ls_op *op, const void *attrs);
uint64_t ls_attrs_digest(const ls_op *op, const void *attrs, uint64_t h);

/* For shape rules: a failure with the op's name, and a type as text. */
ls_status ls_infer_fail(const ls_infer *i, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *ls_type_text(char buffer[128], const ls_type *t); /* "f32 [64, 17, 128]" */
