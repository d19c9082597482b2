/* model_convnext.c - the rows of ConvNeXt. */
#include "key_row.h"
#include "model_row.h"
#include "recipe_setting.h"

typedef struct size {
    int64_t depths[4], widths[4];
} size;
static const size TINY = { { 3, 3, 9, 3 }, { 96, 192, 384, 768 } },
                  SMALL = { { 3, 3, 27, 3 }, { 96, 192, 384, 768 } },
                  BASE = { { 3, 3, 27, 3 }, { 128, 256, 512, 1024 } };

static ls_status convnext_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    const size *s = preset;
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

static ls_status convnext_check(const ls_recipe *r)
{
    const long long image = r->model.image_size;
    if (image >= 32)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: ConvNeXt halves an image five times; %lld is too small, 32 is the smallest",
                   ls_recipe_where(r, "model.image_size"), image);
}

static const ls_key CONVNEXT_ROWS[] = {
    { "model.stochastic_depth", LS_KEY_REAL, AT(model.stochastic_depth), "0.1", 0, 1, .below = true,
      .type = "model.type",
      .help = "probability that a sample skips the last block's branch in training; earlier ones have less, "
              "in equal steps from 0 on. torchvision: 0.1 for convnext_tiny, 0.4 for _small, 0.5 for _base" },
};

extern const ls_model_row ls_convnext_tiny_row, ls_convnext_small_row, ls_convnext_base_row;
#define CONVNEXT(word, size)                                                                    \
    {                                                                                           \
        .name = word, .preset = &(size), .samples = LS_SAMPLES_IMAGES, .build = convnext_build, \
        .keys = "image_size in_channels classes outputs loss stochastic_depth label_smoothing", \
        OWN_KEYS(CONVNEXT_ROWS), .check = convnext_check                                        \
    }
const ls_model_row ls_convnext_tiny_row = CONVNEXT("convnext_tiny", TINY);
const ls_model_row ls_convnext_small_row = CONVNEXT("convnext_small", SMALL);
const ls_model_row ls_convnext_base_row = CONVNEXT("convnext_base", BASE);
