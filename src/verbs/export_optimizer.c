/* export_optimizer.c - see export_optimizer.h. PyTorch's loading needs every setting that its Adam, AdamW or
 * SGD has: they come from the recipe of the checkpoint. */
#include "export_optimizer.h"

#include <string.h>

#include "base/json.h"
#include "ckpt/dcp.h"
#include "passes/passes.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"

/* Which group each parameter is in follows from the model, and nothing else does: it is built for that. */
static ls_status lay_out(ls_units *u, const ls_recipe *r)
{
    const char *words[LS_RECIPE_LIST];
    const ls_trained what = { .freeze = r->train.freeze,
                              .n_groups = (int)r->optimizer.groups.n,
                              .groups = words };
    ls_graph *g = NULL;
    for (int i = 0; i < what.n_groups; i++)
        words[i] = r->optimizer.groups.at[i].match;
    LS_TRY(ls_graph_create(&g, r->run.name));
    ls_graph_evaluate(g); /* one sample is too few for batch norm in training */
    ls_status s = ls_recipe_build(g, r, 1);
    if (s == LS_OK)
        s = ls_units_lay_out(u, g, NULL, &what, &(ls_precision){ LS_PRECISION_DEFAULTS });
    ls_graph_destroy(&g);
    return s;
}

static int group_of(const void *context, const char *name)
{
    const ls_units *u = context;
    for (int i = 0; i < u->n_slots; i++)
        if (!strcmp(u->slots[i].name, name))
            return u->slots[i].group;
    return 0; /* a buffer, which has no state */
}

static ls_status export_groups(const ls_checkpoint *c, const ls_recipe *r, const ls_units *u, double lr,
                               const char *dir, const ls_weights_export_opts *o)
{
    ls_dcp_setting settings[LS_RECIPE_LIST + 1][LS_TORCH_MOST];
    ls_dcp_settings groups[LS_RECIPE_LIST + 1];
    const int n = (int)r->optimizer.groups.n + 1;
    for (int i = 0; i < n; i++)
        groups[i] = (ls_dcp_settings){ ls_recipe_torch_settings(settings[i], r, i, lr), settings[i] };
    return ls_dcp_export(c->weights,
                         &(ls_dcp_optimizer){ .state = c->optimizer,
                                              .n = n,
                                              .groups = groups,
                                              .group_of = n > 1 ? group_of : NULL,
                                              .context = u },
                         dir, o);
}

ls_status ls_export_optimizer(const ls_checkpoint *c, const char *dir, const ls_weights_export_opts *o)
{
    json_t *j = NULL;
    ls_recipe *r = NULL;
    ls_units u = { 0 };
    LS_TRY(ls_json_parse(&j, c->trainer, strlen(c->trainer), c->dir));
    const char *yaml = json_string_value(json_object_get(j, "recipe"));
    ls_status s = LS_OK;
    if (!c->optimizer || !yaml)
        s = ls_fail(LS_E_UNSUPPORTED, "--optimizer: %s %s", c->dir,
                    c->optimizer
                        ? "was written by your own program: no recipe has the settings of its optimizer"
                        : "holds no state of an optimizer");
    if (s == LS_OK)
        s = ls_recipe_load_record(&r, yaml, strlen(yaml), "the recipe in trainer.json", 0, NULL);
    if (s == LS_OK && !LS_OPTIMIZERS[r->optimizer.type].torch)
        s = ls_fail(LS_E_UNSUPPORTED,
                    "--optimizer: the state of %s cannot be written for PyTorch; export the weights "
                    "alone",
                    LS_OPTIMIZERS[r->optimizer.type].name);
    if (s == LS_OK && r->optimizer.groups.n)
        s = lay_out(&u, r);
    if (s == LS_OK) {
        const json_t *lr = json_object_get(j, "lr"); /* of the last step; null before the first */
        s = export_groups(c, r, &u, json_is_number(lr) ? json_number_value(lr) : r->optimizer.lr, dir, o);
    }
    ls_units_release(&u);
    ls_recipe_destroy(&r);
    json_decref(j);
    return s;
}
