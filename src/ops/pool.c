/* pool.c - pooling of NCHW pictures: the maximum or the mean of each window. */
#include "rules.h"
#include "base/argument.h"

static ls_cost cost_pool(const ls_infer *i)
{
    ls_cost c = { .flops = (double)(ls_type_count(&i->in[0]) + ls_type_count(&i->out[0])) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += (double)ls_type_bytes(&i->in[k]);
    for (int k = 0; k < i->n_out; k++)
        c.bytes += (double)ls_type_bytes(&i->out[k]);
    return c;
}

static ls_status infer_max_pool2d(ls_infer *i)
{
    const ls_type *x = &i->in[0];
    const ls_max_pool_attrs *a = i->attrs;
    LS_RULE_CHECK(i, x->ndim == 4 && ls_dtype_is_float(x->dtype), "needs float x [N, C, H, W]");
    LS_RULE_CHECK(i, a->kernel_h > 0 && a->kernel_w > 0 && a->stride_h > 0 && a->stride_w > 0,
                  "kernel and stride must be positive");
    LS_RULE_CHECK(
        i, a->pad_h >= 0 && a->pad_w >= 0 && a->pad_h <= a->kernel_h / 2 && a->pad_w <= a->kernel_w / 2,
        "padding must be at most half the kernel"); /* otherwise a window could contain padding only */
    const int64_t h = x->dims[2] + 2 * a->pad_h - a->kernel_h, w = x->dims[3] + 2 * a->pad_w - a->kernel_w;
    LS_RULE_CHECK(i, h >= 0 && w >= 0, "a window of %lld x %lld does not fit", (long long)a->kernel_h,
                  (long long)a->kernel_w);
    i->out[0] = LS_TYPE(x->dtype, x->dims[0], x->dims[1], h / a->stride_h + 1, w / a->stride_w + 1);
    i->out[1] = i->out[0];
    i->out[1].dtype = LS_I32;
    return LS_OK;
}

static ls_status infer_max_pool2d_grad(ls_infer *i) /* dy, where */
{
    const ls_type *dy = &i->in[0];
    const ls_max_pool_attrs *a = i->attrs;
    ls_type where = *dy;
    where.dtype = LS_I32;
    LS_RULE_CHECK(i, dy->ndim == 4 && ls_dtype_is_float(dy->dtype), "needs float dy [N, C, OH, OW]");
    LS_TRY(ls_infer_expect(i, 1, &where, "where"));
    i->out[0] = LS_TYPE(dy->dtype, dy->dims[0], dy->dims[1], a->height, a->width);
    return LS_OK;
}

static void grad_max_pool2d(ls_grad *c)
{
    const ls_type x = ls_value_type(c->g, c->node->in[0]);
    ls_max_pool_attrs a = *(const ls_max_pool_attrs *)c->node->attrs;
    a.height = x.dims[2];
    a.width = x.dims[3];
    c->din[0] = ls_graph_apply(c->g, &ls_op_max_pool2d_grad, 2, (ls_value[]){ c->dout[0], c->node->out[1] },
                               &a);
}

/* For the op and its gradient: the result has the sizes that the attributes give. */
static ls_status infer_avg_pool(ls_infer *i)
{
    const ls_type *x = &i->in[0];
    const ls_avg_pool_attrs *a = i->attrs;
    LS_RULE_CHECK(i, x->ndim == 4 && ls_dtype_is_float(x->dtype), "needs a float tensor [N, C, H, W]");
    LS_RULE_CHECK(i, a->height > 0 && a->width > 0, "the size %lld x %lld must be positive",
                  (long long)a->height, (long long)a->width);
    i->out[0] = LS_TYPE(x->dtype, x->dims[0], x->dims[1], a->height, a->width);
    return LS_OK;
}

static void grad_avg_pool(ls_grad *c)
{
    const ls_type x = ls_value_type(c->g, c->node->in[0]);
    ls_avg_pool_attrs a = *(const ls_avg_pool_attrs *)c->node->attrs;
    a.height = x.dims[2];
    a.width = x.dims[3];
    c->din[0] = ls_graph_apply(c->g, &ls_op_avg_pool2d_grad, 1, &c->dout[0], &a);
}

#define MAX_FIELD(name)                                              \
    {                                                                \
#name, LS_FIELD_I64, offsetof(ls_max_pool_attrs, name), NULL \
    }
static const ls_attr_field MAX_FIELDS[] = { MAX_FIELD(kernel_h), MAX_FIELD(kernel_w), MAX_FIELD(stride_h),
                                            MAX_FIELD(stride_w), MAX_FIELD(pad_h),    MAX_FIELD(pad_w),
                                            MAX_FIELD(height),   MAX_FIELD(width),    { 0 } };
#define AVG_FIELD(name)                                              \
    {                                                                \
#name, LS_FIELD_I64, offsetof(ls_avg_pool_attrs, name), NULL \
    }
static const ls_attr_field AVG_FIELDS[] = {
    AVG_FIELD(height),   AVG_FIELD(width), AVG_FIELD(kernel_h), AVG_FIELD(kernel_w), AVG_FIELD(stride_h),
    AVG_FIELD(stride_w), AVG_FIELD(pad_h), AVG_FIELD(pad_w),    AVG_FIELD(whole),    { 0 }
};

const ls_op ls_op_max_pool2d = {
    .name = "max_pool2d",
    .rule = "b c y! x! -> b c u! w!, b c u w",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .attrs_size = sizeof(ls_max_pool_attrs),
    .fields = MAX_FIELDS,
    .infer = infer_max_pool2d,
    .grad = grad_max_pool2d,
    .cost = cost_pool,
    .summary = "Finds the largest element of each window, and where it was.",
};
const ls_op ls_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_max_pool_attrs),
    .fields = MAX_FIELDS,
    .infer = infer_max_pool2d_grad,
    .cost = cost_pool,
    .summary = "Adds up dy where the largest elements were.",
};
const ls_op ls_op_avg_pool2d = {
    .name = "avg_pool2d",
    .rule = "b c y! x! -> b c u! w!",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_avg_pool_attrs),
    .fields = AVG_FIELDS,
    .infer = infer_avg_pool,
    .grad = grad_avg_pool,
    .cost = cost_pool,
    .summary = "Computes the mean of each window.",
};
const ls_op ls_op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_avg_pool_attrs),
    .fields = AVG_FIELDS,
    .infer = infer_avg_pool,
    .cost = cost_pool,
    .summary = "Spreads dy over its windows.",
};

ls_value ls_max_pool2d(ls_graph *g, ls_value x, const ls_pool_opts *o)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, o, ((ls_value){ .id = -1 }));
    const ls_max_pool_attrs a = { .kernel_h = o->kernel[0],
                                  .kernel_w = o->kernel[1],
                                  .stride_h = o->stride[0],
                                  .stride_w = o->stride[1],
                                  .pad_h = o->padding[0],
                                  .pad_w = o->padding[1] };
    return ls_graph_apply(g, &ls_op_max_pool2d, 1, &x, &a);
}

ls_value ls_adaptive_avg_pool2d(ls_graph *g, ls_value x, int64_t height, int64_t width)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_avg_pool2d, 1, &x,
                          &(ls_avg_pool_attrs){ .height = height, .width = width });
}

ls_value ls_avg_pool2d(ls_graph *g, ls_value x, const ls_pool_opts *o, bool count_include_pad)
{
    const ls_value failed = { .id = -1 };
    LS_ARG_OR(g, failed);
    LS_BUILD_ARG(g, o, failed);
    if (x.id <= 0)
        return failed;
    const ls_type t = ls_value_type(g, x);
    ls_avg_pool_attrs a = { .kernel_h = o->kernel[0],
                            .kernel_w = o->kernel[1],
                            .stride_h = o->stride[0],
                            .stride_w = o->stride[1],
                            .pad_h = o->padding[0],
                            .pad_w = o->padding[1],
                            .whole = count_include_pad };
    int64_t *const sizes[] = { &a.height, &a.width };
    for (int d = 0; d < 2; d++) {
        const int64_t size = t.ndim == 4 ? t.dims[2 + d] : 0;
        if (o->kernel[d] < 1 || o->stride[d] < 1 || o->padding[d] < 0 || 2 * o->padding[d] > o->kernel[d] ||
            size + 2 * o->padding[d] < o->kernel[d]) {
            ls_graph_error(g, LS_E_SHAPE,
                           "avg_pool2d: a window of %lld with stride %lld and padding %lld (at most half the "
                           "window) does not fit x [N, C, H, W] with %lld",
                           (long long)o->kernel[d], (long long)o->stride[d], (long long)o->padding[d],
                           (long long)size);
            return failed;
        }
        *sizes[d] = (size + 2 * o->padding[d] - o->kernel[d]) / o->stride[d] + 1;
    }
    return ls_graph_apply(g, &ls_op_avg_pool2d, 1, &x, &a);
}
