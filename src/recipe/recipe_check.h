/* recipe_check.h - checks of several keys at once. */
#pragma once
#include "lockstep/recipe.h"

/* Checks that values fit each other. Also fills in run.name. */
ls_status ls_recipe_check(ls_recipe *r);

/* recipe_parallel.c. Replaces a name of FSDP1 in parallel.data by its meaning, and refuses a layout that is
 * not possible with any number of ranks. Call it when all keys are read. */
ls_status ls_recipe_check_parallel(ls_recipe *r);
bool ls_recipe_resharding_is_implied(const ls_recipe *r); /* by parallel.data: SHARD_GRAD_OP */
