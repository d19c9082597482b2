/* accumulate.h - the balanced tree: sums over the micro-batches of a step associate by micro-batch number,
 * never by time of arrival, so that the number of ranks that computed them does not change a bit. The sum of
 * a node is left + right; (0+1)+(2+3) for four. It works like a binary counter: `level` k, when occupied,
 * holds the sum of 2^k consecutive micro-batches. */
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
/* Takes micro-batch m's gradient (in *grad, which the next micro-batch overwrites). After the last one
 * (`last`) *grad holds the total. */
void ls_tree_add(ls_tree *t, void *grad, bool last);
/* The same sum of numbers: left + right, the left part being the largest power of two below n; or one after
 * the other. */
double ls_tree_sum(const double *x, int64_t n, bool running);
