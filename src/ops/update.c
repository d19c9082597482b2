/* update.c - ops that write state in place: optimizers, the step counter, the loss scale. Learning rate,
 * scale and whether to apply are data, so the same program serves all steps. With apply = 0, adam and sgd
 * leave everything unchanged (an f16 step that is skipped). Adam: Kingma and Ba 2015; AdamW: Loshchilov and
 * Hutter 2019. Formulas and rounding order are those of PyTorch's single-tensor CPU path. */
#include "rules.h"

static bool update_given(const ls_infer *i, int j) { return j < i->n_in && i->in[j].ndim >= 0; }

static ls_status expect_scalars(const ls_infer *i, int step, int lr, int scale, int apply)
{
    LS_TRY(ls_infer_expect(i, step, &LS_SCALAR(LS_I64), "step"));
    LS_TRY(ls_infer_expect(i, lr, &LS_SCALAR(LS_F64), "lr"));
    if (update_given(i, scale))
        LS_RULE_CHECK(i, i->in[scale].ndim == 0 && ls_dtype_is_float(i->in[scale].dtype),
                      "scale must be a float scalar");
    if (update_given(i, apply))
        LS_TRY(ls_infer_expect(i, apply, &LS_SCALAR(LS_I32), "apply"));
    return LS_OK;
}

static ls_status expect_like_param(const ls_infer *i, int j, const char *what, bool same_dtype)
{
    ls_type t = i->in[0];
    t.dtype = same_dtype ? t.dtype : i->in[j].dtype;
    LS_RULE_CHECK(i, ls_type_equal(&i->in[j], &t) && ls_dtype_is_float(t.dtype),
                  "%s does not match the parameter", what);
    return LS_OK;
}

static ls_status infer_adam(ls_infer *i) /* p, g, m, v, step, lr, scale?, apply?, weights? */
{
    LS_TRY(expect_like_param(i, 1, "the gradient", false));
    LS_TRY(expect_like_param(i, 2, "the first moment", true));
    LS_TRY(expect_like_param(i, 3, "the second moment", true));
    LS_TRY(expect_scalars(i, 4, 5, 6, 7));
    i->out[0] = i->in[0];
    i->out[1] = i->in[2];
    i->out[2] = i->in[3];
    i->n_out = 3;
    if (update_given(i, 8)) {
        LS_TRY(expect_like_param(i, 8, "the weights", false));
        LS_RULE_CHECK(i, ls_dtype_size(i->in[8].dtype) == 2, "the weights must be bf16 or f16");
        i->out[i->n_out++] = i->in[8];
    }
    return LS_OK;
}

static ls_status infer_sgd(ls_infer *i) /* p, g, buf?, step, lr, scale?, apply? */
{
    LS_TRY(expect_like_param(i, 1, "the gradient", false));
    bool momentum = update_given(i, 2);
    LS_RULE_CHECK(i, momentum == (((const ls_sgd_attrs *)i->attrs)->momentum != 0),
                  "momentum needs a buffer, and only then");
    if (momentum)
        LS_TRY(expect_like_param(i, 2, "the momentum buffer", true));
    LS_TRY(expect_scalars(i, 3, 4, 5, 6));
    i->out[0] = i->in[0];
    i->n_out = 1;
    if (momentum)
        i->out[i->n_out++] = i->in[2];
    return LS_OK;
}

static ls_status infer_count_step(ls_infer *i)
{
    LS_TRY(ls_infer_expect(i, 0, &LS_SCALAR(LS_I64), "step"));
    if (update_given(i, 1))
        LS_TRY(ls_infer_expect(i, 1, &LS_SCALAR(LS_I32), "apply"));
    return ls_infer_same(i);
}

static ls_status infer_loss_scale(ls_infer *i)
{
    LS_TRY(ls_infer_expect(i, 0, &LS_SCALAR(LS_F32), "scale"));
    LS_TRY(ls_infer_expect(i, 1, &LS_SCALAR(LS_I32), "the count of good steps"));
    LS_TRY(ls_infer_expect(i, 2, &LS_SCALAR(LS_I32), "apply"));
    i->out[0] = i->in[0];
    i->out[1] = i->in[1];
    return LS_OK;
}

static ls_cost cost_update(const ls_infer *i)
{
    ls_cost c = { .flops = 12.0 * (double)ls_type_count(&i->in[0]) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += i->in[k].ndim > 0 ? (double)ls_type_bytes(&i->in[k]) : 0;
    for (int k = 0; k < i->n_out; k++)
        c.bytes += (double)ls_type_bytes(&i->out[k]);
    return c;
}

static const ls_attr_field ADAM_FIELDS[] = {
    { "beta1", LS_FIELD_F64, offsetof(ls_adam_attrs, beta1), NULL },
    { "beta2", LS_FIELD_F64, offsetof(ls_adam_attrs, beta2), NULL },
    { "eps", LS_FIELD_F64, offsetof(ls_adam_attrs, eps), NULL },
    { "weight_decay", LS_FIELD_F64, offsetof(ls_adam_attrs, weight_decay), NULL },
    { "decoupled", LS_FIELD_I64, offsetof(ls_adam_attrs, decoupled), NULL },
    { 0 },
};
static const ls_attr_field SGD_FIELDS[] = {
    { "momentum", LS_FIELD_F64, offsetof(ls_sgd_attrs, momentum), NULL },
    { "dampening", LS_FIELD_F64, offsetof(ls_sgd_attrs, dampening), NULL },
    { "weight_decay", LS_FIELD_F64, offsetof(ls_sgd_attrs, weight_decay), NULL },
    { "nesterov", LS_FIELD_I64, offsetof(ls_sgd_attrs, nesterov), NULL },
    { 0 },
};
static const ls_attr_field SCALE_FIELDS[] = {
    { "growth", LS_FIELD_F64, offsetof(ls_scale_update_attrs, growth), NULL },
    { "backoff", LS_FIELD_F64, offsetof(ls_scale_update_attrs, backoff), NULL },
    { "interval", LS_FIELD_I64, offsetof(ls_scale_update_attrs, interval), NULL },
    { 0 },
};

#define UPDATE (LS_OP_EFFECT | LS_OP_NO_GRAD)
const ls_op ls_op_count_step = {
    .name = "count_step",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .optional_in = 1 << 1,
    .flags = UPDATE,
    .infer = infer_count_step,
    .alias = { 1 },
    .summary = "Counts the step: step += apply.",
};
const ls_op ls_op_adam = {
    .name = "adam",
    .rule = LS_RULE_LATER,
    .min_in = 6,
    .max_in = 9,
    .n_out = 3,
    .optional_in = 1 << 6 | 1 << 7 | 1 << 8,
    .flags = UPDATE,
    .attrs_size = sizeof(ls_adam_attrs),
    .fields = ADAM_FIELDS,
    .infer = infer_adam,
    .cost = cost_update,
    .alias = { 1, 3, 4, 9 },
    .summary = "Updates parameters by Adam or AdamW, and writes the weights that the next step uses.",
};
const ls_op ls_op_sgd = {
    .name = "sgd",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 7,
    .n_out = 1,
    .optional_in = 1 << 2 | 1 << 5 | 1 << 6,
    .flags = UPDATE,
    .attrs_size = sizeof(ls_sgd_attrs),
    .fields = SGD_FIELDS,
    .infer = infer_sgd,
    .cost = cost_update,
    .alias = { 1, 3 },
    .summary = "Updates parameters by SGD, with momentum, Nesterov and weight decay.",
};
const ls_op ls_op_loss_scale_update = {
    .name = "loss_scale_update",
    .rule = LS_RULE_LATER,
    .min_in = 3,
    .max_in = 3,
    .n_out = 2,
    .flags = UPDATE,
    .attrs_size = sizeof(ls_scale_update_attrs),
    .fields = SCALE_FIELDS,
    .infer = infer_loss_scale,
    .alias = { 1, 2 },
    .summary = "Moves the loss scale: it grows after `interval` good steps, and shrinks after an overflow.",
};
