/* batch_matmul.c - products of matrices, one for each of the leading dimensions, and torch.matmul by them.
 * The gradients are such products too. */
#include "rules.h"
#include "base/argument.h"
#include "graph/tensor_attrs.h"

enum { A, B };

static const ls_value FAILED = { .id = -1 };

static ls_status infer_batch_matmul(ls_infer *i)
{
    const ls_matmul_attrs *at = i->attrs;
    const ls_type *a = &i->in[A], *b = &i->in[B];
    const int n = a->ndim;
    LS_RULE_CHECK(i, n >= 2 && b->ndim == n && ls_dtype_is_float(a->dtype) && a->dtype == b->dtype,
                  "needs a [.., M, K] and b [.., K, N] of one float type");
    LS_RULE_CHECK(i, !at->transpose_a || !at->transpose_b, "takes one transposed operand at most");
    for (int d = 0; d < n - 2; d++)
        LS_RULE_CHECK(i, a->dims[d] == b->dims[d], "a and b differ in dimension %d", d);
    const int64_t k = a->dims[at->transpose_a ? n - 2 : n - 1],
                  rows = b->dims[at->transpose_b ? n - 1 : n - 2];
    LS_RULE_CHECK(i, k == rows, "a has %lld columns, b has %lld rows", (long long)k, (long long)rows);
    i->out[0] = *a;
    i->out[0].dims[n - 2] = a->dims[at->transpose_a ? n - 1 : n - 2];
    i->out[0].dims[n - 1] = b->dims[at->transpose_b ? n - 2 : n - 1];
    return LS_OK;
}

static ls_status dims_batch_matmul(ls_rule *r, const ls_infer *i)
{
    const ls_matmul_attrs *at = i->attrs;
    const int n = i->in[A].ndim;
    for (int d = 0; d < n - 2; d++)
        r->in[A][d] = r->in[B][d] = r->out[0][d] = (int8_t)ls_rule_loop(r);
    r->in[A][at->transpose_a ? n - 1 : n - 2] = r->out[0][n - 2] = (int8_t)ls_rule_loop(r);
    r->in[B][at->transpose_b ? n - 2 : n - 1] = r->out[0][n - 1] = (int8_t)ls_rule_loop(r);
    r->in[A][at->transpose_a ? n - 2 : n - 1] = r->in[B][at->transpose_b ? n - 1 : n - 2] = (int8_t)
        ls_rule_loop(r);
    return LS_OK;
}

static ls_value batch_matmul_product(ls_graph *g, ls_value a, ls_value b, bool transpose_a, bool transpose_b)
{
    return ls_graph_apply(g, &ls_op_batch_matmul, 2, (ls_value[]){ a, b },
                          &(ls_matmul_attrs){ .transpose_a = transpose_a, .transpose_b = transpose_b });
}

static void grad_batch_matmul(ls_grad *c)
{
    const ls_matmul_attrs *at = c->node->attrs;
    const ls_value a = c->node->in[A], b = c->node->in[B], dy = c->dout[0];
    if (c->needs[A])
        c->din[A] = at->transpose_a ? batch_matmul_product(c->g, b, dy, false, true)
                                    : batch_matmul_product(c->g, dy, b, false, !at->transpose_b);
    if (c->needs[B])
        c->din[B] = at->transpose_b ? batch_matmul_product(c->g, dy, a, true, false)
                                    : batch_matmul_product(c->g, a, dy, !at->transpose_a, false);
}

static ls_cost cost_batch_matmul(const ls_infer *i)
{
    const ls_matmul_attrs *at = i->attrs;
    const ls_type *a = &i->in[A];
    ls_cost c = ls_cost_move(i);
    c.flops = 2.0 * (double)ls_type_count(&i->out[0]) * (double)a->dims[a->ndim - (at->transpose_a ? 2 : 1)];
    return c;
}

static const ls_attr_field FIELDS[] = {
    { "transpose_a", LS_FIELD_I64, offsetof(ls_matmul_attrs, transpose_a), NULL },
    { "transpose_b", LS_FIELD_I64, offsetof(ls_matmul_attrs, transpose_b), NULL },
    { 0 }
};
const ls_op ls_op_batch_matmul = {
    .name = "batch_matmul",
    .dims = dims_batch_matmul,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attrs_size = sizeof(ls_matmul_attrs),
    .fields = FIELDS,
    .infer = infer_batch_matmul,
    .grad = grad_batch_matmul,
    .cost = cost_batch_matmul,
    .summary = "Multiplies a * b, as matrices, for each of the leading dimensions.",
};

/* The last two dimensions exchanged. */
static ls_value transposed(ls_graph *g, ls_value v)
{
    const int n = ls_value_type(g, v).ndim;
    int64_t perm[LS_MAX_DIMS];
    for (int d = 0; d < n; d++)
        perm[d] = d < n - 2 ? d : 2 * n - 3 - d;
    return ls_permute_dims(g, v, n, perm);
}

/* v with leading dimensions as wide as those of `other`, if they broadcast. */
static ls_value widened(ls_graph *g, ls_value v, ls_value other)
{
    const ls_type t = ls_value_type(g, v), o = ls_value_type(g, other);
    const int n = t.ndim > o.ndim ? t.ndim : o.ndim;
    int64_t dims[LS_MAX_DIMS];
    bool same = n == t.ndim;
    for (int d = 0; d < n; d++) {
        const int mine = d - (n - t.ndim), its = d - (n - o.ndim);
        dims[d] = mine >= 0 ? t.dims[mine] : 1;
        if (d < n - 2 && dims[d] == 1 && its >= 0)
            dims[d] = o.dims[its];
        same = same && dims[d] == t.dims[d];
    }
    return same ? v : ls_broadcast_dims(g, v, n, dims);
}

ls_value ls_matmul(ls_graph *g, ls_value a, ls_value b, bool transpose_a, bool transpose_b)
{
    LS_ARG_OR(g, FAILED);
    if (a.id <= 0 || b.id <= 0)
        return FAILED;
    const int na = ls_value_type(g, a).ndim, nb = ls_value_type(g, b).ndim;
    if (na < 2 || nb < 2) {
        ls_graph_error(g, LS_E_SHAPE, "matmul: operands have %d and %d dimensions; both need two or more", na,
                       nb);
        return FAILED;
    }
    if (transpose_a && (transpose_b || nb == 2)) {
        a = transposed(g, a);
        transpose_a = false;
    }
    if (nb == 2) /* all rows of a meet the same matrix */
        return ls_matmul_wt(g, a, transpose_b ? b : transposed(g, b), LS_NONE);
    const ls_value wide = widened(g, a, b);
    return batch_matmul_product(g, wide, widened(g, b, wide), transpose_a, transpose_b);
}
