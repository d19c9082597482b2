/* run_compare.c - checks that all ranks make the same call. Each collective call of a run begins with it. */
#include "lockstep/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "run_own.h"

#define MAGIC 0x6c736c6c61636c73u

typedef struct call_made {
    uint64_t magic, calls;
    int32_t status, word;
    int32_t writing, complete; /* of a save beside the program: this rank still writes; rank 0 is done */
    char call[48];
} call_made;

/* Fails with the same message on every rank if two ranks make different calls. */
static ls_status compare_all(const ls_run *r, const call_made *all)
{
    for (int k = 1; k < r->place.ranks; k++)
        if (strcmp(all[k].call, all[0].call))
            return ls_fail(
                LS_E_USAGE,
                "run %s: rank %d came to %s, rank 0 to %s: every rank makes the same calls in the same order",
                r->place.name, k, all[k].call, all[0].call);
    return LS_OK;
}

/* Rank `rank` is in another exchange than this one. It gets the message at its next call. */
static ls_status elsewhere(const ls_run *r, int rank, const char *call)
{
    char text[256];
    snprintf(text, sizeof text,
             "run %s: rank %d made a collective call that does not belong to the run, while others called "
             "%s: every rank must make the same calls in the same order",
             r->place.name, rank, call);
    ls_group_fail(r->group, LS_E_USAGE, text);
    return ls_fail(LS_E_USAGE, "%s", text);
}

/* Sends the message of the first failed rank to all. Nothing else has happened yet, so the group stays
 * usable. */
static ls_status share_failure(ls_run *r, int first, ls_status s)
{
    char text[1024] = "";
    if (r->place.rank == first)
        snprintf(text, sizeof text, "%s", ls_error_message());
    LS_TRY(ls_group_broadcast(r->group, text, sizeof text, first));
    return r->place.ranks > 1 ? ls_fail(s, "rank %d: %s", first, text) : ls_fail(s, "%s", text);
}

/* What this rank has of a save beside the program. A failed save ends the run, on all ranks. */
static ls_status look_at_save(ls_run *r, call_made *me)
{
    bool writing;
    const ls_status s = ls_snapshots_before_step(&r->snapshots, r->dir, &writing);
    if (s != LS_OK)
        ls_group_fail(r->group, s, ls_error_message());
    me->writing = writing;
    me->complete = r->coming && !r->snapshots.pending;
    return s;
}

/* Goes on with it when no rank is writing. */
static ls_status go_on_with_save(ls_run *r, bool writing, bool complete)
{
    const ls_status s = ls_snapshots_after_step(&r->snapshots, r->dir, writing);
    if (s != LS_OK && s != LS_E_PEER)
        ls_group_fail(r->group, s, ls_error_message());
    LS_TRY(s);
    return complete ? ls_run_point(r) : LS_OK;
}

ls_status ls_run_compare(ls_run *r, const char *call, ls_status mine, int32_t word)
{
    const int n = r->place.ranks;
    call_made me = { .magic = MAGIC, .calls = r->calls++, .status = mine, .word = word },
              *all = ls_sys_calloc((size_t)n, sizeof *all);
    if (!all) {
        const ls_status s = ls_fail(LS_E_MEMORY, "%s of run %.60s: out of memory", call, r->place.name);
        ls_group_fail(r->group, s, ls_error_message());
        return s;
    }
    char doing[120];
    int first = -1;
    bool writing = false;
    ls_status s = look_at_save(r, &me);
    if (s != LS_OK) {
        free(all);
        return s;
    }
    snprintf(me.call, sizeof me.call, "%s", call);
    snprintf(doing, sizeof doing, "%s of run %.60s", me.call, r->place.name);
    ls_group_doing(r->group, doing);
    ls_status failed = LS_OK;
    s = ls_group_all_gather(r->group, &me, sizeof me, all);
    for (int k = 0; k < n && s == LS_OK; k++)
        if (all[k].magic != MAGIC || all[k].calls != me.calls)
            s = elsewhere(r, k, call);
    if (s == LS_OK)
        s = compare_all(r, all);
    for (int k = n - 1; k >= 0; k--) {
        r->words[k] = all[k].word;
        writing = writing || all[k].writing;
        if (all[k].status != LS_OK) {
            first = k;
            failed = (ls_status)all[k].status;
        }
    }
    const bool complete = all[0].complete;
    free(all);
    LS_TRY(s);
    return first < 0 ? go_on_with_save(r, writing, complete) : share_failure(r, first, failed);
}
