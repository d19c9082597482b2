/* optimizers.c - ops of optimizers beside those of update.c: the rate of a group of parameters, Lion (Chen et
 * al. 2023), Muon (Jordan et al. 2024), Adafactor (Shazeer and Stern 2018), the moving average of the
 * parameters. As there, what they write is state in place, and with
 * apply = 0 nothing changes. */
#include "graph/update_attrs.h"
#include "rules.h"

static bool optimizers_given(const ls_infer *i, int j) { return j < i->n_in && i->in[j].ndim >= 0; }

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
    if (optimizers_given(i, 4))
        LS_RULE_CHECK(i, i->in[4].ndim == 0 && ls_dtype_is_float(i->in[4].dtype),
                      "scale must be a float scalar");
    if (optimizers_given(i, 5))
        LS_TRY(ls_infer_expect(i, 5, &LS_SCALAR(LS_I32), "apply"));
    i->out[0] = i->in[0];
    i->out[1] = i->in[2];
    return LS_OK;
}

static ls_status infer_ema(ls_infer *i) /* average, p, step, apply? */
{
    LS_TRY(expect_like(i, 1, "the parameter", true));
    LS_TRY(ls_infer_expect(i, 2, &LS_SCALAR(LS_I64), "step"));
    if (optimizers_given(i, 3))
        LS_TRY(ls_infer_expect(i, 3, &LS_SCALAR(LS_I32), "apply"));
    return ls_infer_same(i);
}

static ls_status infer_muon_momentum(ls_infer *i) /* g, buf, scale?, apply? -> u, buf */
{
    i->out[0] = i->out[1] = i->in[1];
    LS_RULE_CHECK(i,
                  ls_type_count(&i->in[0]) == ls_type_count(&i->in[1]) && ls_dtype_is_float(i->in[0].dtype),
                  "the gradient does not match the momentum buffer");
    if (optimizers_given(i, 3))
        LS_TRY(ls_infer_expect(i, 3, &LS_SCALAR(LS_I32), "apply"));
    return LS_OK;
}

/* Whether elements [offset, offset + n) lie in a unit of `whole`, of which p is a part that begins at first.
 */
static ls_status expect_inside(const ls_infer *i, const ls_type *whole, int64_t offset, int64_t n,
                               int64_t first)
{
    LS_RULE_CHECK(i, i->in[0].ndim == 1 && whole->ndim == 1, "units are flat");
    LS_RULE_CHECK(i,
                  n > 0 && offset >= 0 && offset + n <= whole->dims[0] && first >= 0 &&
                      first + i->in[0].dims[0] <= whole->dims[0],
                  "a parameter outside its unit");
    return LS_OK;
}

static ls_status infer_muon(ls_infer *i) /* p, u, lr, apply? -> p */
{
    const ls_muon_attrs *a = i->attrs;
    LS_TRY(expect_inside(i, &i->in[1], a->offset, a->rows * a->cols, a->first));
    LS_RULE_CHECK(i, i->in[1].dtype == i->in[0].dtype, "the momentum has another type than the parameter");
    LS_TRY(ls_infer_expect(i, 2, &LS_SCALAR(LS_F64), "lr"));
    if (optimizers_given(i, 3))
        LS_TRY(ls_infer_expect(i, 3, &LS_SCALAR(LS_I32), "apply"));
    return ls_infer_same(i);
}

static ls_cost cost_muon(const ls_infer *i)
{
    const ls_muon_attrs *a = i->attrs;
    const double m = (double)(a->rows < a->cols ? a->rows : a->cols), n = (double)a->rows * (double)a->cols;
    return (ls_cost){ .flops = LS_MUON_STEPS * (4 * m * n + 2 * m * m * m),
                      .bytes = 12 * n + LS_MUON_STEPS * 16 * n };
}

static ls_status infer_adafactor(ls_infer *i) /* p, g, whole p?, row, col?, lr, step, scale?, apply? */
{
    const ls_adafactor_attrs *a = i->attrs;
    const int64_t n = a->batch * a->rows * (a->cols ? a->cols : 1);
    LS_TRY(expect_inside(i, &i->in[1], a->offset, n, a->first));
    if (optimizers_given(i, 2))
        LS_RULE_CHECK(i, i->in[2].dims[0] == i->in[1].dims[0] && i->in[2].dtype == i->in[0].dtype,
                      "the whole parameters are those of another unit");
    LS_RULE_CHECK(i, ls_type_count(&i->in[3]) == a->batch * a->rows && i->in[3].dtype == i->in[0].dtype,
                  "the moment of the rows does not match");
    LS_RULE_CHECK(i, optimizers_given(i, 4) == (a->cols > 0),
                  "matrices have a moment of the columns, and only they");
    if (optimizers_given(i, 4))
        LS_RULE_CHECK(i, ls_type_count(&i->in[4]) == a->batch * a->cols && i->in[4].dtype == i->in[0].dtype,
                      "the moment of the columns does not match");
    LS_TRY(ls_infer_expect(i, 5, &LS_SCALAR(LS_F64), "lr"));
    LS_TRY(ls_infer_expect(i, 6, &LS_SCALAR(LS_I64), "step"));
    if (optimizers_given(i, 8))
        LS_TRY(ls_infer_expect(i, 8, &LS_SCALAR(LS_I32), "apply"));
    i->out[0] = i->in[0];
    i->out[1] = i->in[3];
    i->n_out = 2;
    if (optimizers_given(i, 4))
        i->out[i->n_out++] = i->in[4];
    return LS_OK;
}

static ls_cost cost_adafactor(const ls_infer *i)
{
    const ls_adafactor_attrs *a = i->attrs;
    const double n = (double)a->batch * (double)a->rows * (double)(a->cols ? a->cols : 1);
    return (ls_cost){ .flops = 14 * n, .bytes = 24 * n };
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
static const ls_attr_field MOMENTUM_FIELDS[] = {
    { "momentum", LS_FIELD_F64, offsetof(ls_muon_momentum_attrs, momentum), NULL },
    { 0 },
};
static const ls_attr_field MUON_FIELDS[] = {
    { "offset", LS_FIELD_I64, offsetof(ls_muon_attrs, offset), NULL },
    { "rows", LS_FIELD_I64, offsetof(ls_muon_attrs, rows), NULL },
    { "cols", LS_FIELD_I64, offsetof(ls_muon_attrs, cols), NULL },
    { "first", LS_FIELD_I64, offsetof(ls_muon_attrs, first), NULL },
    { "weight_decay", LS_FIELD_F64, offsetof(ls_muon_attrs, weight_decay), NULL },
    { "ratio", LS_FIELD_F64, offsetof(ls_muon_attrs, ratio), NULL },
    { 0 },
};
static const ls_attr_field ADAFACTOR_FIELDS[] = {
    { "offset", LS_FIELD_I64, offsetof(ls_adafactor_attrs, offset), NULL },
    { "batch", LS_FIELD_I64, offsetof(ls_adafactor_attrs, batch), NULL },
    { "rows", LS_FIELD_I64, offsetof(ls_adafactor_attrs, rows), NULL },
    { "cols", LS_FIELD_I64, offsetof(ls_adafactor_attrs, cols), NULL },
    { "first", LS_FIELD_I64, offsetof(ls_adafactor_attrs, first), NULL },
    { "scale_parameter", LS_FIELD_I64, offsetof(ls_adafactor_attrs, scale_parameter), NULL },
    { "relative_step", LS_FIELD_I64, offsetof(ls_adafactor_attrs, relative_step), NULL },
    { "warmup_init", LS_FIELD_I64, offsetof(ls_adafactor_attrs, warmup_init), NULL },
    { "clip_threshold", LS_FIELD_F64, offsetof(ls_adafactor_attrs, clip_threshold), NULL },
    { "decay_rate", LS_FIELD_F64, offsetof(ls_adafactor_attrs, decay_rate), NULL },
    { "min_scale", LS_FIELD_F64, offsetof(ls_adafactor_attrs, min_scale), NULL },
    { "weight_decay", LS_FIELD_F64, offsetof(ls_adafactor_attrs, weight_decay), NULL },
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
    .summary = "Computes the learning rate of a group of parameters: lr * factor.",
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
    .summary =
        "Updates parameters by Lion: the sign of a mean of moment and gradient, with decoupled weight decay.",
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
    .summary = "Moves the average of parameters: average += (1 - decay) * (p - average); it is p at step 1.",
};
const ls_op ls_op_muon_momentum = {
    .name = "muon_momentum",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 4,
    .n_out = 2,
    .optional_in = 1 << 2 | 1 << 3,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_muon_momentum_attrs),
    .fields = MOMENTUM_FIELDS,
    .infer = infer_muon_momentum,
    .alias = { 0, 2 },
    .summary = "Computes Muon's Nesterov momentum of a unit: what is made orthogonal, and the buffer.",
};
const ls_op ls_op_muon = {
    .name = "muon",
    .rule = LS_RULE_LATER,
    .min_in = 3,
    .max_in = 4,
    .n_out = 1,
    .optional_in = 1 << 3,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_muon_attrs),
    .fields = MUON_FIELDS,
    .infer = infer_muon,
    .cost = cost_muon,
    .alias = { 1 },
    .summary = "Updates a matrix by Muon: along its momentum, made orthogonal by Newton-Schulz, with "
               "decoupled decay.",
};
const ls_op ls_op_adafactor = {
    .name = "adafactor",
    .rule = LS_RULE_LATER,
    .min_in = 7,
    .max_in = 9,
    .n_out = 2,
    .optional_in = 1 << 2 | 1 << 4 | 1 << 7 | 1 << 8,
    .flags = LS_OP_EFFECT | LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_adafactor_attrs),
    .fields = ADAFACTOR_FIELDS,
    .infer = infer_adafactor,
    .cost = cost_adafactor,
    .alias = { 1, 4, 5 },
    .summary = "Updates one parameter by Adafactor, with second moments of rows and columns.",
};
