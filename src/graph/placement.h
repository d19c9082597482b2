/* placement.h - placements: how a value lies over the ranks of one mesh axis. passes/redistribute.h defines
 * the placement of its gradient, and the ops that lead from one placement to another.
 *
 * passes/propagate.c gives the values of a graph their placements. After that they only serve explanation: a
 * later pass may lose them, and values that it makes have none. */
#pragma once
#include "base/arena.h"
#include "base/str.h"

typedef enum ls_placement_kind { LS_INVARIANT, LS_REPLICATE, LS_SHARD, LS_PARTIAL } ls_placement_kind;

typedef struct ls_placement {
    ls_placement_kind kind;
    int dim; /* LS_SHARD: the first dimension that is split */
    /* How many dimensions, from `dim` on, are split as if they were one. More than 1 only with dim 0; on a
     * rank they are one dimension. */
    int dims;
} ls_placement;
#define LS_SHARDED(d) ((ls_placement){ LS_SHARD, (d), 1 })
#define LS_ROWS_SHARDED(n) ((ls_placement){ LS_SHARD, 0, (n) }) /* the first n dimensions, split as one */

/* "Shard(1)", "Shard(0..1)", "Partial" */
const char *ls_placement_text(char text[32], ls_placement p);

/* A value's placement on each axis that can split values. */
typedef struct ls_placed {
    const char *axis;
    ls_placement p;
    const struct ls_placed *next;
} ls_placed;
const ls_placed *ls_placed_copy(ls_arena *arena, const ls_placed *p);
/* the placements of a value's gradient */
const ls_placed *ls_placed_gradient(ls_arena *arena, const ls_placed *p);
void ls_placed_text(ls_str *out, const ls_placed *p); /* appends "{tp: Shard(1)}"; nothing for NULL */
