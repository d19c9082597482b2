/* vit.c - vision transformer with torchvision's names, structure and initial values. */
#include <math.h>
#include <stdio.h>

#include "classifier.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"

static const double EPS = 1e-6;

/* Queries, keys and values lie in one weight of the attention. */
static const char TENSOR_PLAN[] = "colwise:self_attention rowwise:out_proj colwise:mlp.0 rowwise:mlp.3";

static ls_value encoder_block(ls_graph *g, ls_value x, const ls_vit_config *c, int64_t i)
{
    char name[48];
    snprintf(name, sizeof name, "encoder_layer_%lld", (long long)i);
    LS_SCOPE(g, name, "EncoderBlock");
    ls_init tiny = { LS_INIT_NORMAL, 0, 1e-6 };
    ls_init up = ls_init_xavier_uniform(c->hidden_size, c->mlp_size),
            down = ls_init_xavier_uniform(c->mlp_size, c->hidden_size);
    ls_value h = ls_layer_norm(g, "ln_1", x, EPS);
    h = ls_dropout(g, "dropout", ls_self_attention(g, "self_attention", h, c->heads, c->attention_dropout),
                   c->dropout);
    x = ls_add(g, h, x);
    h = ls_layer_norm(g, "ln_2", x, EPS);
    {
        LS_SCOPE(g, "mlp", "MLPBlock");
        h = ls_gelu(g, ls_linear(g, "0", h, c->mlp_size, .weight_init = &up, .bias_init = &tiny));
        h = ls_dropout(g, "2", h, c->dropout);
        h = ls_linear(g, "3", h, c->hidden_size, .weight_init = &down, .bias_init = &tiny);
        h = ls_dropout(g, "4", h, c->dropout);
    }
    return ls_add(g, x, h);
}

ls_status ls_vit_build(ls_graph *g, const ls_vit_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    if (c->image_size <= 0 || c->hidden_size <= 0)
        return ls_fail(LS_E_SHAPE, "vit: image_size %lld and hidden_size %lld must be positive",
                       (long long)c->image_size, (long long)c->hidden_size);
    if (c->patch_size <= 0 || c->image_size % c->patch_size)
        return ls_fail(LS_E_SHAPE, "vit: image_size %lld is not a multiple of patch_size %lld",
                       (long long)c->image_size, (long long)c->patch_size);
    if (c->heads <= 0 || c->hidden_size % c->heads)
        return ls_fail(LS_E_SHAPE, "vit: hidden_size %lld is not a multiple of heads %lld",
                       (long long)c->hidden_size, (long long)c->heads);
    int64_t side = c->image_size / c->patch_size, tokens = side * side + 1, hidden = c->hidden_size;
    int64_t fan_in = c->in_channels * c->patch_size * c->patch_size;
    ls_init zero = { .kind = LS_INIT_ZERO },
            trunc = { LS_INIT_TRUNC_NORMAL, sqrt(1.0 / (double)fan_in), 2.0 };
    ls_linear_opts projection = { LS_LINEAR_DEFAULTS };
    /* With 3 channels these are torchvision's initial values. With others the layer is the Conv2d that users
     * of torchvision put in its place, which has PyTorch's default ones. */
    if (c->in_channels == 3) {
        projection.weight_init = &trunc;
        projection.bias_init = &zero;
    }

    ls_tensor_plan(g, TENSOR_PLAN);
    ls_value x = LS_IMAGE_INPUT(g, batch, c);
    ls_value class_token = ls_param(g, "class_token", LS_TYPE(LS_F32, 1, 1, hidden), zero);
    x = ls_patch_embedding(g, "conv_proj", x, c->patch_size, hidden, &projection);
    x = ls_concat(g, 1, 2, (ls_value[]){ ls_broadcast(g, class_token, batch, 1, hidden), x });
    {
        LS_SCOPE(g, "encoder", "Encoder");
        ls_value position = ls_param(g, "pos_embedding", LS_TYPE(LS_F32, 1, tokens, hidden),
                                     ((ls_init){ LS_INIT_NORMAL, 0, 0.02 }));
        x = ls_dropout(g, "dropout", ls_add(g, x, position), c->dropout);
        {
            LS_SCOPE(g, "layers", "");
            for (int64_t i = 0; i < c->layers; i++)
                x = encoder_block(g, x, c, i);
        }
        x = ls_layer_norm(g, "ln", x, EPS);
    }
    x = ls_reshape(g, ls_slice(g, x, 1, 0, 1), batch, hidden); /* the class token */
    ls_classifier_outputs(
        g, ls_linear(g, "heads.head", x, c->classes, .weight_init = &zero, .bias_init = &zero), &c->loss);
    return ls_graph_finish(g);
}
