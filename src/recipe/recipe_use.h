/* recipe_use.h - what other folders ask of a recipe beside lockstep/recipe.h. */
#pragma once
#include "recipe_place.h"

/* recipe_parallel.c: the layout for rank `rank` of `ranks`, `ranks_per_host` of them on each host (0: all on
 * one), resolved and checked. Its strings are the recipe's. */
ls_status ls_recipe_parallel(ls_parallel *out, const ls_recipe *r, int64_t ranks, int rank,
                             int ranks_per_host);

/* recipe_init.c: path of the weights that model.init, which is not random, names, looked for where
 * base/find.h looks; malloc'ed. LS_E_USAGE: nothing is there; the message has the key's place, and where was
 * looked. */
ls_status ls_recipe_init_path(char **out, const ls_recipe *r);
/* Fails like that, unless the weights are random. */
ls_status ls_recipe_check_init(const ls_recipe *r);

/* recipe.c: ls_recipe_load without that check, for a run that may continue from a checkpoint. Local. */
ls_status ls_recipe_load_to_continue(ls_recipe **out, const char *path_or_name, int n_sets,
                                     const char *const *sets);
