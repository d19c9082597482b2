/* model_mlp.c - the row of the multi-layer perceptron: over an image, or from named fields to named outputs.
 */
#include "key_row.h"
#include "model_row.h"

#include <string.h>

#include "recipe_setting.h"

static ls_status build_fields(ls_graph *g, const ls_recipe *r, int64_t batch)
{
    ls_recipe_losses_own own;
    const ls_loss_list losses = ls_recipe_losses(r, &own);
    ls_task_config c = { .n_inputs = r->model.inputs.n,
                         .inputs = r->model.inputs.at,
                         .n_outputs = r->model.outputs.n,
                         .outputs = r->model.outputs.at,
                         .n_losses = r->loss.n,
                         .losses = losses.at,
                         .n_hidden = r->model.hidden.n,
                         .act = r->model.act,
                         .scale = r->model.scale == LS_SCALE_STANDARD,
                         .dropout = r->model.dropout };
    memcpy(c.hidden, r->model.hidden.at, sizeof c.hidden);
    return ls_task_build(g, &c, batch);
}

static ls_status mlp_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    (void)preset;
    if (r->model.inputs.n)
        return build_fields(g, r, batch);
    ls_mlp_config c = { .image_size = r->model.image_size,
                        .in_channels = r->model.in_channels,
                        .classes = r->model.classes,
                        .n_hidden = r->model.hidden.n,
                        .act = r->model.act,
                        .dropout = r->model.dropout,
                        LS_RECIPE_PIXELS(r),
                        LS_RECIPE_LOSS(r) };
    memcpy(c.hidden, r->model.hidden.at, sizeof c.hidden);
    return ls_mlp_build(g, &c, batch);
}

static ls_status mlp_check(const ls_recipe *r)
{
    if (!r->model.inputs.n && !r->model.outputs.n && (!r->loss.n || !*r->loss.at[0].of))
        return LS_OK; /* a classifier of pictures */
    if (!r->model.inputs.n || !r->model.outputs.n || !r->loss.n)
        return ls_fail(
            LS_E_USAGE,
            "%s: an mlp of fields has model.inputs, model.outputs and loss, as in `model: {type: "
            "mlp, inputs: {x: [8]}, outputs: {y: [3]}}`, `loss: {type: mse, of: y}`; %s is missing",
            ls_recipe_where(r, r->model.inputs.n    ? "model.inputs"
                               : r->model.outputs.n ? "model.outputs"
                                                    : "loss"),
            !r->model.inputs.n    ? "model.inputs"
            : !r->model.outputs.n ? "model.outputs"
                                  : "loss");
    return ls_recipe_check_losses(r);
}

static const ls_key MLP_ROWS[] = {
    { "model.hidden", LS_KEY_INTS, AT(model.hidden), "[128]", 1, 1e6, .type = "model.type", .config = true,
      .help = "widths of the hidden layers; `[]`: none" },
    { "model.act", LS_KEY_CHOICE, AT(model.act), "relu",
      WORDS([LS_MLP_ACT_RELU] = "relu", [LS_MLP_ACT_GELU] = "gelu", [LS_MLP_ACT_GELU_TANH] = "gelu_tanh"),
      .type = "model.type", .config = true, .help = "activation after each hidden layer" },
    { "model.scale", LS_KEY_CHOICE, AT(model.scale), "standard",
      WORDS([LS_SCALE_STANDARD] = "standard", [LS_SCALE_NONE] = "none"), .type = "model.type", .config = true,
      NEEDS("model.inputs !{}"),
      .help = "`standard`: inputs, and targets of mse, mae and huber, are computed with as (value - mean) / "
              "deviation of the training split; outputs and metrics are in the data's own units" },
    { "model.refit", LS_KEY_BOOL, AT(model.refit), "false", .type = "model.type",
      NEEDS("model.scale standard", "model.inputs !{}", "model.init !random"),
      .help = "true: mean and deviation are found again; false: those of `init` are kept" },
};

extern const ls_model_row ls_mlp_row;
const ls_model_row ls_mlp_row = {
    .name = "mlp",
    .keys = "image_size in_channels hidden act dropout classes inputs outputs scale refit loss "
            "label_smoothing",
    OWN_KEYS(MLP_ROWS),
    .samples = LS_SAMPLES_IMAGES,
    .build = mlp_build,
    .check = mlp_check
};
