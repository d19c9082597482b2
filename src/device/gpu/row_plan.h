/* row_plan.h - how many threads work on a row of numbers, and what its kernels are compiled for
 * (kernels/rows.h). It depends on the row's length and type alone, but for VECTOR, which changes no bits. */
#pragma once
#include <string.h>

#include "gpu.h"

typedef struct row_plan {
    int team, teams, pieces; /* threads of a row, rows of a block, pieces of 16 bytes that a thread holds */
    bool again;              /* the row does not fit, and is read again */
    char before[192];
} row_plan;

enum { ROW_THREADS = 128 }; /* of a block with several rows */

/* Rows of k numbers like x's. most: pieces that a thread may hold (4 or 8). least: threads of a row. vector:
 * all rows begin at multiples of 16 bytes. */
static inline row_plan row_plan_of(const ls_tensor *x, int64_t k, int most, int least, bool vector)
{
    static const struct {
        int team, pieces;
    } WAYS[] = { { 1, 1 },  { 1, 2 },  { 1, 4 },   { 8, 1 },   { 8, 2 },   { 32, 1 },  { 32, 2 },
                 { 32, 4 }, { 32, 8 }, { 128, 2 }, { 128, 4 }, { 128, 8 }, { 512, 2 }, { 512, 4 } };
    const int64_t v = 16 / (int64_t)ls_dtype_size(x->type.dtype), pieces = (k + v - 1) / v;
    row_plan p = { .team = 512, .pieces = 4, .again = true };
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS && p.again; i++)
        if (WAYS[i].team >= least && WAYS[i].pieces <= most &&
            (int64_t)WAYS[i].team * WAYS[i].pieces >= pieces)
            p = (row_plan){ .team = WAYS[i].team, .pieces = WAYS[i].pieces };
    p.teams = p.team < ROW_THREADS ? ROW_THREADS / p.team : 1;
    snprintf(p.before, sizeof p.before,
             "#define X %s\n#define TEAM %d\n#define TEAMS %d\n#define PIECES %d\n#define LONG %d\n"
             "#define VECTOR %d\n",
             ls_gpu_type(x), p.team, p.teams, p.pieces, p.again, vector && k % v == 0);
    return p;
}

/* `before` with one more definition. */
static inline const char *row_plan_with(row_plan *p, const char *name, int value)
{
    const size_t n = strlen(p->before);
    snprintf(p->before + n, sizeof p->before - n, "#define %s %d\n", name, value);
    return p->before;
}

/* The last dimension, and the elements from row to row over all others. */
static inline int64_t row_length(const ls_tensor *t)
{
    return t->type.ndim ? t->type.dims[t->type.ndim - 1] : 1;
}
static inline int64_t row_stride(const ls_tensor *t)
{
    for (int d = t->type.ndim - 2; d >= 0; d--)
        if (t->type.dims[d] > 1)
            return t->strides[d];
    return row_length(t);
}
/* Whether the tensor's rows begin at multiples of 16 bytes; also if it is absent. */
static inline bool row_aligned(const ls_tensor *t)
{
    return !ls_gpu_present(t) ||
           ((uintptr_t)t->data % 16 == 0 && row_stride(t) * (int64_t)ls_dtype_size(t->type.dtype) % 16 == 0);
}
