/* resnet.c - residual networks (He et al. 2015) with torchvision's names, structure and initial values. */
#include <stdio.h>

#include "classifier.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"

static const struct {
    int64_t depth, blocks[4];
    bool bottleneck;
} KINDS[] = {
    { 18, { 2, 2, 2, 2 }, false },
    { 34, { 3, 4, 6, 3 }, false },
    { 50, { 3, 4, 6, 3 }, true },
};

typedef struct builder {
    ls_graph *g;
    ls_value track; /* absent in evaluation */
    bool bottleneck;
} builder;

/* A convolution without bias whose padding keeps the size when the stride is 1. */
static ls_value conv(const builder *b, const char *name, ls_value x, int64_t out, int64_t kernel,
                     int64_t stride)
{
    const ls_init init = ls_init_kaiming_normal(out * kernel * kernel);
    return ls_conv2d(b->g, name, x, out, kernel, .stride = stride, .padding = kernel / 2, .bias = false,
                     .weight_init = &init);
}

static ls_value norm(const builder *b, const char *name, ls_value x)
{
    return ls_batch_norm(b->g, name, x, .track = b->track);
}

static ls_value residual_block(const builder *b, const char *name, ls_value x, int64_t width, int64_t stride)
{
    ls_graph *g = b->g;
    LS_SCOPE(g, name, b->bottleneck ? "Bottleneck" : "BasicBlock");
    const int64_t out = b->bottleneck ? 4 * width : width, in = ls_value_type(g, x).dims[1];
    ls_value y = conv(b, "conv1", x, width, b->bottleneck ? 1 : 3, b->bottleneck ? 1 : stride);
    y = ls_relu(g, norm(b, "bn1", y));
    y = norm(b, "bn2", conv(b, "conv2", y, width, 3, b->bottleneck ? stride : 1));
    if (b->bottleneck)
        y = norm(b, "bn3", conv(b, "conv3", ls_relu(g, y), out, 1, 1));
    if (in != out) /* so have all with a stride */
        x = norm(b, "downsample.1", conv(b, "downsample.0", x, out, 1, stride));
    return ls_relu(g, ls_add(g, y, x));
}

ls_status ls_resnet_build(ls_graph *g, const ls_resnet_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    int kind = 0;
    while (kind < 3 && KINDS[kind].depth != c->depth)
        kind++;
    if (kind == 3)
        return ls_fail(LS_E_SHAPE, "resnet: there is no depth %lld; use 18, 34 or 50", (long long)c->depth);
    builder b = { .g = g, .bottleneck = KINDS[kind].bottleneck };
    ls_value x = LS_IMAGE_INPUT(g, batch, c);
    if (!ls_graph_is_evaluation(g))
        b.track = ls_track(g);
    /* With 3 channels this is torchvision's layer. With others it is the Conv2d that users of torchvision put
     * in its place, which has PyTorch's default initial values. */
    if (c->in_channels == 3)
        x = conv(&b, "conv1", x, 64, 7, 2);
    else
        x = ls_conv2d(g, "conv1", x, 64, 7, .stride = 2, .padding = 3, .bias = false);
    x = ls_relu(g, norm(&b, "bn1", x));
    x = ls_max_pool2d(g, x, (&(ls_pool_opts){ .kernel = { 3, 3 }, .stride = { 2, 2 }, .padding = { 1, 1 } }));
    for (int64_t stage = 0; stage < 4; stage++)
        for (int64_t i = 0; i < KINDS[kind].blocks[stage]; i++) {
            char name[48];
            snprintf(name, sizeof name, "layer%lld.%lld", (long long)(stage + 1), (long long)i);
            x = residual_block(&b, name, x, (int64_t)64 << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    x = ls_reshape(g, ls_adaptive_avg_pool2d(g, x, 1, 1), batch, -1);
    ls_classifier_outputs(g, ls_linear(g, "fc", x, c->classes), &c->loss);
    return ls_graph_finish(g);
}
