/* passes.h - graph -> graph rewrites. Each takes *g and puts a new graph in its place, or leaves it and
 * returns the error. None knows a model; none changes what is computed by more than its comment says. Order
 * in a training step (step/compile.c):
 *
 *     slices_up, narrow -> place -> units (ranks, precision) -> sync_batch_norm -> ls_backward
 *     -> recompute, reshard -> cse, dce -> fuse -> dce */
#pragma once
#include "base/box.h"
#include "graph/graph.h"
#include "lockstep/parallel.h"

ls_status ls_pass_dce(ls_graph **g); /* drops what no output and no effect needs */
/* merges equal ops on equal operands; never effects, random ops or recompute clones */
ls_status ls_pass_cse(ls_graph **g);

/* Computes only what is read: where every reader of a value wants the same range of one dimension, the slice
 * moves up through row-wise ops to the producers (the class token of a ViT head; logits where labels are). A
 * column slice under a row slice splits the matrix product's weight. Exact: a row's result does not depend on
 * the rows computed with it. Before differentiation. */
ls_status ls_pass_slices_up(ls_graph **g);
/* A matrix product of which only a range of columns is read computes only those. Before differentiation. */
ls_status ls_pass_narrow(ls_graph **g);

/* Every f32 value becomes `to`: f64 (device ref), or the type in which a model is only used. */
ls_status ls_pass_to_float(ls_graph **g, ls_dtype to);

/* ls_parallel resolved for one rank: which group shards a unit's buffer, and over which it is replicated. */
typedef struct ls_sharding {
    const char *shard, *replicate; /* group names (lockstep/mesh.h); of one rank when there is none */
    int shards, replicas;          /* their sizes */
    int position;                  /* of the rank among the shards */
    /* gathers are mappings; states rest on the host; gradients are reduced in `micro` */
    bool map, offload, each;
} ls_sharding;
ls_sharding ls_sharding_of(const ls_parallel *p);

/* Tensor parallelism: parameters of layers that parallel.tensor names are split over the axis of role tensor,
 * by outputs (colwise) or inputs (rowwise), and everything else follows from the rules of the ops
 * (ops/rule.h). What enters the first kind is Replicate; what leaves it is Shard in its last dimension and
 * must reach the second kind, whose results are summed. A vocabulary is split likewise: rows of an
 * embedding's table, columns of the logits, in which the loss is found. With parallel.sequence values between
 * these layers are split by tokens. Nothing changes where that axis has one rank. LS_E_USAGE where something
 * does not divide, where a split value meets an op that cannot take it, and, on any number of ranks, for a
 * word that names no layer. Before ls_pass_units. */
ls_status ls_pass_place(ls_graph **g, const ls_parallel *p);

/* One parameter inside its unit's flat buffer. */
typedef struct ls_slot {
    const char *name; /* FQN */
    ls_type type;     /* of the block that a rank has, */
    ls_type whole;    /* and of all of it, as the model declared it */
    ls_cuts cuts;     /* which axes of the mesh cut it into blocks */
    ls_init init;
    bool frozen; /* trained no further */
    int unit;
    /* elements from the start of the unit's buffer; tensors begin at multiples of 64 bytes */
    int64_t offset;
} ls_slot;

/* Parameters that are gathered, and whose gradients are reduced, together: one flat state, of which a rank
 * holds slice `position` of `shards` equal ones that begin at multiples of 64 bytes. Frozen parameters lie in
 * units of their own, which have no gradient and no moments. */
typedef struct ls_unit {
    /* its name, for people: "unit root", "unit encoder.layers.encoder_layer_3", "unit bucket 0"; frozen ones
     * end in " frozen". Programs know it by its number (graph/identity.h) */
    const char *state;
    bool root;          /* of the trained parameters outside every block */
    ls_dtype dtype;     /* of what is stored */
    bool frozen;        /* of parameters that are */
    unsigned cut_by;    /* bit i: axis i of the mesh cuts all of them */
    int64_t elements;   /* of the whole buffer, padding included */
    int64_t slice;      /* elements / shards */
    int64_t parameters; /* elements without padding */
    /* in the graph that ls_pass_units made: what the loss is differentiated against to get this unit's
     * gradient */
    ls_value use;
} ls_unit;

typedef struct ls_units {
    ls_arena arena; /* owns everything below */
    ls_sharding sharding;
    ls_dtype dtype;          /* of the trained parameters' masters, f32 or f64; frozen ones may be bf16 too */
    int64_t elements, slice; /* sums over the units */
    int64_t parameters;      /* of the model, whatever part of them this rank has */
    int n, trained;
    ls_unit *units; /* the trained ones, then the frozen ones; each in order of first use */
    int n_slots;
    ls_slot *slots; /* in order of declaration */
} ls_units;
void ls_units_release(ls_units *u);
int64_t ls_units_frozen(const ls_units *u); /* elements of the parameters that are */

/* What a rank stores of a parameter: `count` elements from number `first` on of its block, at element `at` of
 * its slice of the unit. */
typedef struct ls_held {
    ls_box box; /* the block, in the whole parameter */
    int64_t first, count, at;
    /* This number of so many ranks that store the same; and its number among those of them that compute the
     * same samples: of these the first counts in a sum over shards and blocks. */
    int copy, copies, model_copy;
} ls_held;
ls_held ls_slot_held(const ls_units *u, const ls_mesh *m, int slot, int rank);
bool ls_held_all(const ls_held *h);      /* its whole block */
unsigned ls_cuts_axes(const ls_cuts *c); /* ls_unit.cut_by */
/* Every rank stores all of it; of every one. */
bool ls_slot_everywhere(const ls_units *u, int slot);
bool ls_units_everywhere(const ls_units *u);
/* The number of a block among equal ones, row-major, and how many they are. */
int64_t ls_box_number(const ls_box *box, int64_t *of);

/* Decides which unit each parameter lies in, and where (layout.c). `freeze`: ls_trainer_opts. LS_E_USAGE when
 * the policy, or a word of `freeze`, finds nothing in this model. */
ls_status ls_units_lay_out(ls_units *u, const ls_graph *g, const ls_parallel *p, const char *freeze,
                           ls_dtype param);

/* Replaces every param by a view of its unit's flat buffer, reached through the chain that the strategy asks
 * for: state -> (to_device) -> (replicate) -> all_gather into `param`, or a cast (docs/ranks.md). Where
 * operands then differ in float type, they are cast to `param`; logits that a loss or an argmax reads are
 * cast to `output` (FSDP's MixedPrecisionPolicy). */
ls_status ls_pass_units(ls_graph **g, ls_dtype param, ls_dtype output, const ls_parallel *p,
                        const char *freeze, ls_units *units);
/* That cast, for other readers of logits: to a type that is not wider than theirs. */
ls_value ls_pass_output(ls_graph *g, ls_value logits, ls_dtype output);

/* parallel.sync_batch_norm: batch norm takes its statistics over the micro-batches that the data ranks
 * compute side by side. After ls_pass_units, before differentiation: `units` follow the new graph. LS_E_USAGE
 * when the model has no batch norm. */
ls_status ls_pass_sync_batch_norm(ls_graph **g, const ls_parallel *p, ls_units *units);

/* reshard_after_forward: what the backward pass reads of a gathered unit is gathered again in front of its
 * first reader there, so that the first copy dies in the forward pass; with a number N, from a 1/N slice that
 * is kept, over blocks of N neighbours. The root keeps its copy (it is needed first), and so do mappings
 * (they are no rank's own). After differentiation. */
ls_status ls_pass_reshard(ls_graph **g, const ls_parallel *p, const ls_units *units);

/* Activation checkpointing: for each block of the given class, forward values that the backward pass reads
 * are computed again in front of their first reader there; only what enters the block is kept. LS_E_USAGE
 * when no block has the class. After differentiation. */
ls_status ls_pass_recompute(ls_graph **g, const char *block_class);

/* Epilogues of matrix products (activation, residual, activation gradient, addend), addend of layer_norm_grad
 * and its like, and element-wise chains into one pass over memory. Rounds where the unfused graph rounds, so
 * results are the same bits. After differentiation. */
ls_status ls_pass_fuse(ls_graph **g);
