/* target.h - what `eval`, `predict` and `inspect` are pointed at: a run directory, a checkpoint, or a recipe (then the run it names). */
#pragma once
#include "setup.h"

typedef struct ls_target {
    ls_recipe *recipe;
    char *checkpoint; /* directory of the weights */
    char *run;        /* run directory, NULL for a bare checkpoint */
} ls_target;

/* Opens what `arg` names; with `weights` a checkpoint must be there. The message lists what was looked for. Local. */
ls_status ls_target_open(ls_target *t, const ls_recipe_arg *arg);
void ls_target_release(ls_target *t);

/* A trainer for evaluation with the target's weights (verified as the recipe says). *step: optimizer steps behind them. */
ls_status ls_target_trainer(const ls_target *t, ls_setup *s, ls_trainer **out, int64_t *step);
