/* propagate.h - shared by the files of sharding propagation. Private to src/passes. */
#pragma once
#include "ops/rule.h"
#include "passes.h"
#include "redistribute.h"

/* How a parameter is split: along dimension `dim`, because of this word of the plan. word NULL: it is not
 * split. */
typedef struct ls_seed {
    const char *word;
    int dim;
    /* above 1: each of so many parts is split, as queries, keys and values in one weight */
    int64_t parts;
} ls_seed;
/* Sets out[value] for every parameter. LS_E_USAGE: a word names nothing, the ranks do not divide a size, or
 * nothing is left to split. */
ls_status ls_seeds(ls_seed *out, const ls_graph *g, const ls_parallel *p, const ls_shard_axis *axis);

/* Sharding propagation. seeds[value]: how parameters are split; NULL: the axis splits tokens, and outputs
 * become whole. outputs[k] receives the placement of output k; NULL: a sharded output is an error. */
ls_status ls_propagate(ls_graph **g, const ls_parallel *p, const ls_seed *seeds, const ls_shard_axis *axis,
                       ls_placement *outputs);

/* The same with the axis of this role: seeds of the tensor plan, or tokens. With one rank it only checks the
 * plan's words. */
ls_status ls_propagate_axis(ls_graph **g, const ls_parallel *p, ls_axis_role role, const ls_shard_axis *axis,
                            ls_placement *outputs);
/* virtual_ranks.c. Whether an axis of this role and size stands for parallel.slices virtual ranks, of which a
 * rank computes several; propagation over these. */
bool ls_has_virtual_ranks(const ls_graph *g, const ls_parallel *p, ls_axis_role role, int ranks);
ls_status ls_propagate_virtual(ls_graph **g, const ls_parallel *p, ls_axis_role role,
                               const ls_shard_axis *axis);

/* propagate_tokens.c: whether the model has an input of tokens. */
bool ls_has_tokens(const ls_graph *g);

/* packed.c: how many parts dimension `dim` of a parameter has, by what its readers slice. */
int64_t ls_packed_parts(const ls_graph *g, ls_value param, int dim);
