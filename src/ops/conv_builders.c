/* conv_builders.c - convolutions as builder calls on the ops of conv.c: one and three dimensions, transposed
 * ones. */
#include "rules.h"
#include "base/argument.h"

static const ls_value FAILED = { .id = -1 };
static const ls_conv_opts DEFAULTS = { LS_CONV_DEFAULTS };

static ls_conv_attrs attrs_of(const ls_conv_opts *o)
{
    return (ls_conv_attrs){ .stride_h = o->stride[0],
                            .stride_w = o->stride[1],
                            .pad_h = o->padding[0],
                            .pad_w = o->padding[1],
                            .dilation_h = o->dilation[0],
                            .dilation_w = o->dilation[1],
                            .groups = o->groups };
}

/* Whether x and w have `ndim` dimensions. Reports it if they are valid values with other dimensions. */
static bool expect_dims(ls_graph *g, const char *call, ls_value x, ls_value w, int ndim, const char *shapes)
{
    if (x.id <= 0 || w.id <= 0)
        return false;
    const ls_type tx = ls_value_type(g, x), tw = ls_value_type(g, w);
    if (tx.ndim == ndim && tw.ndim == ndim)
        return true;
    ls_graph_error(g, LS_E_SHAPE, "%s: needs %s; got %d and %d dimensions", call, shapes, tx.ndim, tw.ndim);
    return false;
}

ls_value ls_conv2d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o)
{
    LS_ARG_OR(g, FAILED);
    o = o ? o : &DEFAULTS;
    if (o->output_padding[0] || o->output_padding[1]) {
        ls_graph_error(g, LS_E_SHAPE, "conv2d: output_padding is an option of transposed convolutions");
        return FAILED;
    }
    const ls_conv_attrs a = attrs_of(o);
    return ls_graph_apply(g, &ls_op_conv2d, ls_present(b) || b.id < 0 ? 3 : 2, (ls_value[]){ x, w, b }, &a);
}

/* The size of a transposed convolution's result, in one dimension. */
static int64_t grown(int64_t size, int64_t kernel, const ls_conv_opts *o, int d)
{
    return (size - 1) * o->stride[d] - 2 * o->padding[d] + o->dilation[d] * (kernel - 1) +
           o->output_padding[d] + 1;
}

ls_value ls_conv_transpose2d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o)
{
    LS_ARG_OR(g, FAILED);
    o = o ? o : &DEFAULTS;
    if (!expect_dims(g, "conv_transpose2d", x, w, 4, "x [N, C, H, W] and w [C, O/groups, KH, KW]"))
        return FAILED;
    for (int d = 0; d < 2; d++)
        if (o->output_padding[d] < 0 || o->output_padding[d] >= o->stride[d]) {
            ls_graph_error(g, LS_E_SHAPE,
                           "conv_transpose2d: output_padding %lld must be at least 0 and less than the "
                           "stride %lld",
                           (long long)o->output_padding[d], (long long)o->stride[d]);
            return FAILED;
        }
    const ls_type tx = ls_value_type(g, x), tw = ls_value_type(g, w);
    ls_conv_attrs a = attrs_of(o);
    a.height = grown(tx.dims[2], tw.dims[2], o, 0);
    a.width = grown(tx.dims[3], tw.dims[3], o, 1);
    ls_value y = ls_graph_apply(g, &ls_op_conv2d_dx, 2, (ls_value[]){ x, w }, &a);
    if (y.id <= 0 || !(ls_present(b) || b.id < 0))
        return y;
    return ls_add(g, y, ls_reshape_dims(g, b, 3, (int64_t[]){ tw.dims[1] * o->groups, 1, 1 }));
}

/* ---- one dimension: pictures of height 1 */

/* [A, B, K] -> [A, B, 1, K] */
static ls_value tall(ls_graph *g, ls_value v)
{
    const ls_type t = ls_value_type(g, v);
    return ls_reshape_dims(g, v, 4, (int64_t[]){ t.dims[0], t.dims[1], 1, t.dims[2] });
}

static ls_value flat(ls_graph *g, ls_value y)
{
    if (y.id <= 0)
        return y;
    const ls_type t = ls_value_type(g, y);
    return ls_reshape_dims(g, y, 3, (int64_t[]){ t.dims[0], t.dims[1], t.dims[3] });
}

static ls_conv_opts along_width(const ls_conv_opts *o)
{
    return (ls_conv_opts){ LS_CONV_DEFAULTS,
                           .stride = { 1, o->stride[0] },
                           .padding = { 0, o->padding[0] },
                           .dilation = { 1, o->dilation[0] },
                           .groups = o->groups,
                           .output_padding = { 0, o->output_padding[0] } };
}

ls_value ls_conv1d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o)
{
    LS_ARG_OR(g, FAILED);
    if (!expect_dims(g, "conv1d", x, w, 3, "x [N, C, L] and w [O, C/groups, K]"))
        return FAILED;
    const ls_conv_opts wide = along_width(o ? o : &DEFAULTS);
    return flat(g, ls_conv2d_op(g, tall(g, x), tall(g, w), b, &wide));
}

ls_value ls_conv_transpose1d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o)
{
    LS_ARG_OR(g, FAILED);
    if (!expect_dims(g, "conv_transpose1d", x, w, 3, "x [N, C, L] and w [C, O/groups, K]"))
        return FAILED;
    const ls_conv_opts wide = along_width(o ? o : &DEFAULTS);
    return flat(g, ls_conv_transpose2d_op(g, tall(g, x), tall(g, w), b, &wide));
}

/* ---- three dimensions: one 2-D convolution whose channels are those of all depths that a kernel sees */

/* x [N, D, C, H, W], padded -> [N, depth, C, 1, H * W]: what depth k of the kernel sees for each depth of the
 * result */
static ls_value seen_by(ls_graph *g, ls_value x, int64_t k, int64_t depth, int64_t stride, int64_t dilation)
{
    const ls_type t = ls_value_type(g, x);
    const int64_t plane = t.dims[3] * t.dims[4];
    ls_value s = ls_slice(g, x, 1, k * dilation, depth * stride);
    if (stride > 1) {
        s = ls_reshape_dims(g, s, 5, (int64_t[]){ t.dims[0], depth, stride, t.dims[2], plane });
        s = ls_slice(g, s, 2, 0, 1);
    }
    return ls_reshape_dims(g, s, 5, (int64_t[]){ t.dims[0], depth, t.dims[2], 1, plane });
}

ls_value ls_conv3d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o)
{
    LS_ARG_OR(g, FAILED);
    o = o ? o : &DEFAULTS;
    if (!expect_dims(g, "conv3d", x, w, 5, "x [N, C, D, H, W] and w [O, C/groups, KD, KH, KW]"))
        return FAILED;
    if (o->depth.output_padding) {
        ls_graph_error(g, LS_E_SHAPE, "conv3d: output_padding is an option of transposed convolutions");
        return FAILED;
    }
    const ls_type tx = ls_value_type(g, x), tw = ls_value_type(g, w);
    const int64_t stride = o->depth.stride, pad = o->depth.padding, dilation = o->depth.dilation;
    const int64_t kernel = tw.dims[2], room = tx.dims[2] + 2 * pad - dilation * (kernel - 1) - 1;
    enum { MOST = 64 };
    if (stride < 1 || dilation < 1 || pad < 0 || room < 0 || kernel > MOST) {
        ls_graph_error(g, LS_E_SHAPE,
                       "conv3d: a kernel of depth %lld (at most %d) with stride %lld, padding %lld and "
                       "dilation %lld does not fit a depth of %lld",
                       (long long)kernel, MOST, (long long)stride, (long long)pad, (long long)dilation,
                       (long long)tx.dims[2]);
        return FAILED;
    }
    const int64_t depth = room / stride + 1, last = (kernel - 1) * dilation + depth * stride;
    const int64_t padded = last > pad + tx.dims[2] ? last : pad + tx.dims[2];
    x = ls_permute_dims(g, x, 5, (int64_t[]){ 0, 2, 1, 3, 4 });
    x = ls_pack(g, 1, &x, 1, padded, &pad);
    ls_value seen[MOST];
    for (int64_t k = 0; k < kernel; k++)
        seen[k] = seen_by(g, x, k, depth, stride, dilation);
    x = ls_concat(g, 3, (int)kernel, seen);
    x = ls_reshape_dims(g, x, 4,
                        (int64_t[]){ tx.dims[0] * depth, tx.dims[1] * kernel, tx.dims[3], tx.dims[4] });
    w = ls_reshape_dims(g, w, 4, (int64_t[]){ tw.dims[0], tw.dims[1] * kernel, tw.dims[3], tw.dims[4] });
    ls_value y = ls_conv2d_op(g, x, w, b, o);
    if (y.id <= 0)
        return y;
    const ls_type ty = ls_value_type(g, y);
    y = ls_reshape_dims(g, y, 5, (int64_t[]){ tx.dims[0], depth, ty.dims[1], ty.dims[2], ty.dims[3] });
    return ls_permute_dims(g, y, 5, (int64_t[]){ 0, 2, 1, 3, 4 });
}

/* The result of depth k of the kernel, y [N, D, O, KD, H * W] -> [N, depth, O, 1, H * W]: depth d of x adds
 * to depth d * stride + k * dilation of the result, before its padding is removed. */
static ls_value made_by(ls_graph *g, ls_value y, int64_t k, int64_t depth, int64_t stride, int64_t dilation)
{
    const ls_type t = ls_value_type(g, y);
    const int64_t first = k * dilation, none = 0;
    y = ls_slice(g, y, 3, k, 1);
    if (stride > 1) { /* zeros behind each depth */
        y = ls_reshape_dims(g, y, 4, (int64_t[]){ t.dims[0], t.dims[1], 1, t.dims[2] * t.dims[4] });
        y = ls_pack(g, 1, &y, 2, stride, &none);
        y = ls_reshape_dims(g, y, 5, (int64_t[]){ t.dims[0], t.dims[1] * stride, t.dims[2], 1, t.dims[4] });
    }
    return ls_pack(g, 1, &y, 1, depth, &first);
}

ls_value ls_conv_transpose3d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o)
{
    LS_ARG_OR(g, FAILED);
    o = o ? o : &DEFAULTS;
    if (!expect_dims(g, "conv_transpose3d", x, w, 5, "x [N, C, D, H, W] and w [C, O/groups, KD, KH, KW]"))
        return FAILED;
    const ls_type tx = ls_value_type(g, x), tw = ls_value_type(g, w);
    const int64_t stride = o->depth.stride, pad = o->depth.padding, dilation = o->depth.dilation;
    const int64_t more = o->depth.output_padding, kernel = tw.dims[2];
    const int64_t depth = (tx.dims[2] - 1) * stride - 2 * pad + dilation * (kernel - 1) + more + 1;
    if (stride < 1 || dilation < 1 || pad < 0 || more < 0 || more >= stride || depth < 1) {
        ls_graph_error(g, LS_E_SHAPE,
                       "conv_transpose3d: stride %lld, padding %lld, dilation %lld and output_padding %lld "
                       "(less than the stride) make no result of a depth of %lld and a kernel of %lld",
                       (long long)stride, (long long)pad, (long long)dilation, (long long)more,
                       (long long)tx.dims[2], (long long)kernel);
        return FAILED;
    }
    /* the sum of the results of all depths of the kernel */
    const int64_t frame = dilation * (kernel - 1) + tx.dims[2] * stride;
    x = ls_permute_dims(g, x, 5, (int64_t[]){ 0, 2, 1, 3, 4 });
    x = ls_reshape_dims(g, x, 4, (int64_t[]){ tx.dims[0] * tx.dims[2], tx.dims[1], tx.dims[3], tx.dims[4] });
    w = ls_reshape_dims(g, w, 4, (int64_t[]){ tw.dims[0], tw.dims[1] * kernel, tw.dims[3], tw.dims[4] });
    ls_value all = ls_conv_transpose2d_op(g, x, w, LS_NONE, o);
    if (all.id <= 0)
        return all;
    const ls_type t = ls_value_type(g, all);
    const int64_t out = t.dims[1] / kernel;
    all = ls_reshape_dims(g, all, 5,
                          (int64_t[]){ tx.dims[0], tx.dims[2], out, kernel, t.dims[2] * t.dims[3] });
    ls_value y = made_by(g, all, 0, frame, stride, dilation);
    for (int64_t k = 1; k < kernel; k++)
        y = ls_add(g, y, made_by(g, all, k, frame, stride, dilation));
    y = ls_slice(g, y, 1, pad, depth);
    y = ls_reshape_dims(g, y, 5, (int64_t[]){ tx.dims[0], depth, out, t.dims[2], t.dims[3] });
    y = ls_permute_dims(g, y, 5, (int64_t[]){ 0, 2, 1, 3, 4 });
    return ls_present(b) || b.id < 0 ? ls_add(g, y, ls_reshape_dims(g, b, 4, (int64_t[]){ out, 1, 1, 1 }))
                                     : y;
}

ls_conv_opts ls_conv_opts_default(void) { return (ls_conv_opts){ LS_CONV_DEFAULTS }; }
