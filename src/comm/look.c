/* look.c - looking at the group from outside of its collectives, while devices run collectives of their own
 * (device/link.h): no counter of this folder is waited for then. */
#include <stdio.h>

#include "base/c_locale.h"
#include "fault.h"
#include "group_own.h"

static const double GRACE = 1; /* seconds: a rank that has ended may have sent all it had to send */

void ls_group_began(ls_group *g, const char *program)
{
    ls_group_doing(g, program);
    atomic_fetch_add(&ls_group_slot(g)->programs, 1);
}

static ls_status missing(ls_group *g, int local, ls_missed how, const char *fate)
{
    char doing[LS_DESCRIPTION_BYTES], text[1024];
    ls_control_describe(g->control, local, doing);
    snprintf(text, sizeof text, "%s; the device of rank %d waited for it; %s", fate, g->rank, doing);
    ls_control_missed(g->control, g->first + local, g->rank, how, text);
    return ls_group_failure(g);
}

ls_status ls_group_look(ls_group *g, double waited)
{
    if (ls_control_failed(g->control))
        return ls_group_failure(g);
    int behind = -1;
    uint64_t fewest = atomic_load(&ls_group_slot(g)->programs);
    for (int i = 0; i < g->here; i++) {
        ls_rank_slot *slot = ls_control_slot(g->control, i);
        const char *gone = g->first + i == g->rank || waited < GRACE ? NULL : ls_rank_gone(slot);
        if (gone)
            return missing(g, i, LS_MISSED_GONE, gone);
        const uint64_t begun = atomic_load(&slot->programs);
        if (begun < fewest) {
            fewest = begun;
            behind = i;
        }
    }
    if (behind < 0 || waited < g->deadline)
        return LS_OK;
    char fate[64];
    ls_snprintf(fate, sizeof fate, "did not come within %g s", g->deadline);
    return missing(g, behind, LS_MISSED_LATE, fate);
}
