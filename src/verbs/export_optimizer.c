/* export_optimizer.c - the settings that PyTorch stores beside an optimizer's state, made from the recipe of
 * a checkpoint. PyTorch's loading needs every setting that its Adam, AdamW or SGD has. */
#include "export_optimizer.h"

#include <string.h>

#include "base/json.h"
#include "ckpt/dcp.h"
#include "lockstep/recipe.h"

enum { MOST = 16 };

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
    }, adam[] = {
        { "betas", LS_DCP_PAIR, r->optimizer.betas[0], r->optimizer.betas[1] },
        { "eps", LS_DCP_FLOAT, r->optimizer.eps, 0 },
        { "amsgrad", LS_DCP_BOOL, false, 0 },
        { "capturable", LS_DCP_BOOL, false, 0 },
        { "decoupled_weight_decay", LS_DCP_BOOL, r->optimizer.type == LS_ADAMW, 0 },
    }, sgd[] = {
        { "momentum", LS_DCP_FLOAT, r->optimizer.momentum, 0 },
        { "dampening", LS_DCP_FLOAT, r->optimizer.dampening, 0 },
        { "nesterov", LS_DCP_BOOL, r->optimizer.nesterov, 0 },
    };
    const bool is_sgd = r->optimizer.type == LS_SGD;
    const size_t own = is_sgd ? sizeof sgd : sizeof adam;
    memcpy(list, both, sizeof both);
    memcpy(list + sizeof both / sizeof *both, is_sgd ? sgd : adam, own);
    return (int)((sizeof both + own) / sizeof *both);
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
                    c->optimizer ? "is of a program of its own: no recipe tells its optimizer's settings"
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
