/* recipe_shared.c - opens the shared object of a recipe's model and gives the recipe the defaults of its
 * keys. */
#include <string.h>

#include "base/file.h"
#include "recipe_fields.h"
#include "recipe_use.h"
#include "shared_model.h"

/* model.config has the defaults from here on, in files too; data.config shows them. */
static ls_status keep_defaults(ls_recipe *r, const ls_shared_model *m)
{
    const int row = ls_key_find("model.config");
    ls_setting *set = &r->state->set[row];
    r->state->set[ls_key_find("data.config")].shown = m->data_config;
    if (!set->value)
        *set = (ls_setting){ .key = ls_key_at(row)->key,
                             .where = ls_recipe_where(r, "model.config"),
                             .origin = "resolved: the module's defaults" };
    set->value = set->shown = m->config;
    return ls_value_read(ls_key_at(row), r, m->config, &r->state->arena, set->where);
}

ls_status ls_recipe_open_model(ls_recipe *r)
{
    const bool was_open = r->state->module != NULL;
    LS_TRY(ls_shared_model_open(r));
    return was_open || !r->state->module ? LS_OK : keep_defaults(r, r->state->module);
}

ls_status ls_recipe_open_model_if_there(ls_recipe *r, const char **why_not)
{
    *why_not = NULL;
    if (strcmp(r->model.type, "module"))
        return LS_OK;
    if (ls_recipe_setting(r->state, "model.path")->recorded)
        *why_not = "a run or a checkpoint names it; --set model.path=FILE loads it";
    else if (!ls_file_exists(r->model.path))
        *why_not = "no such file; build the module first";
    return *why_not ? LS_OK : ls_recipe_open_model(r);
}
