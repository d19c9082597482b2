/* run_choice.h - which checkpoint of a run the commands take that use its weights, and
 * predictors and generators of the library. */
#pragma once
#include <stdbool.h>
#include "lockstep/status.h"

/* The folder checkpoints/latest or, if `best`, checkpoints/best. Of a run that early stopping ended it is the
 * best one in any case, and the log says so. *out is malloc'ed. LS_E_IO: the run has no such checkpoint.
 * Local. */
ls_status ls_run_choose(char **out, const char *run_dir, bool best);
