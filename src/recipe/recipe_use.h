/* recipe_use.h - functions of recipes for other folders, besides lockstep/recipe.h. */
#pragma once
#include "lockstep/weights.h"
#include "recipe_setting.h"

/* recipe_near.c: the file of a recipe or the run that a name might mean, which is neither; malloc'ed. NULL:
 * none.
 */
char *ls_recipe_near(const char *name);

/* recipe_parallel.c: the layout for rank `rank` of `ranks`, `ranks_per_host` of them on each host (0: all on
 * one), resolved and checked. Its strings are the recipe's. */
ls_status ls_recipe_parallel(ls_parallel *out, const ls_recipe *r, int64_t ranks, int rank,
                             int ranks_per_host);

/* recipe_check.c: checks checkpoint.best.mode, and sets it where the recipe does not. `direction` of its
 * metric: 1 if a higher value is better, -1 if a lower one, 0 if nobody says. Local. */
ls_status ls_recipe_best_mode(ls_recipe *r, int direction);

/* recipe_shared.c: opens the shared object of a model of type module, if it is not open. model.config gets
 * the defaults of the module's keys. Errors of ls_shared_model_open. Local. */
ls_status ls_recipe_open_model(ls_recipe *r);
/* The same to show a recipe, where the defaults may be missing: opens nothing if the file is not there, or
 * may not be loaded. *why_not: then the reason; else NULL. Local. */
ls_status ls_recipe_open_model_if_there(ls_recipe *r, const char **why_not);
/* recipe_reference.c: the keys of model.type that a model has, as Markdown; malloc'ed. NULL: out of memory.
 */
struct ls_model_row;
char *ls_recipe_reference_of(const struct ls_model_row *m);

/* The origin of a model.tied that is false because of the weights, although config.json says true: the file,
 * and this. */
#define LS_RECIPE_UNTIED " (but its weights have a head of their own)"

/* recipe_lora.c: the options of train.lora; false: there are no adapters. What train.lora.save names gets
 * none, as in PEFT. `targets` lies in the recipe's arena. Local. */
struct ls_lora_opts;
bool ls_recipe_lora(struct ls_lora_opts *out, const ls_recipe *r);
/* The words of ls_trainer_opts.freeze: train.freeze, behind those that leave the adapters and train.lora.save
 * to train. They lie in the recipe's arena, which remembers if there was no memory. Local. */
const char *ls_recipe_freeze(const ls_recipe *r);

/* recipe_recompute.c: checks parallel.recompute. And the words of ls_trainer_opts.recompute, in the recipe's
 * arena; NULL: nothing is computed again. Local. */
ls_status ls_recipe_check_recompute(const ls_recipe *r);
const char *ls_recipe_recompute(const ls_recipe *r);

/* Whether checkpoints hold only what is trained (adapters, or with checkpoint.frozen: reference) and leave
 * the rest in model.init. With random first weights there is nothing to refer to: they hold the whole model.
 * Local. */
bool ls_recipe_leaves_base(const ls_recipe *r);
/* recipe_adapter.c: the folder of the base of the adapter, or of the checkpoint without frozen weights, in
 * folder `dir`: `named` or, if that is "", what adapter_config.json names, looked for as model.init. *out is
 * malloc'ed. LS_E_USAGE: there is none. Local. */
ls_status ls_recipe_find_base(char **out, const char *dir, const char *named);
/* recipe_init.c: opens weights; of an adapter's folder together with those of its base. Local. */
ls_status ls_recipe_open_weights(ls_weights **out, const ls_recipe *r, const char *path);
/* recipe_init.c: opens the weights that model.init names (it is not random); base/find.h says where they are
 * looked for. LS_E_USAGE if nothing is there; the message says where the key was set, and where the weights
 * were looked for. */
ls_status ls_recipe_open_init(ls_weights **out, const ls_recipe *r);
/* Fails in this way if these weights are missing, or cannot be opened; no tensor is read. Random weights are
 * fine. A folder with a config.json may lack its weights, except `to_train`: the file says all that a plan
 * needs. Local. */
ls_status ls_recipe_check_init(const ls_recipe *r, bool to_train);

/* recipe.c: ls_recipe_load without ls_recipe_check_init, for a run that may continue from a checkpoint.
 * Local. */
ls_status ls_recipe_load_to_continue(ls_recipe **out, const char *path_or_name, int n_sets,
                                     const char *const *sets);
