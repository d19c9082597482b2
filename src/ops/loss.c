/* loss.c - softmax, cross-entropy over logits of classes, argmax. The loss is the sum over valid targets
 * divided by `count`, the number of valid targets in the whole optimizer step. `count` is an input, so the
 * loss of a step is never a mean of means.
 *
 * If each rank has a part of the columns (`expand`), a rank computes a few numbers per row from its own
 * columns, called its part. The parts of all ranks, [ranks, rows, ..], give every rank the whole loss or
 * argmax. */
#include "rules.h"
#include "base/argument.h"

static ls_cost cost_rows(const ls_infer *i)
{
    return (ls_cost){ .flops = 6.0 * (double)ls_type_count(&i->in[0]),
                      .bytes = (double)ls_type_bytes(&i->in[0]) *
                               (ls_type_equal(&i->in[0], &i->out[0]) ? 2 : 1) };
}

static ls_status infer_softmax(ls_infer *i)
{
    LS_RULE_CHECK(i, i->in[0].ndim >= 1 && ls_dtype_is_float(i->in[0].dtype), "needs float a [.., C]");
    return ls_infer_same(i);
}

static ls_status infer_softmax_grad(ls_infer *i)
{
    LS_TRY(ls_infer_expect(i, 0, &i->in[1], "dy"));
    return ls_infer_same(i);
}

static void grad_softmax(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_softmax_grad, 2, (ls_value[]){ c->dout[0], c->node->out[0] },
                               NULL);
}

static void grad_log_softmax(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_log_softmax_grad, 2, (ls_value[]){ c->dout[0], c->node->out[0] },
                               NULL);
}

static ls_status infer_cross_entropy(ls_infer *i)
{
    const ls_type *z = &i->in[0];
    LS_RULE_CHECK(i, z->ndim == 2 && ls_dtype_is_float(z->dtype), "needs float logits [rows, classes]");
    ls_dtype stat = ls_stat_dtype(z->dtype);
    LS_TRY(ls_infer_at(i, z));
    LS_TRY(ls_infer_expect(i, 1, &LS_TYPE(LS_I32, z->dims[0]), "labels"));
    if (i->in[2].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 2, &LS_SCALAR(stat), "count"));
    if (i->n_in > 3 && i->in[3].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 3, &LS_TYPE(stat, i->in[3].ndim == 3 ? i->in[3].dims[0] : 1, z->dims[0], 3),
                               "parts"));
    i->out[0] = LS_SCALAR(stat);
    i->out[1] = i->out[2] = LS_TYPE(stat, z->dims[0]);
    return LS_OK;
}

/* logits, labels, lse, count?, dloss: of the loss [], or of its rows [rows] */
static ls_status infer_cross_entropy_grad(ls_infer *i)
{
    const ls_type *z = &i->in[0];
    LS_RULE_CHECK(i, z->ndim == 2, "needs logits [rows, classes]");
    ls_type scalar = LS_SCALAR(ls_stat_dtype(z->dtype));
    LS_TRY(ls_infer_at(i, z));
    LS_TRY(ls_infer_expect(i, 1, &LS_TYPE(LS_I32, z->dims[0]), "labels"));
    LS_TRY(ls_infer_expect(i, 2, &LS_TYPE(scalar.dtype, z->dims[0]), "lse"));
    if (i->in[3].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 3, &scalar, "count"));
    LS_TRY(ls_infer_expect(i, 4, i->in[4].ndim == 1 ? &LS_TYPE(scalar.dtype, z->dims[0]) : &scalar, "dloss"));
    return ls_infer_same(i);
}

static void grad_cross_entropy(ls_grad *c)
{
    const ls_node *n = c->node;
    const bool loss = ls_present(c->dout[0]), rows = ls_present(c->dout[2]);
    if (loss == rows || ls_present(c->dout[1])) {
        ls_graph_error(c->g, LS_E_UNSUPPORTED,
                       "cross_entropy: the loss (output 0) or its rows (output 2) have a gradient");
        return;
    }
    ls_value in[] = { n->in[0], n->in[1], n->out[1], loss ? n->in[2] : LS_NONE, c->dout[loss ? 0 : 2] };
    c->din[0] = ls_graph_apply(c->g, &ls_op_cross_entropy_grad, 5, in, n->attrs);
}

static ls_status infer_cross_entropy_part(ls_infer *i)
{
    const ls_type *z = &i->in[0];
    LS_RULE_CHECK(i, z->ndim == 2 && ls_dtype_is_float(z->dtype), "needs float logits [rows, classes]");
    LS_TRY(ls_infer_at(i, z));
    LS_TRY(ls_infer_expect(i, 1, &LS_TYPE(LS_I32, z->dims[0]), "labels"));
    i->out[0] = LS_TYPE(ls_stat_dtype(z->dtype), z->dims[0], 3);
    return LS_OK;
}

static ls_status infer_argmax_part(ls_infer *i)
{
    const ls_type *a = &i->in[0];
    LS_RULE_CHECK(i, a->ndim >= 1 && ls_dtype_is_float(a->dtype), "needs float a [.., C]");
    LS_TRY(ls_infer_at(i, a));
    const int64_t columns = i->at ? i->at->whole[a->ndim - 1] : a->dims[a->ndim - 1];
    /* parts contain column numbers as floats */
    LS_RULE_CHECK(i, columns <= 1 << 24, "%lld columns: floats count to 2^24", (long long)columns);
    i->out[0] = *a;
    i->out[0].dtype = ls_stat_dtype(a->dtype);
    i->out[0].dims[a->ndim - 1] = 2;
    return LS_OK;
}

static ls_status infer_argmax_join(ls_infer *i)
{
    const ls_type *p = &i->in[0];
    LS_RULE_CHECK(i, p->ndim >= 2 && p->dims[p->ndim - 1] == 2 && ls_dtype_is_float(p->dtype),
                  "needs float parts [ranks, .., 2]");
    i->out[0] = (ls_type){ .dtype = LS_I32, .ndim = p->ndim - 2 };
    for (int d = 0; d < i->out[0].ndim; d++)
        i->out[0].dims[d] = p->dims[d + 1];
    return LS_OK;
}

static ls_status infer_argmax(ls_infer *i)
{
    LS_RULE_CHECK(i, i->in[0].ndim >= 1 && ls_dtype_is_float(i->in[0].dtype), "needs float a [.., C]");
    LS_TRY(ls_infer_at(i, &i->in[0]));
    i->out[0] = ls_type_drop_last(&i->in[0], LS_I32);
    return LS_OK;
}

/* Gathers [rows, k] of this rank to [ranks, rows, k] of all ranks. */
static ls_value of_all(const ls_expansion *e, ls_value part)
{
    ls_graph *g = e->g;
    const ls_type t = ls_value_type(g, part);
    int64_t dims[LS_MAX_DIMS] = { e->ranks };
    for (int d = 0; d < t.ndim; d++)
        dims[d + 1] = t.dims[d];
    const ls_gather_attrs a = {
        .group = e->group, .unit = e->unit, .ranks = e->ranks, .to = t.dtype, .via = t.dtype
    };
    return ls_reshape_dims(g, ls_all_gather(g, ls_reshape_dims(g, part, 1, (int64_t[]){ -1 }), &a),
                           t.ndim + 1, dims);
}

/* Each rank reduces its columns to three numbers per row. All ranks gather these and compute the whole loss.
 * The gradient needs no further communication. */
static ls_status expand_cross_entropy(ls_expansion *e)
{
    ls_value in[4] = { e->in[0], e->in[1], e->in[2] };
    in[3] = of_all(e, ls_graph_apply(e->g, &ls_op_cross_entropy_part, 2, in, e->node->attrs));
    const ls_value loss = ls_graph_apply(e->g, &ls_op_cross_entropy, 4, in, e->node->attrs);
    for (int k = 0; k < e->node->n_out; k++)
        e->out[k] = ls_nth(e->g, loss, k);
    return LS_OK;
}

/* As expand_cross_entropy, with two numbers per row. */
static ls_status expand_argmax(ls_expansion *e)
{
    const ls_value all = of_all(e, ls_graph_apply(e->g, &ls_op_argmax_part, 1, e->in, NULL));
    e->out[0] = ls_graph_apply(e->g, &ls_op_argmax_join, 1, &all, NULL);
    return LS_OK;
}

/* Operand k of row_sum, if it is there, must be of this type. */
static ls_status may_be(const ls_infer *i, int k, const ls_type *t, const char *what)
{
    return k < i->n_in && i->in[k].ndim >= 0 ? ls_infer_expect(i, k, t, what) : LS_OK;
}

/* rows, weights?, real?, divisor? */
static ls_status check_row_sum(const ls_infer *i)
{
    const ls_type *rows = &i->in[0];
    ls_type weights = *rows;
    char text[128];
    LS_RULE_CHECK(i, rows->ndim >= 1, "needs rows [batch, ..], not one number");
    LS_RULE_CHECK(i, rows->dtype == LS_F32 || rows->dtype == LS_F64,
                  "rows are %s, which rounds the loss: compute them between ls_wide_begin and ls_wide_end",
                  ls_type_text(text, rows));
    LS_TRY(ls_infer_at(i, rows));
    if (i->n_in > 1 && i->in[1].dtype == LS_I32)
        weights.dtype = LS_I32;
    LS_TRY(may_be(i, 1, &weights, "weights"));
    LS_TRY(may_be(i, 2, &LS_SCALAR(LS_I32), "real"));
    return may_be(i, 3, &LS_SCALAR(rows->dtype), "divisor");
}

static ls_status infer_row_sum(ls_infer *i)
{
    LS_TRY(check_row_sum(i));
    i->out[0] = LS_SCALAR(i->in[0].dtype);
    return LS_OK;
}

static ls_status infer_row_sum_grad(ls_infer *i) /* rows, weights?, real?, divisor?, dsum */
{
    LS_TRY(check_row_sum(i));
    LS_TRY(ls_infer_expect(i, 4, &LS_SCALAR(i->in[0].dtype), "dsum"));
    return ls_infer_same(i);
}

/* Weights are inputs (passes/objective.c), so nobody asks for their gradient. */
static void grad_row_sum(ls_grad *c)
{
    const ls_node *n = c->node;
    ls_value in[5] = { { 0 } };
    for (int k = 0; k < n->n_in; k++)
        in[k] = n->in[k];
    in[4] = c->dout[0];
    c->din[0] = ls_graph_apply(c->g, &ls_op_row_sum_grad, 5, in, n->attrs);
}

static const ls_attr_field ROW_SUM_FIELDS[] = {
    { "each", LS_FIELD_I64, offsetof(ls_row_sum_attrs, each), NULL },
    { "ignore_index", LS_FIELD_I64, offsetof(ls_row_sum_attrs, ignore_index), NULL },
    { 0 }
};
static const ls_attr_field LOSS_FIELDS[] = {
    { "ignore_index", LS_FIELD_I64, offsetof(ls_loss_attrs, ignore_index), NULL },
    { "smoothing", LS_FIELD_F64, offsetof(ls_loss_attrs, smoothing), NULL },
    { 0 }
};

const ls_op ls_op_softmax = {
    .name = "softmax",
    .rule = "r.. f! -> r.. f",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = infer_softmax,
    .grad = grad_softmax,
    .cost = cost_rows,
    .inplace = 1,
    .summary = "Computes softmax over the last dimension.",
};
const ls_op ls_op_softmax_grad = {
    .name = "softmax_grad",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_softmax_grad,
    .cost = cost_rows,
    .summary = "Computes the gradient of softmax: y * (dy - sum(dy * y)).",
};
const ls_op ls_op_log_softmax = {
    .name = "log_softmax",
    .rule = "r.. f! -> r.. f",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .infer = infer_softmax,
    .grad = grad_log_softmax,
    .cost = cost_rows,
    .inplace = 1,
    .summary = "Computes the logarithm of softmax over the last dimension.",
};
const ls_op ls_op_log_softmax_grad = {
    .name = "log_softmax_grad",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_softmax_grad,
    .cost = cost_rows,
    .summary = "Computes the gradient of log_softmax: dy - exp(y) * sum(dy).",
};
const ls_op ls_op_cross_entropy = {
    .name = "cross_entropy",
    .rule = "@r^ v, r, ., p! r z! -> ., r, r; join v",
    .expand = expand_cross_entropy,
    .min_in = 3,
    .max_in = 4,
    .n_out = 3,
    .flags = LS_OP_AT,
    .optional_in = 1 << 2 | 1 << 3,
    .attrs_size = sizeof(ls_loss_attrs),
    .fields = LOSS_FIELDS,
    .infer = infer_cross_entropy,
    .grad = grad_cross_entropy,
    .cost = cost_rows,
    .summary = "Computes -log softmax(logits)[label] of each row, and their sum over valid rows / count.",
};
const ls_op ls_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 5,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .optional_in = 1 << 3,
    .attrs_size = sizeof(ls_loss_attrs),
    .fields = LOSS_FIELDS,
    .infer = infer_cross_entropy_grad,
    .cost = cost_rows,
    .inplace = 1,
    .summary =
        "Computes the gradient of cross_entropy: (softmax - onehot) * dloss / count, 0 for ignored rows.",
};
const ls_op ls_op_cross_entropy_part = {
    .name = "cross_entropy_part",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .attrs_size = sizeof(ls_loss_attrs),
    .fields = LOSS_FIELDS,
    .infer = infer_cross_entropy_part,
    .cost = cost_rows,
    .summary = "Finds of this rank's columns the largest logit, sum of exp(logit - largest), and the label's "
               "logit or 0.",
};
const ls_op ls_op_argmax_part = {
    .name = "argmax_part",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .infer = infer_argmax_part,
    .cost = cost_rows,
    .summary = "Finds the largest of this rank's columns, and its number.",
};
const ls_op ls_op_argmax_join = {
    .name = "argmax_join",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_argmax_join,
    .cost = cost_rows,
    .summary = "Finds the number of the largest of all ranks' columns, the first of equals.",
};
const ls_op ls_op_argmax = {
    .name = "argmax",
    .rule = "@r..^ v -> r..; join v",
    .expand = expand_argmax,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .infer = infer_argmax,
    .cost = cost_rows,
    .summary = "Finds the number of the largest element of the last dimension, the first of equals.",
};

const ls_op ls_op_row_sum = {
    .name = "row_sum",
    .rule = "@r.., r.., ., . -> .",
    .min_in = 1,
    .max_in = 4,
    .n_out = 1,
    .flags = LS_OP_AT,
    .optional_in = 1 << 1 | 1 << 2 | 1 << 3,
    .attrs_size = sizeof(ls_row_sum_attrs),
    .fields = ROW_SUM_FIELDS,
    .infer = infer_row_sum,
    .grad = grad_row_sum,
    .summary = "Sums the rows of the first `real` samples, weighted (f32) or where valid (i32), / divisor.",
};
const ls_op ls_op_row_sum_grad = {
    .name = "row_sum_grad",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 5,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .optional_in = 1 << 1 | 1 << 2 | 1 << 3,
    .attrs_size = sizeof(ls_row_sum_attrs),
    .fields = ROW_SUM_FIELDS,
    .infer = infer_row_sum_grad,
    .inplace = 1,
    .summary = "Computes the gradient of row_sum: weight * dsum / divisor, 0 for what is not summed.",
};

ls_value ls_softmax(ls_graph *g, ls_value a)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_softmax, 1, &a, NULL);
}
ls_value ls_log_softmax(ls_graph *g, ls_value a)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_log_softmax, 1, &a, NULL);
}
ls_value ls_argmax(ls_graph *g, ls_value a)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_argmax, 1, &a, NULL);
}

ls_value ls_cross_entropy_sum(ls_graph *g, ls_value logits, ls_value labels, ls_value count,
                              const ls_loss_attrs *attrs)
{
    return ls_graph_apply(g, &ls_op_cross_entropy, 3, (ls_value[]){ logits, labels, count }, attrs);
}

ls_value ls_cross_entropy_smooth(ls_graph *g, ls_value logits, ls_value labels, double smoothing)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (!(smoothing >= 0 && smoothing < 1)) {
        ls_graph_error(g, LS_E_ARG, "cross_entropy: smoothing %g is out of range: from 0 to below 1",
                       smoothing);
        return (ls_value){ .id = -1 };
    }
    const ls_loss_attrs attrs = { .ignore_index = LS_IGNORE_LABEL, .smoothing = smoothing };
    return ls_nth(g, ls_cross_entropy_sum(g, logits, labels, LS_NONE, &attrs), 2);
}

ls_value ls_cross_entropy(ls_graph *g, ls_value logits, ls_value labels)
{
    return ls_cross_entropy_smooth(g, logits, labels, 0);
}

ls_value ls_row_sum(ls_graph *g, ls_value rows, ls_value weights, ls_value real, ls_value divisor,
                    int64_t each)
{
    return ls_graph_apply(g, &ls_op_row_sum, 4, (ls_value[]){ rows, weights, real, divisor },
                          &(ls_row_sum_attrs){ .each = each, .ignore_index = LS_IGNORE_LABEL });
}
