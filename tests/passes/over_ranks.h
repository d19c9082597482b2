/* over_ranks.h - runs the graph of one rank together with those of others, and compares whole tensors with
 * the blocks of the ranks. In f64 on ref; ranks are threads. */
#pragma once
#include "lockstep/group.h"
#include "passes/redistribute.h"

typedef struct feed {
    const char *name;
    const double *data;
} feed;

/* Runs g on this rank: sources are filled from `feeds` (ended by name NULL; integers are rounded), outputs[k]
 * gets output k. Collective. */
ls_status run_over_ranks(ls_group *group, const ls_graph *g, const feed *feeds, double *const *outputs);

/* What rank `position` has of `whole` placed so: in Shard its block, else all of it. */
void block_of(double *out, const double *whole, const ls_type *type, ls_placement p,
              const ls_shard_axis *axis);
/* Random multiples of 1/8, whose sums are exact: a function of (seed, element). */
void fill_exact(double *out, int64_t n, uint64_t seed);
