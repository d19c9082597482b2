/* watch.c - see watch.h. How many rounds there are between two exchanges follows from the time of a round on
 * the slowest rank, which the ranks exchange too. So all of them count to the same number. */
#include "watch.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "group_calls.h"

static const double EVERY = 0.25; /* seconds between exchanges */
enum { GROWTH = 4 };              /* a few quick rounds do not mean that the next thousand are quick */

static uint32_t flag_is_set(void *context)
{
    const volatile sig_atomic_t *flag = context;
    return flag && *flag;
}

ls_watch ls_watch_flag(ls_group *g, const volatile sig_atomic_t *flag)
{
    return (ls_watch){ .group = g, .asked_here = flag_is_set, .context = (void *)(uintptr_t)flag };
}

typedef struct message {
    double seconds; /* of a round */
    uint32_t asked;
} message;

static ls_status exchange(ls_watch *w)
{
    const double now = ls_now();
    const message mine = { .seconds = w->done ? (now - w->since) / (double)w->done : EVERY,
                           .asked = w->asked_here(w->context) };
    double slowest = 0;
    message *all;
    LS_TRY(ls_group_all_gather_new(w->group, &mine, sizeof mine, (void **)&all));
    for (int r = 0; r < ls_group_size(w->group); r++) {
        slowest = fmax(slowest, all[r].seconds);
        w->asked |= all[r].asked;
    }
    free(all);
    const double most = w->each ? (double)(w->each * GROWTH) : 1,
                 fit = slowest > 0 ? EVERY / slowest : most;
    w->each = (int64_t)fmax(1, fmin(fit, most));
    w->done = 0;
    w->since = ls_now();
    return LS_OK;
}

ls_status ls_watch_round(ls_watch *w)
{
    if (w->asked)
        return LS_OK;
    if (!w->group)
        w->asked = w->asked_here(w->context);
    else if (w->done == w->each)
        LS_TRY(exchange(w));
    w->done++;
    return LS_OK;
}

ls_status ls_watch_now(ls_watch *w)
{
    w->each = w->done;
    return ls_watch_round(w);
}
