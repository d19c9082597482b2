/* tree_sum.h - adds a sequence as a balanced tree, one term at a time: first neighbours, then neighbouring
 * pairs, and so on (a binary counter of partial sums). The rounding error grows with log n, and the bits
 * depend only on the sequence. */
#pragma once
#include "kernel.h"

enum { TREE_LEVELS = 48 };

#define TREE_SUM_TYPE(name, T)                       \
    typedef struct name {                            \
        int64_t count;                               \
        int top;                                     \
        T level[TREE_LEVELS];                        \
    } name;                                          \
    SIMD_FN void name##_add(name *t, T x)            \
    {                                                \
        for (int64_t c = t->count++; c & 1; c >>= 1) \
            x = t->level[--t->top] + x;              \
        t->level[t->top++] = x;                      \
    }                                                \
    SIMD_FN T name##_total(const name *t)            \
    {                                                \
        T x = { 0 };                                 \
        if (t->top == 0)                             \
            return x;                                \
        x = t->level[t->top - 1];                    \
        for (int i = t->top - 2; i >= 0; i--)        \
            x = t->level[i] + x;                     \
        return x;                                    \
    }
TREE_SUM_TYPE(tree_f32, float)
TREE_SUM_TYPE(tree_f64, double)
TREE_SUM_TYPE(tree_vf, vf)
