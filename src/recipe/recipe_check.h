/* recipe_check.h - what no single key can know. */
#pragma once
#include "lockstep/recipe.h"

/* Values that must fit each other. Also fills in run.name. */
ls_status ls_recipe_check(ls_recipe *r);

/* recipe_parallel.c. Settles what parallel.data means when it is a name of FSDP1, and refuses a layout that
 * no number of ranks makes right. Called when all keys are read. */
ls_status ls_recipe_check_parallel(ls_recipe *r);
bool ls_recipe_resharding_is_implied(const ls_recipe *r); /* parallel.data: SHARD_GRAD_OP says it */
