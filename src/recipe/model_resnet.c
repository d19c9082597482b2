/* model_resnet.c - the rows of the residual networks. */
#include "model_row.h"

static ls_status resnet_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    const int64_t *depth = preset;
    const ls_resnet_config c = { .depth = *depth,
                                 .image_size = r->model.image_size,
                                 .in_channels = r->model.in_channels,
                                 .classes = LS_RECIPE_CLASSES(r),
                                 LS_RECIPE_PIXELS(r),
                                 LS_RECIPE_LOSS(r) };
    return ls_resnet_build(g, &c, batch);
}

extern const ls_model_row ls_resnet18_row, ls_resnet34_row, ls_resnet50_row;
#define RESNET(word, depth)                                                                    \
    {                                                                                          \
        .name = word, .preset = &(const int64_t){ depth }, .samples = LS_SAMPLES_IMAGES,       \
        .keys = "image_size in_channels classes outputs loss sync_batch_norm label_smoothing", \
        .build = resnet_build                                                                  \
    }
const ls_model_row ls_resnet18_row = RESNET("resnet18", 18);
const ls_model_row ls_resnet34_row = RESNET("resnet34", 34);
const ls_model_row ls_resnet50_row = RESNET("resnet50", 50);
