/* compare.h - what the ranks of a run compare before they train: the program and the recipe. They also agree
 * on the number of threads. */
#pragma once
#include "base/cpu_limits.h"
#include "lockstep/group.h"
#include "lockstep/recipe.h"

/* Compares program and recipe. LS_E_USAGE on the first rank that differs from rank 0, with the difference;
 * LS_E_PEER on the others. *threads is the number of threads that every rank can have so that no two share a
 * core, and all stay within the quotas of their control groups (base/cpu_limits.h). It is the same on all
 * ranks, because the number of threads is a part of the compiled program. *limit (NULL: not wanted) says what
 * decided. Collective. */
ls_status ls_ranks_compare(int *threads, ls_cpu_limit *limit, ls_group *g, const ls_recipe *r);
