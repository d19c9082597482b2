/* variable.h - lists of words in a text, and environment variables whose value is one of them. */
#pragma once
#include <stdbool.h>

#include "lockstep/status.h"

bool ls_words_have(const char *words, const char *word); /* "a b c" has "b" */

/* LS_E_USAGE if the variable is set, and neither empty nor one of the words ("0 1"): a misspelt word would
 * else have no effect, and nobody would know. Local. */
ls_status ls_variable_check(const char *name, const char *words);
