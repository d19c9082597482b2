/* wait.c - counters of an axis. A rank that waits for another's counter
 *   1. spins for a moment, if each rank has a core of its own (cores.c),
 *   2. yields its core a few times,
 *   3. sleeps in the kernel until the other rank wakes it. From time to time it checks that the other rank
 *      is alive. */
#include "wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "lag.h"

static const double LOOK_SECONDS = 0.02; /* a sleeping rank checks this often that the others are alive */
enum {
    GLANCES = 32, /* how often the counter is read between two readings of the clock: about a microsecond */
    YIELDS = 8,   /* how often the core is yielded before sleeping */
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- counters */

uint32_t ls_counters_raise(ls_counters *mine, ls_counter which)
{
    uint32_t now = atomic_fetch_add(&mine->count[which], 1) + 1;
    if (atomic_load(&mine->sleepers[which]))
        syscall(SYS_futex, &mine->count[which], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return now;
}

uint32_t ls_axis_raise(ls_axis *a, ls_counter which)
{
    return ls_counters_raise(a->counters[a->position], which);
}

static bool reached(ls_counters *c, ls_counter which, uint32_t count)
{
    return (int32_t)(atomic_load_explicit(&c->count[which], memory_order_acquire) - count) >= 0;
}

/* ---- ranks that do not come */

static ls_status wait_missing(ls_axis *a, int local, const char *what, ls_missed how, const char *fate)
{
    ls_group *g = a->group;
    char doing[LS_DESCRIPTION_BYTES], text[1024];
    ls_control_describe(g->control, local, doing);
    snprintf(text, sizeof text, "%s; rank %d waited for it in %s of axis \"%s\"; %s", fate, g->rank, what,
             a->name, doing);
    ls_control_missed(g->control, g->first + local, g->rank, how, text);
    return ls_group_failure(g);
}

/* A check between two sleeps; `patience`: seconds that are left. LS_OK: go on waiting. */
static ls_status wait_look(ls_axis *a, ls_counters *c, ls_counter which, int position, uint32_t count,
                           const char *what, double patience)
{
    ls_group *g = a->group;
    int local = a->members[position] - g->first;
    if (ls_control_failed(g->control))
        return ls_group_failure(g);
    const char *gone = ls_rank_gone(ls_control_record(g->control, local));
    if (reached(c, which, count)) /* the rank may have come and then left */
        return LS_OK;
    if (gone)
        return wait_missing(a, local, what, LS_MISSED_GONE, gone);
    int blocker = ls_control_blocker(g->control, local);
    if (patience > 0 || atomic_load(&ls_control_record(g->control, blocker)->waits_for_remote))
        return LS_OK;
    char fate[64];
    ls_snprintf(fate, sizeof fate, "did not come within %g s", g->deadline);
    return wait_missing(a, blocker, what, LS_MISSED_LATE, fate);
}

/* Reports the rank that is waited for in the end. If that is on another machine, the rank of this one that
 * waits for it asks what it does, and this one reports the answer. */
static void report_lag(ls_axis *a, int position, const char *what, ls_lag_timer *lag)
{
    ls_group *g = a->group;
    char doing[LS_DESCRIPTION_BYTES], said[8 * LS_ANSWER_WORDS];
    const int blocker = ls_control_blocker(g->control, a->members[position] - g->first),
              remote = atomic_load(&ls_control_record(g->control, blocker)->waits_for_remote);
    if (remote) {
        ls_control_answer(g->control, blocker, said);
        if (!said[0] && ls_lag_again(lag))
            return;
        ls_lag_report(g, lag, remote - 1, what, said[0] ? said : "it is on another host");
        return;
    }
    ls_control_describe(g->control, blocker, doing);
    ls_lag_report(g, lag, g->first + blocker, what, doing);
}

/* ---- waiting */

static _Thread_local ls_status (*look_meanwhile)(void *context);
static _Thread_local void *look_context;

void ls_wait_looks(ls_status (*look)(void *context), void *context)
{
    look_meanwhile = look;
    look_context = context;
}

double ls_patience_spent(double seconds) { return seconds < 5 * LOOK_SECONDS ? seconds : LOOK_SECONDS; }

static bool spin(ls_counters *c, ls_counter which, uint32_t count, double seconds)
{
    if (seconds > 0)
        for (double until = ls_now() + seconds; ls_now() < until;)
            for (int i = 0; i < GLANCES; i++) {
                if (reached(c, which, count))
                    return true;
                relax();
            }
    for (int i = 0; i < YIELDS; i++) {
        if (reached(c, which, count))
            return true;
        sched_yield();
    }
    return reached(c, which, count);
}

static ls_status sleep_until(ls_axis *a, ls_counters *c, ls_counter which, int position, uint32_t count,
                             const char *what)
{
    ls_group *g = a->group;
    ls_rank_record *me = ls_group_record(g);
    double patience = g->deadline, unseen = 0;
    ls_lag_timer lag = { 0 };
    ls_status s = LS_OK;
    const int thread = look_meanwhile != NULL; /* 1: the communication thread */
    atomic_store(&me->waits_for[thread], a->members[position] - g->first + 1);
    atomic_fetch_add(&c->sleepers[which], 1);
    while (s == LS_OK) {
        uint32_t now = atomic_load(&c->count[which]);
        if ((int32_t)(now - count) >= 0)
            break;
        double nap = a->idle ? a->idle(a) : LOOK_SECONDS, began = ls_now();
        nap = patience > 0 && patience < nap ? patience : nap;
        struct timespec t = { .tv_nsec = (long)(nap * 1e9) };
        const bool in_vain = syscall(SYS_futex, &c->count[which], FUTEX_WAIT, now, &t, NULL, 0) != 0 &&
                             errno == ETIMEDOUT;
        const double spent = ls_patience_spent(ls_now() - began);
        patience -= spent;
        unseen += spent;
        if (in_vain && (unseen >= LOOK_SECONDS || patience <= 0)) {
            s = wait_look(a, c, which, position, count, what, patience);
            if (s == LS_OK && look_meanwhile)
                s = look_meanwhile(look_context);
            unseen = 0;
        }
        if (ls_lag_due(g, &lag, spent) && s == LS_OK && !reached(c, which, count))
            report_lag(a, position, what, &lag);
    }
    if (s == LS_OK)
        ls_lag_end(g, &lag);
    atomic_fetch_sub(&c->sleepers[which], 1);
    atomic_store(&me->waits_for[thread], 0);
    return s;
}

ls_status ls_axis_await_at(ls_axis *a, ls_counters *c, ls_counter which, int position, uint32_t count,
                           const char *what)
{
    if (ls_control_failed(a->group->control)) /* also when all have come: a failed group stays failed */
        return ls_group_failure(a->group);
    for (int i = 0; i < GLANCES; i++) {
        if (reached(c, which, count))
            return LS_OK;
        relax();
    }
    double began = ls_now();
    ls_status s = spin(c, which, count, a->group->spin) ? LS_OK
                                                        : sleep_until(a, c, which, position, count, what);
    a->ledger.waited += ls_now() - began;
    return s;
}

ls_status ls_axis_await(ls_axis *a, ls_counter which, int position, uint32_t count, const char *what)
{
    return ls_axis_await_at(a, a->counters[position], which, position, count, what);
}

ls_status ls_axis_await_all(ls_axis *a, ls_counter which, uint32_t count, const char *what)
{
    for (int i = 0; i < a->n; i++)
        if (a->counters[i])
            LS_TRY(ls_axis_await(a, which, i, count, what));
    return LS_OK;
}
