/* rule.h - the loops of an op: which dimensions of its operands and results run together, as einsum's letters
 * name them. An op's row says it in one line:
 *
 *     linear  "r.. k, n k, +n -> r.. n"
 *
 * To split a loop over ranks is a way to lay the op over them: operands and results that have the loop are
 * Shard there, operands without it Replicate, results without it Partial. So no op lists its ways; the walk
 * (passes/place.c), slices_up and the tests read this line.
 *
 *     r..   any number of dimensions, each a loop; row-wise: their elements, taken as one, may be split too
 *     b..   with any other letter than r: the same, but not row-wise
 *     f!    never split
 *     h*    in multiples of attribute head_dim
 *     .     no dimension
 *     @     the kernel wants the box of this operand in its whole tensor (ls_node.at)
 *     +     added once, behind the sum
 *     ~     may be cut where it is the same on all ranks
 *     |     another form, told by its number of dimensions
 *     ; join v   splitting v takes more than a sum: the op's `expand` */
#pragma once
#include "graph/op.h"

enum { LS_RULE_LOOPS = 32, LS_RULE_IN = 8 };

typedef struct ls_loop {
    char letter;
    int number; /* among the dimensions of `r..` */
    bool fixed; /* never split */
    bool join;  /* only by `expand` */
    bool rows;  /* row-wise */
} ls_loop;

typedef struct ls_rule {
    int n;
    ls_loop loop[LS_RULE_LOOPS];
    /* the loop of each dimension; -1: it has none */
    int8_t in[LS_RULE_IN][LS_MAX_DIMS], out[LS_MAX_OUT][LS_MAX_DIMS];
    /* bit d: dimension d of this operand is whole heads */
    uint8_t heads[LS_RULE_IN];
    int64_t head_dim;
    uint32_t added, cut; /* bit k: operand k has + or ~ */
    int at;              /* the operand with @; -1: none */
    /* rows of operand 0, taken as one, are those of the result: a reshape that keeps the last dimension */
    bool regroups;
} ls_rule;

#define LS_RULE_LATER "later" /* made after the walk: gradients, collectives, expansions, updates */

/* The rule of an op for these types; `i` has those of the results too. LS_E_INTERNAL when it has none, or
 * when the line does not fit them. Local. */
ls_status ls_rule_of(ls_rule *r, const ls_infer *i);
/* The operand of the rule that operand k of the node is like: those beyond LS_RULE_IN are like the last
 * (pack). */
static inline int ls_rule_operand(int k) { return k < LS_RULE_IN ? k : LS_RULE_IN - 1; }
/* Loop of dimension d of operand k. */
static inline int ls_rule_in(const ls_rule *r, int k, int d) { return r->in[ls_rule_operand(k)][d]; }
/* The dimension of operand (result) k that runs with `loop`; -1: none. */
int ls_rule_in_dim(const ls_rule *r, const ls_infer *i, int k, int loop);
int ls_rule_out_dim(const ls_rule *r, const ls_infer *i, int k, int loop);

/* For `dims` of a row. */
void ls_rule_fix(ls_rule *r, char letter);                  /* not split, here */
int ls_rule_loop(ls_rule *r);                               /* another one */
ls_status ls_rule_broadcast(ls_rule *r, const ls_infer *i); /* element-wise: each dimension of the result */
