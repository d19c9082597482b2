/* parts.c - what the parts of a tensor in files are of it. */
#include "ckpt/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
    const ls_box *x = a, *y = b;
    for (int i = 0; i < LS_MAX_DIMS; i++)
        if (x->start[i] != y->start[i])
            return x->start[i] < y->start[i] ? -1 : 1;
    return 0;
}

static bool overlap(const ls_box *a, const ls_box *b)
{
    for (int i = 0; i < a->ndim; i++)
        if (a->start[i] + a->size[i] <= b->start[i] || b->start[i] + b->size[i] <= a->start[i])
            return false;
    return true;
}

bool ls_parts_cover(void *parts, size_t size, int64_t n, int64_t all, bool (*stop)(void), char what[100])
{
    int64_t covered = 0;
    if (n > 1)
        qsort(parts, (size_t)n, size, by_start);
    for (int64_t i = 0; i < n; i++) {
        const ls_box *a = (const void *)((const char *)parts + (size_t)i * size);
        covered += ls_box_count(a);
        for (int64_t k = i + 1; k < n; k++) {
            const ls_box *b = (const void *)((const char *)parts + (size_t)k * size);
            if (a->ndim > 0 && b->start[0] >= a->start[0] + a->size[0])
                break;
            if (overlap(a, b)) {
                snprintf(what, 100, "two of its parts overlap");
                return false;
            }
        }
        if (stop && stop()) {
            snprintf(what, 100, "not all of its parts were compared");
            return false;
        }
    }
    snprintf(what, 100, "its parts hold %" PRId64 " of its %" PRId64 " elements", covered, all);
    return covered == all;
}

int64_t ls_box_cut(ls_box *out, const ls_box *box, int64_t first, int64_t count)
{
    *out = *box;
    int64_t taken = 1, stride = 1; /* stride: elements of the dimensions after d */
    bool full = true;              /* the new box has all of these dimensions */
    for (int d = box->ndim - 1; d >= 0; stride *= box->size[d--]) {
        const int64_t index = first / stride % box->size[d], left = box->size[d] - index;
        int64_t n = 1;
        /* further dimensions can be cut only where those after them are taken whole */
        if (full && count >= stride)
            n = count / stride < left ? count / stride : left;
        full = full && index == 0 && n == box->size[d];
        ls_box_slice(out, d, index, n);
        taken *= n;
    }
    return taken;
}

int64_t ls_part_run(const struct ls_weight_part *p, int64_t first, int64_t n, int64_t *count)
{
    const ls_box_rows rows = ls_box_rows_of(&p->box);
    int64_t edges[2]; /* how many elements of the part come before `first`, and before `first + n` */
    for (int i = 0; i < 2; i++) {
        const int64_t edge = first + (i ? n : 0), row = ls_box_row_after(&rows, edge),
                      inside = row < rows.n ? edge - ls_box_row(&rows, row) : 0;
        edges[i] = row * rows.length + (inside > 0 ? inside : 0);
    }
    *count = edges[1] - edges[0];
    return edges[0];
}
