/* optimizers.c - ops of optimizers beside those of update.c: the rate of a group of parameters, Lion (Chen et
 * al. 2023), the moving average of the parameters. As there, what they write is state in place, and with
 * apply = 0 nothing changes. */
#include "device/update_attrs.h"
#include "rules.h"

static bool given(const ls_infer *i, int j) { return j < i->n_in && i->in[j].ndim >= 0; }

static ls_status expect_like(const ls_infer *i, int j, const char *what, bool same_dtype)
{
    ls_type t = i->in[0];
    t.dtype = same_dtype ? t.dtype : i->in[j].dtype;
    LS_RULE_CHECK(i, ls_type_equal(&i->in[j], &t) && ls_dtype_is_float(t.dtype),
                  "%s does not match the parameter", what);
    return LS_OK;
}

static ls_status infer_group_rate(ls_infer *i) /* lr */
{
    LS_TRY(ls_infer_expect(i, 0, &LS_SCALAR(LS_F64), "lr"));
    return ls_infer_same(i);
}

static ls_status infer_lion(ls_infer *i) /* p, g, m, lr, scale?, apply? */
{
    LS_TRY(expect_like(i, 1, "the gradient", false));
    LS_TRY(expect_like(i, 2, "the moment", true));
    LS_TRY(ls_infer_expect(i, 3, &LS_SCALAR(LS_F64), "lr"));
    if (given(i, 4))
        LS_RULE_CHECK(i, i->in[4].ndim == 0 && ls_dtype_is_float(i->in[4].dtype),
                      "scale must be a float scalar");
    if (given(i, 5))
        LS_TRY(ls_infer_expect(i, 5, &LS_SCALAR(LS_I32), "apply"));
    i->out[0] = i->in[0];
    i->out[1] = i->in[2];
    return LS_OK;
}

static ls_status infer_ema(ls_infer *i) /* average, p, step, apply? */
{
    LS_TRY(expect_like(i, 1, "the parameter", true));
    LS_TRY(ls_infer_expect(i, 2, &LS_SCALAR(LS_I64), "step"));
    if (given(i, 3))
        LS_TRY(ls_infer_expect(i, 3, &LS_SCALAR(LS_I32), "apply"));
    return ls_infer_same(i);
}

/* What is read and written in place; `each` operations for an element. */
static ls_cost cost_in_place(const ls_infer *i, double each)
{
    ls_cost c = { .flops = each * (double)ls_type_count(&i->in[0]) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += i->in[k].ndim > 0 ? (double)ls_type_bytes(&i->in[k]) : 0;
    for (int k = 0; k < i->n_out; k++)
        c.bytes += (double)ls_type_bytes(&i->out[k]);
    return c;
}
static ls_cost cost_lion(const ls_infer *i) { return cost_in_place(i, 8); }
static ls_cost cost_ema(const ls_infer *i) { return cost_in_place(i, 3); }

static const ls_attr_field RATE_FIELDS[] = {
    { "factor", LS_FIELD_F64, offsetof(ls_rate_attrs, factor), NULL },
    { 0 },
};
static const ls_attr_field LION_FIELDS[] = {
    { "beta1", LS_FIELD_F64, offsetof(ls_lion_attrs, beta1), NULL },
    { "beta2", LS_FIELD_F64, offsetof(ls_lion_attrs, beta2), NULL },
    { "weight_decay", LS_FIELD_F64, offsetof(ls_lion_attrs, weight_decay), NULL },
    { 0 },
};
static const ls_attr_field EMA_FIELDS[] = {
    { "decay", LS_FIELD_F64, offsetof(ls_ema_attrs, decay), NULL },
    { 0 },
};

const ls_op ls_op_group_rate = {
    .name = "group_rate",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_rate_attrs),
    .fields = RATE_FIELDS,
    .infer = infer_group_rate,
    .summary = "the learning rate of a group of parameters: lr * factor",
};
const ls_op ls_op_lion = {
    .name = "lion",
    .rule = LS_RULE_LATER,
    .min_in = 4,
    .max_in = 6,
    .n_out = 2,
    .optional_in = 1 << 4 | 1 << 5,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_lion_attrs),
    .fields = LION_FIELDS,
    .infer = infer_lion,
    .cost = cost_lion,
    .alias = { 1, 3 },
    .summary = "Lion: the sign of a mean of moment and gradient; decoupled weight decay",
};
const ls_op ls_op_ema = {
    .name = "ema",
    .rule = LS_RULE_LATER,
    .min_in = 3,
    .max_in = 4,
    .n_out = 1,
    .optional_in = 1 << 3,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_ema_attrs),
    .fields = EMA_FIELDS,
    .infer = infer_ema,
    .cost = cost_ema,
    .alias = { 1 },
    .summary = "exponential moving average of parameters: average += (1 - decay) (p - average); p at step 1",
};
