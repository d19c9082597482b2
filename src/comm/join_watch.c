/* join_watch.c - see join_watch.h. The thread reads /proc only: MPI knows nothing before MPI_Init returns.
 * Ranks of other hosts cannot be seen, so of those it says only that they have not come. */
#include "join_watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "lag_threshold.h"
#include "siblings.h"

#define FIRST 1.2 /* parts of the time of lag.c: until the first look, and between two */
#define OFTEN 0.4
#define TWICE 2 /* looks: in one look alone, a rank that has just joined may have no such thread any more */

/* What was said of a process. */
typedef struct told {
    int process, rank;
    bool stopped; /* that it is stopped; else that it has not come */
    int seen;     /* how often in a row it had not come */
} told;

struct ls_join_watch {
    pthread_mutex_t lock; /* of `over`, `owners` and the log: nothing is said after the end */
    pthread_cond_t ends;
    bool over;
    int owners; /* the rank and the thread; the last one frees it */
    double began;
    int rank, size;
    ls_kin kin;
    char host[64];
    /* of the thread */
    bool spoke, said_others;
    ls_sibling *all; /* as they were found last */
    int n;
    told *told;
    int n_told, cap_told;
};

static void leave(ls_join_watch *w)
{
    pthread_mutex_lock(&w->lock);
    const bool last = --w->owners == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last)
        return;
    pthread_cond_destroy(&w->ends);
    pthread_mutex_destroy(&w->lock);
    free(w->all);
    free(w->told);
    free(w);
}

/* Whether this rank speaks: no lower one of this host waits. Looks only at those. */
static bool speaks(ls_join_watch *w)
{
    for (int i = 0; i < w->n && w->all[i].rank < w->rank; i++)
        if (ls_sibling_look(&w->all[i]) && w->all[i].joins && !w->all[i].stopped)
            return false;
    return true;
}

static told *record_of(ls_join_watch *w, const ls_sibling *s)
{
    for (int i = 0; i < w->n_told; i++)
        if (w->told[i].process == s->process)
            return &w->told[i];
    told *more = ls_sys_grow(w->told, w->n_told, &w->cap_told, sizeof *more);
    if (!more)
        return NULL;
    w->told = more;
    more[w->n_told] = (told){ .process = s->process, .rank = s->rank };
    return &more[w->n_told++];
}

static void tell_stopped(ls_join_watch *w, const ls_sibling *s)
{
    told *t = record_of(w, s);
    if (!t || t->stopped)
        return;
    t->stopped = w->spoke = true;
    ls_log_warn(
        "waiting for rank %d: its process %d on host %s is stopped (state T); it had not joined the group",
        s->rank, s->process, w->host);
}

static void tell_absent(ls_join_watch *w, const ls_sibling *s)
{
    told *t = record_of(w, s);
    if (!t || ++t->seen != TWICE)
        return;
    w->spoke = true;
    ls_log_warn("waiting for rank %d: its process %d (%s) on host %s has not come to MPI_Init, for %d s",
                s->rank, s->process, s->name, w->host, (int)(ls_now() - w->began));
}

/* Of each host one rank would say this, so only those of the first two do: one of them may be the one that
 * hangs. */
static void tell_others(ls_join_watch *w, int here)
{
    if (w->said_others || w->rank >= 2 * here)
        return;
    w->said_others = w->spoke = true;
    if (here == w->size)
        ls_log_warn("waiting in MPI_Init for %d s: all %d ranks have come to it, on host %s",
                    (int)(ls_now() - w->began), here, w->host);
    else
        ls_log_warn(
            "waiting in MPI_Init for %d s: the %d rank%s of host %s %s here, ranks of other hosts have not "
            "come: is each host up, is its network?",
            (int)(ls_now() - w->began), here, here == 1 ? "" : "s", w->host, here == 1 ? "is" : "are");
}

/* The processes all[first..end) of one rank: the first is the outermost, as a script whose commands come and
 * go. Returns whether it waits like this one. */
static bool look_at_rank(ls_join_watch *w, int first, int end)
{
    bool joins = false, stopped = false;
    for (int i = first; i < end; i++) {
        joins = joins || w->all[i].joins;
        stopped = stopped || w->all[i].stopped;
        if (w->all[i].stopped)
            tell_stopped(w, &w->all[i]);
    }
    if (!joins && !stopped)
        tell_absent(w, &w->all[first]);
    return joins && !stopped;
}

/* Whether a rank goes on. */
static bool tell_return(ls_join_watch *w)
{
    bool any = false;
    for (int i = 0; i < w->n; i++) {
        told *t = w->all[i].stopped ? NULL : record_of(w, &w->all[i]);
        if (t && w->all[i].joins)
            t->seen = 0;
        if (!t || !t->stopped)
            continue;
        t->stopped = false;
        any = true;
        ls_log_info("rank %d goes on: its process %d is not stopped any more", t->rank, t->process);
    }
    return any;
}

static void speak(ls_join_watch *w)
{
    int here = 0;
    bool well = true;
    for (int first = 0, end; first < w->n; first = end, here++) {
        for (end = first + 1; end < w->n && w->all[end].rank == w->all[first].rank; end++)
            ;
        well = look_at_rank(w, first, end) && well;
    }
    if (!tell_return(w) && well)
        tell_others(w, here ? here : 1);
}

static void look(ls_join_watch *w)
{
    if (w->n && !speaks(w))
        return;
    free(w->all);
    w->n = ls_siblings_find(&w->all, &w->kin);
    if (!speaks(w))
        return;
    pthread_mutex_lock(&w->lock);
    if (!w->over)
        speak(w);
    pthread_mutex_unlock(&w->lock);
}

/* Whether the watch is over, at that time at the latest. */
static bool is_over(ls_join_watch *w, double at)
{
    const struct timespec until = { .tv_sec = (time_t)at,
                                    .tv_nsec = (long)(1e9 * (at - (double)(time_t)at)) };
    pthread_mutex_lock(&w->lock);
    while (!w->over && ls_now() < at)
        pthread_cond_timedwait(&w->ends, &w->lock, &until);
    const bool over = w->over;
    pthread_mutex_unlock(&w->lock);
    return over;
}

static void *watch(void *context)
{
    ls_join_watch *w = context;
    double next = w->began + FIRST * ls_lag_threshold();
    pthread_setname_np(pthread_self(), LS_JOINING);
    while (!is_over(w, next)) {
        look(w);
        next = ls_now() + OFTEN * ls_lag_threshold();
    }
    leave(w);
    return NULL;
}

static bool start(ls_join_watch *w)
{
    pthread_condattr_t clock;
    pthread_t thread;
    sigset_t all, before;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->ends, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the rank's own threads */
    const bool started = ls_sys_thread(&thread, watch, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    else
        w->owners--;
    return started;
}

ls_status ls_join_watch_begin(ls_join_watch **out, int rank, int size)
{
    ls_join_watch *w = *out = ls_sys_calloc(1, sizeof *w);
    LS_TRY(ls_sys_have(w));
    w->owners = 2;
    w->began = ls_now();
    w->rank = rank;
    w->size = size;
    ls_kin_read(&w->kin);
    gethostname(w->host, sizeof w->host - 1);
    if (start(w))
        return LS_OK;
    ls_join_watch_end(out, false);
    return ls_fail(LS_E_MEMORY, "no thread to watch the ranks join");
}

void ls_join_watch_end(ls_join_watch **w, bool joined)
{
    ls_join_watch *own = *w;
    *w = NULL;
    if (!own)
        return;
    pthread_mutex_lock(&own->lock);
    own->over = true;
    if (own->spoke && joined)
        ls_log_info("all ranks have come, after %d s", (int)(ls_now() - own->began));
    pthread_cond_signal(&own->ends);
    pthread_mutex_unlock(&own->lock);
    leave(own);
}
