/* model_convnext.c - the rows of ConvNeXt. */
#include "model_row.h"
#include "recipe_setting.h"

typedef struct size {
    int64_t depths[4], widths[4];
} size;
static const size TINY = { { 3, 3, 9, 3 }, { 96, 192, 384, 768 } },
                  SMALL = { { 3, 3, 27, 3 }, { 96, 192, 384, 768 } },
                  BASE = { { 3, 3, 27, 3 }, { 128, 256, 512, 1024 } };

static ls_status convnext_build(ls_graph *g, const ls_recipe *r, const size *s, int64_t batch)
{
    ls_convnext_config c = { .image_size = r->model.image_size,
                             .in_channels = r->model.in_channels,
                             .classes = LS_RECIPE_CLASSES(r),
                             .stochastic_depth = r->model.stochastic_depth,
                             LS_RECIPE_PIXELS(r),
                             LS_RECIPE_LOSS(r) };
    for (int i = 0; i < 4; i++) {
        c.depths[i] = s->depths[i];
        c.widths[i] = s->widths[i];
    }
    return ls_convnext_build(g, &c, batch);
}

static ls_status build_tiny(ls_graph *g, const void *recipe, int64_t batch)
{
    return convnext_build(g, recipe, &TINY, batch);
}
static ls_status build_small(ls_graph *g, const void *recipe, int64_t batch)
{
    return convnext_build(g, recipe, &SMALL, batch);
}
static ls_status build_base(ls_graph *g, const void *recipe, int64_t batch)
{
    return convnext_build(g, recipe, &BASE, batch);
}

static ls_status convnext_check(const ls_recipe *r)
{
    const long long image = r->model.image_size;
    if (image >= 32)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: ConvNeXt halves an image five times; %lld is too small, 32 is the smallest",
                   ls_recipe_where(r, "model.image_size"), image);
}

#define KEYS "image_size in_channels classes outputs loss stochastic_depth label_smoothing"
static const char *const CONFIG[] = { "image_size", "in_channels", "classes", NULL };

extern const ls_model_row ls_convnext_tiny_row, ls_convnext_small_row, ls_convnext_base_row;
#define ROW(size)                                                                                     \
    {                                                                                                 \
        .name = "convnext_" #size, .keys = KEYS, .samples = LS_SAMPLES_IMAGES, .build = build_##size, \
        .check = convnext_check, .config = CONFIG                                                     \
    }
const ls_model_row ls_convnext_tiny_row = ROW(tiny);
const ls_model_row ls_convnext_small_row = ROW(small);
const ls_model_row ls_convnext_base_row = ROW(base);
