/* halted.c - finds ranks that are stopped (SIGSTOP), and tells the user. Ranks that wait for another name it
 * (comm/lag.c), but ranks that start, compile or read data do not wait yet, and a rank in MPI_Init cannot
 * tell. The process that started a rank sees it at any time. */
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/lag_threshold.h"
#include "comm/process.h"
#include "hosts.h"
#include "launch_own.h"

#define LATER 1.2 /* of the time of lag.c: ranks that wait can say more, so they speak first */
#define OFTEN 0.1 /* of that time between two looks: each reads a file of /proc */

bool ls_launch_look_halted(launch *l, int r, ls_halt *out)
{
    child *c = &l->children[r];
    const double now = ls_now();
    bool stopped = false;
    if (c->ended || !c->pid || now - c->looked_at < OFTEN * ls_lag_threshold())
        return false;
    c->looked_at = now;
    ls_process_start_time((int)c->pid, &stopped);
    *out = (ls_halt){ .process = (int)c->pid, .seconds = -1 };
    if (!stopped) {
        const bool was_told = c->told_at > 0;
        c->halted_at = c->told_at = 0;
        return was_told;
    }
    c->halted_at = c->halted_at > 0 ? c->halted_at : now;
    if (now - c->halted_at < LATER * ls_lag_threshold() || c->told_at > 0)
        return false;
    c->told_at = now;
    out->seconds = (int)(now - c->halted_at);
    ls_shm_watch_doing(l->watch, r, out->doing);
    return true;
}

void ls_launch_tell_halted(launch *l, int r, const ls_halt *h)
{
    child *c = &l->children[r];
    const char *host = l->o->hosts ? ls_hosts_used(l->o->hosts, r / l->o->hosts->per)->name : NULL;
    if (l->failed_at > 0)
        return;
    c->halted_at = h->seconds < 0 ? 0 : ls_now() - h->seconds;
    if (h->seconds < 0) {
        ls_log_info("rank %d goes on: its process %d is not stopped any more", r, h->process);
        return;
    }
    ls_log_warn("waiting for rank %d: its process %d%s%s is stopped (state T), for %d s; %s%s", r, h->process,
                host ? " on host " : "", host ? host : "", h->seconds,
                *h->doing                          ? "it last did: "
                : ls_shm_watch_joined(l->watch, r) ? "it had not begun to work"
                                                   : "it had not joined the group",
                h->doing);
}

/* (A rank that has joined is missed by those that wait for it, each for failure.stall_seconds.) */
void ls_launch_look_starting(launch *l)
{
    const double patience = ls_launch_patience(l);
    for (int r = 0; r < l->started && l->failed_at == 0; r++) {
        const child *c = &l->children[r];
        if (c->ended || !(c->halted_at > 0) || ls_now() - c->halted_at < patience ||
            ls_shm_watch_joined(l->watch, r))
            continue;
        ls_snprintf(l->text, sizeof l->text,
                    "rank %d: did not come within %g s; it had not joined the group; it is stopped (state T)",
                    r, patience);
        l->missed = LS_MISSED_LATE;
        ls_launch_note(l, r, LS_E_PEER);
    }
}
