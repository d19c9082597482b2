/* passes.h - passes: functions that replace a graph by a rewritten one. On an error *g stays as it is, and
 * the error is returned. No pass knows a model. A pass changes results only if its comment says so. Their
 * order in a training step (step/compile.c):
 *
 *     slices_up, narrow, low_rank -> propagate -> units (ranks, precision) -> sync_batch_norm -> ls_backward
 *     -> add_terms -> recompute, reshard -> cse, dce -> fuse -> dce */
#pragma once
#include "base/box.h"
#include "graph/graph.h"
#include "lockstep/parallel.h"
#include "precision.h"

ls_status ls_pass_dce(ls_graph **g); /* Removes nodes that no output and no effect depends on. */
/* Merges nodes with the same op, operands and attributes; but not effects, random ops, or clones of
 * recomputation. */
ls_status ls_pass_cse(ls_graph **g);

/* Computes only what is read. If all readers of a value read the same range of one dimension, the slice moves
 * up through row-wise ops to the ops that make the value (the class token of a ViT's head; logits at tokens
 * with labels). A slice of columns below a slice of rows splits the product's weight. Results keep their
 * bits, because a row's result does not depend on the other rows. Before differentiation. */
ls_status ls_pass_slices_up(ls_graph **g);
/* Products read weights of 4 bits as they are, where the device has a kernel for it. Results keep their bits.
 * After fuse, which joins epilogues to products. */
struct ls_device;
ls_status ls_pass_take_codes(ls_graph **g, const struct ls_device *d);
/* A matrix product of which only a range of columns is read computes only that range. Before
 * differentiation. */
ls_status ls_pass_narrow(ls_graph **g);
/* Adapters of layers with one input share a product, and a residual is added before them. Both are faster,
 * and round in another order: all programs of a model must do it. Before differentiation, after dce. */
ls_status ls_pass_low_rank(ls_graph **g);
/* Gives the inputs of an evaluation, whose batch is not the micro-batch, memory of their own. In place. */
ls_status ls_pass_eval_inputs(ls_graph *g);

/* Changes all f32 values to the type `to`: f64 (device ref), or the type in which a model is evaluated. */
ls_status ls_pass_to_float(ls_graph **g, ls_dtype to);
/* The same with the types of a precision, for a model that is evaluated without units: each weight has the
 * type in which it is used. */
ls_status ls_pass_precision(ls_graph **g, const ls_precision *p);

/* The options of ls_parallel resolved for one rank: which ranks share the slices of a unit's buffer, and
 * which have copies. */
typedef struct ls_sharding {
    const char *shard, *replicate; /* names of groups (lockstep/mesh.h); a group may be one rank */
    int shards, replicas;          /* their sizes */
    int position;                  /* of this rank among the shards */
    int stages, stage;             /* of a pipeline, and this rank's */
    /* map: gathers are mappings. offload: states are in host memory. each: gradients are reduced after every
     * micro-batch. */
    bool map, offload, each;
} ls_sharding;

/* Sharding propagation, for tensor parallelism. The words of `tensor` name layers whose parameters are split
 * over the axis of role tensor: by outputs (colwise) or by inputs (rowwise). The placements of all other
 * values follow from the rules of the ops (ops/rule.h). The input of a colwise layer is Replicate. Its output
 * is Shard in the last dimension and must reach a rowwise layer, whose results are summed. A vocabulary is
 * split in the same way: the rows of an embedding's table, or the columns of the logits, from which the loss
 * is computed. With `sequence`, values between these layers are split by tokens. If the axis has one rank,
 * nothing changes. LS_E_USAGE: a size is not divisible, a sharded value reaches an op that cannot take it, or
 * (also on one rank) a word names no layer. Before ls_pass_units. */
ls_status ls_pass_propagate(ls_graph **g, const ls_parallel *p);
/* The same for programs that leave sharded values to each other: outputs[k] receives the placement of output
 * k (with one rank it is not written). */
ls_status ls_pass_propagate_open(ls_graph **g, const ls_parallel *p, ls_placement *outputs);

/* With parallel.slices, collectives may have several operands: terms of one rank. Adds these in a balanced
 * tree, before the sum over ranks, and removes forks. After differentiation. */
ls_status ls_pass_add_terms(ls_graph **g);

/* A parameter in its unit's flat buffer. */
typedef struct ls_slot {
    const char *name;      /* the parameter's full name: scope path and "weight", for example */
    ls_type type;          /* type of the block that a rank has */
    ls_type whole;         /* type of the whole parameter, as the model declared it */
    ls_shard_dims sharded; /* which axes of the mesh shard it, in which dimension */
    /* Above 1: the sharded dimension consists of so many equal parts, and each part is sharded by itself. */
    int64_t parts;
    ls_init init;
    bool frozen; /* not trained */
    int group;   /* its group of the optimizer, counted from 1; 0: none */
    bool matrix; /* a matrix of a linear layer, where ls_trained.matrices is set */
    int stage;   /* of a pipeline: the first that reads it */
    int unit;
    /* First element in the unit's buffer; a parameter begins at a multiple of 64 bytes. */
    int64_t offset;
} ls_slot;

/* A unit: the parameters of an FSDP module (PyTorch: a module that fully_shard is applied to), which are
 * gathered together, or under ddp a bucket. The gradients of a unit are reduced together. Its parameters are
 * one flat state, of which a rank stores slice number `position` of `shards` equal slices that begin at
 * multiples of 64 bytes. Frozen parameters have units of their own, without gradients and moments. */
typedef struct ls_unit {
    /* Its name, for people: "unit root", "unit encoder.layers.encoder_layer_3", "unit bucket 0". Names of
     * frozen units end in " frozen". Programs identify a unit by its number (graph/identity.h). */
    const char *state;
    bool root;       /* the trained parameters that belong to no other unit */
    ls_dtype dtype;  /* type of the stored parameters */
    ls_dtype param;  /* type that its parameters are used in */
    ls_dtype reduce; /* type that sums of its gradients over ranks are rounded to */
    bool frozen;     /* its parameters are frozen */
    int group;       /* their group of the optimizer, counted from 1; 0: none */
    bool matrices;   /* its parameters are matrices (ls_slot.matrix) */
    /* The model reads another state, the parameters in type `param` (LS_IS_WEIGHTS). The update writes both
     * states, so no step casts parameters. */
    bool weights;
    unsigned sharded_by; /* bit i: axis i of the mesh shards all its parameters */
    int stage;           /* only the ranks of this stage have it */
    unsigned moments;    /* bit k: the optimizer keeps moment k of it; set with the update program */
    int64_t elements;    /* length of the whole buffer, with padding */
    int64_t slice;       /* elements / shards */
    int64_t parameters;  /* elements without padding */
    /* The value, in the graph made by ls_pass_units, by which the loss is differentiated to get this unit's
     * gradient. */
    ls_value use;
} ls_unit;

typedef struct ls_units {
    ls_arena arena; /* owns everything below */
    ls_sharding sharding;
    ls_policies policies;
    ls_dtype dtype; /* type of the trained parameters' states: f32 or f64 (frozen ones have any type) */
    int64_t elements, slice; /* sums over all units */
    int64_t parameters;      /* elements of the whole model; this rank may store only a part of them */
    int n, trained;
    ls_unit *units; /* trained units, then frozen ones; each in order of first use */
    int n_slots;
    ls_slot *slots; /* in order of declaration */
} ls_units;
void ls_units_release(ls_units *u);
static inline bool ls_unit_is_here(const ls_units *u, int unit)
{
    return u->units[unit].stage % u->sharding.stages == u->sharding.stage;
}
/* Fails if a weight of 4 bits is not among the words of `freeze`: training would not change it. */
ls_status ls_units_check_codes(const ls_units *u, const char *freeze);
/* Whether a parameter is used in the type that the model declared, in every precision: no float, or a scale
 * of a weight of 4 bits. */
bool ls_param_keeps_type(const char *name, ls_dtype type);
int64_t ls_units_frozen(const ls_units *u); /* elements of all frozen parameters */

/* A rank's local shard of a parameter: it stores elements [first, first + count) of its block, at element
 * `at` of its slice of the unit. */
typedef struct ls_local_shard {
    ls_box box; /* the block, in the whole parameter */
    int64_t first, count, at;
    /* `copies` ranks store the same elements, and this rank is number `copy` of them. model_copy: its number
     * among those of them that compute the same samples. A sum over shards and blocks counts the rank with
     * model_copy 0. */
    int copy, copies, model_copy;
} ls_local_shard;
ls_local_shard ls_slot_local_shard(const ls_units *u, const ls_mesh *m, int slot, int rank);
bool ls_local_shard_all(const ls_local_shard *h); /* it stores its whole block */
/* The same without a unit: the whole parameter of which this rank's graph has a block, and in how many parts
 * the axes shard it; and the block of a rank. */
ls_type ls_param_whole(const ls_node *param, const ls_mesh *m, int64_t *parts);
ls_box ls_param_box(const ls_shard_dims *sharded, const ls_type *whole, int64_t parts, const ls_mesh *m,
                    int rank);
/* A whole tensor of which dimension `dim` is so many equal parts, as [.., parts, elements of each, ..]: the
 * same elements in the same order. */
ls_box ls_packed_whole(const ls_type *whole, int dim, int64_t parts);
unsigned ls_sharded_axes(const ls_shard_dims *c); /* a mask as ls_unit.sharded_by */
/* Whether every rank stores the whole parameter; or all parameters. A rank of another stage stores none of
 * it. */
bool ls_slot_everywhere(const ls_units *u, int slot);
bool ls_units_everywhere(const ls_units *u);
/* The number of a block among `*of` equal blocks of the whole, in row-major order. */
int64_t ls_box_number(const ls_box *box, int64_t *of);

/* Settings for single parameters, from ls_trainer_opts. */
typedef struct ls_trained {
    const char *freeze; /* NULL: none */
    int n_groups;
    const char *const *groups; /* the words of each */
    /* Matrices of linear layers lie in units of their own, but not those of groups whose bit is in `plain`.
     */
    bool matrices;
    uint64_t plain;
} ls_trained;

/* Decides for each parameter its unit and its position there (layout.c). `what` NULL: all are trained alike.
 * LS_E_USAGE if the unit policy, a word of `what` or one of the precision names nothing in this model. */
ls_status ls_units_lay_out(ls_units *u, const ls_graph *g, const ls_parallel *p, const ls_trained *what,
                           const ls_precision *precision);
/* Finds ls_slot.group and ls_slot.matrix of all slots, of which `params` are the nodes (groups.c). Frozen
 * ones have none. */
ls_status ls_units_group(ls_units *u, const ls_graph *g, const ls_node *const *params,
                         const ls_trained *what);
/* Matches a dotted path. `*` does not match a dot, as it does not match `/` in a path of files. */
bool ls_path_matches(const char *glob, const char *path);
/* Whether one of the words class:NAME and pattern:GLOB names the module of this scope; the root has no
 * module. */
bool ls_words_name(const char *words, const ls_scope *s);
/* Whether one word class:NAME or pattern:GLOB names a parameter: it lies in a module of that class, or its
 * whole name matches, where `*` matches dots too. */
bool ls_word_names_parameter(const char *word, const ls_scope *s, const char *name);
/* Whether the words of `freeze` name this parameter or a module that contains it. A word that begins with `!`
 * takes names out again; of several words that match, the last one decides. */
bool ls_words_freeze(const char *freeze, const char *name);

/* Replaces each parameter by a view of its unit's flat buffer. The buffer is the end of a chain: state ->
 * (to_device) -> (replicate) -> all_gather into the unit's type, or a cast (docs/ranks.md). Adds the casts
 * that the policies ask for (precision.h), as FSDP's MixedPrecisionPolicy does. */
ls_status ls_pass_units(ls_graph **g, const ls_precision *precision, const ls_parallel *p,
                        const ls_trained *what, ls_units *units);
/* Casts logits to `output` for their readers. `output` must not be wider than the type of the logits. */
ls_value ls_pass_output(ls_graph *g, ls_value logits, ls_dtype output);

/* sync_batch_norm: batch norm uses statistics of all micro-batches that the data ranks compute at the same
 * time. After ls_pass_units, before differentiation; `units` is updated to the new graph. LS_E_USAGE if the
 * model has no batch norm. LS_E_SHAPE, also without sync_batch_norm, with the model's line, if a channel has
 * only one value in all. */
ls_status ls_pass_sync_batch_norm(ls_graph **g, const ls_parallel *p, ls_units *units);

/* reshard_after_forward: values of a gathered unit that the backward pass reads are gathered again before
 * their first reader there, so the first copy is freed in the forward pass. With a number N, the forward pass
 * keeps a 1/N slice, and the second gather is over blocks of N neighbouring ranks. The root keeps its copy,
 * because the backward pass needs it first. Mappings are not copies, so they stay. After differentiation. */
ls_status ls_pass_reshard(ls_graph **g, const ls_parallel *p, const ls_units *units);

/* Activation checkpointing. For each module that a word class:NAME or pattern:GLOB names (of nested ones the
 * outermost), forward values that the backward pass reads are computed again before their first reader there,
 * and only the module's inputs are kept. "": of no module. In all others swiglu is computed again, which
 * takes little time and saves a third of what a block with it keeps for its MLP. LS_E_USAGE for a word that
 * names no module. Words "save:OP" and "save:OP/N" keep the results of an op in these modules, in each of the
 * first and then each N-th (torchtitan's selective checkpointing keeps products, each second one, attention
 * and reduced values). LS_E_USAGE, too, for an op that none of them has. After differentiation. */
typedef struct ls_recompute_save {
    const struct ls_op *op;
    int every; /* N, 1 without one */
} ls_recompute_save;
/* Reads a word save:OP or save:OP/N; false: it is none, or no op has the name. */
bool ls_recompute_saves(const char *word, ls_recompute_save *out);
ls_status ls_pass_recompute(ls_graph **g, const char *words);

/* Joins epilogues to matrix products (activation, residual, gradient of an activation, addend), addends to
 * layer_norm_grad and similar ops, and chains of element-wise ops to one op. Rounds where the unfused graph
 * rounds, so results keep their bits. After differentiation. */
ls_status ls_pass_fuse(ls_graph **g);
