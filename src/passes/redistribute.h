/* redistribute.h - placements: how a value lies over the ranks of one mesh axis, and the ops that change it.
 * Differentiation comes later, so a placement says how the value's gradient lies, too; the gradient of each
 * redistribution is the one between those. Private to src/passes.
 *
 *                  on the ranks of the axis                           its gradient
 *     Invariant    the same bits                                      Invariant: all of it on every rank
 *     Replicate    the same bits, of which each uses a part           Partial: a term of the sum each
 *     Shard(d)     equal blocks along dimension d                     Shard(d)
 *     Partial      terms of a sum                                     Replicate
 *
 * To take Invariant for Replicate, or the other way round, gives right losses and wrong gradients. */
#pragma once
#include "graph/graph.h"

typedef enum ls_place_kind { LS_INVARIANT, LS_REPLICATE, LS_SHARD, LS_PARTIAL } ls_place_kind;

typedef struct ls_placement {
    ls_place_kind kind;
    int dim; /* LS_SHARD: the dimension that is split, */
    /* and how many from it on are split as one: more than 1 only from 0 on, and a rank has them as one
     * dimension */
    int dims;
} ls_placement;
#define LS_SHARDED(d) ((ls_placement){ LS_SHARD, (d), 1 })
#define LS_ROWS_SHARDED(n) ((ls_placement){ LS_SHARD, 0, (n) }) /* the first n dimensions, as one */

/* One axis, as a rank sees it. */
typedef struct ls_place_axis {
    const char *name;
    int ranks, position;
} ls_place_axis;

/* What a rank has of a value of type `whole`. False: the ranks do not divide it. */
bool ls_placed_type(ls_type *out, const ls_type *whole, ls_placement p, const ls_place_axis *axis);
/* "Shard(1)", "Shard(0..1)", "Partial" */
const char *ls_placement_text(char text[32], ls_placement p);

/*     from \ to    Invariant            Replicate                  Shard(d)                       operation /
 * its gradient Invariant    -                    replicate / all_reduce     replicate, slice / pack,
 * all_reduce Replicate    refused              -                          slice / pack Shard        refused
 * all_gather / reduce_scatter  refused, but for itself Partial      all_reduce shared / nothing  all_reduce /
 * all_reduce  reduce_scatter / all_gather
 *
 * `whole` is the type on one rank, `unit` what the collectives are for. Sums are in f32, of f64 in f64. A
 * refusal is an error of the graph. */
ls_value ls_redistribute(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from, ls_placement to,
                         const ls_place_axis *axis, const char *unit);
