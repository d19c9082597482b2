/* model_mlp.c - the row of the multi-layer perceptron. */
#include "model_row.h"

#include <string.h>

static ls_status build(ls_graph *g, const void *recipe, int64_t batch)
{
    const ls_recipe *r = recipe;
    ls_mlp_config c = { .image_size = r->model.image_size,
                        .in_channels = r->model.in_channels,
                        .classes = r->model.classes,
                        .n_hidden = r->model.hidden.n,
                        .act = r->model.act,
                        .mean = r->data.mean,
                        .std = r->data.std };
    memcpy(c.hidden, r->model.hidden.at, sizeof c.hidden);
    return ls_mlp_build(g, &c, batch);
}

static const char *const CONFIG[] = { "image_size", "in_channels", "hidden", "act", "classes", NULL };

extern const ls_model_row ls_mlp_row;
const ls_model_row ls_mlp_row = { .name = "mlp",
                                  .keys = "image_size in_channels hidden act classes",
                                  .samples = LS_SAMPLES_IMAGES,
                                  .build = build,
                                  .config = CONFIG };
