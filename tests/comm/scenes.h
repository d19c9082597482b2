/* scenes.h - everything that a group can do, as a list that every rank runs through, and a digest of all
 * results of a rank. Two correct kinds of group have the same digests. */
#pragma once
#include "lockstep/group.h"

ls_status scenes_run(ls_group *g, uint64_t *digest);
/* The digests of the ranks of a group of threads, by rank. */
ls_status scenes_run_threads(int ranks, uint64_t *digests);
