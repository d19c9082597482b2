/* accumulate.h - adds the gradients of a step's micro-batches in a balanced tree, (0+1)+(2+3) for four. The
 * numbers of the micro-batches decide the order of additions, so the number of ranks changes no bit. The tree
 * works like a binary counter: level k, when occupied, holds the sum of 2^k consecutive micro-batches. */
#pragma once
#include "device/device.h"

typedef struct ls_tree {
    ls_device device;
    const ls_kernel *add;
    ls_type type;
    void *memory; /* levels of `type`, one mapping */
    size_t stride, bytes;
    int levels;
    uint64_t occupied; /* bit k: level k holds a sum */
    bool running;      /* one running sum instead of the tree */
} ls_tree;

ls_status ls_tree_create(ls_tree *t, const ls_device *d, ls_type type, int levels, bool running);
void ls_tree_release(ls_tree *t);
void ls_tree_begin(ls_tree *t);
/* Adds the gradient of the next micro-batch, which is in `grad`. With `last`, `grad` gets the total. */
void ls_tree_add(ls_tree *t, void *grad, bool last);
/* The sum of n numbers in the same order: the left part is the largest power of two below n. `running`: one
 * number after the other. */
double ls_tree_sum(const double *x, int64_t n, bool running);
