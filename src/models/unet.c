/* unet.c - U-Net (Ronneberger et al. 2015) with the structure and the parameter names of milesial's
 * Pytorch-UNet: batch norm after each convolution, padding that keeps the size, transposed convolutions or
 * bilinear interpolation. */
#include "unet.h"

#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "task.h"

typedef struct builder {
    ls_graph *g;
    ls_value track; /* absent in evaluation */
    ls_unet_up up;
} builder;

/* Convolution, batch norm, ReLU. Names are places in the sequence "double_conv". */
static ls_value unit(const builder *b, const char *conv, const char *norm, ls_value x, int64_t out)
{
    x = ls_conv2d(b->g, conv, x, out, 3, .padding = 1, .bias = false);
    return ls_relu(b->g, ls_batch_norm(b->g, norm, x, .track = b->track));
}

static ls_value double_conv(const builder *b, ls_value x, int64_t between, int64_t out)
{
    LS_SCOPE(b->g, "double_conv", "Sequential");
    return unit(b, "3", "4", unit(b, "0", "1", x, between), out);
}

static ls_value down(const builder *b, int64_t level, ls_value x, int64_t out)
{
    static const ls_pool_opts HALVE = { .kernel = { 2, 2 }, .stride = { 2, 2 } };
    char name[32];
    snprintf(name, sizeof name, "down%lld", (long long)level);
    LS_SCOPE(b->g, name, "Down");
    LS_SCOPE(b->g, "maxpool_conv.1", "DoubleConv");
    return double_conv(b, ls_max_pool2d(b->g, x, &HALVE), out, out);
}

/* Interpolation cannot change the number of channels: what a level hands up has those of the level above. */
static int64_t handed_up(const builder *b, int64_t channels, int64_t level)
{
    return (channels << level) / (b->up == LS_UP_BILINEAR && level > 0 ? 2 : 1);
}

/* x [N, .., H, W] and `skip` [N, width, 2 * H, 2 * W], what the encoder had at this level -> [N, out, 2 * H,
 * 2 * W] */
static ls_value up(const builder *b, int64_t number, ls_value x, ls_value skip, int64_t width, int64_t out)
{
    const ls_type to = ls_value_type(b->g, skip);
    char name[32];
    snprintf(name, sizeof name, "up%lld", (long long)number);
    LS_SCOPE(b->g, name, "Up");
    if (b->up == LS_UP_BILINEAR)
        x = ls_resize2d(b->g, x, to.dims[2], to.dims[3], LS_RESIZE_BILINEAR_CORNERS);
    else
        x = ls_conv_transpose2d(b->g, "up", x, width, 2, .stride = 2);
    x = ls_concat(b->g, 1, 2, (ls_value[]){ skip, x });
    LS_SCOPE(b->g, "conv", "DoubleConv");
    return double_conv(b, x, width, out);
}

/* Whether the classes are the last dimension of the output. */
static bool is_of_classes(const ls_unet_config *c)
{
    return c->n_losses && c->losses[0].kind == LS_LOSS_CROSS_ENTROPY;
}

/* The output's channels: classes, or 1 if the output is [H, W]. */
static int64_t channels_of(const ls_unet_config *c)
{
    const ls_type *y = &c->output.type;
    return is_of_classes(c) ? y->dims[2] : y->ndim == 3 ? y->dims[0] : 1;
}

ls_status ls_unet_check(const ls_unet_config *c)
{
    const ls_type *x = &c->input.type, *y = &c->output.type;
    if (c->channels < 1 || c->levels < 1 || c->levels > LS_UNET_LEVELS)
        return ls_fail(LS_E_SHAPE, "unet: channels %lld must be positive, levels %lld from 1 to %d",
                       (long long)c->channels, (long long)c->levels, LS_UNET_LEVELS);
    if (c->n_losses < 0)
        return ls_fail(LS_E_SHAPE, "unet: n_losses is %d: 0 or more is needed", c->n_losses);
    if (x->ndim != 3 || x->dims[0] < 1)
        return ls_fail(LS_E_SHAPE, "unet: input %s must be [channels, height, width]", c->input.name);
    const int64_t h = x->dims[1], w = x->dims[2], step = (int64_t)1 << c->levels;
    if (h < step || w < step || h % step || w % step)
        return ls_fail(LS_E_SHAPE,
                       "unet: %lld levels halve height and width as often: %lld x %lld must be multiples of "
                       "%lld",
                       (long long)c->levels, (long long)h, (long long)w, (long long)step);
    for (int i = 1; i < c->n_losses; i++)
        if ((c->losses[i].kind == LS_LOSS_CROSS_ENTROPY) != is_of_classes(c))
            return ls_fail(LS_E_SHAPE, "unet: cross_entropy cannot be added to a loss of another kind: one "
                                       "has classes, the other has numbers");
    const bool classes = is_of_classes(c), plane = y->ndim == 2 && !classes;
    const int first = y->ndim == 3 && !classes;
    if ((y->ndim != 3 && !plane) || y->dims[first] != h || y->dims[first + 1] != w || channels_of(c) < 1)
        return ls_fail(LS_E_SHAPE, "unet: output %s must be %s for an input of %lld x %lld", c->output.name,
                       classes ? "[height, width, classes] for cross_entropy"
                               : "[channels, height, width] or [height, width]",
                       (long long)h, (long long)w);
    return LS_OK;
}

ls_status ls_unet_build(ls_graph *g, const ls_unet_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_ARG_ENUM(ls_unet_up, c->up, LS_UP_BILINEAR);
    LS_ARG_DTYPE(c->input.type.dtype);
    LS_ARG_DTYPE(c->output.type.dtype);
    for (int i = 0; i < c->n_losses; i++)
        LS_ARG_ENUM(ls_loss_kind, c->losses[i].kind, LS_LOSS_CROSS_ENTROPY);
    LS_TRY(ls_unet_check(c));
    const ls_type *in = &c->input.type, *out = &c->output.type;
    const builder b = { g, ls_graph_is_evaluation(g) ? LS_NONE : ls_track(g), c->up };
    ls_value level[LS_UNET_LEVELS + 1];
    ls_value x = ls_input(g, c->input.name, LS_TYPE(LS_F32, batch, in->dims[0], in->dims[1], in->dims[2]));
    ls_scope_push(g, "inc", "DoubleConv");
    level[0] = double_conv(&b, x, c->channels, c->channels);
    ls_scope_pop(g);
    for (int64_t i = 1; i <= c->levels; i++)
        level[i] = down(&b, i, level[i - 1],
                        i < c->levels ? c->channels << i : handed_up(&b, c->channels, i));
    x = level[c->levels];
    for (int64_t i = c->levels - 1; i >= 0; i--)
        x = up(&b, c->levels - i, x, level[i], c->channels << i, handed_up(&b, c->channels, i));
    ls_scope_push(g, "outc", "OutConv");
    x = ls_conv2d(g, "conv", x, channels_of(c), 1);
    ls_scope_pop(g);
    if (is_of_classes(c))
        x = ls_permute(g, x, 0, 2, 3, 1);
    else if (out->ndim == 2)
        x = ls_reshape(g, x, batch, out->dims[0], out->dims[1]);
    ls_output(g, c->output.name, x);
    return c->n_losses ? ls_task_declare(g, c->n_losses, c->losses, batch) : ls_graph_finish(g);
}
