/* agree.h - one outcome for all ranks: that nobody has failed alone, and that all have the same. */
#pragma once
#include "lockstep/group.h"

/* Every rank comes with the status of what it did alone. All well: LS_OK everywhere. Else the first rank that
 * failed keeps its status and message, and the others get it as LS_E_PEER: one message, not one a rank.
 * Collective. */
ls_status ls_ranks_agree(ls_group *g, ls_status mine);

/* Every rank comes with lines of text that must be alike. LS_E_USAGE on the first rank that differs from rank
 * 0, with the first such line of either ("WHAT: rank 1 has A, rank 0 has B"), LS_E_PEER on the others.
 * Collective. */
ls_status ls_ranks_same(ls_group *g, const char *lines, const char *what);
