/* reduce.c - the gradient norm as an exact integer sum, which does not depend on how tensors are split
 * (docs/ops.md). max_abs gives the largest absolute value, over all ranks. From it follows a fixed-point
 * unit; each square is rounded to it, and squares are added as integers. */
#include "rules.h"

static ls_cost cost_reduce(const ls_infer *i)
{
    ls_cost c = { 0 };
    for (int k = 0; k < i->n_in; k++) {
        c.flops += (double)ls_type_count(&i->in[k]);
        c.bytes += (double)ls_type_bytes(&i->in[k]);
    }
    return c;
}

static bool scalar_float(const ls_type *t)
{
    return t->ndim == 0 && (t->dtype == LS_F32 || t->dtype == LS_F64);
}

static ls_status infer_max_abs(ls_infer *i)
{
    for (int k = 0; k < i->n_in; k++)
        LS_RULE_CHECK(i, ls_dtype_is_float(i->in[k].dtype), "needs float tensors");
    i->out[0] = LS_SCALAR(ls_stat_dtype(i->in[0].dtype));
    return LS_OK;
}

static ls_status infer_sum_squares(ls_infer *i)
{
    LS_RULE_CHECK(i, scalar_float(&i->in[0]), "operand 0 is the largest absolute value, a scalar");
    for (int k = 1; k < i->n_in; k++)
        LS_RULE_CHECK(i, ls_dtype_is_float(i->in[k].dtype), "needs float tensors");
    i->out[0] = LS_TYPE(LS_I64, 2);
    return LS_OK;
}

static ls_status infer_norm(ls_infer *i)
{
    LS_RULE_CHECK(i, scalar_float(&i->in[0]), "operand 0 is the largest absolute value, a scalar");
    LS_TRY(ls_infer_expect(i, 1, &LS_TYPE(LS_I64, 2), "the sum of squares"));
    i->out[0] = i->in[0];
    return LS_OK;
}

static ls_status infer_is_finite(ls_infer *i)
{
    LS_RULE_CHECK(i, scalar_float(&i->in[0]), "needs a float scalar");
    i->out[0] = LS_SCALAR(LS_I32);
    return LS_OK;
}

const ls_op ls_op_max_abs = {
    .name = "max_abs",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = -1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_max_abs,
    .cost = cost_reduce,
    .summary = "Finds the largest absolute value of all tensors: NaN if there is one.",
};
const ls_op ls_op_sum_squares = {
    .name = "sum_squares",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = -1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_sum_squares,
    .cost = cost_reduce,
    .summary = "Sums squares as a 128-bit fixed-point integer: exact, so in any order.",
};
const ls_op ls_op_norm_from_squares = {
    .name = "norm_from_squares",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_norm,
    .summary = "Computes the norm: the square root of the result of sum_squares.",
};
const ls_op ls_op_is_finite = {
    .name = "is_finite",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_is_finite,
    .summary = "Tells whether a number is finite: 1 or 0.",
};
