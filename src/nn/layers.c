/* layers.c - the layers of nn.h. Their nodes keep the file and line of the model that called them. */
#define LS_NO_CALL_SITES
#include "lockstep/nn.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/tensor_attrs.h"
#include "base/argument.h"
#include "ops/rules.h"
#include "lora.h"
#include "nf4.h"

ls_init ls_init_xavier_uniform(int64_t in, int64_t out)
{
    double a = sqrt(6.0 / (double)(in + out));
    return (ls_init){ LS_INIT_UNIFORM, -a, a };
}

ls_init ls_init_fan_in(int64_t fan_in)
{
    double a = 1.0 / sqrt((double)fan_in);
    return (ls_init){ LS_INIT_UNIFORM, -a, a };
}

static int64_t last_dim(const ls_graph *g, ls_value v)
{
    ls_type t = ls_value_type(g, v);
    return t.ndim > 0 ? t.dims[t.ndim - 1] : 1;
}

/* x [.., in], w [in, out], b [out] or LS_NONE -> [.., out], without a copy of the weight that is transposed
 */
static ls_value product(ls_graph *g, ls_value x, ls_value w, ls_value b)
{
    ls_type t = ls_value_type(g, x);
    const ls_value rows = ls_reshape_dims(g, x, 2, (int64_t[]){ -1, last_dim(g, x) });
    ls_value y = ls_graph_apply(g, &ls_op_batch_matmul, 2, (ls_value[]){ rows, w }, &(ls_matmul_attrs){ 0 });
    y = b.id ? ls_add(g, y, b) : y;
    if (t.ndim < 1) /* an earlier call failed */
        return y;
    t.dims[t.ndim - 1] = last_dim(g, w);
    return ls_reshape_dims(g, y, t.ndim, t.dims);
}

ls_value ls_linear_with(ls_graph *g, const char *name, ls_value x, int64_t out, const ls_linear_opts *o)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    o = o ? o : &(const ls_linear_opts){ LS_LINEAR_DEFAULTS };
    LS_SCOPE(g, name, "Linear");
    int64_t in = last_dim(g, x);
    ls_init init = ls_init_fan_in(in);
    const ls_init first = o->weight_init ? *o->weight_init : init;
    const ls_type type = o->transposed ? LS_TYPE(LS_F32, in, out) : LS_TYPE(LS_F32, out, in);
    ls_value w = g->nf4 && !o->transposed && strcmp(name, "lm_head") != 0
                     ? ls_nf4_weight(g, out, in, first)
                     : ls_param(g, "weight", type, first);
    ls_value b = o->bias ? ls_param(g, "bias", LS_TYPE(LS_F32, out), o->bias_init ? *o->bias_init : init)
                         : LS_NONE;
    const ls_value y = o->transposed ? product(g, x, w, b) : ls_matmul_wt(g, x, w, b);
    return g->lora ? ls_lora_adapt(g, x, y, out) : y;
}

ls_value ls_embedding(ls_graph *g, const char *name, ls_value ids, int64_t rows, int64_t dim)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    LS_SCOPE(g, name, "Embedding");
    const ls_init init = { LS_INIT_NORMAL, 0, 1 };
    return ls_embedding_op(g, ids, ls_param(g, "weight", LS_TYPE(LS_F32, rows, dim), init));
}

ls_value ls_layer_norm(ls_graph *g, const char *name, ls_value x, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    LS_SCOPE(g, name, "LayerNorm");
    int64_t k = last_dim(g, x);
    ls_value gain = ls_param(g, "weight", LS_TYPE(LS_F32, k), (ls_init){ .kind = LS_INIT_ONE });
    ls_value bias = ls_param(g, "bias", LS_TYPE(LS_F32, k), (ls_init){ .kind = LS_INIT_ZERO });
    return ls_layer_norm_op(g, x, gain, bias, eps);
}

ls_value ls_rms_norm(ls_graph *g, const char *name, ls_value x, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    LS_SCOPE(g, name, "RMSNorm");
    return ls_rms_norm_op(
        g, x, ls_param(g, "weight", LS_TYPE(LS_F32, last_dim(g, x)), (ls_init){ .kind = LS_INIT_ONE }), eps);
}

/* affine false: no parameters */
static ls_value channel_norm(ls_graph *g, ls_value x, int64_t groups, bool affine, double eps)
{
    const ls_type t = ls_value_type(g, x);
    const ls_type channels = LS_TYPE(LS_F32, t.ndim > 1 ? t.dims[1] : 1);
    ls_value gain = LS_NONE, bias = LS_NONE;
    if (affine) {
        gain = ls_param(g, "weight", channels, (ls_init){ .kind = LS_INIT_ONE });
        bias = ls_param(g, "bias", channels, (ls_init){ .kind = LS_INIT_ZERO });
    }
    return ls_group_norm_op(g, x, groups ? groups : channels.dims[0], gain, bias, eps);
}

ls_value ls_group_norm(ls_graph *g, const char *name, ls_value x, int64_t groups, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    LS_SCOPE(g, name, "GroupNorm");
    return channel_norm(g, x, groups ? groups : -1, true, eps);
}

ls_value ls_instance_norm(ls_graph *g, const char *name, ls_value x, bool affine, double eps)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    LS_SCOPE(g, name, "InstanceNorm");
    return channel_norm(g, x, 0, affine, eps);
}

ls_value ls_self_attention(ls_graph *g, const char *name, ls_value x, int64_t heads, double dropout)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    LS_SCOPE(g, name, "MultiheadAttention");
    int64_t hidden = last_dim(g, x);
    if (heads <= 0 || hidden % heads) {
        ls_graph_error(g, LS_E_SHAPE, "%lld heads do not divide the hidden size %lld", (long long)heads,
                       (long long)hidden);
        return (ls_value){ .id = -1 };
    }
    int64_t head_dim = hidden / heads;
    ls_init zero = { .kind = LS_INIT_ZERO };
    ls_value w = ls_param(g, "in_proj_weight", LS_TYPE(LS_F32, 3 * hidden, hidden),
                          ls_init_xavier_uniform(hidden, 3 * hidden));
    ls_value b = ls_param(g, "in_proj_bias", LS_TYPE(LS_F32, 3 * hidden), zero);
    ls_value qkv = ls_matmul_wt(g, x, w, b);
    ls_value q = ls_slice(g, qkv, 2, 0, hidden), k = ls_slice(g, qkv, 2, hidden, hidden),
             v = ls_slice(g, qkv, 2, 2 * hidden, hidden);
    ls_value y = ls_attention(g, q, k, v, LS_NONE, head_dim, 1.0 / sqrt((double)head_dim), false);
    y = ls_attention_dropout(g, "dropout", y, dropout);
    return ls_linear_with(g, "out_proj", y, hidden,
                          &(ls_linear_opts){ LS_LINEAR_DEFAULTS, .bias_init = &zero });
}

ls_value ls_patch_embedding(ls_graph *g, const char *name, ls_value images, int64_t patch, int64_t out,
                            const ls_linear_opts *o)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, name, ((ls_value){ .id = -1 }));
    o = o ? o : &(const ls_linear_opts){ LS_LINEAR_DEFAULTS };
    LS_SCOPE(g, name, "Conv2d");
    ls_type t = ls_value_type(g, images);
    if (t.ndim != 4 || patch <= 0 || t.dims[2] % patch || t.dims[3] % patch) {
        ls_graph_error(g, LS_E_SHAPE, "patches of %lld x %lld do not tile images of %lld x %lld",
                       (long long)patch, (long long)patch, (long long)(t.ndim == 4 ? t.dims[2] : 0),
                       (long long)(t.ndim == 4 ? t.dims[3] : 0));
        return (ls_value){ .id = -1 };
    }
    int64_t batch = t.dims[0], channels = t.dims[1], rows = t.dims[2] / patch, columns = t.dims[3] / patch,
            in = channels * patch * patch;
    ls_init init = ls_init_fan_in(in);
    ls_value w = ls_param(g, "weight", LS_TYPE(LS_F32, out, channels, patch, patch),
                          o->weight_init ? *o->weight_init : init);
    ls_value b = o->bias ? ls_param(g, "bias", LS_TYPE(LS_F32, out), o->bias_init ? *o->bias_init : init)
                         : LS_NONE;
    /* [B, C, rows, p, columns, p] -> [B, rows, columns, C, p, p]: each token is a patch, with its elements in
     * the order of the kernel's weights. */
    ls_value cut = ls_reshape_dims(g, images, 6, (int64_t[]){ batch, channels, rows, patch, columns, patch });
    cut = ls_permute_dims(g, cut, 6, (int64_t[]){ 0, 2, 4, 1, 3, 5 });
    ls_value tokens = ls_reshape_dims(g, cut, 3, (int64_t[]){ batch, rows * columns, in });
    return ls_matmul_wt(g, tokens, ls_reshape_dims(g, w, 2, (int64_t[]){ out, in }), b);
}

ls_value ls_normalize_pixels(ls_graph *g, ls_value images, double mean, double std)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_value x = ls_div_const(g, ls_cast(g, images, LS_F32), 255.0);
    return ls_div_const(g, ls_add_const(g, x, -mean), std);
}

ls_value ls_correct(ls_graph *g, ls_value logits, ls_value labels)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_wide_begin(g); /* 16 bits do not tell classes apart */
    ls_value same = ls_eq(g, ls_cast(g, ls_argmax(g, logits), LS_F32), ls_cast(g, labels, LS_F32));
    ls_wide_end(g);
    return same;
}

ls_linear_opts ls_linear_opts_default(void) { return (ls_linear_opts){ LS_LINEAR_DEFAULTS }; }
