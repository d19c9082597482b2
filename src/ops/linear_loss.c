/* linear_loss.c - linear and cross_entropy in one op, with their gradients. The logits are never whole: they
 * exist for a few rows at a time. passes/join_loss.c makes it of the separate ops. Its results have their
 * bits. */
#include "linear_loss.h"

enum { X, W, LABELS, BIAS, COUNT, DLOSS };

static bool linear_loss_given(const ls_infer *i, int k) { return k < i->n_in && i->in[k].ndim >= 0; }

static ls_status infer_linear_loss(ls_infer *i)
{
    const ls_type *x = &i->in[X], *w = &i->in[W];
    const ls_linear_loss_attrs *a = i->attrs;
    LS_RULE_CHECK(i, x->ndim == 2 && w->ndim == 2, "needs x [rows, K] and w [classes, K]");
    LS_RULE_CHECK(i, ls_dtype_is_float(x->dtype) && x->dtype == w->dtype && x->dims[1] == w->dims[1],
                  "x and w differ in type or features");
    LS_RULE_CHECK(i, a->rows > 0 && a->rows % LS_LOSS_BLOCK == 0, "%lld rows at a time", (long long)a->rows);
    const ls_dtype stat = ls_stat_dtype(x->dtype);
    const ls_type rows = LS_TYPE(stat, x->dims[0]);
    LS_TRY(ls_infer_expect(i, LABELS, &LS_TYPE(LS_I32, x->dims[0]), "labels"));
    if (linear_loss_given(i, BIAS))
        LS_TRY(ls_infer_expect(i, BIAS, &LS_TYPE(x->dtype, w->dims[0]), "bias"));
    if (linear_loss_given(i, COUNT))
        LS_TRY(ls_infer_expect(i, COUNT, &LS_SCALAR(stat), "count"));
    LS_RULE_CHECK(i, linear_loss_given(i, DLOSS) == (a->dx || a->dw), "dloss is for the gradients");
    if (linear_loss_given(i, DLOSS))
        LS_TRY(ls_infer_expect(i, DLOSS, i->in[DLOSS].ndim ? &rows : &LS_SCALAR(stat), "dloss"));
    i->out[0] = LS_SCALAR(stat);
    i->out[1] = rows;
    i->n_out = 2;
    if (a->top)
        i->out[i->n_out++] = LS_TYPE(LS_I32, x->dims[0]);
    if (a->dx)
        i->out[i->n_out++] = *x;
    LS_RULE_CHECK(i, !a->dw || i->n_out < LS_MAX_OUT, "too many results");
    if (a->dw)
        i->out[i->n_out++] = *w;
    return LS_OK;
}

static ls_cost cost_linear_loss(const ls_infer *i) /* as if each row had a target */
{
    const ls_linear_loss_attrs *a = i->attrs;
    const double logits = (double)i->in[X].dims[0] * (double)i->in[W].dims[0];
    ls_cost c = { .flops = logits * (2.0 * (double)i->in[X].dims[1] * (double)(1 + a->dx + a->dw) + 12.0) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += i->in[k].ndim >= 0 ? (double)ls_type_bytes(&i->in[k]) : 0;
    for (int k = 0; k < i->n_out; k++)
        c.bytes += (double)ls_type_bytes(&i->out[k]);
    return c;
}

static const ls_attr_field LINEAR_LOSS_FIELDS[] = {
    { "ignore_index", LS_FIELD_I64, offsetof(ls_linear_loss_attrs, ignore_index), NULL },
    { "smoothing", LS_FIELD_F64, offsetof(ls_linear_loss_attrs, smoothing), NULL },
    { "rows", LS_FIELD_I64, offsetof(ls_linear_loss_attrs, rows), NULL },
    { "top", LS_FIELD_I64, offsetof(ls_linear_loss_attrs, top), NULL },
    { "dx", LS_FIELD_I64, offsetof(ls_linear_loss_attrs, dx), NULL },
    { "dw", LS_FIELD_I64, offsetof(ls_linear_loss_attrs, dw), NULL },
    { 0 }
};

const ls_op ls_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .rule = LS_RULE_LATER,
    .min_in = 3,
    .max_in = 6,
    .n_out = 2,
    .flags = LS_OP_NO_GRAD,
    .optional_in = 1 << BIAS | 1 << COUNT | 1 << DLOSS,
    .attrs_size = sizeof(ls_linear_loss_attrs),
    .fields = LINEAR_LOSS_FIELDS,
    .infer = infer_linear_loss,
    .cost = cost_linear_loss,
    .summary = "Computes the cross-entropy of a linear's result, and gradients, with the logits of some rows "
               "at a time.",
};
