/* export_optimizer.c - see export_optimizer.h. PyTorch's loading needs every setting that its Adam, AdamW or
 * SGD has: they come from the recipe of the checkpoint. */
#include "export_optimizer.h"

#include <string.h>

#include "base/json.h"
#include "ckpt/dcp.h"
#include "recipe/optim_row.h"

ls_status ls_export_optimizer(const ls_checkpoint *c, const char *dir, const ls_weights_export_opts *o)
{
    json_t *j = NULL;
    ls_recipe *r = NULL;
    ls_dcp_setting settings[LS_TORCH_MOST];
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
        const int n = ls_recipe_torch_settings(settings, r,
                                               json_is_number(lr) ? json_number_value(lr) : r->optimizer.lr);
        s = ls_dcp_export(c->weights,
                          &(ls_dcp_optimizer){ .state = c->optimizer, .n = n, .settings = settings }, dir, o);
    }
    ls_recipe_destroy(&r);
    json_decref(j);
    return s;
}
