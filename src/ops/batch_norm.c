/* batch_norm.c - batch normalisation (Ioffe, Szegedy 2015) of x [N, C, ..] over all dimensions but the
 * channels. As in PyTorch, the result uses the biased variance, the running statistics the unbiased one.
 * passes/fuse.c joins a residual and ReLU to it, and ReLU's mask to its gradient. */
#include "rules.h"
#include "base/argument.h"

static ls_cost cost_norm(const ls_infer *i)
{
    ls_cost c = { .flops = 8 * (double)ls_type_count(&i->in[0]), .bytes = (double)ls_type_bytes(&i->out[0]) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += i->in[k].ndim == i->in[0].ndim ? (double)ls_type_bytes(&i->in[k]) : 0;
    return c;
}

/* Checks x [N, C, ..]; `channels` receives the type of a tensor with one element per channel. */
static ls_status expect_picture(const ls_infer *i, const ls_type *x, ls_type *channel, ls_type *stat)
{
    LS_RULE_CHECK(i, x->ndim >= 2 && ls_dtype_is_float(x->dtype), "needs float x [N, C, ..]");
    *channel = LS_TYPE(x->dtype, x->dims[1]);
    *stat = LS_TYPE(ls_stat_dtype(x->dtype), x->dims[1]);
    return LS_OK;
}

static ls_status expect_relu_or_none(const ls_infer *i)
{
    const int64_t act = ((const ls_batch_norm_attrs *)i->attrs)->act;
    LS_RULE_CHECK(i, act == LS_ACT_NONE || act == LS_ACT_RELU, "its activation is relu or none");
    return LS_OK;
}

/* Operand k, if present, must have the type of x. */
static ls_status expect_like(const ls_infer *i, int k, const ls_type *x, const char *what)
{
    return i->n_in > k && i->in[k].ndim >= 0 ? ls_infer_expect(i, k, x, what) : LS_OK;
}

static ls_status infer_batch_norm(ls_infer *i) /* x, gain, bias, residual? */
{
    const ls_type *x = &i->in[0];
    ls_type channel, stat;
    LS_TRY(expect_picture(i, x, &channel, &stat));
    LS_TRY(ls_infer_expect(i, 1, &channel, "gain"));
    LS_TRY(ls_infer_expect(i, 2, &channel, "bias"));
    LS_TRY(expect_like(i, 3, x, "the residual"));
    LS_TRY(expect_relu_or_none(i));
    i->out[0] = *x;
    i->out[1] = i->out[2] = i->out[3] = stat;
    return LS_OK;
}

static ls_status infer_batch_norm_grad(ls_infer *i) /* dy, x, gain, mean, rstd, y? */
{
    const ls_type *x = &i->in[1];
    ls_type channel, stat;
    LS_TRY(expect_picture(i, x, &channel, &stat));
    LS_TRY(ls_infer_expect(i, 0, x, "dy"));
    LS_TRY(ls_infer_expect(i, 2, &channel, "gain"));
    LS_TRY(ls_infer_expect(i, 3, &stat, "mean"));
    LS_TRY(ls_infer_expect(i, 4, &stat, "rstd"));
    LS_TRY(expect_like(i, 5, x, "y"));
    LS_TRY(expect_relu_or_none(i));
    LS_RULE_CHECK(i,
                  (((const ls_batch_norm_attrs *)i->attrs)->act == LS_ACT_RELU) ==
                      (i->n_in > 5 && i->in[5].ndim >= 0),
                  "needs relu's result y, and only then");
    i->out[0] = *x;
    i->out[1] = i->out[2] = channel;
    return LS_OK;
}

static ls_status infer_batch_norm_eval(ls_infer *i) /* x, gain, bias, mean, variance, residual? */
{
    const ls_type *x = &i->in[0];
    ls_type channel, stat;
    LS_TRY(expect_picture(i, x, &channel, &stat));
    LS_TRY(ls_infer_expect(i, 1, &channel, "gain"));
    LS_TRY(ls_infer_expect(i, 2, &channel, "bias"));
    LS_TRY(ls_infer_expect(i, 3, &stat, "mean"));
    LS_TRY(ls_infer_expect(i, 4, &stat, "variance"));
    LS_TRY(expect_like(i, 5, x, "the residual"));
    LS_TRY(expect_relu_or_none(i));
    i->out[0] = *x;
    return LS_OK;
}

static ls_status infer_batch_norm_update(
    ls_infer *i) /* running mean, running variance, tracked, mean, variance, apply? */
{
    const ls_type *t = &i->in[0];
    LS_RULE_CHECK(i, t->ndim == 1 && (t->dtype == LS_F32 || t->dtype == LS_F64),
                  "running statistics are f32 or f64 [C]");
    LS_TRY(ls_infer_expect(i, 1, t, "the running variance"));
    LS_TRY(ls_infer_expect(i, 2, &LS_SCALAR(LS_I64), "the number of batches"));
    LS_TRY(ls_infer_expect(i, 3, t, "the mean"));
    LS_TRY(ls_infer_expect(i, 4, t, "the variance"));
    if (i->n_in > 5 && i->in[5].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 5, &LS_SCALAR(LS_I32), "apply"));
    for (int k = 0; k < 3; k++)
        i->out[k] = i->in[k];
    return LS_OK;
}

static void grad_batch_norm(ls_grad *c) { ls_grad_norm(c, &ls_op_batch_norm_grad); }

/* The gradient with fixed statistics, where the layer is a product and a sum: dx = dy * gain / deviation,
 * dgain = sum of dy * (x - mean) / deviation. */
static void grad_batch_norm_eval(ls_grad *c)
{
    const ls_node *n = c->node;
    ls_graph *g = c->g;
    ls_value dy = c->dout[0], channel[5];
    const ls_type x = ls_value_type(g, n->in[0]), gain = ls_value_type(g, n->in[1]);
    ls_type wide = gain; /* [C, 1, ..] */
    wide.ndim = x.ndim - 1;
    for (int d = 1; d < wide.ndim; d++)
        wide.dims[d] = 1;
    for (int k = 1; k < 5; k++)
        channel[k] = ls_cast(g, ls_reshape_dims(g, n->in[k], wide.ndim, wide.dims), x.dtype);
    const double eps = ((const ls_batch_norm_attrs *)n->attrs)->eps;
    ls_value deviation = ls_sqrt(g, ls_add_const(g, channel[4], eps));
    if (c->needs[0])
        c->din[0] = ls_mul(g, dy, ls_div(g, channel[1], deviation));
    if (c->needs[1]) {
        ls_value hat = ls_div(g, ls_sub(g, n->in[0], channel[3]), deviation);
        c->din[1] = ls_reshape_like(g, ls_sum_like(g, ls_mul(g, dy, hat), channel[1]), n->in[1]);
    }
    if (c->needs[2])
        c->din[2] = ls_reshape_like(g, ls_sum_like(g, dy, channel[2]), n->in[2]);
}

static const char *const ACTS[] = { [LS_ACT_NONE] = "none", [LS_ACT_RELU] = "relu" };
static const ls_attr_field FIELDS[] = { { "eps", LS_FIELD_F64, offsetof(ls_batch_norm_attrs, eps), NULL },
                                        { "act", LS_FIELD_I64, offsetof(ls_batch_norm_attrs, act), ACTS },
                                        { 0 } };
static const ls_attr_field UPDATE_FIELDS[] = {
    { "momentum", LS_FIELD_F64, offsetof(ls_batch_norm_update_attrs, momentum), NULL }, { 0 }
};

const ls_op ls_op_batch_norm = {
    .name = "batch_norm",
    .rule = "b c s!.., c, c, b c s.. -> b c s.., c, c, c; join b",
    .min_in = 3,
    .max_in = 4,
    .n_out = 4,
    .optional_in = 1 << 3,
    .attrs_size = sizeof(ls_batch_norm_attrs),
    .fields = FIELDS,
    .infer = infer_batch_norm,
    .grad = grad_batch_norm,
    .cost = cost_norm,
    .inplace = 1 << 3,
    .summary = "Normalises each channel by the batch's mean and variance: act((x - mean) * rstd * gain + "
               "bias + residual).",
};
const ls_op ls_op_batch_norm_grad = {
    .name = "batch_norm_grad",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 6,
    .n_out = 3,
    .optional_in = 1 << 5,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_batch_norm_attrs),
    .fields = FIELDS,
    .infer = infer_batch_norm_grad,
    .cost = cost_norm,
    .inplace = 1,
    .summary = "Computes the gradients of batch_norm: dx, dgain and dbias.",
};
const ls_op ls_op_batch_norm_eval = {
    .name = "batch_norm_eval",
    .rule = "b c s.., c, c, c, c, b c s.. -> b c s..",
    .min_in = 5,
    .max_in = 6,
    .n_out = 1,
    .optional_in = 1 << 5,
    .attrs_size = sizeof(ls_batch_norm_attrs),
    .fields = FIELDS,
    .infer = infer_batch_norm_eval,
    .grad = grad_batch_norm_eval,
    .cost = cost_norm,
    .inplace = 1 | 1 << 5,
    .summary = "Normalises each channel as batch_norm does, by running statistics.",
};
const ls_op ls_op_batch_norm_update = {
    .name = "batch_norm_update",
    .rule = "c!, c!, ., c!, c!, . -> c!, c!, .",
    .min_in = 5,
    .max_in = 6,
    .n_out = 3,
    .optional_in = 1 << 5,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_batch_norm_update_attrs),
    .fields = UPDATE_FIELDS,
    .infer = infer_batch_norm_update,
    .alias = { 1, 2, 3 },
    .summary = "Moves the running statistics: running += momentum * (batch - running), tracked += 1.",
};

ls_value ls_batch_norm_op(ls_graph *g, ls_value x, ls_value gain, ls_value bias, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_batch_norm, 3, (ls_value[]){ x, gain, bias },
                          &(ls_batch_norm_attrs){ eps, LS_ACT_NONE });
}

ls_value ls_batch_norm_eval(ls_graph *g, ls_value x, ls_value gain, ls_value bias, ls_value mean,
                            ls_value variance, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_batch_norm_eval, 5, (ls_value[]){ x, gain, bias, mean, variance },
                          &(ls_batch_norm_attrs){ eps, LS_ACT_NONE });
}

ls_value ls_batch_norm_update(ls_graph *g, ls_value running_mean, ls_value running_variance, ls_value tracked,
                              ls_value normalized, ls_value apply, double momentum)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_value in[] = {
        running_mean, running_variance, tracked, ls_nth(g, normalized, 1), ls_nth(g, normalized, 3), apply
    };
    return ls_graph_apply(g, &ls_op_batch_norm_update, apply.id ? 6 : 5, in,
                          &(ls_batch_norm_update_attrs){ momentum });
}
