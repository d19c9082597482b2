/* workers_own.h - the choice of a number of ranks. Private to workers*.c. */
#pragma once
#include "workers.h"

/* Reads the recipe anew. *workers: the most ranks, at most `most` (0: no limit), that mesh and batch can have
 * on the hosts that answer; w->why says why it is not as many as there is room for. */
ls_status ls_workers_choose(ls_workers *w, int most, int *workers);
