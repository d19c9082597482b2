/* model_module.c - the row of models from shared objects. */
#include "key_row.h"
#include "model_row.h"
#include "recipe_setting.h"
#include "shared_model.h"

static ls_status module_check(const ls_recipe *r)
{
    return *r->model.path ? ls_recipe_check_losses(r)
                          : ls_fail(LS_E_USAGE, "%s: model.type module needs model.path, a shared object",
                                    ls_recipe_where(r, "model.type"));
}

static const ls_key MODULE_ROWS[] = {
    { "model.path", LS_KEY_TEXT, AT(model.path), "", .type = "model.type", .config = true, .may_change = true,
      .help =
          "shared object that builds the model (docs/modules.md). Runs and checkpoints load no code: to use "
          "one, give `--module FILE`" },
    { "model.config", LS_KEY_TREE, AT(model.config), "{}", .type = "model.type", .config = true,
      .may_change = true,
      .help = "settings that the shared object reads, `{hidden: 64}`; `--set model.config.hidden=64` sets "
              "one of them" },
};

extern const ls_model_row ls_module_row;
const ls_model_row ls_module_row = { .name = "module",
                                     .keys = "path config loss label_smoothing",
                                     OWN_KEYS(MODULE_ROWS),
                                     .samples = LS_SAMPLES_FIELDS,
                                     .build = ls_shared_model_build,
                                     .check = module_check };
