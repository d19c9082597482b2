/* launch.c - one attempt: starts the ranks, watches them, and ends them. controller.h makes further attempts.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/sys.h"
#include "comm/process.h"
#include "hosts.h"
#include "launch_own.h"

#define GRACE 1.0 /* seconds that the other ranks have to end by themselves after a failure */
#define DYING 8.0 /* seconds that a dying process has to end */

/* ---- watching */

/* A rank that has not joined may not yet have a handler for the request to stop. */
static bool is_to_leave(const launch *l)
{
    if (!l->o->leave || l->failed_at > 0)
        return false;
    for (int r = 0; r < l->o->ranks; r++)
        if (!ls_shm_watch_joined(l->watch, r))
            return false;
    return l->o->leave(l->o->leave_context);
}

static void pass_requests_on(launch *l)
{
    const sig_atomic_t saves = l->o->save ? *l->o->save : 0;
    if (!l->stop_passed_on && ((l->o->stop && *l->o->stop) || is_to_leave(l))) {
        l->place->stop(l);
        l->stop_passed_on = true;
    }
    if (saves != l->saves_passed_on)
        l->place->save(l);
    l->saves_passed_on = saves;
}

/* Whether only the failed rank is left, and hangs: others gave up waiting for it, and it is not dying. */
static bool only_failed_is_left(const launch *l)
{
    const child *c = &l->children[l->failed_rank];
    return l->alive == 1 && l->code == LS_E_PEER && !c->ended && l->missed != LS_MISSED_GONE &&
           (!c->pid || ls_process_start_time((int)c->pid, NULL));
}

/* Warns once if no rank of a user's program joins the group. It may read its data first, or never join. */
static void look_whether_any_joined(launch *l)
{
    const double patience = ls_launch_patience(l);
    if (!l->o->program || l->o->ranks == 1 || l->told_that_nobody_joined ||
        ls_now() - l->started_at < patience)
        return;
    l->told_that_nobody_joined = true;
    for (int r = 0; r < l->started; r++)
        if (ls_shm_watch_joined(l->watch, r))
            return;
    ls_log_warn("no rank of %s has joined the group within %g s: does it call ls_group_from_environment?",
                l->o->argv[0], patience);
}

static void watch(launch *l)
{
    while (l->alive) {
        l->place->look(l);
        if (l->failed_at == 0 && !ls_launch_hear(l) && l->o->program)
            ls_launch_look_for_strangers(l);
        look_whether_any_joined(l);
        ls_launch_look_starting(l);
        pass_requests_on(l);
        const double since = l->failed_at > 0 ? ls_now() - l->failed_at : 0;
        if (since > (l->killed ? DYING : only_failed_is_left(l) ? 0 : GRACE)) {
            l->place->kill(l);
            l->killed = true;
        }
    }
}

/* ---- an attempt */

/* The outcome after a request to stop. Programs that handle the request have reported what they saved. */
static ls_status stopped(const launch *l)
{
    for (int r = 0; r < l->started; r++)
        if (ls_launch_ended_by_request(l, r))
            return ls_fail(LS_E_STOPPED,
                           "stopped on request: %s has no handler for SIGTERM, which ended it; started again "
                           "it continues from its last checkpoint",
                           l->o->argv[0]);
    return ls_fail(LS_E_STOPPED, "%s", "");
}

static ls_status nobody_joined(const launch *l)
{
    return ls_fail(LS_E_USAGE,
                   "the %d processes of %s ended well, but none joined the group: each did the whole work by "
                   "itself; a program of several ranks calls ls_group_from_environment",
                   l->o->ranks, l->o->argv[0]);
}

static ls_status outcome(const launch *l)
{
    int joined = 0;
    bool any_stopped = false;
    if (l->failed_at > 0)
        return l->missed == LS_MISSED_GONE && ls_launch_ended_by_request(l, l->failed_rank)
                   ? stopped(l)
                   : ls_fail(l->code, "%s", l->text);
    for (int r = 0; r < l->started; r++) {
        const child *c = &l->children[r];
        joined += ls_shm_watch_joined(l->watch, r);
        any_stopped = any_stopped || ls_launch_ended_by_request(l, r) ||
                      (WIFEXITED(c->status) && WEXITSTATUS(c->status) == LS_EXIT_STOPPED);
    }
    return any_stopped                                       ? stopped(l)
           : l->o->program && l->o->ranks > 1 && joined == 0 ? nobody_joined(l)
                                                             : LS_OK;
}

static ls_status attempt(launch *l)
{
    l->started_at = ls_now();
    ls_status s = l->place->start(l);
    if (s != LS_OK) {
        snprintf(l->text, sizeof l->text, "%s", ls_error_message());
        ls_launch_note(l, 0, s);
    }
    watch(l);
    l->place->release(l);
    return outcome(l);
}

ls_status ls_launch(const ls_launch_opts *o)
{
    launch l = { .o = o,
                 .place = o->hosts ? &LS_RANKS_ON_HOSTS : &LS_RANKS_HERE,
                 .control = -1,
                 .began = o->restart ? ls_now() : ls_now() - ls_since_exec(),
                 .saves_passed_on = o->save ? *o->save : 0 };
    LS_TRY(ls_shm_create(o->ranks, &l.control));
    ls_status s = ls_shm_watch_open(&l.watch, l.control);
    if (s == LS_OK) {
        ls_oom_begin(&l.oom);
        l.children = ls_sys_calloc((size_t)o->ranks, sizeof *l.children);
        s = ls_sys_have(l.children);
        signal(SIGCHLD,
               SIG_DFL); /* if it were ignored, as some parents leave it, waitpid would find no child */
        sigset_t child_ends;
        sigemptyset(&child_ends);
        sigaddset(&child_ends, SIGCHLD);
        sigprocmask(SIG_BLOCK, &child_ends, &l.mask_before);
        if (s == LS_OK)
            s = attempt(&l);
        if (o->failed_host)
            *o->failed_host = o->hosts && l.failed_at > 0 && !l.host_unknown ? l.failed_rank / o->hosts->per
                                                                             : -1;
        if (o->run)
            ls_shm_watch_run(l.watch, o->run);
        sigprocmask(SIG_SETMASK, &l.mask_before, NULL);
        free(l.children);
        free(l.cpus);
        ls_oom_end(&l.oom);
    }
    ls_shm_watch_close(&l.watch);
    close(l.control);
    return s;
}
