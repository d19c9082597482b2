/* propagate_own.h - the state of sharding propagation (propagate.c). Private to propagate*.c and packed.c. */
#pragma once
#include "graph/rewrite.h"
#include "propagate.h"
#include "placed_node.h"

/* The placement of a value of the old graph on the axis, and its reason. */
typedef struct ls_spot {
    ls_placement p;
    bool soft;         /* split by rows because of `sequence`: may be undone */
    bool undone;       /* whole, though `sequence` would split it: it depends on rows that move by data */
    bool param;        /* depends on parameters only */
    const char *cause; /* for messages: the word of the plan, and the parameter that it splits */
    int64_t parts;     /* the dimension is so many parts, each in blocks (packed.c); 0: 1 */
} ls_spot;

typedef struct ls_propagation {
    ls_rewrite r;
    const ls_parallel *p;
    ls_shard_axis axis;
    const ls_seed *seeds; /* [old values]; NULL: the axis splits tokens, not layers */
    ls_spot *at;          /* [old values] */
    bool folds;           /* of tokens a rank has two chunks, one from each end (propagate_tokens.c) */
    ls_value *replicate;  /* [old values]: the value as Replicate, made for its first reader */
    ls_value *invariant;  /* the same of what `sequence` split, as Invariant */
} ls_propagation;

/* A node of the old graph while it is split. */
typedef struct ls_node_split {
    const ls_node *n;
    ls_placed_node types;
    ls_rule rule;
    int loop, by; /* the loop that is split, and the operand that decided it */
    ls_value *in; /* the new node's operands */
} ls_node_split;

static inline bool ls_prop_split(const ls_propagation *pr, ls_value old)
{
    return pr->at[old.id].p.kind == LS_SHARD;
}
static inline const ls_type *ls_prop_whole(const ls_propagation *pr, ls_value old)
{
    return ls_type_of(pr->r.from, old);
}
static inline bool ls_prop_float(const ls_propagation *pr, ls_value old)
{
    return ls_dtype_is_float(ls_prop_whole(pr, old)->dtype);
}
static inline int64_t ls_prop_parts(const ls_propagation *pr, ls_value old)
{
    return pr->at[old.id].parts ? pr->at[old.id].parts : 1;
}

/* propagate_tokens.c. A node, and an output of the graph, over an axis that splits tokens. check: refuses a
 * model without tokens. */
ls_status ls_prop_check_tokens(const ls_propagation *pr);
ls_status ls_prop_folds(ls_propagation *pr);
ls_status ls_prop_tokens(ls_propagation *pr, const ls_node *n);
void ls_prop_tokens_output(ls_propagation *pr, const ls_output_entry *o);

/* propagate_refuse.c: LS_E_USAGE, with a message about node n. refuse: `what`. cannot_take: no loop of the op
 * takes operand k with its placement. conflict: operands k and `by` have placements that do not fit
 * together. */
ls_status ls_prop_refuse(const ls_propagation *pr, const ls_node *n, const char *what);
ls_status ls_prop_cannot_take(const ls_propagation *pr, const ls_node *n, int k);
ls_status ls_prop_conflict(const ls_propagation *pr, const ls_node_split *s, int k, int by);

/* packed.c. This rank's block of a packed parameter: [.., parts, elements of each, ..], of which the second
 * is sharded. */
const ls_box *ls_packed_box(ls_propagation *pr, const ls_node *param, const ls_seed *seed);
/* A slice of whole parts: each rank takes it of its own blocks. *done stays false if n is another node. */
ls_status ls_prop_slice(bool *done, ls_propagation *pr, const ls_node *n);
/* Checks a node that is split in a loop of a packed operand: the other operands must be packed in the same
 * way, and no rule of the op may need to know which elements of the whole a rank has. */
ls_status ls_prop_check_parts(const ls_propagation *pr, const ls_node_split *s);
