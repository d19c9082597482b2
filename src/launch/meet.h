/* meet.h - what the ranks of a run compare before they train: the program and the recipe. They also agree on
 * the number of threads. */
#pragma once
#include "lockstep/group.h"
#include "lockstep/recipe.h"

/* Compares program and recipe. LS_E_USAGE on the first rank that differs from rank 0, with the difference;
 * LS_E_PEER on the others. *threads is the number of threads that every rank can have so that no two share a
 * core. It is the same on all ranks, because the number of threads is a part of the compiled program.
 * Collective. */
ls_status ls_ranks_meet(int *threads, ls_group *g, const ls_recipe *r);
