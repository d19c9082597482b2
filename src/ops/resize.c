/* resize.c - NCHW pictures of other sizes, as PyTorch's F.interpolate without antialias. */
#include "rules.h"
#include "base/argument.h"

_Static_assert((int)LS_RESIZE_NEAREST == LS_BY_NEAREST && (int)LS_RESIZE_BILINEAR == LS_BY_CENTRES &&
                   (int)LS_RESIZE_BILINEAR_CORNERS == LS_BY_CORNERS,
               "attributes have the modes by other names");

static ls_status infer_resize(ls_infer *i) /* of the op and of its gradient */
{
    const ls_type *x = &i->in[0];
    const ls_resize_attrs *a = i->attrs;
    LS_RULE_CHECK(i, x->ndim == 4 && ls_dtype_is_float(x->dtype), "needs a float tensor [N, C, H, W]");
    LS_RULE_CHECK(i, a->height > 0 && a->width > 0, "the size %lld x %lld must be positive",
                  (long long)a->height, (long long)a->width);
    LS_RULE_CHECK(i, a->mode >= LS_RESIZE_NEAREST && a->mode <= LS_RESIZE_BILINEAR_CORNERS, "no mode %lld",
                  (long long)a->mode);
    i->out[0] = LS_TYPE(x->dtype, x->dims[0], x->dims[1], a->height, a->width);
    return LS_OK;
}

static ls_cost cost_resize(const ls_infer *i)
{
    const double each = ((const ls_resize_attrs *)i->attrs)->mode == LS_RESIZE_NEAREST ? 1 : 8;
    return (ls_cost){ .flops = each * (double)ls_type_count(&i->out[0]),
                      .bytes = (double)(ls_type_bytes(&i->in[0]) + ls_type_bytes(&i->out[0])) };
}

static void grad_resize(ls_grad *c)
{
    const ls_type x = ls_value_type(c->g, c->node->in[0]);
    ls_resize_attrs a = *(const ls_resize_attrs *)c->node->attrs;
    a.height = x.dims[2];
    a.width = x.dims[3];
    c->din[0] = ls_graph_apply(c->g, &ls_op_resize2d_grad, 1, &c->dout[0], &a);
}

static const ls_attr_field FIELDS[] = { { "height", LS_FIELD_I64, offsetof(ls_resize_attrs, height), NULL },
                                        { "width", LS_FIELD_I64, offsetof(ls_resize_attrs, width), NULL },
                                        { "mode", LS_FIELD_I64, offsetof(ls_resize_attrs, mode), NULL },
                                        { 0 } };

const ls_op ls_op_resize2d = {
    .name = "resize2d",
    .rule = "b c y! x! -> b c u! w!",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_resize_attrs),
    .fields = FIELDS,
    .infer = infer_resize,
    .grad = grad_resize,
    .cost = cost_resize,
    .summary = "Resizes images [N, C, H, W].",
};
const ls_op ls_op_resize2d_grad = {
    .name = "resize2d_grad",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_resize_attrs),
    .fields = FIELDS,
    .infer = infer_resize,
    .cost = cost_resize,
    .summary = "Adds up dy where the elements of the resized image came from.",
};

ls_value ls_resize2d(ls_graph *g, ls_value x, int64_t height, int64_t width, ls_resize mode)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ENUM(g, ls_resize, mode, LS_RESIZE_BILINEAR_CORNERS, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_resize2d, 1, &x,
                          &(ls_resize_attrs){ .height = height, .width = width, .mode = mode });
}
