/* box.c - blocks of a tensor, and their rows. */
#include "base/box.h"

#include <string.h>

ls_box ls_box_of(const ls_type *whole)
{
    ls_box b = { .ndim = whole->ndim };
    for (int d = 0; d < whole->ndim; d++)
        b.whole[d] = b.size[d] = whole->dims[d];
    return b;
}

bool ls_box_equal(const ls_box *a, const ls_box *b)
{
    const size_t bytes = sizeof(int64_t) * (size_t)a->ndim;
    return a->ndim == b->ndim && memcmp(a->whole, b->whole, bytes) == 0 &&
           memcmp(a->start, b->start, bytes) == 0 && memcmp(a->size, b->size, bytes) == 0;
}

bool ls_box_is_whole(const ls_box *box)
{
    return memcmp(box->size, box->whole, sizeof(int64_t) * (size_t)box->ndim) == 0;
}

int64_t ls_box_count(const ls_box *box)
{
    int64_t n = 1;
    for (int d = 0; d < box->ndim; d++)
        n *= box->size[d];
    return n;
}

bool ls_box_inside(const ls_box *box)
{
    for (int i = 0; i < box->ndim; i++)
        if (box->start[i] < 0 || box->size[i] < 0 || box->size[i] > box->whole[i] ||
            box->start[i] > box->whole[i] - box->size[i])
            return false;
    return true;
}

void ls_box_slice(ls_box *box, int dim, int64_t start, int64_t count)
{
    box->start[dim] += start;
    box->size[dim] = count;
}

bool ls_box_split(ls_box *box, int dim, int64_t n, int64_t at)
{
    if (box->size[dim] % n)
        return false;
    ls_box_slice(box, dim, at * (box->size[dim] / n), box->size[dim] / n);
    return true;
}

int64_t ls_box_run(const ls_box *box, int64_t i, int64_t *run)
{
    const ls_box_rows r = ls_box_rows_of(box);
    if (run)
        *run = r.length - i % r.length;
    return ls_box_row(&r, i / r.length) + i % r.length;
}

ls_box_rows ls_box_rows_of(const ls_box *box)
{
    ls_box_rows r = { .box = box, .outer = box->ndim, .n = 1, .length = 1 };
    /* whether all dimensions after this one are whole, so that a row continues across this one */
    bool full = true;
    for (int i = box->ndim - 1; i >= 0; i--) {
        if (full) {
            r.length *= box->size[i];
            r.outer = i;
        } else {
            r.n *= box->size[i];
        }
        full = full && box->size[i] == box->whole[i];
    }
    if (r.length == 0)
        r.n = 0;
    return r;
}

int64_t ls_box_row(const ls_box_rows *r, int64_t row)
{
    int64_t at = 0, stride = 1;
    for (int i = r->box->ndim - 1; i >= 0; i--) {
        int64_t index = r->box->start[i];
        if (i < r->outer) {
            index += row % r->box->size[i];
            row /= r->box->size[i];
        }
        at += index * stride;
        stride *= r->box->whole[i];
    }
    return at;
}

int64_t ls_box_row_after(const ls_box_rows *r, int64_t first)
{
    int64_t low = 0, high = r->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (ls_box_row(r, middle) + r->length <= first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
