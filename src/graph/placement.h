/* placement.h - how a value lies over the ranks of one mesh axis. passes/redistribute.h says what a placement
 * means for the gradient, and which ops lead from one to another.
 *
 * Values of a graph keep the placements that passes/place.c gave them, and their gradients have theirs, for
 * explanation alone: a pass may lose them, and what it makes has none. */
#pragma once
#include "base/arena.h"
#include "base/str.h"

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

/* "Shard(1)", "Shard(0..1)", "Partial" */
const char *ls_placement_text(char text[32], ls_placement p);

/* A value's placement on each axis that splits values. */
typedef struct ls_placed {
    const char *axis;
    ls_placement p;
    const struct ls_placed *next;
} ls_placed;
const ls_placed *ls_placed_copy(ls_arena *arena, const ls_placed *p);
const ls_placed *ls_placed_gradient(ls_arena *arena, const ls_placed *p); /* of a value's gradient */
void ls_placed_text(ls_str *out, const ls_placed *p); /* "{tp: Shard(1)}"; of NULL nothing */
