/* agree.c - makes all ranks end a piece of local work with one outcome: the failure of one becomes that of
 * all. */
#include "agree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/background.h"
#include "base/hash.h"
#include "base/sys.h"
#include "group_calls.h"

ls_status ls_ranks_agree(ls_group *g, ls_status mine)
{
    int n = ls_group_size(g), first = 0;
    int32_t own = (int32_t)mine, *all;
    char message[4096] = "";
    if (mine != LS_OK)
        snprintf(message, sizeof message, "%s", ls_error_message());
    ls_status s = ls_group_all_gather_new(g, &own, sizeof own, (void **)&all);
    while (s == LS_OK && first < n && all[first] == LS_OK)
        first++;
    free(all);
    if (s != LS_OK || first == n)
        return s;
    if (first != ls_group_rank(g))
        return ls_group_barrier(g); /* the failed rank does not come: the barrier ends with its message */
    ls_group_fail(g, mine, message);
    return ls_fail(mine, "%s", message);
}

ls_status ls_ranks_await(ls_group *g, ls_status (*work)(void *context), void *context)
{
    enum { LEAST_MS = 5, MOST_MS = 100 };
    ls_background b = { 0 };
    const ls_status began = work ? ls_background_start(&b, work, context) : LS_OK;
    ls_status s = LS_OK;
    for (int32_t busy = 1, ms = LEAST_MS; s == LS_OK && busy; ms = 2 * ms < MOST_MS ? 2 * ms : MOST_MS) {
        busy = !ls_background_done(&b);
        s = ls_group_all_reduce(g, &busy, 1, LS_I32, LS_REDUCE_MAX);
        if (s == LS_OK && busy)
            nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
    }
    if (s == LS_OK)
        return ls_ranks_agree(g, began == LS_OK ? ls_background_wait(&b) : began);
    char message[4096];
    snprintf(message, sizeof message, "%s", ls_error_message());
    (void)ls_background_wait(&b); /* it uses the caller's memory */
    return ls_fail(s, "%s", message);
}

/* Compares the two texts line by line. LS_E_USAGE with the first line of `mine` that differs in `theirs`. */
static ls_status difference(const char *mine, const char *theirs, int rank, const char *what)
{
    while (*mine || *theirs) {
        int n = (int)strcspn(mine, "\n"), m = (int)strcspn(theirs, "\n");
        if (n != m || memcmp(mine, theirs, (size_t)n))
            return ls_fail(LS_E_USAGE, "%s: rank %d has %.*s, rank 0 has %.*s", what, rank, n ? n : 7,
                           n ? mine : "nothing", m ? m : 7, m ? theirs : "nothing");
        mine += n + (mine[n] == '\n');
        theirs += m + (theirs[m] == '\n');
    }
    return LS_OK;
}

static ls_status agree_compare(ls_group *g, const char *mine, const char *what)
{
    uint64_t bytes = strlen(mine) + 1;
    LS_TRY(ls_group_broadcast(g, &bytes, sizeof bytes, 0));
    char *theirs = ls_sys_malloc(bytes);
    LS_TRY(ls_ranks_agree(
        g, theirs ? LS_OK : ls_fail(LS_E_MEMORY, "%s: no memory for %" PRIu64 " bytes", what, bytes)));
    memcpy(theirs, mine, ls_group_rank(g) == 0 ? bytes : 0);
    ls_status s = ls_group_broadcast(g, theirs, bytes, 0);
    if (s == LS_OK)
        s = ls_ranks_agree(g, difference(mine, theirs, ls_group_rank(g), what));
    free(theirs);
    return s;
}

/* Rank 0's lines are sent to all ranks only if some rank's lines differ. */
ls_status ls_ranks_same(ls_group *g, const char *lines, const char *what)
{
    const int n = ls_group_size(g);
    if (!lines) {
        const ls_status s = ls_fail(LS_E_MEMORY, "no memory for the text by which the ranks are compared");
        ls_group_fail(g, s, ls_error_message());
        return s;
    }
    uint64_t mine = ls_hash_text(lines), *all;
    bool any = false;
    LS_TRY(ls_group_all_gather_new(g, &mine, sizeof mine, (void **)&all));
    for (int r = 1; r < n; r++)
        any = any || all[r] != all[0];
    free(all);
    return any ? agree_compare(g, lines, what) : LS_OK;
}
