/* failure.c - finds the message for the failure of a rank: from its own report, from the report of a rank
 * that waited for it, or from its exit status. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/str.h"
#include "launch_own.h"

void ls_launch_note(launch *l, int rank, ls_status code)
{
    if (l->failed_at == 0)
        l->failed_at = ls_now();
    l->failed_rank = rank;
    l->code = code;
}

/* Whether the program could not be executed. A next attempt would fail in the same way. */
static bool was_not_executed(launch *l, int r, int status)
{
    const int error = ls_shm_watch_exec_error(l->watch, r);
    if (!WIFEXITED(status) || !error)
        return false;
    snprintf(l->text, sizeof l->text, "rank %d could not be started: %s cannot be executed: %s%s", r,
             l->o->argv[0], strerror(error),
             l->o->program ? "" : "; was it removed or replaced while it ran?");
    ls_launch_note(l, r, LS_E_IO);
    ls_shm_watch_gone(l->watch, r, l->text);
    return true;
}

static bool out_of_memory(const launch *l, int r, char *text, size_t size)
{
    char limit[32], planned[32];
    const child *c = &l->children[r];
    const uint64_t plan = ls_shm_watch_planned(l->watch, r);
    if (!c->out_of_memory)
        return false;
    if (l->o->out_of_memory)
        *l->o->out_of_memory = true;
    snprintf(text, size,
             "out of memory: the kernel killed it (limit: %s; planned: %s for each of %d rank%s); use fewer "
             "workers, a smaller train.micro_batch or "
             "parallel.recompute, or give it more",
             c->limit ? ls_format_bytes(limit, c->limit) : "all of this machine's memory",
             plan ? ls_format_bytes(planned, plan) : "not yet known", l->o->ranks,
             l->o->ranks == 1 ? "" : "s");
    return true;
}

static void name_cause(const launch *l, int r, int status, char *text, size_t size)
{
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (out_of_memory(l, r, text, size))
        return;
    if (number)
        snprintf(text, size, "killed by signal %d (SIG%s)%s", number,
                 sigabbrev_np(number) ? sigabbrev_np(number) : "?",
                 number == SIGBUS ? ": memory that it had mapped was lost; its own message says which"
                                  : ""); /* src/cli/lost_pages.c */
    else
        snprintf(text, size, "ended with status %d and no message", WEXITSTATUS(status));
}

/* launch.h describes the exit statuses. */
bool ls_launch_ended_well(int status)
{
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == LS_EXIT_DONE || WEXITSTATUS(status) == LS_EXIT_STOPPED);
}

bool ls_launch_ended_by_request(const launch *l, int r)
{
    const child *c = &l->children[r];
    if (!l->o->program || !l->stop_passed_on || !c->ended || c->killed)
        return false;
    return WIFSIGNALED(c->status)
               ? WTERMSIG(c->status) == SIGTERM
               : WEXITSTATUS(c->status) == 128 + SIGTERM; /* a shell reports a signal in this way */
}

/* A rank ended well, but others still waited for it. Adds its exit status to the message. */
static void explain_early_end(launch *l, int r, int status)
{
    char seen[4096];
    snprintf(seen, sizeof seen, "%.4000s", l->text + strcspn(l->text, ":"));
    snprintf(l->text, sizeof l->text, "rank %d: ended with status %d before the others were done%s", r,
             WEXITSTATUS(status), seen);
}

/* Makes the message of a rank that ended badly. The ranks that wait for it end with the same message. */
static void explain_bad_end(launch *l, int r, int status)
{
    char doing[128], text[512];
    if (was_not_executed(l, r, status))
        return;
    ls_shm_watch_doing(l->watch, r, doing);
    name_cause(l, r, status, text, sizeof text);
    snprintf(l->text, sizeof l->text, "rank %d: %s; %s%s%s", r, text,
             *doing                             ? "it last did: "
             : ls_shm_watch_joined(l->watch, r) ? "it had not begun to work"
             : l->o->program && l->o->ranks > 1 ? "it had not joined the group"
                                                : "it had not begun to work",
             doing, l->o->ranks > 1 ? "; the other ranks were stopped" : "");
    ls_launch_note(l, r, LS_E_PEER);
    ls_shm_watch_gone(l->watch, r, text);
}

/* Called when a rank that others missed has ended without being killed by this process. */
static void explain_missed(launch *l, int r)
{
    const child *c = &l->children[r];
    if (c->killed || ls_launch_ended_by_request(l, r))
        return;
    if (ls_launch_ended_well(c->status))
        explain_early_end(l, r, c->status);
    else
        explain_bad_end(l, r, c->status);
}

bool ls_launch_hear(launch *l)
{
    ls_heard h;
    if (!ls_shm_watch_failure(l->watch, &h))
        return false;
    snprintf(l->text, sizeof l->text, "rank %d: %s", h.rank, h.text);
    l->missed = h.missed;
    ls_launch_note(l, h.rank, h.code);
    if (h.missed == LS_MISSED_GONE && l->children[h.rank].ended)
        explain_missed(l, h.rank);
    return true;
}

void ls_launch_explain(launch *l, int r)
{
    const child *c = &l->children[r];
    if (l->failed_at > 0) {
        if (l->missed == LS_MISSED_GONE && l->failed_rank == r)
            explain_missed(l, r);
        return;
    }
    if (ls_launch_ended_well(c->status) || ls_launch_ended_by_request(l, r) || ls_launch_hear(l))
        return;
    explain_bad_end(l, r, c->status);
}

void ls_launch_look_for_strangers(launch *l)
{
    int stranger = -1, joined = -1;
    for (int r = 0; r < l->started; r++) {
        const child *c = &l->children[r];
        if (ls_shm_watch_joined(l->watch, r))
            joined = r;
        else if (c->ended && ls_launch_ended_well(c->status))
            stranger = r;
    }
    if (stranger < 0 || joined < 0)
        return;
    snprintf(l->text, sizeof l->text,
             "rank %d: ended with status %d and never joined the group that rank %d has joined: every rank "
             "of the program calls ls_group_from_environment",
             stranger, WEXITSTATUS(l->children[stranger].status), joined);
    ls_launch_note(l, stranger, LS_E_USAGE);
    ls_shm_watch_gone(l->watch, stranger, "it ended and never joined the group");
}
