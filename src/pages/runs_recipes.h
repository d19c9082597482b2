/* runs_recipes.h - the keys in which the recipes of runs differ. Private to runs_page.c. */
#pragma once
#include "base/str.h"
#include "record/run_list.h"

/* Adds a table with a row for each key and a column for each run that has a recipe. LS_E_IO, LS_E_MEMORY. */
ls_status ls_runs_recipes(ls_str *out, const ls_run_list *l);
