/* meet.h - what the ranks of a run settle before they work together: that they run the same program on the
 * same recipe, and how many threads each has. */
#pragma once
#include "lockstep/group.h"
#include "lockstep/recipe.h"

/* Compares program and recipe. LS_E_USAGE on the first rank that differs from rank 0, naming the difference,
 * LS_E_PEER on the others. *threads: how many every rank can have so that no core is asked for twice; the
 * same on all, as their programs must be. Collective. */
ls_status ls_ranks_meet(int *threads, ls_group *g, const ls_recipe *r);
