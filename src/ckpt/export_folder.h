/* export_folder.h - weights as a folder: NAME.safetensors and files beside it. */
#pragma once
#include "ckpt/checkpoint.h"

/* Writes the folder `dir` with the weights and these files, complete or not at all. A folder that is there is
 * an error or, with o->replace, replaced if it holds nothing else than weights, config.json and files that
 * `may_be_beside` knows. */
ls_status ls_weights_export_folder(const ls_weights *w, const char *dir, const char *name,
                                   const ls_beside *files, int n, bool (*may_be_beside)(const char *name),
                                   const ls_weights_export_opts *o);
