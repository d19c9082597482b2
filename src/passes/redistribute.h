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
#include "graph/placement.h"

/* One axis, as a rank sees it. */
typedef struct ls_place_axis {
    const char *name;
    int ranks, position;
    int number; /* of the axis in the mesh */
} ls_place_axis;

/* What a rank has of a value of type `whole`. False: the ranks do not divide it. */
bool ls_placed_type(ls_type *out, const ls_type *whole, ls_placement p, const ls_place_axis *axis);

/* clang-format off */
/*   from \ to   Invariant                    Replicate                    Shard(d)
 *   Invariant   -                            replicate / all_reduce       replicate, slice / pack, all_reduce
 *   Replicate   refused                      -                            slice / pack
 *   Shard       refused                      all_gather / reduce_scatter  refused, but for itself
 *   Partial     all_reduce shared / nothing  all_reduce / all_reduce      reduce_scatter / all_gather
 *
 * operation / its gradient. `whole` is the type on one rank, `unit` what the collectives are for. Sums are in
 * f32, of f64 in f64. A refusal is an error of the graph. */
/* clang-format on */
ls_value ls_redistribute(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from, ls_placement to,
                         const ls_place_axis *axis, const char *unit);
/* Remembered for people: v lies so on the axis. The first to say it is right. */
void ls_place_says(ls_graph *g, ls_value v, ls_placement p, const ls_place_axis *axis);
