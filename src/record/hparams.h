/* hparams.h - the settings of a run for TensorBoard's page HPARAMS, which compares the runs of a folder. */
#pragma once
#include "base/str.h"
#include "lockstep/recipe.h"

/* Appends the Summary of an event, in the encoding of protobuf: the keys that a file, --set or the run itself
 * gave, with their values as numbers, booleans or texts. Defaults are left out, and texts of environment
 * variables, which may be secret. Nothing where no key is left. LS_E_MEMORY: it is not whole. */
ls_status ls_hparams_summary(ls_str *out, const ls_recipe *r);
