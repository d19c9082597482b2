/* launch.c - start, watch, end: one attempt (controller.h makes the next). */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/affinity.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "comm/launched.h"
#include "comm/shm.h"
#include "oom.h"

#define GRACE 1.0 /* seconds for the others to end by themselves after a failure */
#define TICK 0.1  /* seconds between looks when nothing happens */

enum { CANNOT_EXEC = 127 };

/* killed: by us, so that its status says nothing */
typedef struct child {
    pid_t pid;
    bool ended, killed;
    int status;
} child;

typedef struct launch {
    const ls_launch_opts *o;
    int control;
    ls_shm_watch *watch;
    ls_oom oom;
    child *children;
    int started, alive;
    ls_cpu_set *cpus; /* of each rank; NULL: not bound */
    double began;     /* the command, or this restart */
    sigset_t mask_before;
    double failed_at; /* 0: all is well */
    int failed_rank;
    bool stop_passed_on, killed;
    sig_atomic_t saves_passed_on;
    ls_status code; /* of the failure, with its message: */
    char text[4400];
} launch;

/* ---- starting */

static const char *const NAMES[] = { "LOCKSTEP_RANK=",      "LOCKSTEP_RANKS=",     "LOCKSTEP_CONTROL_FD=",
                                     LS_LAUNCH_STARTED "=", LS_LAUNCH_RESTART "=", LS_LAUNCH_COMMAND "=" };
enum { PLACES = sizeof NAMES / sizeof NAMES[0] };

/* The environment of rank r: ours, with its place. */
static char **environment(const launch *l, int r)
{
    int n = 0, kept = 0;
    while (environ[n])
        n++;
    char **all = malloc(sizeof *all * (size_t)(n + PLACES + 1));
    LS_CHECK(all, "out of memory");
    for (int i = 0; i < n; i++) {
        bool ours = false;
        for (int k = 0; k < PLACES; k++)
            ours = ours || !strncmp(environ[i], NAMES[k], strlen(NAMES[k]));
        if (!ours)
            all[kept++] = environ[i];
    }
    int made = asprintf(&all[kept], "%s%d", NAMES[0], r) < 0 ||
               asprintf(&all[kept + 1], "%s%d", NAMES[1], l->o->ranks) < 0 ||
               asprintf(&all[kept + 2], "%s%d", NAMES[2], l->control) < 0 ||
               asprintf(&all[kept + 3], "%s%.6f", NAMES[3], l->began) < 0 ||
               asprintf(&all[kept + 4], "%s%d", NAMES[4], l->o->restart) < 0 ||
               asprintf(&all[kept + 5], "%s%.6f", NAMES[5], ls_now() - ls_since_exec()) < 0;
    LS_CHECK(!made, "out of memory");
    all[kept + PLACES] = NULL;
    return all;
}

static void free_environment(char **all)
{
    int n = 0;
    while (all[n])
        n++;
    for (int i = n - PLACES; i < n; i++)
        free(all[i]);
    free(all);
}

/* In the new process, until exec: only calls that are safe between fork and exec. A terminal's Ctrl-C reaches
 * this process too; it is the parent that asks to stop. */
static _Noreturn void become_rank(const launch *l, int r, pid_t parent, char *const *environment_of_rank)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) /* the parent may have died before that */
        _exit(CANNOT_EXEC);
    sigset_t mask = l->mask_before;
    sigaddset(&mask, SIGTERM); /* requests wait until the rank can take them (src/cli/terminal.c) */
    sigaddset(&mask, SIGUSR1);
    signal(SIGINT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (l->cpus)
        ls_cpu_set_apply(&l->cpus[r]);
    fcntl(l->control, F_SETFD, 0);
    execve("/proc/self/exe", l->o->argv, environment_of_rank);
    ls_shm_watch_not_executed(l->watch, r, errno);
    _exit(CANNOT_EXEC);
}

static ls_status start_rank(launch *l, int r)
{
    char **all = environment(l, r);
    pid_t parent = getpid(), pid = ls_sys_fork();
    if (pid == 0)
        become_rank(l, r, parent, all);
    int error = errno;
    free_environment(all);
    if (pid < 0)
        return ls_fail(LS_E_MEMORY, "rank %d could not be started: %s", r, strerror(error));
    l->children[r].pid = pid;
    l->started++;
    l->alive++;
    return LS_OK;
}

/* LOCKSTEP_BIND=none leaves the ranks wherever the system puts them. */
static void divide_cores(launch *l)
{
    const char *bind = getenv("LOCKSTEP_BIND");
    ls_cpu_set mine;
    if ((bind && !strcmp(bind, "none")) || !ls_cpu_set_read(&mine))
        return;
    l->cpus = malloc(sizeof *l->cpus * (size_t)l->o->ranks);
    LS_CHECK(l->cpus, "out of memory");
    if (ls_cpu_set_divide(l->cpus, &mine, l->o->ranks, l->o->threads > 1 ? l->o->threads : 1, LS_SYS))
        return;
    free(l->cpus);
    l->cpus = NULL;
}

/* ---- watching */

/* From here on the ranks are ending; the first reason is the one that is told. */
static void note_failure(launch *l, int rank, ls_status code)
{
    if (l->failed_at == 0)
        l->failed_at = ls_now();
    l->failed_rank = rank;
    l->code = code;
}

/* A rank has said why it, or another that it waited for, cannot go on. */
static bool hear_failure(launch *l)
{
    char text[4096];
    ls_status code;
    int r = ls_shm_watch_failure(l->watch, &code, text);
    if (r < 0)
        return false;
    snprintf(l->text, sizeof l->text, "rank %d: %s", r, text);
    note_failure(l, r, code);
    return true;
}

/* The program itself is missing or broken: the next attempt would fare no better. */
static bool was_not_executed(launch *l, int r, int status)
{
    const int error = ls_shm_watch_exec_error(l->watch, r);
    if (!WIFEXITED(status) || !error)
        return false;
    snprintf(
        l->text, sizeof l->text,
        "rank %d could not be started: %s cannot be executed: %s; was it removed or replaced while it ran?",
        r, l->o->argv[0], strerror(error));
    note_failure(l, r, LS_E_IO);
    ls_shm_watch_gone(l->watch, r, l->text);
    return true;
}

static bool out_of_memory(const launch *l, int r, char *text, size_t size)
{
    char limit[32], planned[32];
    uint64_t bytes, plan = ls_shm_watch_planned(l->watch, r);
    if (!ls_oom_killed(&l->oom, l->children[r].pid, &bytes))
        return false;
    if (l->o->out_of_memory)
        *l->o->out_of_memory = true;
    snprintf(text, size,
             "out of memory: the kernel killed it (limit: %s; planned: %s for each of %d rank%s); use fewer "
             "workers, a smaller train.micro_batch or "
             "parallel.recompute, or give it more",
             bytes ? ls_format_bytes(limit, bytes) : "all of this machine's memory",
             plan ? ls_format_bytes(planned, plan) : "not yet known", l->o->ranks,
             l->o->ranks == 1 ? "" : "s");
    return true;
}

static void name_cause(const launch *l, int r, int status, char *text, size_t size)
{
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGKILL && out_of_memory(l, r, text, size))
        return;
    if (number)
        snprintf(text, size, "killed by signal %d (SIG%s)%s", number,
                 sigabbrev_np(number) ? sigabbrev_np(number) : "?",
                 number == SIGBUS ? ": memory that it had mapped was lost; its own message says which"
                                  : ""); /* src/cli/lost_pages.c */
    else
        snprintf(text, size, "ended with status %d and no message", WEXITSTATUS(status));
}

/* Rank r ended with this status, which is no good one. The ranks that wait for it end with the same message.
 */
static void explain_end(launch *l, int r, int status)
{
    char doing[128], text[512];
    if (was_not_executed(l, r, status))
        return;
    ls_shm_watch_doing(l->watch, r, doing);
    name_cause(l, r, status, text, sizeof text);
    snprintf(l->text, sizeof l->text, "rank %d: %s; %s%s; the other ranks were stopped", r, text,
             *doing ? "it last did: " : "it had not begun to work", doing);
    note_failure(l, r, LS_E_PEER);
    ls_shm_watch_gone(l->watch, r, text);
}

/* What the exit statuses of ranks mean is the command's contract (src/cli/main.c). */
enum { EXIT_DONE = 0, EXIT_STOPPED = 75 };
static bool ended_well(int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == EXIT_DONE || WEXITSTATUS(status) == EXIT_STOPPED);
}

static void reap(launch *l)
{
    for (int r = 0; r < l->started; r++) {
        child *c = &l->children[r];
        if (c->ended || waitpid(c->pid, &c->status, WNOHANG) != c->pid)
            continue;
        c->ended = true;
        l->alive--;
        if (ended_well(c->status) || c->killed)
            continue;
        /* others only saw that it was gone */
        bool heard = l->failed_at > 0 || hear_failure(l),
             missed = heard && l->code == LS_E_PEER && l->failed_rank == r;
        if (!heard || (missed && WIFSIGNALED(c->status)))
            explain_end(l, r, c->status);
    }
}

static void signal_all(const launch *l, int number)
{
    for (int r = 0; r < l->started; r++)
        if (!l->children[r].ended)
            kill(l->children[r].pid, number);
}

/* A process that is dying takes its time, while its threads end: what it dies of is still to be heard. */
static void kill_all(launch *l)
{
    for (int r = 0; r < l->started; r++)
        l->children[r].killed = !ls_shm_watch_ending(l->watch, r);
    signal_all(l, SIGKILL);
    l->killed = true;
}

/* One rank is enough: it tells the others with the next step. */
static void pass_save_on(launch *l)
{
    const sig_atomic_t now = l->o->save ? *l->o->save : 0;
    if (now == l->saves_passed_on)
        return;
    l->saves_passed_on = now;
    if (!l->children[0].ended)
        kill(l->children[0].pid, SIGUSR1);
}

/* A rank that others gave up waiting for will not end by itself, unless it is about to. */
static bool only_failed_is_left(const launch *l)
{
    return l->alive == 1 && l->code == LS_E_PEER && !l->children[l->failed_rank].ended &&
           !ls_shm_watch_ending(l->watch, l->failed_rank);
}

static void watch(launch *l)
{
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    while (l->alive) {
        /* a request to stop interrupts it */
        sigtimedwait(&child_ends, NULL, &(struct timespec){ .tv_nsec = (long)(1e9 * TICK) });
        reap(l);
        if (l->failed_at == 0)
            hear_failure(l);
        if (l->o->stop && *l->o->stop && !l->stop_passed_on) {
            signal_all(l, SIGTERM);
            l->stop_passed_on = true;
        }
        pass_save_on(l);
        if (l->failed_at > 0 && !l->killed && ls_now() - l->failed_at > (only_failed_is_left(l) ? 0 : GRACE))
            kill_all(l);
    }
}

/* ---- an attempt */

static ls_status outcome(const launch *l)
{
    if (l->failed_at > 0)
        return ls_fail(l->code, "%s", l->text);
    for (int r = 0; r < l->started; r++)
        if (WEXITSTATUS(l->children[r].status) == EXIT_STOPPED)
            return ls_fail(LS_E_STOPPED, "%s", "");
    return LS_OK;
}

static ls_status attempt(launch *l)
{
    for (int r = 0; r < l->o->ranks; r++) {
        ls_status s = start_rank(l, r);
        if (s != LS_OK) {
            snprintf(l->text, sizeof l->text, "%s", ls_error_message());
            note_failure(l, r, s);
            signal_all(l, SIGKILL);
            break;
        }
    }
    watch(l);
    return outcome(l);
}

ls_status ls_launch(const ls_launch_opts *o)
{
    launch l = { .o = o,
                 .control = -1,
                 .began = o->restart ? ls_now() : ls_now() - ls_since_exec(),
                 .saves_passed_on = o->save ? *o->save : 0 };
    LS_TRY(ls_shm_create(o->ranks, &l.control));
    ls_status s = ls_shm_watch_open(&l.watch, l.control);
    if (s == LS_OK) {
        ls_oom_begin(&l.oom);
        l.children = calloc((size_t)o->ranks, sizeof *l.children);
        LS_CHECK(l.children, "out of memory");
        divide_cores(&l);
        signal(SIGCHLD, SIG_DFL); /* ignored by whoever started us, it would leave nothing to wait for */
        sigset_t child_ends;
        sigemptyset(&child_ends);
        sigaddset(&child_ends, SIGCHLD);
        sigprocmask(SIG_BLOCK, &child_ends, &l.mask_before);
        s = attempt(&l);
        sigprocmask(SIG_SETMASK, &l.mask_before, NULL);
        free(l.children);
        free(l.cpus);
        ls_oom_end(&l.oom);
    }
    ls_shm_watch_close(&l.watch);
    close(l.control);
    return s;
}
