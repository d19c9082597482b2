/* agree.h - what the ranks of a run settle before they work together: that nobody has failed alone, that they
 * run the same program on the same recipe, and how many threads each has. */
#pragma once
#include "lockstep/group.h"
#include "lockstep/recipe.h"

/* Every rank comes with the status of what it did alone. All well: LS_OK everywhere. Else the first rank that
 * failed keeps its status and message, and the others get it as LS_E_PEER: one message, not one a rank.
 * Collective. */
ls_status ls_ranks_agree(ls_group *g, ls_status mine);

/* Every rank comes with lines of text that must be alike. LS_E_USAGE on the first rank that differs from rank
 * 0, with the first such line of either ("WHAT: rank 1 has A, rank 0 has B"), LS_E_PEER on the others.
 * Collective. */
ls_status ls_ranks_same(ls_group *g, const char *lines, const char *what);

/* Compares program and recipe. LS_E_USAGE on the first rank that differs from rank 0, naming the difference,
 * LS_E_PEER on the others. *threads: how many every rank can have so that no core is asked for twice; the
 * same on all, as their programs must be. Collective. */
ls_status ls_ranks_meet(int *threads, ls_group *g, const ls_recipe *r);
