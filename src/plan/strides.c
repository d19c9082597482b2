/* strides.c - decides which layouts strides can express. Strides count elements; data is never read. */
#include "internal.h"

#include <string.h>

void ls_strides_contiguous(int64_t *strides, const ls_type *t)
{
    int64_t step = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        strides[d] = step;
        step *= t->dims[d];
    }
}

void ls_strides_canonical(ls_tensor *t)
{
    const int n = t->type.ndim;
    if (n <= 0)
        return;
    /* A dimension of size 1 may have any stride. The last one gets 1, so that it counts as contiguous.
     * Another one gets the stride that lets the dimensions outside of it collapse. That stride is known only
     * from the next larger dimension further out. */
    if (t->type.dims[n - 1] == 1)
        t->strides[n - 1] = 1;
    for (int d = n - 2; d >= 0; d--) {
        if (t->type.dims[d] != 1)
            continue;
        int outer = d - 1;
        while (outer >= 0 && t->type.dims[outer] == 1)
            outer--;
        /* [64, 1, 128] cut from [64, 17, 128]: the middle dimension gets the outer stride, so that rows
         * collapse. Between two larger dimensions, the product of the inner one collapses. */
        bool inner_is_last = true;
        for (int k = d + 1; k < n - 1; k++)
            inner_is_last = inner_is_last && t->type.dims[k] == 1;
        t->strides[d] = inner_is_last && outer >= 0 ? t->strides[outer]
                                                    : t->strides[d + 1] * t->type.dims[d + 1];
    }
}

bool ls_strides_are_contiguous(const ls_tensor *t)
{
    int64_t want[LS_MAX_DIMS];
    ls_strides_contiguous(want, &t->type);
    for (int d = 0; d < t->type.ndim; d++)
        if (t->type.dims[d] != 1 && t->strides[d] != want[d])
            return false;
    return true;
}

bool ls_strides_are_rows(const ls_tensor *t)
{
    const int n = t->type.ndim;
    if (n == 0)
        return true;
    if (t->strides[n - 1] != 1)
        return false;
    for (int d = n - 3; d >= 0; d--)
        if (t->strides[d] != t->strides[d + 1] * t->type.dims[d + 1])
            return false;
    return n < 2 || t->type.dims[n - 2] == 1 || t->strides[n - 2] >= t->type.dims[n - 1];
}

bool ls_strides_reshape(const ls_tensor *in, const ls_type *as, int64_t *strides)
{
    /* Goes through both shapes from the right. A run of input dimensions that collapse is a chunk. The
     * output's dimensions must end where chunks end; one that reaches across the end of a chunk leaves
     * dimensions over. */
    int i = in->type.ndim - 1, o = as->ndim - 1;
    /* size and innermost stride of the chunk, and how many of its elements the output's dimensions have
     * used */
    int64_t chunk = 1, step = 1, made = 1, next = 1;
    while (o >= 0 || i >= 0) {
        if (made == chunk) { /* opens the next chunk */
            while (i >= 0 && in->type.dims[i] == 1)
                i--;
            if (i < 0) {
                for (; o >= 0; o--) {
                    if (as->dims[o] != 1)
                        return false;
                    strides[o] = next;
                }
                break;
            }
            chunk = in->type.dims[i];
            step = in->strides[i];
            int64_t reach = step * chunk;
            for (i--; i >= 0 && (in->type.dims[i] == 1 || in->strides[i] == reach); i--) {
                chunk *= in->type.dims[i];
                reach *= in->type.dims[i];
            }
            made = 1;
            next = step;
        }
        if (o < 0)
            return false;
        strides[o] = next;
        made *= as->dims[o];
        next *= as->dims[o];
        o--;
    }
    ls_tensor out = { .type = *as };
    memcpy(out.strides, strides, sizeof out.strides);
    ls_strides_canonical(&out);
    memcpy(strides, out.strides, sizeof out.strides);
    return true;
}

int64_t ls_strides_extent(const ls_tensor *t)
{
    int64_t last = 0;
    for (int d = 0; d < t->type.ndim; d++) {
        if (t->type.dims[d] == 0)
            return 0;
        last += (t->type.dims[d] - 1) * t->strides[d];
    }
    return last + 1;
}
