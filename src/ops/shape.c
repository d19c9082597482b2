/* shape.c - ops that move or rename elements and compute nothing: views (reshape, slice, flat_view) and
 * copies (permute, pack, copy). `pack` is the transpose of slice and flat_view. The planner lets the inputs
 * of pack be computed inside its output, so that gradients reach their flat buffer without a copy. */
#include "rules.h"
#include "base/argument.h"

#include <string.h>

static ls_value dy(const ls_grad *c) { return c->dout[0]; }
static int64_t normal_dim(int64_t dim, int ndim) { return dim < 0 ? dim + ndim : dim; }

/* reshape */
static ls_status infer_reshape(ls_infer *i)
{
    const ls_reshape_attrs *a = i->attrs;
    int64_t count = ls_type_count(&i->in[0]), known = 1;
    int open = -1;
    LS_RULE_CHECK(i, a->dims.n <= LS_MAX_DIMS, "more than %d dimensions", LS_MAX_DIMS);
    ls_type t = { .dtype = i->in[0].dtype, .ndim = (int)a->dims.n };
    for (int d = 0; d < t.ndim; d++) {
        t.dims[d] = a->dims.v[d];
        if (t.dims[d] == -1) {
            LS_RULE_CHECK(i, open < 0, "only one size may be -1");
            open = d;
        } else {
            LS_RULE_CHECK(i, t.dims[d] > 0, "size %lld in dimension %d", (long long)t.dims[d], d);
            known *= t.dims[d];
        }
    }
    if (open >= 0) {
        LS_RULE_CHECK(i, count % known == 0, "%lld elements do not divide into %lld", (long long)count,
                      (long long)known);
        t.dims[open] = count / known;
    } else {
        LS_RULE_CHECK(i, count == known, "%lld elements cannot become %lld", (long long)count,
                      (long long)known);
    }
    i->out[0] = t;
    return LS_OK;
}

static void contiguous_strides(ls_tensor *t)
{
    int64_t s = 1;
    for (int d = t->type.ndim - 1; d >= 0; d--) {
        t->strides[d] = s;
        s *= t->type.dims[d];
    }
}

/* A reshape can be a view if each of its dimensions lies inside a run of the input's dimensions that are
 * contiguous with each other. */
static bool view_reshape(const ls_infer *i, const ls_tensor *in, ls_tensor *out, int64_t *offset)
{
    *offset = 0;
    out->type = i->out[0];
    int64_t od[LS_MAX_DIMS], os[LS_MAX_DIMS];
    /* number of such runs; od and os have their sizes and strides. Dimensions of size 1 do not count */
    int n = 0;
    for (int d = 0; d < in->type.ndim; d++) {
        if (in->type.dims[d] == 1)
            continue;
        if (n && os[n - 1] == in->type.dims[d] * in->strides[d]) {
            od[n - 1] *= in->type.dims[d];
            os[n - 1] = in->strides[d];
        } else {
            od[n] = in->type.dims[d];
            os[n++] = in->strides[d];
        }
    }
    int k = n - 1;
    int64_t left = k >= 0 ? od[k] : 1, stride = k >= 0 ? os[k] : 1;
    for (int d = out->type.ndim - 1; d >= 0; d--) {
        int64_t size = out->type.dims[d];
        if (size == 1) {
            out->strides[d] = stride;
            continue;
        }
        if (left == 1 && k > 0) {
            k--;
            left = od[k];
            stride = os[k];
        }
        if (left % size)
            return false;
        out->strides[d] = stride;
        stride *= size;
        left /= size;
    }
    return true;
}

static void grad_reshape(ls_grad *c) { c->din[0] = ls_reshape_like(c->g, dy(c), c->node->in[0]); }

/* slice */
static ls_status infer_slice(ls_infer *i)
{
    const ls_slice_attrs *a = i->attrs;
    ls_type t = i->in[0];
    LS_RULE_CHECK(i, a->dim >= 0 && a->dim < t.ndim, "no dimension %lld", (long long)a->dim);
    LS_RULE_CHECK(i, a->start >= 0 && a->count > 0 && a->start + a->count <= t.dims[a->dim],
                  "[%lld, %lld) is outside dimension %lld", (long long)a->start,
                  (long long)(a->start + a->count), (long long)a->dim);
    t.dims[a->dim] = a->count;
    i->out[0] = t;
    return LS_OK;
}

static bool view_slice(const ls_infer *i, const ls_tensor *in, ls_tensor *out, int64_t *offset)
{
    const ls_slice_attrs *a = i->attrs;
    out->type = i->out[0];
    memcpy(out->strides, in->strides, sizeof out->strides);
    *offset = a->start * in->strides[a->dim];
    return true;
}

static void grad_slice(ls_grad *c)
{
    const ls_slice_attrs *a = c->node->attrs;
    int64_t extent = ls_type_of(c->g, c->node->in[0])->dims[a->dim];
    c->din[0] = ls_pack(c->g, 1, c->dout, (int)a->dim, extent, &a->start);
}

/* flat_view */
static ls_status infer_flat_view(ls_infer *i)
{
    const ls_flat_view_attrs *a = i->attrs;
    LS_RULE_CHECK(i, i->in[0].ndim == 1, "needs a flat buffer");
    ls_type t = { .dtype = i->in[0].dtype, .ndim = (int)a->dims.n };
    memcpy(t.dims, a->dims.v, sizeof(int64_t) * (size_t)a->dims.n);
    LS_RULE_CHECK(i, a->offset >= 0 && a->offset + ls_type_count(&t) <= i->in[0].dims[0],
                  "view at %lld of %lld elements is outside", (long long)a->offset,
                  (long long)ls_type_count(&t));
    i->out[0] = t;
    return LS_OK;
}

static bool view_flat_view(const ls_infer *i, const ls_tensor *in, ls_tensor *out, int64_t *offset)
{
    const ls_flat_view_attrs *a = i->attrs;
    out->type = i->out[0];
    contiguous_strides(out);
    *offset = a->offset;
    return in->strides[0] == 1;
}

static void grad_flat_view(ls_grad *c)
{
    const ls_flat_view_attrs *a = c->node->attrs;
    int64_t extent = ls_type_of(c->g, c->node->in[0])->dims[0];
    ls_value flat = ls_reshape_dims(c->g, dy(c), 1, (int64_t[]){ -1 });
    c->din[0] = ls_pack(c->g, 1, &flat, 0, extent, &a->offset);
}

/* permute */
static ls_status infer_permute(ls_infer *i)
{
    const ls_permute_attrs *a = i->attrs;
    ls_type t = i->in[0];
    LS_RULE_CHECK(i, a->perm.n == t.ndim, "permutation of %lld for %d dimensions", (long long)a->perm.n,
                  t.ndim);
    unsigned seen = 0;
    for (int d = 0; d < t.ndim; d++) {
        int64_t from = a->perm.v[d];
        LS_RULE_CHECK(i, from >= 0 && from < t.ndim && !(seen >> from & 1), "not a permutation");
        seen |= 1u << from;
        t.dims[d] = i->in[0].dims[from];
    }
    i->out[0] = t;
    return LS_OK;
}

static void grad_permute(ls_grad *c)
{
    const ls_permute_attrs *a = c->node->attrs;
    int64_t inverse[LS_MAX_DIMS];
    for (int64_t d = 0; d < a->perm.n; d++)
        inverse[a->perm.v[d]] = d;
    c->din[0] = ls_permute_dims(c->g, dy(c), (int)a->perm.n, inverse);
}

/* pack */
static ls_status infer_pack(ls_infer *i)
{
    const ls_pack_attrs *a = i->attrs;
    ls_type t = i->in[0];
    LS_RULE_CHECK(i, a->starts.n == i->n_in, "%lld starts for %d parts", (long long)a->starts.n, i->n_in);
    LS_RULE_CHECK(i, a->dim >= 0 && a->dim < t.ndim, "no dimension %lld", (long long)a->dim);
    int64_t end = 0;
    for (int k = 0; k < i->n_in; k++) {
        const ls_type *p = &i->in[k];
        LS_RULE_CHECK(i, p->dtype == t.dtype && p->ndim == t.ndim, "part %d has another type", k);
        for (int d = 0; d < t.ndim; d++)
            LS_RULE_CHECK(i, d == a->dim || p->dims[d] == t.dims[d], "part %d differs in dimension %d", k, d);
        LS_RULE_CHECK(i, a->starts.v[k] >= end, "part %d overlaps the one before it", k);
        end = a->starts.v[k] + p->dims[a->dim];
    }
    LS_RULE_CHECK(i, end <= a->extent, "parts reach %lld of %lld", (long long)end, (long long)a->extent);
    t.dims[a->dim] = a->extent;
    i->out[0] = t;
    return LS_OK;
}

static void grad_pack(ls_grad *c)
{
    const ls_pack_attrs *a = c->node->attrs;
    for (int k = 0; k < c->node->n_in; k++)
        if (c->needs[k])
            c->din[k] = ls_slice(c->g, dy(c), (int)a->dim, a->starts.v[k],
                                 ls_type_of(c->g, c->node->in[k])->dims[a->dim]);
}

static void grad_copy(ls_grad *c) { c->din[0] = dy(c); }

/* ---- loops */

/* Takes the shortest runs of dimensions on both sides with the same number of elements. The outermost
 * dimensions of such a pair of runs split into the same blocks of elements, so they share a loop. */
static ls_status dims_reshape(ls_rule *r, const ls_infer *i)
{
    const ls_type *a = &i->in[0], *b = &i->out[0];
    int x = 0, y = 0;
    while (x < a->ndim || y < b->ndim) {
        int from = -1, to = -1; /* the outermost dimension of the run on each side that is larger than 1 */
        int64_t p = 1, q = 1;
        do {
            const bool take = y == b->ndim || (x < a->ndim && p <= q);
            const ls_type *t = take ? a : b;
            int *at = take ? &x : &y, *outer = take ? &from : &to;
            *(take ? &p : &q) *= t->dims[*at];
            *outer = *outer < 0 && t->dims[*at] > 1 ? *at : *outer;
            ++*at;
        } while (p != q && (x < a->ndim || y < b->ndim));
        if (from < 0 || to < 0)
            continue;
        const int l = ls_rule_loop(r);
        if (l < 0)
            return LS_OK;
        r->in[0][from] = r->out[0][to] = (int8_t)l;
    }
    r->regroups = a->ndim > 0 && b->ndim > 0 && a->dims[a->ndim - 1] == b->dims[b->ndim - 1];
    return LS_OK;
}

static ls_status dims_permute(ls_rule *r, const ls_infer *i)
{
    const ls_permute_attrs *a = i->attrs;
    for (int d = 0; d < i->out[0].ndim; d++)
        r->out[0][d] = r->in[0][a->perm.v[d]] = (int8_t)ls_rule_loop(r);
    return LS_OK;
}

static ls_status all_but(ls_rule *r, const ls_infer *i, int64_t dim)
{
    for (int d = 0; d < i->out[0].ndim; d++) {
        const int l = d == dim ? -1 : ls_rule_loop(r);
        r->out[0][d] = (int8_t)l;
        for (int k = 0; k < LS_RULE_IN; k++)
            r->in[k][d] = (int8_t)l;
    }
    return LS_OK;
}

static ls_status dims_slice(ls_rule *r, const ls_infer *i)
{
    const ls_slice_attrs *a = i->attrs;
    r->gather = a->count == 1; /* one token of each sample, as a classifier reads it */
    return all_but(r, i, a->dim);
}
static ls_status dims_pack(ls_rule *r, const ls_infer *i)
{
    return all_but(r, i, ((const ls_pack_attrs *)i->attrs)->dim);
}

static void local_reshape(ls_arena *a, void *attrs, const ls_type *out)
{
    ls_local_dims(a, &((ls_reshape_attrs *)attrs)->dims, out);
}
#define LIST(record, field) offsetof(record, field), NULL
static const ls_attr_field RESHAPE_FIELDS[] = { { "dims", LS_FIELD_I64S, LIST(ls_reshape_attrs, dims) },
                                                { 0 } };
static const ls_attr_field SLICE_FIELDS[] = { { "dim", LS_FIELD_I64, LIST(ls_slice_attrs, dim) },
                                              { "start", LS_FIELD_I64, LIST(ls_slice_attrs, start) },
                                              { "count", LS_FIELD_I64, LIST(ls_slice_attrs, count) },
                                              { 0 } };
static const ls_attr_field FLAT_VIEW_FIELDS[] = { { "at", LS_FIELD_I64, LIST(ls_flat_view_attrs, offset) },
                                                  { "dims", LS_FIELD_I64S, LIST(ls_flat_view_attrs, dims) },
                                                  { 0 } };
static const ls_attr_field PERMUTE_FIELDS[] = { { "perm", LS_FIELD_I64S, LIST(ls_permute_attrs, perm) },
                                                { 0 } };
static const ls_attr_field PACK_FIELDS[] = { { "dim", LS_FIELD_I64, LIST(ls_pack_attrs, dim) },
                                             { "extent", LS_FIELD_I64, LIST(ls_pack_attrs, extent) },
                                             { "starts", LS_FIELD_I64S, LIST(ls_pack_attrs, starts) },
                                             { 0 } };
const ls_op ls_op_copy = {
    .name = "copy",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = ls_infer_same,
    .grad = grad_copy,
    .cost = ls_cost_move,
    .summary = "Copies elements so that they are contiguous; the planner inserts it.",
};
const ls_op ls_op_reshape = {
    .name = "reshape",
    .dims = dims_reshape,
    .local = local_reshape,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_VIEW,
    .attrs_size = sizeof(ls_reshape_attrs),
    .fields = RESHAPE_FIELDS,
    .infer = infer_reshape,
    .grad = grad_reshape,
    .view = view_reshape,
    .summary = "Gives the same elements another shape.",
};
const ls_op ls_op_slice = {
    .name = "slice",
    .dims = dims_slice,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_VIEW,
    .attrs_size = sizeof(ls_slice_attrs),
    .fields = SLICE_FIELDS,
    .infer = infer_slice,
    .grad = grad_slice,
    .view = view_slice,
    .summary = "Takes a range of one dimension.",
};
const ls_op ls_op_flat_view = {
    .name = "flat_view",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_VIEW,
    .attrs_size = sizeof(ls_flat_view_attrs),
    .fields = FLAT_VIEW_FIELDS,
    .infer = infer_flat_view,
    .grad = grad_flat_view,
    .view = view_flat_view,
    .summary = "Takes one tensor out of the flat buffer of a unit.",
};
const ls_op ls_op_permute = {
    .name = "permute",
    .dims = dims_permute,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_permute_attrs),
    .fields = PERMUTE_FIELDS,
    .infer = infer_permute,
    .grad = grad_permute,
    .cost = ls_cost_move,
    .summary = "Puts dimensions in another order, as a copy.",
};
const ls_op ls_op_pack = {
    .name = "pack",
    .dims = dims_pack,
    .min_in = 1,
    .max_in = -1,
    .n_out = 1,
    .attrs_size = sizeof(ls_pack_attrs),
    .fields = PACK_FIELDS,
    .infer = infer_pack,
    .grad = grad_pack,
    .cost = ls_cost_move,
    .summary = "Lays parts side by side along one dimension, zeros between them; in place where possible.",
};
ls_value ls_reshape_dims(ls_graph *g, ls_value a, int ndim, const int64_t *dims)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (ndim)
        LS_BUILD_ARG(g, dims, ((ls_value){ .id = -1 }));
    ls_reshape_attrs at = { .dims = { ndim, dims } };
    return ls_graph_apply(g, &ls_op_reshape, 1, &a, &at);
}

ls_value ls_permute_dims(ls_graph *g, ls_value a, int ndim, const int64_t *perm)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (ndim)
        LS_BUILD_ARG(g, perm, ((ls_value){ .id = -1 }));
    ls_permute_attrs at = { .perm = { ndim, perm } };
    return ls_graph_apply(g, &ls_op_permute, 1, &a, &at);
}

ls_value ls_slice(ls_graph *g, ls_value a, int dim, int64_t start, int64_t count)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_slice_attrs at = { .dim = normal_dim(dim, ls_value_type(g, a).ndim), .start = start, .count = count };
    return ls_graph_apply(g, &ls_op_slice, 1, &a, &at);
}

ls_value ls_flat_view(ls_graph *g, ls_value flat, int64_t offset, const ls_type *shape)
{
    ls_flat_view_attrs at = { .offset = offset, .dims = { shape->ndim, shape->dims } };
    return ls_graph_apply(g, &ls_op_flat_view, 1, &flat, &at);
}

ls_value ls_pack(ls_graph *g, int n, const ls_value *parts, int dim, int64_t extent, const int64_t *starts)
{
    ls_pack_attrs at = { .dim = dim, .extent = extent, .starts = { n, starts } };
    return ls_graph_apply(g, &ls_op_pack, n, parts, &at);
}

ls_value ls_concat(ls_graph *g, int dim, int n, const ls_value *parts)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (n)
        LS_BUILD_ARG(g, parts, ((ls_value){ .id = -1 }));
    if (g->status != LS_OK || n < 1)
        return (ls_value){ .id = -1 };
    int64_t *starts = LS_ARENA_ARRAY(&g->arena, int64_t, n), extent = 0;
    if (!ls_graph_room(g))
        return (ls_value){ .id = -1 };
    int d = (int)normal_dim(dim, ls_value_type(g, parts[0]).ndim);
    for (int k = 0; k < n; k++) {
        const ls_type t = ls_value_type(g, parts[k]);
        if (d < 0 || d >= t.ndim) {
            ls_graph_error(g, LS_E_SHAPE, "concat: part %d has no dimension %d", k, dim);
            return (ls_value){ .id = -1 };
        }
        starts[k] = extent;
        extent += t.dims[d];
    }
    return ls_pack(g, n, parts, d, extent, starts);
}

ls_value ls_reshape_like(ls_graph *g, ls_value v, ls_value like)
{
    const ls_type t = ls_value_type(g, like);
    return ls_reshape_dims(g, v, t.ndim, t.dims);
}
