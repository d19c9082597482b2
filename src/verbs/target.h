/* target.h - what `eval`, `predict` and `inspect` are pointed at: a run directory, a checkpoint, or a recipe
 * (then the run it names). */
#pragma once
#include "commands.h"
#include "setup/setup.h"

typedef struct ls_target {
    ls_recipe *recipe;
    char *checkpoint; /* directory of the weights */
    char *run;        /* run directory, NULL for a bare checkpoint */
} ls_target;

/* Opens what `arg` names; with `weights` a checkpoint must be there. The message lists what was looked for.
 * Local. */
ls_status ls_target_open(ls_target *t, const ls_recipe_arg *arg);
void ls_target_release(ls_target *t);

/* How `set`, and its tokenizer, differ from what the weights were trained with: one line of the log, and the
 * same malloc'ed; NULL: they do not, or the checkpoint does not say. Local. */
char *ls_target_other_data(const ls_target *t, const ls_dataset *set);
/* likewise, when there is only a tokenizer; `file`: what ls_tokenizer_find found */
void ls_target_check_tokenizer(const ls_target *t, const char *file);

/* How many ranks this command was asked for; 1 when it was not asked: what the run was trained with says
 * nothing about its use. Local. */
int ls_target_workers(const ls_target *t);

/* A trainer for evaluation with the target's weights (verified as the recipe says), sharded over the ranks of
 * g. *step: optimizer steps behind them. Collective; g NULL: one rank. */
ls_status ls_target_trainer(const ls_target *t, ls_group *g, ls_setup *s, ls_trainer **out, int64_t *step);
