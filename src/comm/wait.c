/* wait.c - counters, and waiting for those of others. A rank looks for a moment, when the ranks have a core
 * each; then it gives its core away a few times, then sleeps in the kernel, until it is woken or until it is
 * time to look whether the other still lives. */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* how long to spin; how often a sleeper looks after the others */
static const double SPIN_SECONDS = 100e-6, LOOK_SECONDS = 0.02;
/* before the clock is read, about a microsecond; before sleeping */
enum { GLANCES = 32, YIELDS = 8 };

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- counters */

uint32_t ls_axis_raise(ls_axis *a, ls_counter which)
{
    ls_line *mine = a->lines[a->position];
    uint32_t now = atomic_fetch_add(&mine->count[which], 1) + 1;
    if (atomic_load(&mine->sleepers[which]))
        syscall(SYS_futex, &mine->count[which], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return now;
}

static bool reached(ls_line *l, ls_counter which, uint32_t target)
{
    return (int32_t)(atomic_load_explicit(&l->count[which], memory_order_acquire) - target) >= 0;
}

/* ---- who is to blame */

/* Rank a waits for b, which waits for c: c is missing. A circle (ranks in different orders) blames the one
 * that was waited for. */
int ls_block_culprit(ls_block *b, int seat)
{
    int at = seat;
    for (int i = 0; i < b->ranks; i++) {
        int next = atomic_load(&ls_block_seat(b, at)->awaits) - 1;
        if (next < 0)
            return at;
        at = next;
    }
    return seat;
}

void ls_block_describe(ls_block *b, int seat, char text[LS_DESCRIPTION_BYTES])
{
    char doing[128];
    bool stopped = false;
    int process = atomic_load(&ls_block_seat(b, seat)->process);
    ls_block_doing(b, seat, doing);
    if (process)
        ls_process_born(process, &stopped);
    snprintf(text, LS_DESCRIPTION_BYTES, "%s%s%s", doing[0] ? "it last did: " : "it had not begun to work",
             doing, stopped ? "; it is stopped (state T)" : "");
}

static ls_status missing(ls_axis *a, int seat, const char *what, const char *fate)
{
    ls_group *g = a->group;
    char doing[LS_DESCRIPTION_BYTES], text[1024];
    ls_block_describe(g->block, seat, doing);
    snprintf(text, sizeof text, "%s; rank %d waited for it in %s of axis \"%s\"; %s", fate, g->rank, what,
             a->name, doing);
    ls_block_fail(g->block, g->first + seat, g->rank, LS_E_PEER, text);
    return ls_group_failure(g);
}

/* A look at the world between two sleeps; `patience`: seconds that are left. LS_OK: go on waiting. */
static ls_status look(ls_axis *a, ls_counter which, int position, uint32_t target, const char *what,
                      double patience)
{
    ls_group *g = a->group;
    int seat = a->members[position] - g->first;
    if (ls_block_failed(g->block))
        return ls_group_failure(g);
    const char *gone = ls_seat_gone(ls_block_seat(g->block, seat));
    if (reached(a->lines[position], which, target)) /* it may have come, and then left */
        return LS_OK;
    if (gone)
        return missing(a, seat, what, gone);
    int culprit = ls_block_culprit(g->block, seat);
    if (patience > 0 || atomic_load(&ls_block_seat(g->block, culprit)->abroad))
        return LS_OK;
    char fate[64];
    snprintf(fate, sizeof fate, "did not come within %g s", g->deadline);
    return missing(a, culprit, what, fate);
}

/* Names the rank that is really waited for. */
static void tell_lag(ls_axis *a, int position, const char *what, ls_lagging *lag)
{
    ls_group *g = a->group;
    char doing[LS_DESCRIPTION_BYTES];
    const int culprit = ls_block_culprit(g->block, a->members[position] - g->first),
              abroad = atomic_load(&ls_block_seat(g->block, culprit)->abroad);
    if (abroad) {
        ls_lag_tell(g, lag, abroad - 1, what, "it is on another host");
        return;
    }
    ls_block_describe(g->block, culprit, doing);
    ls_lag_tell(g, lag, g->first + culprit, what, doing);
}

/* ---- waiting */

double ls_patience_spent(double seconds) { return seconds < 5 * LOOK_SECONDS ? seconds : LOOK_SECONDS; }

static bool spin(ls_line *l, ls_counter which, uint32_t target, double seconds)
{
    if (seconds > 0)
        for (double until = ls_now() + seconds; ls_now() < until;)
            for (int i = 0; i < 32; i++) {
                if (reached(l, which, target))
                    return true;
                relax();
            }
    for (int i = 0; i < YIELDS; i++) {
        if (reached(l, which, target))
            return true;
        sched_yield();
    }
    return reached(l, which, target);
}

static ls_status sleep_until(ls_axis *a, ls_counter which, int position, uint32_t target, const char *what)
{
    ls_group *g = a->group;
    ls_line *l = a->lines[position];
    ls_seat *me = ls_block_seat(g->block, ls_group_seat(g));
    double patience = g->deadline;
    ls_lagging lag = { 0 };
    ls_status s = LS_OK;
    atomic_store(&me->awaits, a->members[position] - g->first + 1);
    atomic_fetch_add(&l->sleepers[which], 1);
    while (s == LS_OK) {
        uint32_t now = atomic_load(&l->count[which]);
        if ((int32_t)(now - target) >= 0)
            break;
        double nap = patience > 0 && patience < LOOK_SECONDS ? patience : LOOK_SECONDS, began = ls_now();
        struct timespec t = { .tv_nsec = (long)(nap * 1e9) };
        const bool in_vain = syscall(SYS_futex, &l->count[which], FUTEX_WAIT, now, &t, NULL, 0) != 0 &&
                             errno == ETIMEDOUT;
        const double spent = ls_patience_spent(ls_now() - began);
        patience -= spent;
        if (in_vain)
            s = look(a, which, position, target, what, patience);
        if (ls_lag_due(g, &lag, spent) && s == LS_OK && !reached(l, which, target))
            tell_lag(a, position, what, &lag);
    }
    if (s == LS_OK)
        ls_lag_end(g, &lag);
    atomic_fetch_sub(&l->sleepers[which], 1);
    atomic_store(&me->awaits, 0);
    return s;
}

ls_status ls_axis_await(ls_axis *a, ls_counter which, int position, uint32_t target, const char *what)
{
    ls_line *l = a->lines[position];
    if (ls_block_failed(a->group->block)) /* also where all came: a broken group stays broken */
        return ls_group_failure(a->group);
    for (int i = 0; i < GLANCES; i++) {
        if (reached(l, which, target))
            return LS_OK;
        relax();
    }
    double began = ls_now();
    ls_status s = spin(l, which, target, a->group->spin) ? LS_OK
                                                         : sleep_until(a, which, position, target, what);
    a->ledger.waited += ls_now() - began;
    return s;
}

ls_status ls_axis_await_all(ls_axis *a, ls_counter which, uint32_t target, const char *what)
{
    for (int i = 0; i < a->n; i++)
        if (a->lines[i])
            LS_TRY(ls_axis_await(a, which, i, target, what));
    return LS_OK;
}

/* ---- cores */

void ls_seat_publish_cpus(ls_seat *s)
{
    cpu_set_t set;
    uint64_t words[16] = { 0 };
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (unsigned cpu = 0; cpu < 1024; cpu++)
            if (CPU_ISSET(cpu, &set))
                words[cpu / 64] |= (uint64_t)1 << cpu % 64;
    for (int i = 0; i < 16; i++)
        atomic_store(&s->cpus[i], words[i]);
}

void ls_group_tune(ls_group *g)
{
    int cores = 0;
    for (int i = 0; i < 16; i++) {
        uint64_t any = 0;
        for (int s = 0; s < g->block->ranks; s++)
            any |= atomic_load(&ls_block_seat(g->block, s)->cpus[i]);
        cores += __builtin_popcountll(any);
    }
    g->spin = g->block->ranks <= cores ? SPIN_SECONDS : 0;
}
