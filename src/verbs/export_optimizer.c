/* export_optimizer.c - the settings that PyTorch stores beside an optimizer's state, made from the recipe of
 * a checkpoint. PyTorch's loading needs every setting that its Adam, AdamW or SGD has. */
#include "export_optimizer.h"

#include <string.h>

#include "base/json.h"
#include "ckpt/dcp.h"
#include "recipe/optim_row.h"

enum { MOST = 8 + LS_TORCH_SETTINGS };

static int add_settings(ls_dcp_setting list[MOST], const ls_recipe *r, double lr)
{
    const ls_dcp_setting both[] = {
        { "lr", LS_DCP_FLOAT, lr, 0 },
        { "initial_lr", LS_DCP_FLOAT, r->optimizer.lr, 0 }, /* which PyTorch's schedulers read */
        { "weight_decay", LS_DCP_FLOAT, r->optimizer.weight_decay, 0 },
        { "maximize", LS_DCP_BOOL, false, 0 },
        { "foreach", LS_DCP_NONE, 0, 0 },
        { "differentiable", LS_DCP_BOOL, false, 0 },
        { "fused", LS_DCP_NONE, 0, 0 },
    };
    const int n = (int)(sizeof both / sizeof both[0]);
    memcpy(list, both, sizeof both);
    return n + LS_OPTIMIZERS[r->optimizer.type].torch(list + n, r);
}

ls_status ls_export_optimizer(const ls_checkpoint *c, const char *dir, const ls_weights_export_opts *o)
{
    json_t *j = NULL;
    ls_recipe *r = NULL;
    ls_dcp_setting settings[MOST];
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
    if (s == LS_OK) {
        const json_t *lr = json_object_get(j, "lr"); /* of the last step; null before the first */
        const int n = add_settings(settings, r, json_is_number(lr) ? json_number_value(lr) : r->optimizer.lr);
        s = ls_dcp_export(c->weights,
                          &(ls_dcp_optimizer){ .state = c->optimizer, .n = n, .settings = settings }, dir, o);
    }
    ls_recipe_destroy(&r);
    json_decref(j);
    return s;
}
