/* supervise.c - see supervise.h. */
#include "supervise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "comm/environment.h"
#include "comm/lag_threshold.h"
#include "comm/launched.h"
#include "message.h"
#include "launch_own.h"

#define TICK 0.1   /* seconds between two looks at the rank */
#define LINGER 1.0 /* seconds after a bad end before this process ends, upon which mpirun ends all others */
#define SIGN 0.4   /* of the time of lag.c between two signs of life, 2 s */
#define LAST 0.6   /* seconds that a rank has to end when mpirun ends it */

void ls_job_words_write(char text[160], const ls_job_words *w)
{
    ls_snprintf(text, 160, "%d:%d:%d:%d:%d:%d:%.6g:%.6f", w->each, w->threads, w->cores, w->restart, w->own,
                w->stop_signal, w->stall, w->age);
}

static bool read_words(ls_job_words *w, const char *text)
{
    char *end;
    int used = 0;
    if (sscanf(text, "%d:%d:%d:%d:%d:%d:%n", &w->each, &w->threads, &w->cores, &w->restart, &w->own,
               &w->stop_signal, &used) != 6 ||
        !used)
        return false;
    w->stall = ls_strtod(text + used, &end);
    if (*end != ':')
        return false;
    w->age = ls_strtod(end + 1, &end);
    return !*end;
}

static volatile sig_atomic_t stop_wanted, end_wanted, saves_wanted;
static int stop_signal; /* set before any signal is handled */

/* mpirun ends ranks by SIGTERM, if that is not the request to stop. SIGINT, SIGHUP and SIGUSR2 come from the
 * user, as by `scancel --signal=USR2`. */
static void on_signal(int number)
{
    if (number == SIGTERM && number != stop_signal)
        end_wanted = 1;
    else if (number == SIGUSR1 && number != stop_signal)
        saves_wanted++;
    else
        stop_wanted = 1;
}

static void take_signals(void)
{
    const struct sigaction action = { .sa_handler = on_signal };
    const int numbers[] = { SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP };
    sigset_t all;
    sigemptyset(&all);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &action, NULL);
        sigaddset(&all, numbers[i]);
    }
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Passes on what the rank has reported to this process. */
static void tell_news(launch *l, int rank, bool *joined, bool *failed, char run[LS_RUN_PATH_BYTES])
{
    ls_rank_message f = { .kind = LS_MESSAGE_RUN, .rank = rank };
    ls_shm_watch_run(l->watch, f.run);
    if (strcmp(f.run, run)) {
        snprintf(run, LS_RUN_PATH_BYTES, "%s", f.run);
        ls_rank_message_send(&f);
    }
    f.kind = LS_MESSAGE_JOINED;
    if (!*joined && ls_shm_watch_joined(l->watch, 0)) {
        *joined = true;
        ls_rank_message_send(&f);
    }
    if (*failed || !ls_shm_watch_failure(l->watch, &f.heard))
        return;
    *failed = true;
    f.kind = LS_MESSAGE_FAILURE;
    ls_rank_message_send(&f);
}

/* The parent takes a host for lost that gives no sign of life (silent_hosts.c). Once ranks have joined, one
 * of each host is enough: a rank that is lost alone is missed by the others. */
static void tell_alive(const launch *l, int rank, bool joined, double *next)
{
    if (ls_now() < *next || (joined && l->supervised->local > 0))
        return;
    ls_rank_message_send(&(ls_rank_message){ .kind = LS_MESSAGE_ALIVE, .rank = rank });
    *next = ls_now() + SIGN * ls_lag_threshold();
}

static void tell_halted(launch *l, int rank)
{
    ls_rank_message f = { .kind = LS_MESSAGE_HALTED, .rank = rank };
    ls_halt h;
    if (!ls_launch_look_halted(l, 0, &h))
        return;
    f.process = h.process;
    f.seconds = h.seconds;
    snprintf(f.doing, sizeof f.doing, "%s", h.doing);
    ls_rank_message_send(&f);
}

static void tell_end(const launch *l, int rank)
{
    const child *c = &l->children[0];
    uint64_t limit = 0;
    ls_rank_message f = { .kind = LS_MESSAGE_END,
                          .rank = rank,
                          .status = c->status,
                          .killed = c->killed,
                          .exec_error = ls_shm_watch_exec_error(l->watch, 0),
                          .planned = ls_shm_watch_planned(l->watch, 0) };
    f.out_of_memory = WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGKILL && !c->killed &&
                      ls_oom_killed(&l->oom, c->pid, &limit);
    f.limit = limit;
    ls_shm_watch_doing(l->watch, 0, f.doing);
    ls_rank_message_send(&f);
}

static void pass_on(launch *l, int *saves, double *end_at)
{
    child *c = &l->children[0];
    if (stop_wanted && !l->stop_passed_on) {
        kill(c->pid, SIGTERM);
        l->stop_passed_on = true;
    }
    if (saves_wanted != *saves && (!l->o->program || ls_launch_handles(c->pid, SIGUSR1)))
        kill(c->pid, SIGUSR1);
    *saves = saves_wanted;
    if (end_wanted && *end_at == 0)
        *end_at = ls_now() + LAST;
    if (*end_at > 0 && ls_now() > *end_at && !c->killed) {
        c->killed = true;
        kill(c->pid, SIGKILL);
    }
}

static void watch(launch *l, int rank)
{
    child *c = &l->children[0];
    bool joined = false, failed = false;
    char run[LS_RUN_PATH_BYTES] = "";
    int saves = 0;
    double end_at = 0, next_sign = 0;
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    while (!c->ended) {
        sigtimedwait(&child_ends, NULL, &(struct timespec){ .tv_nsec = (long)(1e9 * TICK) });
        c->ended = waitpid(c->pid, &c->status, WNOHANG) == c->pid;
        tell_news(l, rank, &joined, &failed, run);
        tell_halted(l, rank);
        tell_alive(l, rank, joined, &next_sign);
        if (!c->ended)
            pass_on(l, &saves, &end_at);
    }
    tell_end(l, rank);
}

static ls_status supervise_start(launch *l)
{
    sigset_t child_ends;
    LS_TRY(ls_shm_create(1, &l->control));
    LS_TRY(ls_shm_watch_open(&l->watch, l->control));
    ls_oom_begin(&l->oom);
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &child_ends, &l->mask_before);
    LS_TRY(ls_launch_divide_cores(l));
    return ls_launch_start(l, 0);
}

/* Watches the rank. Returns the exit status of this process. */
static int watch_to_the_end(launch *l, int rank)
{
    watch(l, rank);
    const bool well = ls_launch_ended_well(l->children[0].status);
    for (double until = ls_now() + (well || end_wanted ? 0 : LINGER); ls_now() < until && !end_wanted;)
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    return well ? LS_EXIT_DONE : LS_EXIT_FAILED;
}

/* Reports a failure of this process before the rank starts as a failure of the rank. */
static int tell_failure(int rank, ls_status s)
{
    ls_rank_message f = { .kind = LS_MESSAGE_FAILURE, .rank = rank, .heard = { .rank = rank, .code = s } };
    snprintf(f.heard.text, sizeof f.heard.text, "%.2000s", ls_error_message());
    ls_rank_message_send(&f);
    return LS_EXIT_FAILED;
}

int ls_supervise(char **argv)
{
    const char *words = getenv(LS_LAUNCH_JOB);
    ls_job_words w;
    ls_environment e;
    if (!words || !argv[0] || !read_words(&w, words))
        return LS_EXIT_USAGE;
    stop_signal = w.stop_signal;
    take_signals();
    if (w.stop_signal != SIGTERM) /* processes of mpirun live as long as their ranks, those of srun do not */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    ls_status s = ls_environment_read(&e);
    if (s != LS_OK)
        return tell_failure(0, s);
    ls_rank_message_send(&(ls_rank_message){ .kind = LS_MESSAGE_HELLO, .rank = e.rank });
    const int local = ls_environment_local_rank();
    const ls_supervised me = {
        .rank = e.rank, .local = local >= 0 && local < w.each ? local : 0, .each = w.each, .age = w.age
    };
    child only = { 0 };
    const ls_launch_opts o = { .ranks = 1,
                               .threads = w.threads,
                               .cores = w.cores,
                               .program = w.own ? argv[0] : NULL,
                               .argv = argv,
                               .stall = w.stall,
                               .restart = w.restart };
    launch l = { .o = &o,
                 .supervised = &me,
                 .control = -1,
                 .children = &only,
                 .began = ls_now() - ls_since_exec() - (w.restart ? 0 : w.age) };
    s = supervise_start(&l);
    const int status = s == LS_OK ? watch_to_the_end(&l, e.rank) : tell_failure(e.rank, s);
    free(l.cpus);
    ls_shm_watch_close(&l.watch);
    return status;
}
