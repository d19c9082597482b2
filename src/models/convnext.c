/* convnext.c - ConvNeXt (Liu et al. 2022) with torchvision's names, structure and initial values. */
#include <stdio.h>

#include "base/argument.h"
#include "classifier.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"

static const double EPS = 1e-6, FIRST_LAYER_SCALE = 1e-6;
/* torchvision's trunc_normal_(std=0.02) cuts at +-2, which is a hundred deviations away. */
static const ls_init WEIGHT = { LS_INIT_NORMAL, 0, 0.02 }, ZERO = { .kind = LS_INIT_ZERO };

/* [N, C, H, W] -> [N, H, W, C], and back. */
static ls_value channels_last(ls_graph *g, ls_value x) { return ls_permute(g, x, 0, 2, 3, 1); }
static ls_value channels_first(ls_graph *g, ls_value x) { return ls_permute(g, x, 0, 3, 1, 2); }

/* torchvision's LayerNorm2d: over the channels of each pixel. */
static ls_value norm(ls_graph *g, const char *name, ls_value x)
{
    return channels_first(g, ls_layer_norm(g, name, channels_last(g, x), EPS));
}

static ls_value linear(ls_graph *g, const char *name, ls_value x, int64_t out)
{
    return ls_linear(g, name, x, out, .weight_init = &WEIGHT, .bias_init = &ZERO);
}

/* Stochastic depth of mode "row": a sample loses the whole branch with probability p. */
static ls_value drop_branch(ls_graph *g, ls_value x, double p)
{
    const ls_type t = ls_value_type(g, x);
    if (p == 0 || ls_graph_is_evaluation(g) || t.ndim != 4)
        return x;
    const ls_value ones = ls_fill(g, LS_TYPE(LS_F32, t.dims[0], 1, 1, 1), 1);
    return ls_mul(g, x, ls_dropout(g, "stochastic_depth", ones, p));
}

static ls_value block(ls_graph *g, const char *name, ls_value x, double p)
{
    LS_SCOPE(g, name, "CNBlock");
    const int64_t width = ls_value_type(g, x).dims[1];
    const ls_value scale = ls_param(g, "layer_scale", LS_TYPE(LS_F32, width, 1, 1),
                                    ((ls_init){ LS_INIT_CONST, FIRST_LAYER_SCALE, 0 }));
    ls_value y;
    {
        LS_SCOPE(g, "block", "");
        y = ls_conv2d(g, "0", x, width, 7, .padding = 3, .groups = width, .weight_init = &WEIGHT,
                      .bias_init = &ZERO);
        y = ls_layer_norm(g, "2", channels_last(g, y), EPS);
        y = ls_gelu(g, linear(g, "3", y, 4 * width));
        y = channels_first(g, linear(g, "5", y, width));
    }
    return ls_add(g, drop_branch(g, ls_mul(g, y, scale), p), x);
}

static ls_value stage(ls_graph *g, int s, ls_value x, const ls_convnext_config *c, int64_t *done,
                      int64_t blocks)
{
    char name[48];
    snprintf(name, sizeof name, "%d", 2 * s + 1);
    LS_SCOPE(g, name, "");
    for (int64_t i = 0; i < c->depths[s]; i++, ++*done) {
        snprintf(name, sizeof name, "%lld", (long long)i);
        x = block(g, name, x, blocks > 1 ? c->stochastic_depth * (double)*done / (double)(blocks - 1) : 0);
    }
    return x;
}

/* Halves height and width, to that many channels. */
static ls_value downsample(ls_graph *g, int s, ls_value x, int64_t out)
{
    char name[16];
    snprintf(name, sizeof name, "%d", 2 * s);
    LS_SCOPE(g, name, "");
    return ls_conv2d(g, "1", norm(g, "0", x), out, 2, .stride = 2, .weight_init = &WEIGHT,
                     .bias_init = &ZERO);
}

static ls_status convnext_check(const ls_convnext_config *c)
{
    if (c->image_size < 32)
        return ls_fail(LS_E_SHAPE,
                       "convnext: image_size %lld is below 32, the smallest that four stages divide",
                       (long long)c->image_size);
    for (int s = 0; s < 4; s++)
        if (c->depths[s] < 1 || c->widths[s] < 1)
            return ls_fail(LS_E_SHAPE,
                           "convnext: stage %d has %lld blocks of %lld channels; both are positive", s + 1,
                           (long long)c->depths[s], (long long)c->widths[s]);
    return LS_OK;
}

ls_status ls_convnext_build(ls_graph *g, const ls_convnext_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_TRY(convnext_check(c));
    int64_t blocks = 0, done = 0;
    for (int s = 0; s < 4; s++)
        blocks += c->depths[s];
    ls_value x = LS_IMAGE_INPUT(g, batch, c);
    {
        LS_SCOPE(g, "features", "");
        /* With 3 channels this is torchvision's layer. With others it is the Conv2d that users of torchvision
         * put in its place, which has PyTorch's default initial values. */
        if (c->in_channels == 3)
            x = ls_conv2d(g, "0.0", x, c->widths[0], 4, .stride = 4, .weight_init = &WEIGHT,
                          .bias_init = &ZERO);
        else
            x = ls_conv2d(g, "0.0", x, c->widths[0], 4, .stride = 4);
        x = norm(g, "0.1", x);
        for (int s = 0; s < 4; s++) {
            if (s > 0)
                x = downsample(g, s, x, c->widths[s]);
            x = stage(g, s, x, c, &done, blocks);
        }
    }
    x = norm(g, "classifier.0", ls_adaptive_avg_pool2d(g, x, 1, 1));
    ls_classifier_outputs(g, linear(g, "classifier.2", ls_reshape(g, x, batch, -1), c->classes), &c->loss);
    return ls_graph_finish(g);
}
