/* model_vit.c - the row of the vision transformer. */
#include "model_row.h"
#include "recipe_setting.h"

static ls_status vit_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    (void)preset;
    const ls_vit_config c = { .image_size = r->model.image_size,
                              .patch_size = r->model.patch_size,
                              .in_channels = r->model.in_channels,
                              .layers = r->model.layers,
                              .heads = r->model.heads,
                              .hidden_size = r->model.hidden_size,
                              .mlp_size = r->model.mlp_size,
                              .classes = LS_RECIPE_CLASSES(r),
                              LS_RECIPE_PIXELS(r),
                              LS_RECIPE_LOSS(r),
                              .dropout = r->model.dropout,
                              .attention_dropout = r->model.attention_dropout };
    return ls_vit_build(g, &c, batch);
}

static ls_status vit_check(const ls_recipe *r)
{
    const long long image = r->model.image_size, patch = r->model.patch_size;
    if (image % patch)
        return ls_fail(
            LS_E_USAGE, "%s: patches of %lld do not divide an image of %lld; take a divisor of %lld",
            ls_recipe_where_either(r, "model.patch_size", "model.image_size"), patch, image, image);
    LS_TRY(ls_recipe_check_heads(r, false));
    const double tokens = (double)(image / patch) * (double)(image / patch) + 1;
    if (tokens > 1e6)
        return ls_fail(LS_E_USAGE, "%s: %.0f tokens per image are too many for this version",
                       ls_recipe_where(r, "model.patch_size"), tokens);
    return LS_OK;
}

extern const ls_model_row ls_vit_row;
const ls_model_row ls_vit_row = { .name = "vit",
                                  .keys = "image_size patch_size in_channels layers heads hidden_size "
                                          "mlp_size dropout attention_dropout classes outputs loss "
                                          "label_smoothing",
                                  .samples = LS_SAMPLES_IMAGES,
                                  .build = vit_build,
                                  .check = vit_check };
