/* agree.h - one outcome for all ranks: either none has failed alone, or all fail; and all have the same
 * settings. */
#pragma once
#include "lockstep/group.h"

/* Each rank passes the status of what it did alone. If all succeeded, LS_OK everywhere. Else the first rank
 * that failed keeps its status and message, and the others get LS_E_PEER with that message, so that it is
 * reported once. Collective. */
ls_status ls_ranks_agree(ls_group *g, ls_status mine);

/* Does `work` in a thread of this rank; NULL: nothing. It may take longer than the group's deadline, because
 * the ranks tell each other meanwhile that they are there. Its outcome is that of ls_ranks_agree. Collective.
 */
ls_status ls_ranks_await(ls_group *g, ls_status (*work)(void *context), void *context);

/* Each rank passes lines of text that must be the same on all ranks. If they differ, the first rank that
 * differs from rank 0 gets LS_E_USAGE with the first such line of both ("WHAT: rank 1 has A, rank 0 has B"),
 * the others LS_E_PEER. Collective. */
ls_status ls_ranks_same(ls_group *g, const char *lines, const char *what);
