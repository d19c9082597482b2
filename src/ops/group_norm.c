/* group_norm.c - group normalisation (Wu and He 2018) with PyTorch's biased variance: each sample by itself,
 * over the channels of a group and all positions. With one channel a group it is instance normalisation. */
#include "rules.h"
#include "base/argument.h"
#include "graph/tensor_attrs.h"

enum { X, GAIN, BIAS };               /* of group_norm */
enum { DY, OF, DY_GAIN, MEAN, RSTD }; /* of its gradient; OF: x */

static const ls_value FAILED = { .id = -1 };

static ls_status group_norm_check(const ls_infer *i, const ls_type *x, int gain, ls_type *stat)
{
    const int64_t each = ((const ls_group_norm_attrs *)i->attrs)->channels;
    LS_RULE_CHECK(i, x->ndim >= 2 && ls_dtype_is_float(x->dtype), "needs float x [N, C, ..]");
    LS_RULE_CHECK(i, each > 0 && x->dims[1] % each == 0, "groups of %lld of %lld channels", (long long)each,
                  (long long)x->dims[1]);
    *stat = LS_TYPE(ls_stat_dtype(x->dtype), x->dims[0], x->dims[1] / each);
    return ls_infer_expect(i, gain, &LS_TYPE(x->dtype, x->dims[1]), "gain");
}

static ls_status infer_group_norm(ls_infer *i)
{
    ls_type stat;
    LS_TRY(group_norm_check(i, &i->in[X], GAIN, &stat));
    LS_TRY(ls_infer_expect(i, BIAS, &i->in[GAIN], "bias"));
    i->out[0] = i->in[X];
    i->out[1] = i->out[2] = stat;
    return LS_OK;
}

static ls_status infer_group_norm_grad(ls_infer *i)
{
    ls_type stat;
    LS_TRY(group_norm_check(i, &i->in[OF], DY_GAIN, &stat));
    LS_TRY(ls_infer_expect(i, DY, &i->in[OF], "dy"));
    LS_TRY(ls_infer_expect(i, MEAN, &stat, "mean"));
    LS_TRY(ls_infer_expect(i, RSTD, &stat, "rstd"));
    i->out[0] = i->in[OF];
    i->out[1] = i->out[2] = i->in[DY_GAIN];
    return LS_OK;
}

static void grad_group_norm(ls_grad *c) { ls_grad_norm(c, &ls_op_group_norm_grad); }

static ls_cost cost_group_norm(const ls_infer *i)
{
    return (ls_cost){ .flops = 8.0 * (double)ls_type_count(&i->in[0]),
                      .bytes = (double)ls_type_bytes(&i->in[0]) * (i->n_in > 3 ? 3 : 2) };
}

static const ls_attr_field FIELDS[] = { { "channels", LS_FIELD_I64, offsetof(ls_group_norm_attrs, channels),
                                          NULL },
                                        { "eps", LS_FIELD_F64, offsetof(ls_group_norm_attrs, eps), NULL },
                                        { 0 } };
const ls_op ls_op_group_norm = {
    .name = "group_norm",
    .rule = "b c! s..!, c!, c! -> b c! s..!, b g!, b g!",
    .min_in = 3,
    .max_in = 3,
    .n_out = 3,
    .attrs_size = sizeof(ls_group_norm_attrs),
    .fields = FIELDS,
    .infer = infer_group_norm,
    .grad = grad_group_norm,
    .cost = cost_group_norm,
    .summary = "Normalises by groups of channels: (x - mean) * rstd * gain + bias; it keeps mean and rstd.",
};
const ls_op ls_op_group_norm_grad = {
    .name = "group_norm_grad",
    .rule = LS_RULE_LATER,
    .min_in = 5,
    .max_in = 5,
    .n_out = 3,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_group_norm_attrs),
    .fields = FIELDS,
    .infer = infer_group_norm_grad,
    .cost = cost_group_norm,
    .summary = "Computes the gradients of group_norm: dx, dgain and dbias.",
};

ls_value ls_group_norm_op(ls_graph *g, ls_value x, int64_t groups, ls_value gain, ls_value bias, double eps)
{
    LS_ARG_OR(g, FAILED);
    if (x.id <= 0 || gain.id < 0 || bias.id < 0)
        return FAILED;
    const ls_type t = ls_value_type(g, x);
    if (t.ndim < 2 || groups < 1 || t.dims[1] % groups) {
        ls_graph_error(g, LS_E_SHAPE, "group_norm: %lld groups do not divide the channels of x [N, C, ..]%s",
                       (long long)groups, t.ndim < 2 ? ", which has fewer than two dimensions" : "");
        return FAILED;
    }
    const ls_type channels = LS_TYPE(t.dtype, t.dims[1]);
    return ls_graph_apply(g, &ls_op_group_norm, 3,
                          (ls_value[]){ x, ls_present(gain) ? gain : ls_fill(g, channels, 1),
                                        ls_present(bias) ? bias : ls_fill(g, channels, 0) },
                          &(ls_group_norm_attrs){ .channels = t.dims[1] / groups, .eps = eps });
}
