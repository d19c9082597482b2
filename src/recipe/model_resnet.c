/* model_resnet.c - the rows of the residual networks. */
#include "model_row.h"

static ls_status resnet_build(ls_graph *g, const ls_recipe *r, int64_t depth, int64_t batch)
{
    const ls_resnet_config c = { .depth = depth,
                                 .image_size = r->model.image_size,
                                 .in_channels = r->model.in_channels,
                                 .classes = LS_RECIPE_CLASSES(r),
                                 LS_RECIPE_PIXELS(r),
                                 LS_RECIPE_LOSS(r) };
    return ls_resnet_build(g, &c, batch);
}

static ls_status build_18(ls_graph *g, const void *recipe, int64_t batch)
{
    return resnet_build(g, recipe, 18, batch);
}
static ls_status build_34(ls_graph *g, const void *recipe, int64_t batch)
{
    return resnet_build(g, recipe, 34, batch);
}
static ls_status build_50(ls_graph *g, const void *recipe, int64_t batch)
{
    return resnet_build(g, recipe, 50, batch);
}

#define KEYS "image_size in_channels classes outputs loss sync_batch_norm label_smoothing"
static const char *const CONFIG[] = { "image_size", "in_channels", "classes", NULL };

extern const ls_model_row ls_resnet18_row, ls_resnet34_row, ls_resnet50_row;
const ls_model_row ls_resnet18_row = {
    .name = "resnet18", .keys = KEYS, .samples = LS_SAMPLES_IMAGES, .build = build_18, .config = CONFIG
};
const ls_model_row ls_resnet34_row = {
    .name = "resnet34", .keys = KEYS, .samples = LS_SAMPLES_IMAGES, .build = build_34, .config = CONFIG
};
const ls_model_row ls_resnet50_row = {
    .name = "resnet50", .keys = KEYS, .samples = LS_SAMPLES_IMAGES, .build = build_50, .config = CONFIG
};
