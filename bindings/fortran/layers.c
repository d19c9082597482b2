/* layers.c - calls of module lockstep_layers: layers with parameters, and what works on pictures. */
#define LS_NO_CALL_SITES
#include "glue.h"

#define NAME(name, text) \
    char name[LSF_TEXT]; \
    lsf_text(name, text)

ls_value lsf_linear(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int out, int bias)
{
    NAME(text, name);
    ls_linear_opts o = ls_linear_opts_default();
    o.bias = bias;
    return ls_linear_with(g, text, *x, out, &o);
}

/* ---- convolutions */

typedef ls_value convolution(ls_graph *, const char *, ls_value, int64_t, int64_t, const ls_conv2d_opts *);

static ls_value convolve(convolution *with, ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int out,
                         int kernel, const int *stride, const int *padding, const int *dilation,
                         const int *groups, const int *output_padding, int bias)
{
    NAME(text, name);
    ls_conv2d_opts o = ls_conv2d_opts_default();
    o.bias = bias;
    o.stride = stride ? *stride : o.stride;
    o.padding = padding ? *padding : o.padding;
    o.dilation = dilation ? *dilation : o.dilation;
    o.groups = groups ? *groups : o.groups;
    o.output_padding = output_padding ? *output_padding : o.output_padding;
    return with(g, text, *x, out, kernel, &o);
}

#define CONVOLUTION(kind)                                                                              \
    ls_value lsf_##kind(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int out, int kernel,  \
                        const int *stride, const int *padding, const int *dilation, const int *groups, \
                        const int *output_padding, int bias)                                           \
    {                                                                                                  \
        return convolve(ls_##kind##_with, g, name, x, out, kernel, stride, padding, dilation, groups,  \
                        output_padding, bias);                                                         \
    }
CONVOLUTION(conv1d)
CONVOLUTION(conv2d)
CONVOLUTION(conv3d)
CONVOLUTION(conv_transpose1d)
CONVOLUTION(conv_transpose2d)
CONVOLUTION(conv_transpose3d)

/* ---- windows and sizes */

static ls_pool_opts windows(int kernel, const int *stride, const int *padding)
{
    const int64_t step = stride ? *stride : kernel, around = padding ? *padding : 0;
    return (ls_pool_opts){ { kernel, kernel }, { step, step }, { around, around } };
}

ls_value lsf_max_pool2d(ls_graph *g, const ls_value *x, int kernel, const int *stride, const int *padding)
{
    const ls_pool_opts o = windows(kernel, stride, padding);
    return ls_max_pool2d(g, *x, &o);
}

ls_value lsf_avg_pool2d(ls_graph *g, const ls_value *x, int kernel, const int *stride, const int *padding,
                        int count_include_pad)
{
    const ls_pool_opts o = windows(kernel, stride, padding);
    return ls_avg_pool2d(g, *x, &o, count_include_pad);
}

ls_value lsf_adaptive_avg_pool2d(ls_graph *g, const ls_value *x, int width, int height)
{
    return ls_adaptive_avg_pool2d(g, *x, height, width);
}

ls_value lsf_resize2d(ls_graph *g, const ls_value *x, int width, int height, int mode)
{
    return ls_resize2d(g, *x, height, width, (ls_resize)mode);
}

/* ---- embedding, norms, dropout, attention */

ls_value lsf_embedding(ls_graph *g, const CFI_cdesc_t *name, const ls_value *ids, int rows, int dim)
{
    NAME(text, name);
    return ls_embedding(g, text, *ids, rows, dim);
}

ls_value lsf_layer_norm(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, double eps)
{
    NAME(text, name);
    return ls_layer_norm(g, text, *x, eps);
}

ls_value lsf_rms_norm(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, double eps)
{
    NAME(text, name);
    return ls_rms_norm(g, text, *x, eps);
}

ls_value lsf_group_norm(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int groups, double eps)
{
    NAME(text, name);
    return ls_group_norm(g, text, *x, groups, eps);
}

ls_value lsf_instance_norm(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int affine, double eps)
{
    NAME(text, name);
    return ls_instance_norm(g, text, *x, affine, eps);
}

ls_value lsf_batch_norm(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, const double *eps,
                        const double *momentum)
{
    NAME(text, name);
    ls_batch_norm_opts o = ls_batch_norm_opts_default();
    o.eps = eps ? *eps : o.eps;
    o.momentum = momentum ? *momentum : o.momentum;
    return ls_batch_norm_with(g, text, *x, &o);
}

ls_value lsf_dropout(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, double p)
{
    NAME(text, name);
    return ls_dropout(g, text, *x, p);
}

ls_value lsf_self_attention(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int heads,
                            double dropout)
{
    NAME(text, name);
    return ls_self_attention(g, text, *x, heads, dropout);
}

/* ---- recurrent layers */

static ls_recurrent_opts recurrent(const int *layers, int bidirectional, int bias, const double *dropout,
                                   const ls_value *h0, const ls_value *c0)
{
    ls_recurrent_opts o = ls_recurrent_opts_default();
    o.layers = layers ? *layers : o.layers;
    o.bidirectional = bidirectional;
    o.bias = bias;
    o.dropout = dropout ? *dropout : o.dropout;
    o.h0 = h0 ? *h0 : o.h0;
    o.c0 = c0 ? *c0 : o.c0;
    return o;
}

ls_recurrent lsf_lstm(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int hidden, const int *layers,
                      int bidirectional, int bias, const double *dropout, const ls_value *h0,
                      const ls_value *c0)
{
    NAME(text, name);
    const ls_recurrent_opts o = recurrent(layers, bidirectional, bias, dropout, h0, c0);
    return ls_lstm_with(g, text, *x, hidden, &o);
}

ls_recurrent lsf_gru(ls_graph *g, const CFI_cdesc_t *name, const ls_value *x, int hidden, const int *layers,
                     int bidirectional, int bias, const double *dropout, const ls_value *h0)
{
    NAME(text, name);
    const ls_recurrent_opts o = recurrent(layers, bidirectional, bias, dropout, h0, NULL);
    return ls_gru_with(g, text, *x, hidden, &o);
}
