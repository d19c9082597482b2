/* saved_model.h - the argument of `eval`, `predict` and `inspect`: a run directory, a checkpoint, or a
 * recipe, which stands for the run that it names. */
#pragma once
#include "commands.h"
#include "setup/setup.h"

typedef struct ls_saved_model {
    ls_recipe *recipe;
    char *checkpoint; /* directory of the weights; NULL: they are those of model.init */
    char *run;        /* run directory, NULL for a bare checkpoint */
} ls_saved_model;

/* Opens the model that `arg` names. The message of an error lists the places that were searched. The recipe
 * has numbers of ranks and cores only if `arg` gives them, whatever trained the weights. Local. */
ls_status ls_saved_model_open(ls_saved_model *t, const ls_recipe_arg *arg);
/* Whether `arg` is a Hugging Face or PEFT folder, which ls_saved_model_open does not take. Local. */
bool ls_saved_model_is_folder(const ls_recipe_arg *arg);
/* Opens it to be evaluated on the data that --set names. LS_E_USAGE: it names none. Local. */
ls_status ls_saved_model_open_folder(ls_saved_model *t, const ls_recipe_arg *arg);
void ls_saved_model_release(ls_saved_model *t);

/* Logs how `set` and its tokenizer differ from those that the weights were trained with, and returns that
 * line, malloc'ed. NULL: they do not differ, or the checkpoint does not record them. Local. */
char *ls_saved_model_other_data(const ls_saved_model *t, const ls_dataset *set);
/* The same for a tokenizer alone; `file` is the result of ls_tokenizer_find. */
void ls_saved_model_check_tokenizer(const ls_saved_model *t, const char *file);

/* Logs how the model that a module builds differs from the one that the weights were trained with. Local. */
void ls_saved_model_check_module(const ls_saved_model *t);

/* Whether the command line asks for more than one rank. Local. */
bool ls_saved_model_several(const ls_saved_model *t);

/* Makes a trainer for evaluation with the model's weights, sharded over the ranks of g. checkpoint.verify
 * says what is verified. *step becomes the number of optimizer steps behind the weights. Collective; g NULL:
 * one rank. */
ls_status ls_saved_model_trainer(const ls_saved_model *t, ls_group *g, ls_setup *s, ls_trainer **out,
                                 int64_t *step);

/* The status of a call that loads the model's weights: LS_E_USAGE if they do not fit (LS_E_SHAPE) and a key
 * of the model was set on the command line. Local. */
ls_status ls_saved_model_blame_model(const ls_saved_model *t, ls_status s);

/* ls_weights_open; of a DCP directory, the names that begin with `prefix` (NULL: --prefix was not given),
 * without it. */
ls_status ls_saved_model_weights(ls_weights **out, const char *path, const char *prefix);
