/* norm.c - layer normalisation (Ba, Kiros, Hinton 2016) with PyTorch's biased variance, and root mean square
 * normalisation (Zhang and Sennrich 2019), over the last dimension. */
#include "rules.h"
#include "base/argument.h"

static ls_cost cost_norm(const ls_infer *i)
{
    double n = (double)ls_type_count(&i->in[0]);
    return (ls_cost){ .flops = 8 * n, .bytes = (double)ls_type_bytes(&i->in[0]) * (i->n_in > 3 ? 3 : 2) };
}

static ls_status expect_columns(const ls_infer *i, int j, const char *what)
{
    const ls_type *x = &i->in[0];
    return ls_infer_expect(i, j, &LS_TYPE(x->dtype, x->dims[x->ndim - 1]), what);
}

static ls_status infer_layer_norm(ls_infer *i)
{
    const ls_type *x = &i->in[0];
    LS_RULE_CHECK(i, x->ndim >= 1 && ls_dtype_is_float(x->dtype), "needs float x [.., K]");
    LS_TRY(expect_columns(i, 1, "gain"));
    LS_TRY(expect_columns(i, 2, "bias"));
    i->out[0] = *x;
    i->out[1] = i->out[2] = ls_type_drop_last(x, ls_stat_dtype(x->dtype));
    return LS_OK;
}

static ls_status infer_layer_norm_grad(ls_infer *i)
{
    const ls_type *x = &i->in[1];
    ls_type stat = ls_type_drop_last(x, ls_stat_dtype(x->dtype));
    LS_TRY(ls_infer_expect(i, 0, x, "dy"));
    LS_TRY(expect_columns(i, 2, "gain"));
    LS_TRY(ls_infer_expect(i, 3, &stat, "mean"));
    LS_TRY(ls_infer_expect(i, 4, &stat, "rstd"));
    if (i->n_in > 5 && i->in[5].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 5, x, "addend"));
    i->out[0] = *x;
    i->out[1] = i->out[2] = i->in[2];
    return LS_OK;
}

static void grad_layer_norm(ls_grad *c) { ls_grad_norm(c, &ls_op_layer_norm_grad); }

static ls_status infer_rms_norm(ls_infer *i)
{
    const ls_type *x = &i->in[0];
    LS_RULE_CHECK(i, x->ndim >= 1 && ls_dtype_is_float(x->dtype), "needs float x [.., K]");
    LS_TRY(expect_columns(i, 1, "gain"));
    i->out[0] = *x;
    i->out[1] = ls_type_drop_last(x, ls_stat_dtype(x->dtype));
    return LS_OK;
}

static ls_status infer_rms_norm_grad(ls_infer *i)
{
    const ls_type *x = &i->in[1];
    ls_type stat = ls_type_drop_last(x, ls_stat_dtype(x->dtype));
    LS_TRY(ls_infer_expect(i, 0, x, "dy"));
    LS_TRY(expect_columns(i, 2, "gain"));
    LS_TRY(ls_infer_expect(i, 3, &stat, "rstd"));
    if (i->n_in > 4 && i->in[4].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 4, x, "addend"));
    i->out[0] = *x;
    i->out[1] = i->in[2];
    return LS_OK;
}

static void grad_rms_norm(ls_grad *c)
{
    const ls_node *n = c->node;
    ls_value dx = ls_graph_apply(c->g, &ls_op_rms_norm_grad, 4,
                                 (ls_value[]){ c->dout[0], n->in[0], n->in[1], n->out[1] }, n->attrs);
    c->din[0] = dx;
    c->din[1] = ls_nth(c->g, dx, 1);
}

static const ls_attr_field FIELDS[] = { { "eps", LS_FIELD_F64, offsetof(ls_norm_attrs, eps), NULL }, { 0 } };
const ls_op ls_op_layer_norm = {
    .name = "layer_norm",
    .rule = "r.. f!, f, f -> r.. f, r.., r..",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .attrs_size = sizeof(ls_norm_attrs),
    .fields = FIELDS,
    .infer = infer_layer_norm,
    .grad = grad_layer_norm,
    .cost = cost_norm,
    .summary =
        "Normalises each row: (x - mean) * rstd * gain + bias; it keeps mean and rstd for the gradient.",
};
const ls_op ls_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 6,
    .n_out = 3,
    .optional_in = 1 << 5,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_norm_attrs),
    .fields = FIELDS,
    .infer = infer_layer_norm_grad,
    .cost = cost_norm,
    .summary = "Computes the gradients of layer_norm: dx (plus an addend), dgain and dbias.",
};

const ls_op ls_op_rms_norm = {
    .name = "rms_norm",
    .rule = "r.. f!, f -> r.. f, r..",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .attrs_size = sizeof(ls_norm_attrs),
    .fields = FIELDS,
    .infer = infer_rms_norm,
    .grad = grad_rms_norm,
    .cost = cost_norm,
    .summary = "Scales each row: x * rstd * gain with rstd = 1 / sqrt(mean(x^2) + eps), which it keeps.",
};
const ls_op ls_op_rms_norm_grad = {
    .name = "rms_norm_grad",
    .rule = LS_RULE_LATER,
    .min_in = 4,
    .max_in = 5,
    .n_out = 2,
    .optional_in = 1 << 4,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_norm_attrs),
    .fields = FIELDS,
    .infer = infer_rms_norm_grad,
    .cost = cost_norm,
    .summary = "Computes the gradients of rms_norm: dx (plus an addend) and dgain.",
};

ls_value ls_layer_norm_op(ls_graph *g, ls_value x, ls_value gain, ls_value bias, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_layer_norm, 3, (ls_value[]){ x, gain, bias },
                          &(ls_norm_attrs){ .eps = eps });
}

ls_value ls_rms_norm_op(ls_graph *g, ls_value x, ls_value gain, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_rms_norm, 2, (ls_value[]){ x, gain }, &(ls_norm_attrs){ .eps = eps });
}
