/* look.c - checks the group outside of its collectives, while devices run collectives of their own
 * (device/link.h) and no counter of this folder is waited for. */
#include <stdio.h>

#include "base/c_locale.h"
#include "group.h"
#include "group_own.h"
#include "process.h"

static const double GRACE =
    1; /* seconds of a wait before each rank is looked at: that costs a read of /proc */

void ls_group_began(ls_group *g, const char *program)
{
    ls_group_doing(g, program);
    atomic_fetch_add(&ls_group_record(g)->programs, 1);
}

static ls_status look_missing(ls_group *g, int local, ls_missed how, const char *fate)
{
    char doing[LS_DESCRIPTION_BYTES], text[1024];
    ls_control_describe(g->control, local, doing);
    snprintf(text, sizeof text, "%s; the device of rank %d waited for it; %s", fate, g->rank, doing);
    ls_control_missed(g->control, g->first + local, g->rank, how, text);
    return ls_group_failure(g);
}

/* The reason why a rank will not do its part; NULL: none. A rank that has left the group after it had begun
 * all programs that this one has begun also waited for its device: its part is done. */
static const char *ends_early(const ls_group *g, ls_rank_record *record)
{
    const bool all = atomic_load(&record->programs) >= atomic_load(&ls_group_record(g)->programs);
    return atomic_load(&record->state) == LS_RANK_LEFT && all ? NULL : ls_rank_gone(record);
}

/* The local rank that has begun the fewest programs, if fewer than this one; else one that is stopped; -1. */
static int behind(const ls_group *g)
{
    int fewest = g->rank - g->first, stops = -1;
    for (int i = 0; i < g->here; i++) {
        ls_rank_record *record = ls_control_record(g->control, i);
        const int pid = atomic_load(&record->pid);
        bool stopped = false;
        if (atomic_load(&record->programs) < atomic_load(&ls_control_record(g->control, fewest)->programs))
            fewest = i;
        if (pid && ls_process_start_time(pid, &stopped) && stopped)
            stops = i;
    }
    return fewest == g->rank - g->first ? stops : fewest;
}

ls_status ls_group_look(ls_group *g, double waited)
{
    char fate[64];
    if (ls_control_failed(g->control))
        return ls_group_failure(g);
    for (int i = 0; i < g->here && waited >= GRACE; i++) {
        const char *gone = g->first + i == g->rank ? NULL : ends_early(g, ls_control_record(g->control, i));
        if (gone)
            return look_missing(g, i, LS_MISSED_GONE, gone);
    }
    if (waited < g->deadline)
        return LS_OK;
    const int late = behind(g);
    ls_snprintf(fate, sizeof fate, "did not come within %g s", g->deadline);
    if (late >= 0)
        return look_missing(g, late, LS_MISSED_LATE, fate);
    char text[512];
    ls_snprintf(
        text, sizeof text,
        "its device did not finish within %g s, though no rank of this host is "
        "behind: a rank of another host is, or a device or the network between devices hangs; if a step "
        "takes that long, set a longer deadline",
        g->deadline);
    ls_group_fail(g, LS_E_DEVICE, text);
    return ls_group_failure(g);
}
