/* redistribute.h - placements: how a value lies over the ranks of one mesh axis, and the ops that change it.
 * A placement also says how the value's gradient lies, because differentiation comes later. The gradient of a
 * redistribution leads from the gradient's placement at its result to that at its operand. Private to
 * src/passes.
 *
 *                  on the ranks of the axis                           its gradient
 *     Invariant    the same bits                                      Invariant: all of it on every rank
 *     Replicate    the same bits; each rank uses a part of them       Partial: a term of the sum on each rank
 *     Shard(d)     equal blocks along dimension d                     Shard(d)
 *     Partial      terms of a sum                                     Replicate
 *
 * If Invariant and Replicate are confused, losses are right and gradients wrong. */
#pragma once
#include "graph/graph.h"
#include "graph/placement.h"

/* One axis over which values are sharded, as one rank sees it. */
typedef struct ls_shard_axis {
    const char *name;
    int ranks, position;
    int number; /* number of the axis in the mesh */
    /* how many of them, consecutive ones, one rank computes: above 1 they are virtual (virtual_ranks.c) */
    int each;
} ls_shard_axis;

/* The type of a rank's part of a value of type `whole`. False: the ranks do not divide it. */
bool ls_placed_type(ls_type *out, const ls_type *whole, ls_placement p, const ls_shard_axis *axis);

/* clang-format off */
/*   from \ to   Invariant                    Replicate                    Shard(d)
 *   Invariant   -                            replicate / all_reduce       replicate, slice / pack, all_reduce
 *   Replicate   refused                      -                            slice / pack
 *   Shard       all_reduce shared of parts   all_gather / reduce_scatter  refused, but for itself
 *   Partial     all_reduce shared / nothing  all_reduce / all_reduce      reduce_scatter / all_gather
 *
 * operation / its gradient. "Of parts": each rank's part between zeros; of whole numbers all_gather. `whole`
 * is the type on one rank, `unit` what the collectives are for. Sums are in f32, of f64 in f64. A refusal is
 * an error of the graph. */
/* clang-format on */
ls_value ls_redistribute(ls_graph *g, ls_value v, const ls_type *whole, ls_placement from, ls_placement to,
                         const ls_shard_axis *axis, const char *unit);
/* Records, for explanation, that v has this placement on the axis. A value that has one already keeps it. */
void ls_note_placement(ls_graph *g, ls_value v, ls_placement p, const ls_shard_axis *axis);
