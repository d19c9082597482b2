/* folder.h - a model directory as Hugging Face writes it (config.json, safetensors, perhaps a tokenizer),
 * taken as a recipe: a checkpoint of a language model is one, too. */
#pragma once
#include "lockstep/recipe.h"
#include "lockstep/weights.h"

bool ls_folder_is(const char *dir); /* has a config.json */
/* The folder of `name`, malloc'ed: itself, or a run's latest checkpoint. LS_E_USAGE says what `name` is
 * instead; LS_E_IO: the run has no checkpoint yet. */
ls_status ls_folder_find(char **out, const char *name);
/* Its model, with as many tokens a sample as it was made for; data.tokenizer is the folder. LS_E_UNSUPPORTED
 * for a model that this version does not have. */
ls_status ls_folder_recipe(ls_recipe **out, const char *dir, int n_sets, const char *const *sets);
/* The tokens that end a text, by generation_config.json or config.json; returns how many, at most `max`. 0:
 * neither says. */
ls_status ls_folder_ends(int32_t *ends, int max, int *n, const char *dir);
/* Gives the tied tensors of a folder's weights the further names that a state dict of PyTorch's has them
 * under. Weights of a model without such names, or without a config.json, stay as they are. */
ls_status ls_folder_add_names(ls_weights *w, const char *dir);
