/* conv.c - convolution of pictures, NCHW, and its gradients: y = conv2d(x, w) + b, as PyTorch's F.conv2d.
 * conv2d_dx is the transposed convolution too (conv_builders.c), so it has a gradient and a rule. */
#include "rules.h"

static int64_t reach(int64_t kernel, int64_t dilation) { return (kernel - 1) * dilation + 1; }

/* The size of the result for pictures of h x w and a kernel of kh x kw. */
static ls_status result_size(const ls_infer *i, int64_t h, int64_t w, int64_t kh, int64_t kw, int64_t *oh,
                             int64_t *ow)
{
    const ls_conv_attrs *a = i->attrs;
    LS_RULE_CHECK(i,
                  a->stride_h > 0 && a->stride_w > 0 && a->dilation_h > 0 && a->dilation_w > 0 &&
                      a->pad_h >= 0 && a->pad_w >= 0,
                  "stride and dilation must be positive, padding not negative");
    LS_RULE_CHECK(i,
                  kh > 0 && kw > 0 && h + 2 * a->pad_h >= reach(kh, a->dilation_h) &&
                      w + 2 * a->pad_w >= reach(kw, a->dilation_w),
                  "a kernel of %lld x %lld, dilated, does not fit pictures of %lld x %lld, padded",
                  (long long)kh, (long long)kw, (long long)h, (long long)w);
    *oh = (h + 2 * a->pad_h - reach(kh, a->dilation_h)) / a->stride_h + 1;
    *ow = (w + 2 * a->pad_w - reach(kw, a->dilation_w)) / a->stride_w + 1;
    return LS_OK;
}

static ls_status expect_groups(const ls_infer *i, int64_t channels, int64_t per_group, int64_t out)
{
    const int64_t groups = ((const ls_conv_attrs *)i->attrs)->groups;
    LS_RULE_CHECK(i, groups > 0 && out % groups == 0, "%lld groups do not divide %lld output channels",
                  (long long)groups, (long long)out);
    LS_RULE_CHECK(i, channels == per_group * groups, "the picture has %lld channels, the kernel wants %lld",
                  (long long)channels, (long long)(per_group * groups));
    return LS_OK;
}

static ls_status infer_conv2d(ls_infer *i) /* x, w, bias? */
{
    const ls_type *x = &i->in[0], *w = &i->in[1];
    int64_t oh, ow;
    LS_RULE_CHECK(i, x->ndim == 4 && w->ndim == 4 && ls_dtype_is_float(x->dtype) && x->dtype == w->dtype,
                  "needs x [N, C, H, W] and w [O, C/groups, KH, KW] of one float type");
    LS_TRY(expect_groups(i, x->dims[1], w->dims[1], w->dims[0]));
    LS_TRY(result_size(i, x->dims[2], x->dims[3], w->dims[2], w->dims[3], &oh, &ow));
    if (i->n_in > 2 && i->in[2].ndim >= 0)
        LS_TRY(ls_infer_expect(i, 2, &LS_TYPE(x->dtype, w->dims[0]), "bias"));
    i->out[0] = LS_TYPE(x->dtype, x->dims[0], w->dims[0], oh, ow);
    return LS_OK;
}

static ls_status infer_conv2d_dx(ls_infer *i) /* dy, w */
{
    const ls_type *dy = &i->in[0], *w = &i->in[1];
    const ls_conv_attrs *a = i->attrs;
    int64_t oh, ow;
    LS_RULE_CHECK(i, dy->ndim == 4 && w->ndim == 4 && dy->dtype == w->dtype,
                  "needs dy [N, O, OH, OW] and w [O, C/groups, KH, KW] of one type");
    LS_RULE_CHECK(i, a->height > 0 && a->width > 0, "the result would be %lld x %lld: too much padding",
                  (long long)a->height, (long long)a->width);
    LS_TRY(expect_groups(i, w->dims[1] * a->groups, w->dims[1], w->dims[0]));
    LS_TRY(result_size(i, a->height, a->width, w->dims[2], w->dims[3], &oh, &ow));
    LS_RULE_CHECK(i, dy->dims[1] == w->dims[0] && dy->dims[2] == oh && dy->dims[3] == ow,
                  "dy is not the size of the result");
    i->out[0] = LS_TYPE(dy->dtype, dy->dims[0], w->dims[1] * a->groups, a->height, a->width);
    return LS_OK;
}

static ls_status infer_conv2d_dw(ls_infer *i) /* dy, x */
{
    const ls_type *dy = &i->in[0], *x = &i->in[1];
    const ls_conv_attrs *a = i->attrs;
    int64_t oh, ow;
    LS_RULE_CHECK(i, dy->ndim == 4 && x->ndim == 4 && dy->dtype == x->dtype && dy->dims[0] == x->dims[0],
                  "needs dy [N, O, OH, OW] and x [N, C, H, W] of one type");
    LS_RULE_CHECK(i, a->groups > 0 && x->dims[1] % a->groups == 0, "%lld groups do not divide %lld channels",
                  (long long)a->groups, (long long)x->dims[1]);
    LS_TRY(expect_groups(i, x->dims[1], x->dims[1] / a->groups, dy->dims[1]));
    LS_TRY(result_size(i, x->dims[2], x->dims[3], a->height, a->width, &oh, &ow));
    LS_RULE_CHECK(i, dy->dims[2] == oh && dy->dims[3] == ow, "dy is not the size of the result");
    i->out[0] = LS_TYPE(x->dtype, dy->dims[1], x->dims[1] / a->groups, a->height, a->width);
    i->n_out = 1;
    if (a->bias)
        i->out[i->n_out++] = LS_TYPE(x->dtype, dy->dims[1]);
    return LS_OK;
}

/* Counts products as is usual: products with the padding's zeros count too. `y`: the type of the smaller
 * pictures; `w`: the kernel's. */
static ls_cost cost(const ls_infer *i, const ls_type *y, const ls_type *w)
{
    const double per_result = 2.0 * (double)(w->dims[1] * w->dims[2] * w->dims[3]);
    ls_cost c = { .flops = per_result * (double)ls_type_count(y) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += i->in[k].ndim >= 0 ? (double)ls_type_bytes(&i->in[k]) : 0;
    for (int k = 0; k < i->n_out; k++)
        c.bytes += (double)ls_type_bytes(&i->out[k]);
    return c;
}
static ls_cost cost_conv2d(const ls_infer *i) { return cost(i, &i->out[0], &i->in[1]); }
static ls_cost cost_conv2d_dx(const ls_infer *i) { return cost(i, &i->in[0], &i->in[1]); }
static ls_cost cost_conv2d_dw(const ls_infer *i) { return cost(i, &i->in[0], &i->out[0]); }

static void grad_conv2d(ls_grad *c)
{
    const ls_node *n = c->node;
    const ls_type x = ls_value_type(c->g, n->in[0]), w = ls_value_type(c->g, n->in[1]);
    const bool bias = n->n_in > 2 && ls_present(n->in[2]) && c->needs[2];
    ls_conv_attrs a = *(const ls_conv_attrs *)n->attrs;
    if (c->needs[0]) { /* (before dw, for the reason given in linear.c) */
        a.height = x.dims[2];
        a.width = x.dims[3];
        a.bias = 0;
        c->din[0] = ls_graph_apply(c->g, &ls_op_conv2d_dx, 2, (ls_value[]){ c->dout[0], n->in[1] }, &a);
    }
    if (c->needs[1] || bias) {
        a.height = w.dims[2];
        a.width = w.dims[3];
        a.bias = bias;
        c->din[1] = ls_graph_apply(c->g, &ls_op_conv2d_dw, 2, (ls_value[]){ c->dout[0], n->in[0] }, &a);
        if (bias)
            c->din[2] = ls_nth(c->g, c->din[1], 1);
    }
}

/* dx is linear in dy and in w: conv2d is its transpose. */
static void grad_conv2d_dx(ls_grad *c) /* dy, w */
{
    const ls_node *n = c->node;
    const ls_type w = ls_value_type(c->g, n->in[1]);
    ls_conv_attrs a = *(const ls_conv_attrs *)n->attrs;
    a.height = a.width = 0;
    if (c->needs[0])
        c->din[0] = ls_graph_apply(c->g, &ls_op_conv2d, 2, (ls_value[]){ c->dout[0], n->in[1] }, &a);
    if (c->needs[1]) {
        a.height = w.dims[2];
        a.width = w.dims[3];
        c->din[1] = ls_graph_apply(c->g, &ls_op_conv2d_dw, 2, (ls_value[]){ n->in[0], c->dout[0] }, &a);
    }
}

static ls_status dims_conv2d(ls_rule *r, const ls_infer *i)
{
    if (((const ls_conv_attrs *)i->attrs)->groups > 1) {
        ls_rule_fix(r, 'c');
        ls_rule_fix(r, 'o');
    }
    return LS_OK;
}

#define FIELD(name)                                              \
    {                                                            \
#name, LS_FIELD_I64, offsetof(ls_conv_attrs, name), NULL \
    }
static const ls_attr_field FIELDS[] = { FIELD(stride_h),   FIELD(stride_w),   FIELD(pad_h),  FIELD(pad_w),
                                        FIELD(dilation_h), FIELD(dilation_w), FIELD(groups), FIELD(height),
                                        FIELD(width),      FIELD(bias),       { 0 } };

const ls_op ls_op_conv2d = {
    .name = "conv2d",
    .rule = "b c y! x!, o c i! j!, +o -> b o u! w!",
    .dims = dims_conv2d,
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .optional_in = 1 << 2,
    .attrs_size = sizeof(ls_conv_attrs),
    .fields = FIELDS,
    .infer = infer_conv2d,
    .grad = grad_conv2d,
    .cost = cost_conv2d,
    .summary = "Convolves images [N, C, H, W] with a kernel, and adds a bias.",
};
const ls_op ls_op_conv2d_dx = {
    .name = "conv2d_dx",
    .rule = "b o u! w!, o c i! j! -> b c y! x!",
    .dims = dims_conv2d,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attrs_size = sizeof(ls_conv_attrs),
    .fields = FIELDS,
    .infer = infer_conv2d_dx,
    .grad = grad_conv2d_dx,
    .cost = cost_conv2d_dx,
    .summary = "Computes the gradient of conv2d for the image; also computes a transposed convolution.",
};
const ls_op ls_op_conv2d_dw = {
    .name = "conv2d_dw",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_conv_attrs),
    .fields = FIELDS,
    .infer = infer_conv2d_dw,
    .cost = cost_conv2d_dw,
    .summary =
        "Computes the gradient of conv2d for the kernel, and the sums of dy over each channel, for the bias.",
};
