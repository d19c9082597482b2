/* ranks.h - ranks as threads: a function runs on each of n ranks of a thread group. The program links
 * ls_comm. */
#pragma once
#include "lockstep/group.h"

/* What a rank does. cmocka's assertions belong to the main thread: use RANK_CHECK here. */
typedef ls_status (*rank_fn)(ls_group *g, void *context);

/* A rank's failure, with the place in the test. */
#define RANK_CHECK(e)                                                                                      \
    do {                                                                                                   \
        if (!(e))                                                                                          \
            return ls_fail(LS_E_INTERNAL, "%s:%d: rank %d: %s", __FILE__, __LINE__, ls_group_rank(g), #e); \
    } while (0)

/* Runs it on all ranks and returns when all have ended. The first rank to fail fails the group, and its
 * status and message are this call's own; a failure of its own goes before one that it heard of. */
ls_status run_ranks(int n, rank_fn fn, void *context);

/* For ranks that are processes: fails the group if `s` is a failure of this rank's own. Returns the exit
 * status that tells the parent. */
int tell_parent(ls_group *g, ls_status s);
