/* conv.c - layers of convolutional networks. Their nodes keep the file and line of the model that called
 * them. */
#define LS_NO_CALL_SITES
#include <math.h>

#include "graph/graph.h"
#include "graph/identity.h"
#include "lockstep/nn.h"
#include "base/argument.h"
#include "ops/rules.h"

ls_init ls_init_kaiming_normal(int64_t fan)
{
    return (ls_init){ LS_INIT_NORMAL, 0, sqrt(2.0 / (double)fan) };
}

/* Number of channels. 0 when x is not [N, C, H, W]; the op then reports the error. */
static int64_t channels(const ls_graph *g, ls_value x)
{
    ls_type t = ls_value_type(g, x);
    return t.ndim >= 2 ? t.dims[1] : 0;
}

typedef ls_value (*conv_op)(ls_graph *, ls_value, ls_value, ls_value, const ls_conv_opts *);

/* A layer of a convolution in `ndim` dimensions, `block` its class in PyTorch. */
static ls_value layer(ls_graph *g, const char *block, conv_op op, bool transposed, int ndim, const char *name,
                      ls_value x, int64_t out, int64_t kernel, const ls_conv2d_opts *o)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    o = o ? o : &(const ls_conv2d_opts){ LS_CONV2D_DEFAULTS };
    LS_SCOPE(g, name, block);
    const int64_t in = transposed ? out : channels(g, x), group = o->groups > 0 ? in / o->groups : 0;
    ls_type type = LS_TYPE(LS_F32, transposed ? channels(g, x) : out, group);
    int64_t fan = group;
    for (int d = 0; d < ndim; d++) {
        type.dims[type.ndim++] = kernel;
        fan *= kernel;
    }
    const ls_init init = ls_init_fan_in(fan);
    ls_value w = ls_param(g, "weight", type, o->weight_init ? *o->weight_init : init);
    ls_value b = o->bias ? ls_param(g, "bias", LS_TYPE(LS_F32, out), o->bias_init ? *o->bias_init : init)
                         : LS_NONE;
    return op(g, x, w, b,
              &(ls_conv_opts){ .stride = { o->stride, o->stride },
                               .padding = { o->padding, o->padding },
                               .dilation = { o->dilation, o->dilation },
                               .groups = o->groups,
                               .output_padding = { o->output_padding, o->output_padding },
                               .depth = { o->stride, o->padding, o->dilation, o->output_padding } });
}

#define LAYER(call, block, transposed, ndim)                                                          \
    ls_value ls_##call##_with(ls_graph *g, const char *name, ls_value x, int64_t out, int64_t kernel, \
                              const ls_conv2d_opts *o)                                                \
    {                                                                                                 \
        return layer(g, block, ls_##call##_op, transposed, ndim, name, x, out, kernel, o);            \
    }
LAYER(conv1d, "Conv1d", false, 1)
LAYER(conv2d, "Conv2d", false, 2)
LAYER(conv3d, "Conv3d", false, 3)
LAYER(conv_transpose1d, "ConvTranspose1d", true, 1)
LAYER(conv_transpose2d, "ConvTranspose2d", true, 2)
LAYER(conv_transpose3d, "ConvTranspose3d", true, 3)

ls_value ls_track(ls_graph *g)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    for (int i = 0; i < g->n_nodes; i++) /* a graph has one */
        if (g->nodes[i]->op == &ls_op_input &&
            ((const ls_source_attrs *)g->nodes[i]->attrs)->is.what == LS_IS_TRACK)
            return g->nodes[i]->out[0];
    return ls_input_of(g, (ls_identity){ .what = LS_IS_TRACK }, "", LS_SCALAR(LS_I32));
}

ls_value ls_batch_norm_with(ls_graph *g, const char *name, ls_value x, const ls_batch_norm_opts *o)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    o = o ? o : &(const ls_batch_norm_opts){ LS_BATCH_NORM_DEFAULTS };
    LS_SCOPE(g, name, "BatchNorm2d");
    const ls_type stat = LS_TYPE(LS_F32, channels(g, x));
    ls_value gain = ls_param(g, "weight", stat, (ls_init){ .kind = LS_INIT_ONE });
    ls_value bias = ls_param(g, "bias", stat, (ls_init){ .kind = LS_INIT_ZERO });
    ls_value mean = ls_buffer(g, "running_mean", stat, (ls_init){ .kind = LS_INIT_ZERO });
    ls_value variance = ls_buffer(g, "running_var", stat, (ls_init){ .kind = LS_INIT_ONE });
    ls_value tracked = ls_buffer(g, "num_batches_tracked", LS_SCALAR(LS_I64),
                                 (ls_init){ .kind = LS_INIT_ZERO });
    if (ls_graph_is_evaluation(g))
        return ls_batch_norm_eval(g, x, gain, bias, mean, variance, o->eps);
    ls_value y = ls_batch_norm_op(g, x, gain, bias, o->eps);
    ls_batch_norm_update(g, mean, variance, tracked, y, o->track.id ? o->track : ls_track(g), o->momentum);
    return y;
}

ls_batch_norm_opts ls_batch_norm_opts_default(void) { return (ls_batch_norm_opts){ LS_BATCH_NORM_DEFAULTS }; }

ls_conv2d_opts ls_conv2d_opts_default(void) { return (ls_conv2d_opts){ LS_CONV2D_DEFAULTS }; }
