/* local_ranks.c - ranks on this host, which are children of this process. */
#include <sys/wait.h>

#include "base/log.h"
#include "comm/process.h"
#include "launch_own.h"

#define TICK 0.1 /* seconds between two looks at the ranks */

static void signal_all(launch *l, int number)
{
    for (int r = 0; r < l->started; r++)
        if (!l->children[r].ended)
            kill(l->children[r].pid, number);
}

static ls_status here_start(launch *l)
{
    LS_TRY(ls_launch_divide_cores(l));
    for (int r = 0; r < l->o->ranks; r++) {
        ls_status s = ls_launch_start(l, r);
        if (s != LS_OK) {
            signal_all(l, SIGKILL);
            return s;
        }
    }
    return LS_OK;
}

static void here_look(launch *l)
{
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    /* a request to stop interrupts this wait */
    sigtimedwait(&child_ends, NULL, &(struct timespec){ .tv_nsec = (long)(1e9 * TICK) });
    for (int r = 0; r < l->started; r++) {
        child *c = &l->children[r];
        ls_halt news;
        if (ls_launch_look_halted(l, r, &news))
            ls_launch_tell_halted(l, r, &news);
        if (c->ended || waitpid(c->pid, &c->status, WNOHANG) != c->pid)
            continue;
        c->ended = true;
        c->out_of_memory = WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGKILL && !c->killed &&
                           ls_oom_killed(&l->oom, c->pid, &c->limit);
        l->alive--;
        ls_launch_explain(l, r);
    }
}

static void stop(launch *l) { signal_all(l, SIGTERM); }

/* Passes a request to save on to rank 0, which sends it to the others with the next step. */
static void save(launch *l)
{
    if (l->children[0].ended)
        return;
    if (!l->o->program || ls_launch_handles(l->children[0].pid, SIGUSR1))
        kill(l->children[0].pid, SIGUSR1);
    else
        ls_log_warn("SIGUSR1 is not passed on: %s has no handler for it", l->o->argv[0]);
}

/* A dying process first ends its threads. Its exit status, which tells the cause, comes after that. So the
 * first call spares it; a second call ends it too. */
static void kill_all(launch *l)
{
    for (int r = 0; r < l->started; r++) {
        child *c = &l->children[r];
        if (c->ended || (!l->killed && ls_process_start_time((int)c->pid, NULL) == 0))
            continue;
        c->killed = true;
        kill(c->pid, SIGKILL);
    }
}

static void here_release(launch *l) { (void)l; }

const ls_ranks_place LS_RANKS_HERE = { here_start, here_look, stop, save, kill_all, here_release };
