/* folder.h - reads a model folder in Hugging Face's layout as a recipe: config.json, safetensors, and a
 * tokenizer or none. A checkpoint of a language model has this layout, too. */
#pragma once
#include "lockstep/recipe.h"
#include "lockstep/weights.h"

/* Weights that are not at the path `name`: where else they are, in the places of model.init (base/find.h):
 * LOCKSTEP_DATA, the cache, and for OWNER/NAME the hub's cache. *out is malloc'ed; NULL: `name` is there, or
 * is nowhere. LS_E_MEMORY. */
ls_status ls_folder_look(char **out, const char *name);
/* Finds the model folder, in these places too: `name` itself, or the checkpoint of the run `name` that
 * ls_run_choose takes; `best`: the best one, and `name` must be a run.
 * *out is malloc'ed. LS_E_USAGE if `name` is neither; LS_E_IO if the run has no checkpoint yet. */
ls_status ls_folder_find(char **out, const char *name, bool best);
/* The folder with config.json: `dir` or, of an adapter without that file, the folder of its base, which is
 * `base` unless that is "". *out is malloc'ed. LS_E_USAGE: the base is nowhere. */
ls_status ls_folder_config(char **out, const char *dir, const char *base);
/* Makes a recipe for the folder's model. data.seq_length is max_position_embeddings of config.json, and
 * data.tokenizer is the folder. LS_E_UNSUPPORTED if this version does not have the model. */
ls_status ls_folder_recipe(ls_recipe **out, const char *dir, int n_sets, const char *const *sets);
/* Reads the tokens that end a text: eos_token_id of generation_config.json, else of config.json. *n is their
 * number, at most `max`; 0 if neither file has the key. LS_E_FORMAT for a number that no token has. */
ls_status ls_folder_ends(int32_t *ends, int max, int *n, const char *dir);
/* Adds the other names of tied tensors, for a .pt file or a DCP directory: PyTorch's files have every name of
 * such a tensor, those of transformers one. Does nothing for a model without tied tensors, or without a
 * config.json. */
ls_status ls_folder_add_names(ls_weights *w, const char *dir);
