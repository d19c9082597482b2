/* index.c - elements by their numbers along a dimension: gather takes them, scatter_add adds up what comes
 * for each number. Each is the gradient of the other. The numbers, i32, are of one of two shapes:
 *
 *   [n]                         of whole slices (PyTorch's index_select, index_add)
 *   as the taken elements are   of single elements (PyTorch's gather, scatter_add)
 *
 * A number outside of the dimension makes a NaN, so that the step stops and names the op. */
#include "rules.h"
#include "base/argument.h"
#include "graph/tensor_attrs.h"

enum { FROM, INDEX };

static const ls_value FAILED = { .id = -1 };

/* Checks the numbers of `taken`, the elements that they stand for along dimension dim. */
static ls_status check_index(const ls_infer *i, const ls_type *taken, int64_t dim)
{
    const ls_type *index = &i->in[INDEX];
    bool fits = index->dtype == LS_I32 && (index->ndim == 1 || index->ndim == taken->ndim);
    if (fits && index->ndim == 1)
        fits = index->dims[0] == taken->dims[dim];
    for (int d = 0; fits && index->ndim > 1 && d < taken->ndim; d++)
        fits = index->dims[d] == taken->dims[d];
    LS_RULE_CHECK(i, fits, "the index must be i32, of one dimension or of the shape of what is indexed");
    return LS_OK;
}

static ls_status check_dim(const ls_infer *i, int64_t dim)
{
    LS_RULE_CHECK(i, ls_dtype_is_float(i->in[FROM].dtype), "needs a float type");
    LS_RULE_CHECK(i, dim >= 0 && dim < i->in[FROM].ndim, "no dimension %lld", (long long)dim);
    return LS_OK;
}

static ls_status infer_gather(ls_infer *i)
{
    const int64_t dim = ((const ls_index_attrs *)i->attrs)->dim;
    LS_TRY(check_dim(i, dim));
    const ls_type *index = &i->in[INDEX];
    ls_type t = i->in[FROM];
    if (index->ndim == 1)
        t.dims[dim] = index->dims[0];
    else if (index->ndim == t.ndim)
        t.dims[dim] = index->dims[dim];
    LS_TRY(check_index(i, &t, dim));
    i->out[0] = t;
    return LS_OK;
}

static ls_status infer_scatter_add(ls_infer *i)
{
    const ls_index_attrs *a = i->attrs;
    LS_TRY(check_dim(i, a->dim));
    LS_TRY(check_index(i, &i->in[FROM], a->dim));
    LS_RULE_CHECK(i, a->size > 0, "a result of size %lld", (long long)a->size);
    i->out[0] = i->in[FROM];
    i->out[0].dims[a->dim] = a->size;
    return LS_OK;
}

/* The loops: all dimensions but `dim` run together; along `dim` the elements run with their numbers. */
static ls_status dims_of_index(ls_rule *r, const ls_infer *i, int8_t *taken)
{
    const int64_t dim = ((const ls_index_attrs *)i->attrs)->dim;
    const bool slices = i->in[INDEX].ndim == 1;
    for (int d = 0; d < i->out[0].ndim; d++) {
        const int8_t l = (int8_t)ls_rule_loop(r);
        if (d == dim) {
            r->in[INDEX][slices ? 0 : d] = taken[d] = l;
            continue;
        }
        r->in[FROM][d] = r->out[0][d] = l;
        if (!slices)
            r->in[INDEX][d] = l;
    }
    return LS_OK;
}

static ls_status dims_gather(ls_rule *r, const ls_infer *i) { return dims_of_index(r, i, r->out[0]); }
static ls_status dims_scatter_add(ls_rule *r, const ls_infer *i) { return dims_of_index(r, i, r->in[FROM]); }

static ls_value scatter(ls_graph *g, ls_value x, ls_value index, int64_t dim, int64_t size)
{
    return ls_graph_apply(g, &ls_op_scatter_add, 2, (ls_value[]){ x, index },
                          &(ls_index_attrs){ .dim = dim, .size = size });
}
static ls_value index_gather(ls_graph *g, ls_value a, ls_value index, int64_t dim)
{
    return ls_graph_apply(g, &ls_op_gather, 2, (ls_value[]){ a, index }, &(ls_index_attrs){ .dim = dim });
}

static void grad_gather(ls_grad *c)
{
    const ls_node *n = c->node;
    const int64_t dim = ((const ls_index_attrs *)n->attrs)->dim;
    c->din[FROM] = scatter(c->g, c->dout[0], n->in[INDEX], dim, ls_type_of(c->g, n->in[FROM])->dims[dim]);
}

static void grad_scatter_add(ls_grad *c)
{
    const ls_node *n = c->node;
    c->din[FROM] = index_gather(c->g, c->dout[0], n->in[INDEX], ((const ls_index_attrs *)n->attrs)->dim);
}

static ls_cost cost_gather(const ls_infer *i)
{
    return (ls_cost){ .bytes = 2.0 * (double)ls_type_bytes(&i->out[0]) +
                               (double)ls_type_bytes(&i->in[INDEX]) };
}

static ls_cost cost_scatter_add(const ls_infer *i)
{
    ls_cost c = ls_cost_move(i);
    c.flops = (double)ls_type_count(&i->in[FROM]);
    c.bytes += (double)ls_type_bytes(&i->in[FROM]);
    return c;
}

static const ls_attr_field GATHER_FIELDS[] = { { "dim", LS_FIELD_I64, offsetof(ls_index_attrs, dim), NULL },
                                               { 0 } };
static const ls_attr_field SCATTER_FIELDS[] = { { "dim", LS_FIELD_I64, offsetof(ls_index_attrs, dim), NULL },
                                                { "size", LS_FIELD_I64, offsetof(ls_index_attrs, size),
                                                  NULL },
                                                { 0 } };
const ls_op ls_op_gather = {
    .name = "gather",
    .dims = dims_gather,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attrs_size = sizeof(ls_index_attrs),
    .fields = GATHER_FIELDS,
    .infer = infer_gather,
    .grad = grad_gather,
    .cost = cost_gather,
    .summary = "Reads elements or slices by their numbers along a dimension: NaN where there is none.",
};
const ls_op ls_op_scatter_add = {
    .name = "scatter_add",
    .dims = dims_scatter_add,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attrs_size = sizeof(ls_index_attrs),
    .fields = SCATTER_FIELDS,
    .infer = infer_scatter_add,
    .grad = grad_scatter_add,
    .cost = cost_scatter_add,
    .summary = "Sums the elements or slices that have each number along a dimension, in their order.",
};

/* ---- builder calls */

/* False: the call fails, with `what` in the message. */
static bool ready(ls_graph *g, const char *what, ls_value a, ls_value index, int *dim)
{
    if (a.id <= 0 || index.id <= 0)
        return false;
    const ls_type t = ls_value_type(g, a);
    const int at = *dim < 0 ? *dim + t.ndim : *dim;
    if (at < 0 || at >= t.ndim) {
        ls_graph_error(g, LS_E_SHAPE, "%s: there is no dimension %d: the value has %d dimensions", what, *dim,
                       t.ndim);
        return false;
    }
    *dim = at;
    return true;
}

/* Fails unless the number of dimensions of the index is n. */
static bool expect_ndim(ls_graph *g, const char *what, ls_value index, int n)
{
    const int have = ls_value_type(g, index).ndim;
    if (have == n)
        return true;
    ls_graph_error(g, LS_E_SHAPE, "%s: the index has %d dimensions and must have %d", what, have, n);
    return false;
}

/* The part of v that has the sizes of `like` in all dimensions but dim (-1: in all). */
static ls_value cut_to(ls_graph *g, ls_value v, ls_value like, int dim)
{
    const ls_type t = ls_value_type(g, like);
    for (int d = 0; d < t.ndim; d++)
        if (d != dim && ls_value_type(g, v).dims[d] != t.dims[d])
            v = ls_slice(g, v, d, 0, t.dims[d]);
    return v;
}

ls_value ls_gather(ls_graph *g, ls_value a, int dim, ls_value index)
{
    LS_ARG_OR(g, FAILED);
    if (!ready(g, "gather", a, index, &dim) || !expect_ndim(g, "gather", index, ls_value_type(g, a).ndim))
        return FAILED;
    return index_gather(g, cut_to(g, a, index, dim), index, dim);
}

ls_value ls_index_select(ls_graph *g, ls_value a, int dim, ls_value index)
{
    LS_ARG_OR(g, FAILED);
    if (!ready(g, "index_select", a, index, &dim) || !expect_ndim(g, "index_select", index, 1))
        return FAILED;
    return index_gather(g, a, index, dim);
}

ls_value ls_scatter_add(ls_graph *g, ls_value a, int dim, ls_value index, ls_value x)
{
    LS_ARG_OR(g, FAILED);
    const int n = a.id > 0 ? ls_value_type(g, a).ndim : 0;
    if (x.id <= 0 || !ready(g, "scatter_add", a, index, &dim) || !expect_ndim(g, "scatter_add", index, n) ||
        !expect_ndim(g, "scatter_add: x", x, n))
        return FAILED;
    const ls_type t = ls_value_type(g, a);
    ls_value sums = scatter(g, cut_to(g, x, index, -1), index, dim, t.dims[dim]);
    for (int d = 0; sums.id > 0 && d < t.ndim; d++) /* zeros beyond what the index has */
        if (ls_value_type(g, sums).dims[d] != t.dims[d])
            sums = ls_pack(g, 1, &sums, d, t.dims[d], (int64_t[]){ 0 });
    return ls_add(g, a, sums);
}

ls_value ls_index_add(ls_graph *g, ls_value a, int dim, ls_value index, ls_value x)
{
    LS_ARG_OR(g, FAILED);
    if (x.id <= 0 || !ready(g, "index_add", a, index, &dim) || !expect_ndim(g, "index_add", index, 1))
        return FAILED;
    return ls_add(g, a, scatter(g, x, index, dim, ls_value_type(g, a).dims[dim]));
}
