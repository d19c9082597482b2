/* inspect_recipe.h - `lockstep inspect RECIPE`: the model that the recipe describes, and the ranks' local
 * shards of its tensors. */
#pragma once
#include "commands.h"

ls_status ls_inspect_recipe(const ls_inspect_opts *o, const ls_ui *ui);
