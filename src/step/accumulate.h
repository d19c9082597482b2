/* accumulate.h - adds the gradients of a step's micro-batches in a balanced tree, (0+1)+(2+3) for four. The
 * numbers of the micro-batches decide the order of additions, so the number of ranks changes no bit. The tree
 * works like a binary counter: level k, when occupied, holds the sum of 2^k consecutive micro-batches. The
 * levels are spares of the session, and the additions go into its queue. */
#pragma once
#include "execute/session.h"

typedef struct ls_tree {
    const ls_kernel *add;
    ls_place grad;     /* the gradient that `micro` writes; in the end the total */
    int first, levels; /* level k is spare number first + k, of the type of `grad` */
    uint64_t occupied; /* bit k: level k holds a sum */
    bool running;      /* adds one after the other instead of in a tree */
} ls_tree;

/* LS_E_UNSUPPORTED: the device cannot add this type. */
ls_status ls_tree_init(ls_tree *t, const ls_device *d, const ls_place *grad, int first, int levels,
                       bool running);
void ls_tree_begin(ls_tree *t);
/* Adds the gradient of the next micro-batch. With `last`, t->grad gets the total. */
void ls_tree_add(ls_tree *t, bool last);
/* The sum of n numbers in the same order: the left part is the largest power of two below n. `running`: one
 * number after the other. */
double ls_tree_sum(const double *x, int64_t n, bool running);
