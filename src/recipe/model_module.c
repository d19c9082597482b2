/* model_module.c - the row of models from shared objects. */
#include "model_row.h"
#include "recipe_setting.h"
#include "shared_model.h"

static ls_status module_check(const ls_recipe *r)
{
    return *r->model.path ? ls_recipe_check_losses(r)
                          : ls_fail(LS_E_USAGE, "%s: model.type module needs model.path, a shared object",
                                    ls_recipe_where(r, "model.type"));
}

static const char *const CONFIG[] = { "path", "config", NULL };

extern const ls_model_row ls_module_row;
const ls_model_row ls_module_row = { .name = "module",
                                     .keys = "path config loss",
                                     .samples = LS_SAMPLES_FIELDS,
                                     .build = ls_shared_model_build,
                                     .check = module_check,
                                     .config = CONFIG,
                                     .config_fields = CONFIG };
