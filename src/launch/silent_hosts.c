/* silent_hosts.c - finds hosts that are frozen or cut off, and names them to the user. On each host the
 * processes that watch ranks send signs of life (supervise.c), also while no rank waits for another. */
#include <math.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "comm/lag_threshold.h"
#include "comm/process.h"
#include "hosts.h"
#include "launch_own.h"

/* Parts of the time of lag.c. A host is silent after 8 s. One that was not heard for 4 s may have gone with
 * it: one line then names both, at most a second later. */
#define SILENT 1.6
#define UNSURE 0.8
#define AT_LAST 1.8
#define START_SECONDS 60.0 /* that mpirun and srun have in any case to start a rank */
enum { NAMED = 8 };        /* hosts whose names are in a line */

static bool host_is_told(const launch *l, int h) { return l->children[h * l->o->hosts->per].told_silent; }

/* Seconds since the last sign of life; -1: it is not looked at, because ranks of it have ended. A host that
 * never gave one is measured from the first of another. */
static double age_of(const launch *l, int h)
{
    const int per = l->o->hosts->per;
    double heard = 0;
    for (int r = h * per; r < (h + 1) * per; r++) {
        heard = fmax(heard, l->children[r].heard_at);
        if (l->children[r].ended)
            return -1;
    }
    return ls_now() - (heard > 0 ? heard : l->first_heard);
}

typedef enum how_far { NOT_STARTED, NOT_JOINED, JOINED } how_far;

static how_far stage_of(const launch *l, int h)
{
    const int per = l->o->hosts->per;
    how_far least = JOINED;
    for (int r = h * per; r < (h + 1) * per; r++) {
        const how_far is = !l->children[r].said_hello          ? NOT_STARTED
                           : !ls_shm_watch_joined(l->watch, r) ? NOT_JOINED
                                                               : JOINED;
        least = is < least ? is : least;
    }
    return least;
}

/* "host b: no sign of life for 8 s; its ranks 2 to 3 have not joined the group" */
static void describe_host(ls_str *text, const launch *l, int h, double age)
{
    static const char *const STAGES[] = { "not started", "not joined the group", NULL };
    const int per = l->o->hosts->per, first = h * per;
    const char *stage = STAGES[stage_of(l, h)];
    ls_str_printf(text, "host %s: no sign of life for %d s; its rank%s %d",
                  ls_hosts_used(l->o->hosts, h)->name, (int)age, per > 1 ? "s" : "", first);
    if (per > 1)
        ls_str_printf(text, " to %d", first + per - 1);
    if (stage)
        ls_str_printf(text, " ha%s %s", per > 1 ? "ve" : "s", stage);
    else
        ls_str_printf(text, " may be lost");
}

/* Adds one more host to a list of names. */
static void add_name(ls_str *names, const launch *l, int h, int before)
{
    if (before < NAMED)
        ls_str_printf(names, "%s%s", before ? ", " : "", ls_hosts_used(l->o->hosts, h)->name);
}

static void tell_hosts(launch *l, int fresh)
{
    ls_str text = { 0 };
    int n = 0;
    for (int h = 0; h < l->o->hosts->used; h++) {
        const double age = age_of(l, h);
        if (host_is_told(l, h) || age <= SILENT * ls_lag_threshold())
            continue;
        if (fresh == 1)
            describe_host(&text, l, h, age);
        else
            add_name(&text, l, h, n);
        l->children[h * l->o->hosts->per].told_silent = true;
        n++;
    }
    if (fresh == 1)
        ls_log_warn("%s: is the host up, is its network?", ls_str_text(&text));
    else
        ls_log_warn("%d hosts give no sign of life: %s%s: are they up, is the network?", n,
                    ls_str_text(&text), n > NAMED ? " and others" : "");
    ls_str_release(&text);
}

static void tell_return(launch *l)
{
    ls_str names = { 0 };
    int n = 0;
    for (int h = 0; h < l->o->hosts->used; h++) {
        if (!host_is_told(l, h) || age_of(l, h) > UNSURE * ls_lag_threshold())
            continue;
        add_name(&names, l, h, n++);
        l->children[h * l->o->hosts->per].told_silent = false;
    }
    if (n)
        ls_log_info("%s %s%s: there are signs of life again", n == 1 ? "host" : "hosts", ls_str_text(&names),
                    n > NAMED ? " and others" : "");
    ls_str_release(&names);
}

/* mpirun passes the signs of all hosts on. */
static bool starter_is_stopped(int starter)
{
    bool stopped = false;
    ls_process_start_time(starter, &stopped);
    return stopped;
}

static void look_for_a_start(launch *l, const char *name, int starter)
{
    const double waited = ls_now() - l->started_at, most = fmax(START_SECONDS, ls_launch_patience(l));
    if (waited > most) {
        ls_snprintf(l->text, sizeof l->text, "%s has started no rank within %g s: it may wait for a host",
                    name, most);
        l->missed = LS_MISSED_LATE;
        ls_launch_note(l, 0, LS_E_PEER);
    } else if (waited > SILENT * ls_lag_threshold() && !l->told_starter) {
        l->told_starter = true;
        ls_log_warn("%s, process %d, has started no rank for %d s: %s", name, starter, (int)waited,
                    starter_is_stopped(starter) ? "it is stopped (state T)"
                                                : "is a host down, is its network?");
    }
}

/* (Ranks that have joined are missed by those that wait for them, each for failure.stall_seconds.) */
static void give_up_on(launch *l, int h, double age)
{
    ls_str text = { 0 };
    if (age < ls_launch_patience(l) || stage_of(l, h) == JOINED)
        return;
    describe_host(&text, l, h, age);
    ls_snprintf(l->text, sizeof l->text, "%s", ls_str_text(&text));
    ls_str_release(&text);
    l->missed = LS_MISSED_LATE;
    ls_launch_note(l, h * l->o->hosts->per, LS_E_PEER);
}

/* The signs of all hosts come through mpirun. When it goes on, they have a moment to arrive. */
static void look_at_starter(launch *l, const char *name, int starter)
{
    if (starter_is_stopped(starter)) {
        if (!l->told_starter)
            ls_log_warn("%s, process %d, which passes on what all hosts say, is stopped (state T)", name,
                        starter);
        l->told_starter = true;
        l->look_again_at = ls_now() + UNSURE * ls_lag_threshold();
    } else if (l->told_starter) {
        l->told_starter = false;
        ls_log_info("%s goes on", name);
    }
}

/* (Also after a failure: a silent host may be its cause, and mpirun needs seconds to end the others.) */
void ls_launch_look_silent(launch *l, const char *name, int starter)
{
    const double unit = ls_lag_threshold();
    int fresh = 0, unsure = 0;
    double oldest = 0;
    if (!starter || (ls_now() < l->look_again_at && !l->told_starter))
        return;
    if (l->first_heard == 0) {
        if (l->failed_at == 0)
            look_for_a_start(l, name, starter);
        return;
    }
    for (int h = 0; h < l->o->hosts->used; h++) {
        const double age = age_of(l, h);
        fresh += age > SILENT * unit && !host_is_told(l, h);
        unsure += age > UNSURE * unit && age <= SILENT * unit;
        oldest = fmax(oldest, age);
        if (host_is_told(l, h) && l->failed_at == 0)
            give_up_on(l, h, age);
    }
    tell_return(l);
    if (!l->told_starter && (!fresh || (unsure && oldest < AT_LAST * unit)))
        return;
    look_at_starter(l, name, starter);
    if (fresh && ls_now() >= l->look_again_at)
        tell_hosts(l, fresh);
}
