/* shape.c - ops that move elements (as bytes, so that any type stays unchanged), and sum_to, the transpose of
 * broadcasting. */
#include "ref.h"
#include <string.h>

static char *place(const ls_tensor *t, int64_t offset)
{
    return (char *)t->data + offset * (int64_t)ls_dtype_size(t->type.dtype);
}
static void move(const ls_tensor *to, int64_t to_offset, const ls_tensor *from, int64_t from_offset)
{
    memcpy(place(to, to_offset), place(from, from_offset), ls_dtype_size(to->type.dtype));
}

void ls_ref_fill(const ls_kernel_args *a)
{
    const double value = ((const ls_fill_attrs *)a->attrs)->value;
    const int64_t n = ls_type_count(&a->out[0].type);
    for (int64_t i = 0; i < n; i++)
        flat_put(&a->out[0], i, value);
}

/* copy and broadcast_to: out[index] = in[index], with the input's dimensions of size 1 repeated. */
void ls_ref_broadcast_to(const ls_kernel_args *a)
{
    const ls_tensor *out = &a->out[0];
    const int64_t n = ls_type_count(&out->type);
    for (int64_t i = 0; i < n; i++)
        move(out, ls_ref_offset(out, out->type.ndim, i), &a->in[0],
             ls_ref_broadcast(&a->in[0], &out->type, i));
}

void ls_ref_permute(const ls_kernel_args *a)
{
    const int64_t *perm = ((const ls_permute_attrs *)a->attrs)->perm.v;
    ls_tensor turned = a->in[0]; /* the input with its dimensions in the output's order */
    for (int d = 0; d < turned.type.ndim; d++) {
        turned.type.dims[d] = a->in[0].type.dims[perm[d]];
        turned.strides[d] = a->in[0].strides[perm[d]];
    }
    const ls_tensor *out = &a->out[0];
    const int64_t n = ls_type_count(&out->type);
    for (int64_t i = 0; i < n; i++)
        move(out, ls_ref_offset(out, out->type.ndim, i), &turned,
             ls_ref_offset(&turned, turned.type.ndim, i));
}

/* The part [start, start + count) of `out` along dim. */
static ls_tensor window(const ls_tensor *out, int64_t dim, int64_t start, int64_t count)
{
    ls_tensor w = *out;
    w.data = place(out, start * out->strides[dim]);
    w.type.dims[dim] = count;
    return w;
}

static void clear(const ls_tensor *t)
{
    const int64_t n = ls_type_count(&t->type);
    for (int64_t i = 0; i < n; i++)
        memset(place(t, ls_ref_offset(t, t->type.ndim, i)), 0, ls_dtype_size(t->type.dtype));
}

/* Parts are in the order of their starts and do not overlap (the op's shape rule). A part that was computed
 * in place stays. */
void ls_ref_pack(const ls_kernel_args *a)
{
    const ls_pack_attrs *at = a->attrs;
    int64_t end = 0;
    for (int k = 0; k < a->n_in; k++) {
        const ls_tensor *part = &a->in[k];
        const int64_t start = at->starts.v[k], count = part->type.dims[at->dim],
                      n = ls_type_count(&part->type);
        const ls_tensor gap = window(&a->out[0], at->dim, end, start - end),
                        there = window(&a->out[0], at->dim, start, count);
        clear(&gap);
        for (int64_t i = 0; i < n && part->data != there.data; i++)
            move(&there, ls_ref_offset(&there, there.type.ndim, i), part,
                 ls_ref_offset(part, part->type.ndim, i));
        end = start + count;
    }
    const ls_tensor rest = window(&a->out[0], at->dim, end, at->extent - end);
    clear(&rest);
}

/* out[o] = sum of in over the dimensions that `out` lacks or has with size 1. */
/* sum_to, and max_to: NaN counts as largest */
static void ref_shape_reduce(const ls_kernel_args *a, bool largest)
{
    const ls_tensor *in = &a->in[0], *out = &a->out[0];
    const int lead = in->type.ndim - out->type.ndim;
    /* the input's index space split in two; the dimensions of the other half have size 1 */
    ls_tensor kept = *in, summed = *in;
    for (int d = 0; d < in->type.ndim; d++) {
        const bool sum = d < lead || out->type.dims[d - lead] != in->type.dims[d];
        (sum ? &kept : &summed)->type.dims[d] = 1;
    }
    const int64_t n_out = ls_type_count(&kept.type), n_sum = ls_type_count(&summed.type);
    for (int64_t o = 0; o < n_out; o++) {
        const int64_t base = ls_ref_offset(&kept, kept.type.ndim, o);
        double all = largest ? -(double)INFINITY : 0;
        for (int64_t i = 0; i < n_sum; i++) {
            const double x = ls_ref_get(in, base + ls_ref_offset(&summed, summed.type.ndim, i));
            all = !largest ? all + x : isnan(all) || all > x ? all : x;
        }
        flat_put(out, o, all);
    }
}

void ls_ref_sum_to(const ls_kernel_args *a) { ref_shape_reduce(a, false); }
void ls_ref_max_to(const ls_kernel_args *a) { ref_shape_reduce(a, true); }
