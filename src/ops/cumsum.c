/* cumsum.c - cumulative sums along a dimension. The gradient is the cumulative sum from the other end. */
#include "rules.h"
#include "base/argument.h"
#include "graph/tensor_attrs.h"

static ls_status infer_cumsum(ls_infer *i)
{
    const int64_t dim = ((const ls_cumsum_attrs *)i->attrs)->dim;
    LS_RULE_CHECK(i, ls_dtype_is_float(i->in[0].dtype), "needs a float type");
    LS_RULE_CHECK(i, dim >= 0 && dim < i->in[0].ndim, "no dimension %lld", (long long)dim);
    return ls_infer_same(i);
}

static ls_status dims_cumsum(ls_rule *r, const ls_infer *i)
{
    const int64_t dim = ((const ls_cumsum_attrs *)i->attrs)->dim;
    for (int d = 0; d < LS_MAX_DIMS && d < i->out[0].ndim; d++)
        if (d != dim)
            r->in[0][d] = r->out[0][d] = (int8_t)ls_rule_loop(r);
    return LS_OK;
}

static void grad_cumsum(ls_grad *c)
{
    const ls_cumsum_attrs *a = c->node->attrs;
    c->din[0] = ls_graph_apply(c->g, &ls_op_cumsum, 1, c->dout,
                               &(ls_cumsum_attrs){ .dim = a->dim, .reverse = !a->reverse });
}

static ls_cost cost_cumsum(const ls_infer *i)
{
    ls_cost c = ls_cost_move(i);
    c.flops = (double)ls_type_count(&i->in[0]);
    return c;
}

static const ls_attr_field FIELDS[] = { { "dim", LS_FIELD_I64, offsetof(ls_cumsum_attrs, dim), NULL },
                                        { "reverse", LS_FIELD_I64, offsetof(ls_cumsum_attrs, reverse), NULL },
                                        { 0 } };
const ls_op ls_op_cumsum = {
    .name = "cumsum",
    .dims = dims_cumsum,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_cumsum_attrs),
    .fields = FIELDS,
    .infer = infer_cumsum,
    .grad = grad_cumsum,
    .cost = cost_cumsum,
    .inplace = 1,
    .summary = "Sums the elements up to each one along a dimension; with reverse, from each one on.",
};

ls_value ls_cumsum(ls_graph *g, ls_value a, int dim)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    const int ndim = ls_value_type(g, a).ndim;
    return ls_graph_apply(g, &ls_op_cumsum, 1, &a, &(ls_cumsum_attrs){ .dim = dim < 0 ? dim + ndim : dim });
}
