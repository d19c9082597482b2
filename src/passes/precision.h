/* precision.h - which float type each operation of a step computes in: that of the model, or of the innermost
 * module around it that has a policy of its own (FSDP2's MixedPrecisionPolicy, given to some modules). */
#pragma once
#include "graph/rewrite.h"

/* The options of ls_trainer_opts and ls_parallel about precision. */
typedef struct ls_precision {
    ls_dtype param, output;   /* in which is computed; of logits */
    ls_dtype reduce;          /* of sums of gradients over ranks */
    bool cast_forward_inputs; /* this and the next are as in ls_trainer_opts */
    const char *modules;
    bool weights; /* trained parameters in another type are states of their own (ls_unit.weights) */
} ls_precision;
#define LS_PRECISION_DEFAULTS                                                                          \
    .param = LS_F32, .output = LS_F32, .reduce = LS_F32, .cast_forward_inputs = true, .modules = NULL, \
    .weights = false

/* LS_E_USAGE for words of `modules` that are malformed, or have no effect. Local. */
ls_status ls_precision_check(const ls_precision *p);
/* Whether anything computes in f16, whose gradients need a scale. */
bool ls_precision_has_f16(const ls_precision *p);

/* A parsed word of `modules`; number 0 is the model's own policy. */
typedef struct ls_policy {
    ls_dtype param, reduce;
    ls_dtype output; /* of the module's output; in the model's policy, of logits */
    bool has_output; /* false: the output has the type in which it was computed */
    bool cast_forward_inputs;
    const char *which; /* "class:LayerNorm" */
} ls_policy;

typedef struct ls_policies {
    int n;
    ls_policy *all;
    int *of_scope; /* per scope id: the policy of exactly this module; 0: it has none of its own */
} ls_policies;

/* The policies of a graph, in arena `a`. LS_E_USAGE for a word that no module matches. */
ls_status ls_policies_make(ls_policies *out, ls_arena *a, const ls_graph *g, const ls_precision *p);
const ls_policy *ls_policy_of(const ls_policies *p, const ls_scope *scope);

/* The casts that the policies require, made while a graph is copied. */
typedef struct ls_casts {
    const ls_policies *policies;
    struct ls_cast_made *made; /* so that no value is cast to one type twice */
    const ls_node *refused;    /* a node that needs casts which its policy forbids; NULL: none */
} ls_casts;
ls_casts ls_casts_begin(ls_rewrite *r, const ls_policies *p);
/* The operands of node `n`, in the new graph: cast where they leave or enter a module with a policy, and,
 * where they differ in float type, to the one in which `n` computes. Logits that a loss or an argmax reads
 * are rounded to the model's output type. */
void ls_casts_operands(ls_casts *c, ls_rewrite *r, const ls_node *n, ls_value *in);
ls_status ls_casts_status(const ls_casts *c); /* LS_E_USAGE when a node was refused */
