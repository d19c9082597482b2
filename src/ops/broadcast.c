/* broadcast.c - NumPy's broadcasting as an op, and its gradient: broadcast_to and sum_to. */
#include "rules.h"
#include "base/argument.h"

#include <string.h>

static ls_status infer_broadcast_to(ls_infer *i)
{
    const ls_broadcast_attrs *a = i->attrs;
    const ls_type *in = &i->in[0];
    LS_RULE_CHECK(i, a->dims.n >= in->ndim && a->dims.n <= LS_MAX_DIMS,
                  "cannot broadcast to fewer dimensions");
    ls_type t = { .dtype = in->dtype, .ndim = (int)a->dims.n };
    for (int d = 1; d <= t.ndim; d++) {
        int64_t have = d <= in->ndim ? in->dims[in->ndim - d] : 1, want = a->dims.v[t.ndim - d];
        want = want < 0 ? have : want;
        LS_RULE_CHECK(i, have == want || have == 1, "size %lld cannot become %lld", (long long)have,
                      (long long)want);
        t.dims[t.ndim - d] = want;
    }
    i->out[0] = t;
    return LS_OK;
}

ls_status ls_infer_sum_to(ls_infer *i)
{
    const ls_broadcast_attrs *a = i->attrs;
    const ls_type *in = &i->in[0];
    LS_RULE_CHECK(i, a->dims.n <= in->ndim, "cannot sum to more dimensions");
    LS_RULE_CHECK(i, ls_dtype_is_float(in->dtype), "needs a float type");
    ls_type t = { .dtype = in->dtype, .ndim = (int)a->dims.n };
    for (int d = 1; d <= t.ndim; d++) {
        int64_t have = in->dims[in->ndim - d], want = a->dims.v[t.ndim - d];
        LS_RULE_CHECK(i, have == want || want == 1, "size %lld cannot be summed to %lld", (long long)have,
                      (long long)want);
        t.dims[t.ndim - d] = want;
    }
    i->out[0] = t;
    return LS_OK;
}

static void grad_broadcast_to(ls_grad *c) { c->din[0] = ls_sum_like(c->g, c->dout[0], c->node->in[0]); }

static void grad_sum_to(ls_grad *c)
{
    const ls_type t = *ls_type_of(c->g, c->node->in[0]);
    c->din[0] = ls_broadcast_dims(c->g, c->dout[0], t.ndim, t.dims);
}

static ls_status dims_broadcast_to(ls_rule *r, const ls_infer *i)
{
    for (int d = 0; d < i->out[0].ndim; d++) {
        const int at = d - (i->out[0].ndim - i->in[0].ndim), l = ls_rule_loop(r);
        r->out[0][d] = (int8_t)l;
        if (at >= 0 && i->in[0].dims[at] == i->out[0].dims[d])
            r->in[0][at] = (int8_t)l;
    }
    return LS_OK;
}

ls_status ls_dims_sum_to(ls_rule *r, const ls_infer *i)
{
    for (int d = 0; d < i->in[0].ndim; d++) {
        const int at = d - (i->in[0].ndim - i->out[0].ndim), l = ls_rule_loop(r);
        r->in[0][d] = (int8_t)l;
        if (at >= 0 && i->in[0].dims[d] == i->out[0].dims[at])
            r->out[0][at] = (int8_t)l;
    }
    return LS_OK;
}

void ls_local_broadcast(ls_arena *a, void *attrs, const ls_type *out)
{
    ls_local_dims(a, &((ls_broadcast_attrs *)attrs)->dims, out);
}

#define LIST(record, field) offsetof(record, field), NULL
const ls_attr_field ls_broadcast_fields[] = { { "dims", LS_FIELD_I64S, LIST(ls_broadcast_attrs, dims) },
                                              { 0 } };

const ls_op ls_op_broadcast_to = {
    .name = "broadcast_to",
    .dims = dims_broadcast_to,
    .local = ls_local_broadcast,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_broadcast_attrs),
    .fields = ls_broadcast_fields,
    .infer = infer_broadcast_to,
    .grad = grad_broadcast_to,
    .cost = ls_cost_move,
    .summary = "Repeats a tensor along dimensions as NumPy's broadcasting does, as a copy.",
};
const ls_op ls_op_sum_to = {
    .name = "sum_to",
    .dims = ls_dims_sum_to,
    .local = ls_local_broadcast,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_broadcast_attrs),
    .fields = ls_broadcast_fields,
    .infer = ls_infer_sum_to,
    .grad = grad_sum_to,
    .cost = ls_cost_move,
    .summary = "Sums over the dimensions that broadcasting would expand.",
};

ls_value ls_broadcast_dims(ls_graph *g, ls_value a, int ndim, const int64_t *dims)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (ndim)
        LS_BUILD_ARG(g, dims, ((ls_value){ .id = -1 }));
    ls_broadcast_attrs at = { .dims = { ndim, dims } };
    return ls_graph_apply(g, &ls_op_broadcast_to, 1, &a, &at);
}

ls_value ls_sum_to(ls_graph *g, ls_value a, int ndim, const int64_t *dims)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (ndim)
        LS_BUILD_ARG(g, dims, ((ls_value){ .id = -1 }));
    if (ndim < 0) {
        ls_graph_error(g, LS_E_ARG, "ls_sum_to: ndim is %d: 0 or more is needed", ndim);
        return (ls_value){ .id = -1 };
    }
    ls_broadcast_attrs at = { .dims = { ndim, dims } };
    return ls_graph_apply(g, &ls_op_sum_to, 1, &a, &at);
}

ls_value ls_sum_like(ls_graph *g, ls_value v, ls_value like)
{
    if (v.id <= 0 || like.id <= 0)
        return v;
    const ls_type a = *ls_type_of(g, v), b = *ls_type_of(g, like);
    if (a.ndim == b.ndim && !memcmp(a.dims, b.dims, sizeof(int64_t) * (size_t)a.ndim))
        return v;
    return ls_sum_to(g, v, b.ndim, b.dims);
}
