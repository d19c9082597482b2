/* box.c - the rows of a box. */
#include "ckpt/box.h"

ls_box_rows ls_box_rows_of(const ls_box *box, const ls_type *whole)
{
    ls_box_rows r = { .box = box, .whole = whole, .outer = whole->ndim, .n = 1, .length = 1 };
    bool full = true; /* all dimensions after this one are whole, so rows go on across it */
    for (int i = whole->ndim - 1; i >= 0; i--) {
        if (full) {
            r.length *= box->size[i];
            r.outer = i;
        } else {
            r.n *= box->size[i];
        }
        full = full && box->size[i] == whole->dims[i];
    }
    if (r.length == 0)
        r.n = 0;
    return r;
}

int64_t ls_box_row(const ls_box_rows *r, int64_t row)
{
    int64_t at = 0, stride = 1;
    for (int i = r->whole->ndim - 1; i >= 0; i--) {
        int64_t index = r->box->start[i];
        if (i < r->outer) {
            index += row % r->box->size[i];
            row /= r->box->size[i];
        }
        at += index * stride;
        stride *= r->whole->dims[i];
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

bool ls_box_inside(const ls_box *box, const ls_type *whole)
{
    for (int i = 0; i < whole->ndim; i++)
        if (box->start[i] < 0 || box->size[i] < 0 || box->size[i] > whole->dims[i] ||
            box->start[i] > whole->dims[i] - box->size[i])
            return false;
    return true;
}
