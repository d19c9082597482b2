/* model_unet.c - the row of U-Net: from an image to a number or a class for each pixel. */
#include "key_row.h"
#include "model_row.h"
#include "models/unet.h"
#include "recipe_setting.h"

static ls_unet_config config_of(const ls_recipe *r, const ls_loss_list *losses)
{
    return (ls_unet_config){ .input = r->model.inputs.at[0],
                             .output = r->model.outputs.at[0],
                             .n_losses = losses->n,
                             .losses = losses->at,
                             .channels = r->model.channels,
                             .levels = r->model.levels,
                             .up = r->model.up };
}

static ls_status unet_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    (void)preset;
    ls_recipe_losses_own own;
    const ls_loss_list losses = ls_recipe_losses(r, &own);
    const ls_unet_config c = config_of(r, &losses);
    return ls_unet_build(g, &c, batch);
}

static ls_status unet_check(const ls_recipe *r)
{
    const bool one = r->model.inputs.n == 1, result = r->model.outputs.n == 1;
    if (!one || !result || !r->loss.n)
        return ls_fail(LS_E_USAGE,
                       "%s: a unet has one input, one output and a loss, as in `model: {type: unet, inputs: "
                       "{image: [3, 64, 64]}, outputs: {mask: [64, 64, 5]}}`, `loss: {type: cross_entropy, "
                       "of: mask}`",
                       ls_recipe_where(r, !one      ? "model.inputs"
                                          : !result ? "model.outputs"
                                                    : "loss"));
    LS_TRY(ls_recipe_check_losses(r));
    const ls_unet_config c = config_of(r, &r->loss);
    return ls_unet_check(&c) == LS_OK ? LS_OK
                                      : ls_fail_in(LS_E_USAGE, "%s", ls_recipe_where(r, "model.inputs"));
}

static const ls_key UNET_ROWS[] = {
    { "model.channels", LS_KEY_INT, AT(model.channels), "64", 1, 65536, .type = "model.type", .config = true,
      .help = "channels at full resolution; each level below has twice as many" },
    { "model.levels", LS_KEY_INT, AT(model.levels), "4", 1, 12, .type = "model.type", .config = true,
      .help = "how often height and width are halved; both are multiples of 2^levels" },
    { "model.up", LS_KEY_CHOICE, AT(model.up), "transposed",
      WORDS([LS_UP_TRANSPOSED] = "transposed", [LS_UP_BILINEAR] = "bilinear"), .type = "model.type",
      .config = true,
      .help = "what doubles height and width: a transposed convolution, or bilinear interpolation, which has "
              "no parameters (Pytorch-UNet's `bilinear`)" },
};

extern const ls_model_row ls_unet_row;
const ls_model_row ls_unet_row = {
    .name = "unet",
    .keys = "inputs outputs loss channels levels up sync_batch_norm label_smoothing",
    OWN_KEYS(UNET_ROWS),
    .samples = LS_SAMPLES_FIELDS,
    .build = unet_build,
    .check = unet_check
};
