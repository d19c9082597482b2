/* passes.h - graph -> graph rewrites. Each takes *g and puts a new graph in its place, or leaves it and returns the error. None knows a
 * model; none changes what is computed by more than its comment says. Order in a training step (train/compile.c):
 *
 *     slices_up, narrow -> units (precision) -> ls_backward -> recompute -> cse, dce -> fuse -> dce */
#pragma once
#include "graph/graph.h"

ls_status ls_pass_dce(ls_graph **g); /* drops what no output and no effect needs */
ls_status ls_pass_cse(ls_graph **g); /* merges equal ops on equal operands; never effects, random ops or recompute clones */

/* Computes only what is read: where every reader of a value wants the same range of one dimension, the slice moves up through row-wise
 * ops to the producers (the class token of a ViT head; logits where labels are). A column slice under a row slice splits the matrix
 * product's weight. Exact: a row's result does not depend on the rows computed with it. Before differentiation. */
ls_status ls_pass_slices_up(ls_graph **g);
/* A matrix product of which only a range of columns is read computes only those. Before differentiation. */
ls_status ls_pass_narrow(ls_graph **g);

/* Every f32 value becomes f64 (device ref). */
ls_status ls_pass_to_f64(ls_graph **g);

/* One parameter inside its unit's flat buffer. */
typedef struct ls_slot {
    const char *name; /* FQN */
    ls_type type;     /* as the model declared it */
    ls_init init;
    int64_t offset;   /* elements from the start of the unit's buffer; tensors begin at multiples of 64 bytes */
} ls_slot;

/* Parameters of one unit lie in one flat state named "unit NAME"; slots in order of declaration. Owned by `arena`. */
typedef struct ls_units {
    ls_arena arena;
    const char *state; /* name of the state node: "unit root" */
    ls_dtype dtype;    /* of the master weights */
    int64_t elements;  /* of the flat buffer, padding included */
    int64_t parameters; /* elements without padding */
    int n_slots;
    ls_slot *slots;
} ls_units;
void ls_units_release(ls_units *u);

/* Replaces every param by a view of its unit's flat state, cast once to `param` when that differs from the master type; where operands
 * then differ in float type, they are cast to `param`; logits of a loss are cast to `output` (FSDP's MixedPrecisionPolicy). */
ls_status ls_pass_units(ls_graph **g, ls_dtype param, ls_dtype output, ls_units *units);

/* Activation checkpointing: for each block of the given class, forward values that the backward pass reads are computed again in front of
 * their first reader there; only what enters the block is kept. LS_E_USAGE when no block has the class. After differentiation. */
ls_status ls_pass_recompute(ls_graph **g, const char *block_class);

/* Epilogues of matrix products (activation, residual, activation gradient, addend), addend of layer_norm_grad, and element-wise chains
 * into one pass over memory. Rounds where the unfused graph rounds, so results are the same bits. After differentiation. */
ls_status ls_pass_fuse(ls_graph **g);
