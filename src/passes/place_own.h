/* place_own.h - what the files of the walk share (place.c). Private to them. */
#pragma once
#include "graph/rewrite.h"
#include "place.h"
#include "placed_node.h"

/* How a value of the old graph lies on the axis, and why. */
typedef struct ls_spot {
    ls_placement p;
    bool soft;         /* split by rows because of `sequence`: may be undone */
    bool param;        /* depends on parameters only */
    const char *cause; /* for messages: the word of the plan, and the parameter that it splits */
    int64_t parts;     /* the dimension is so many parts, each in blocks (packed.c); 0: 1 */
} ls_spot;

typedef struct ls_walk {
    ls_rewrite r;
    const ls_parallel *p;
    ls_place_axis axis;
    const ls_seed *seeds; /* [old values] */
    ls_spot *at;          /* [old values] */
    ls_value *replicate;  /* [old values]: the value as Replicate, made for its first reader */
} ls_walk;

/* A node of the old graph and its rule. */
typedef struct ls_walk_step {
    const ls_node *n;
    ls_placed_node types;
    ls_rule rule;
    int loop, by; /* the loop that is split, and the operand that decided it */
    ls_value *in; /* the new node's operands */
} ls_walk_step;

static inline bool ls_walk_split(const ls_walk *w, ls_value old) { return w->at[old.id].p.kind == LS_SHARD; }
static inline const ls_type *ls_walk_whole(const ls_walk *w, ls_value old)
{
    return ls_type_of(w->r.from, old);
}
static inline bool ls_walk_float(const ls_walk *w, ls_value old)
{
    return ls_dtype_is_float(ls_walk_whole(w, old)->dtype);
}
static inline int64_t ls_walk_parts(const ls_walk *w, ls_value old)
{
    return w->at[old.id].parts ? w->at[old.id].parts : 1;
}

/* place_refuse.c: LS_E_USAGE, of node n: `what`; operand k, which no loop takes as it lies; operand k, which
 * lies unlike operand `by`. */
ls_status ls_walk_refuse(const ls_walk *w, const ls_node *n, const char *what);
ls_status ls_walk_cannot_take(const ls_walk *w, const ls_node *n, int k);
ls_status ls_walk_conflict(const ls_walk *w, const ls_walk_step *s, int k, int by);

/* packed.c. This rank's block of a packed parameter: [.., parts, elements of each, ..], of which the second
 * is split. */
const ls_box *ls_packed_box(ls_walk *w, const ls_node *param, const ls_seed *seed);
/* A slice of whole parts, which each rank takes of its blocks; false: n is none. */
ls_status ls_walk_slice(bool *done, ls_walk *w, const ls_node *n);
/* What splits a loop of an operand that is packed: the others must be packed alike, and nothing may ask which
 * elements of the whole a rank has. */
ls_status ls_walk_check_parts(const ls_walk *w, const ls_walk_step *s);
