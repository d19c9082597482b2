/* rule.h - the loops of an op: which dimensions of its operands and results run together. A rule names them
 * by letters, as einsum does, in one line of the op's row:
 *
 *     linear  "r.. k, n k, +n -> r.. n"
 *
 * Splitting a loop over the ranks of an axis makes operands and results that have the loop Shard, operands
 * without it Replicate, and results without it Partial. So no op lists the ways in which it can be split.
 * passes/propagate.c, passes/slices.c and the tests read the rule.
 *
 *     r..       any number of dimensions, each with a loop of its own. Row-wise: all of them together may
 *               also be split as one dimension.
 *     b..       with another letter than r: the same, but not row-wise
 *     f!        is never split
 *     t%        the op finds elements of this loop by numbers that it reads: is never split, but each
 *               element is still of one sample (passes/mixing.c)
 *     h*        is only split in multiples of the attribute head_dim
 *     .         an operand without dimensions
 *     @         the kernel needs this operand's box in its whole tensor (ls_node.at)
 *     +         is added once, after the sum over ranks
 *     ~         may be sharded, by a slice, where all ranks have the same values
 *     &         may be gathered where a loop is split that must not be
 *     r^        the kernel does not ask where this dimension of an operand with @ begins
 *     |         separates forms; the number of dimensions chooses one
 *     ; join v  splitting v takes more than a sum over ranks: the op's `expand` */
#pragma once
#include "graph/op.h"

enum { LS_RULE_LOOPS = 32, LS_RULE_IN = 8 };

typedef struct ls_op_loop {
    char letter;
    int number;    /* which of the dimensions of `r..`; -1: the letter names one dimension */
    bool fixed;    /* is never split */
    bool moved;    /* is fixed, and has the mark % */
    bool join;     /* is only split by `expand` */
    bool rows;     /* one of the row-wise loops */
    bool anywhere; /* has the mark ^ */
    bool uneven;   /* its later iterations take more work than the first ones */
} ls_op_loop;

typedef struct ls_rule {
    int n;
    ls_op_loop loop[LS_RULE_LOOPS];
    /* the loop of each dimension; -1: none */
    int8_t in[LS_RULE_IN][LS_MAX_DIMS], out[LS_MAX_OUT][LS_MAX_DIMS];
    /* bit d: dimension d of this operand is only split in multiples of head_dim */
    uint8_t heads[LS_RULE_IN];
    int64_t head_dim;
    uint32_t added, shard, gather; /* bit k: operand k has the mark + (added), ~ (shard) or & (gather) */
    /* Dimension `dim` of operand `in` holds the distances from one loop's end to another's, as many as both
     * have together, less one: block `at` of `n` of `loop` takes a part of them (ls_rule_slide_of). in -1:
     * none. */
    struct {
        int in, dim, loop;
    } slide;
    int at; /* the operand with @; -1: none */
    /* The op is a reshape that keeps the last dimension: the rows of the operand, taken as one dimension, are
     * those of the result. */
    bool regroups;
} ls_rule;

/* the rule of ops whose nodes are made after values are placed: gradients, collectives, expansions,
 * updates */
#define LS_RULE_LATER "later"

/* Makes the rule for these types; `i` has the types of the results too. LS_E_INTERNAL if the op has no rule,
 * or if the line does not fit the types. Local. */
ls_status ls_rule_of(ls_rule *r, const ls_infer *i);
/* The number of operand k in the rule: operands from LS_RULE_IN on are like the last one (pack). */
static inline int ls_rule_operand(int k) { return k < LS_RULE_IN ? k : LS_RULE_IN - 1; }
/* The loop of dimension d of operand k; -1: none. */
static inline int ls_rule_in(const ls_rule *r, int k, int d) { return r->in[ls_rule_operand(k)][d]; }
/* The dimension of operand (or result) k that has this loop; -1: none. */
int ls_rule_in_dim(const ls_rule *r, const ls_infer *i, int k, int loop);
int ls_rule_out_dim(const ls_rule *r, const ls_infer *i, int k, int loop);

/* Whether operand k is a slide of this loop; which elements block `at` of `n` of the loop takes. */
bool ls_rule_slide_of(const ls_rule *r, const ls_infer *i, int k, int loop, int n, int at, int64_t *start,
                      int64_t *count);

/* For the function `dims` of a row: */
void ls_rule_fix(ls_rule *r, char letter); /* loops with this letter must not be split */
void ls_rule_uneven(ls_rule *r, char letter);
void ls_rule_slide(ls_rule *r, int in, int dim, char letter);
int ls_rule_loop(ls_rule *r); /* adds a loop; -1: no room */
/* element-wise ops: gives each dimension of the result a loop */
ls_status ls_rule_broadcast(ls_rule *r, const ls_infer *i);
