/* variable.h - environment variables whose value is one of a few words. */
#pragma once
#include "lockstep/status.h"

/* LS_E_USAGE if the variable is set, and neither empty nor one of the words ("0 1"): a misspelt word would
 * else have no effect, and nobody would know. Local. */
ls_status ls_variable_check(const char *name, const char *words);
