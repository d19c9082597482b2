/* optim_row.h - what a recipe can name as optimizer and as schedule: one row for each word of optimizer.type
 * and schedule.type, in the order of ls_optimizer_kind and ls_schedule_kind. To add one: its rule in
 * src/optim, a value of the enum, a row in optim_row.c, its keys in recipe_fields.c. */
#pragma once
#include "lockstep/recipe.h"
#include "step/torch_settings.h"

typedef struct ls_choice_row {
    const char *name;
    const char *keys; /* last names of the recipe keys that it has: "betas eps" */
    /* Checks keys that must agree with each other. NULL: there are none. */
    ls_status (*check)(const ls_recipe *r);
} ls_choice_row;

/* The tables, each ended by a row without name. */
extern const ls_choice_row LS_OPTIMIZERS[], LS_SCHEDULES[];
const char *ls_optimizer_word(int row), *ls_schedule_word(int row); /* NULL after the last */

/* All settings of a group of the optimizer as PyTorch stores them, with the rate `lr` of the step. Group 0:
 * the parameters of no group. Returns how many they are; 0: PyTorch has no such optimizer. */
int ls_recipe_torch_settings(ls_dcp_setting list[LS_TORCH_MOST], const ls_recipe *r, int group, double lr);
double ls_recipe_weight_decay(const ls_recipe *r, int group); /* of the parameters of a group */

ls_optimizer ls_recipe_optimizer(const ls_recipe *r);
/* The schedule as the recipe sets it. total_steps may be 0, and step_epochs is not applied
 * (ls_setup_cut_epochs). */
ls_schedule ls_recipe_schedule(const ls_recipe *r);
