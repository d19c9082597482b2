/* job.c - ranks on several hosts. It starts one mpirun or srun, and reads the messages of the processes that
 * watch the ranks there (supervise.c) from its stderr. Output of the ranks is passed on, messages of mpirun
 * are kept (mpirun_words.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/launched.h"
#include "message.h"
#include "job_command.h"
#include "launch_own.h"
#include "mpirun_words.h"
#include "supervise.h"

enum { TICK_MS = 100 };
static const double END_SECONDS = 5; /* time that mpirun has to end all ranks before it is killed */
static const double DRAIN_SECONDS = 1;

typedef struct ls_hosts_job {
    ls_job_command command;
    pid_t pid;
    int words;     /* its stderr; -1: closed */
    double end_at; /* time at which it is killed; 0: it was not asked to end */
    ls_mpirun_words heard;
} ls_hosts_job;

/* ---- start */

/* The new process, up to exec. */
static _Noreturn void become_mpirun(const launch *l, const int *ends, char *const *environment)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* upon which it ends the ranks on all hosts */
    setpgid(0, 0);                    /* so Ctrl-C reaches only the parent, which asks the ranks to stop */
    if (isatty(STDIN_FILENO)) {
        int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(nothing, STDIN_FILENO);
    }
    dup2(ends[1], STDERR_FILENO);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    sigprocmask(SIG_SETMASK, &l->mask_before, NULL);
    execvpe(l->job->command.name, l->job->command.words, environment);
    dprintf(STDERR_FILENO, "%s: %s\n", l->job->command.name, strerror(errno));
    _exit(127);
}

/* The environment of this process, with LS_LAUNCH_JOB for the processes that watch the ranks. The caller
 * frees the last string and the list. NULL: out of memory. */
static char **environment_of(const launch *l, char **told)
{
    char words[160];
    int n = 0, kept = 0;
    const ls_job_words w = { .each = l->o->hosts->per,
                             .threads = l->o->threads,
                             .cores = l->o->cores,
                             .restart = l->o->restart,
                             .own = l->o->program != NULL,
                             .stop_signal = l->job->command.stop_signal,
                             .stall = l->o->stall,
                             .age = ls_since_exec() };
    ls_job_words_write(words, &w);
    *told = ls_sys_text("%s=%s", LS_LAUNCH_JOB, words);
    while (environ[n])
        n++;
    char **all = ls_sys_malloc(sizeof *all * (size_t)(n + 2));
    if (!all || !*told) {
        free(all);
        free(*told);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        if (strncmp(environ[i], LS_LAUNCH_JOB "=", strlen(LS_LAUNCH_JOB) + 1))
            all[kept++] = environ[i];
    all[kept] = *told;
    all[kept + 1] = NULL;
    return all;
}

static ls_status start_command(launch *l)
{
    ls_hosts_job *j = l->job;
    int ends[2];
    char *told;
    if (pipe2(ends, O_CLOEXEC))
        return ls_fail(LS_E_MEMORY, "no pipe for the words of %s: %s", j->command.name, strerror(errno));
    prctl(PR_SET_CHILD_SUBREAPER,
          1); /* processes that mpirun leaves become children of this one, which ends them */
    char **environment = environment_of(l, &told);
    if (!environment) {
        close(ends[0]);
        close(ends[1]);
        return ls_fail(LS_E_MEMORY, "%s could not be started: out of memory", j->command.name);
    }
    j->pid = ls_sys_fork();
    if (j->pid == 0)
        become_mpirun(l, ends, environment);
    const int error = errno;
    free(told);
    free(environment);
    close(ends[1]);
    j->words = ends[0];
    fcntl(j->words, F_SETFL, O_NONBLOCK);
    if (j->pid > 0)
        return LS_OK;
    j->pid = 0;
    return ls_fail(LS_E_MEMORY, "%s could not be started: %s", j->command.name, strerror(error));
}

static ls_status job_start(launch *l)
{
    l->job = ls_sys_calloc(1, sizeof *l->job);
    LS_TRY(ls_sys_have(l->job));
    l->job->words = -1;
    LS_TRY(ls_job_command_make(&l->job->command, l->o));
    l->job->heard.name = l->job->command.name;
    LS_TRY(start_command(l));
    l->started = l->alive = l->o->ranks;
    return LS_OK;
}

/* ---- messages */

static void take_end(launch *l, const ls_rank_message *f)
{
    child *c = &l->children[f->rank];
    if (c->ended)
        return;
    ls_shm_watch_hear_doing(l->watch, f->rank, f->doing, f->planned, f->exec_error);
    c->ended = true;
    c->status = f->status;
    c->killed = f->killed;
    c->out_of_memory = f->out_of_memory;
    c->limit = f->limit;
    ls_launch_explain(l, f->rank);
}

static void take_halted(launch *l, const ls_rank_message *f)
{
    ls_halt h = { .process = f->process, .seconds = f->seconds };
    snprintf(h.doing, sizeof h.doing, "%s", f->doing);
    ls_launch_tell_halted(l, f->rank, &h);
}

static void take_message(launch *l, const char *text)
{
    ls_rank_message f;
    if (!ls_rank_message_read(&f, text) || f.rank < 0 || f.rank >= l->o->ranks)
        return;
    l->children[f.rank].heard_at = ls_now();
    l->first_heard = l->first_heard > 0 ? l->first_heard : ls_now();
    switch (f.kind) {
    case LS_MESSAGE_ALIVE: break;
    case LS_MESSAGE_HELLO: l->children[f.rank].said_hello = true; break;
    case LS_MESSAGE_JOINED: ls_shm_watch_hear_joined(l->watch, f.rank); break;
    case LS_MESSAGE_RUN: ls_shm_watch_hear_run(l->watch, f.run); break;
    case LS_MESSAGE_HALTED: take_halted(l, &f); break;
    case LS_MESSAGE_END: take_end(l, &f); break;
    case LS_MESSAGE_FAILURE:
        if (f.heard.rank >= 0 && f.heard.rank < l->o->ranks)
            ls_shm_watch_hear(l->watch, &f.heard);
        break;
    }
}

static void take_line(void *context, const char *line, bool is_message)
{
    launch *l = context;
    if (is_message) {
        take_message(l, line);
        return;
    }
    if (l->o->pass)
        l->o->pass(line);
}

/* Reads what there is. False: the end of the output. */
static bool read_words(launch *l)
{
    char more[8192];
    ssize_t n;
    while ((n = read(l->job->words, more, sizeof more)) > 0)
        ls_mpirun_words_take(&l->job->heard, more, (size_t)n, take_line, l);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- how it ended */

static const char *host_of(const launch *l, int rank)
{
    return ls_hosts_used(l->o->hosts, rank / l->o->hosts->per)->name;
}

/* Whether a host is gone: none of its ranks reported its end, but ranks of other hosts did. */
static bool host_is_silent(const launch *l, int host, bool *said_hello)
{
    const int per = l->o->hosts->per;
    *said_hello = false;
    for (int r = host * per; r < (host + 1) * per; r++) {
        if (l->children[r].ended)
            return false;
        *said_hello = *said_hello || l->children[r].said_hello;
    }
    return true;
}

static void add_ranks(ls_str *text, int first, int n)
{
    if (n == 1)
        ls_str_printf(text, "rank %d", first);
    else
        ls_str_printf(text, "ranks %d to %d", first, first + n - 1);
}

/* Length of the first sentence of mpirun's words. The others are advice. */
static int first_sentence(const char *said)
{
    const char *end = strstr(said, ". ");
    return end && end - said < 400 ? (int)(end - said) : 400;
}

/* Names the hosts that did not report at the end. */
static void explain_silence(launch *l)
{
    const int per = l->o->hosts->per, hosts = l->o->hosts->used;
    int silent = 0, began = 0, first = 0; /* rank of the first silent host */
    bool unstarted = false;
    ls_str text = { 0 };
    for (int h = 0; h < hosts; h++) {
        bool hello;
        const bool is = host_is_silent(l, h, &hello);
        began += hello || !is;
        unstarted = unstarted || (is && !hello);
        if (!is)
            continue;
        first = silent ? first : h * per;
        ls_str_printf(&text, "%shost %s %s ", silent++ ? "; " : "", host_of(l, h * per),
                      hello ? "is gone, with" : "did not start");
        add_ranks(&text, h * per, per);
    }
    if (l->o->unstarted)
        *l->o->unstarted = unstarted && l->o->hosts->slurm;
    const char *said = ls_mpirun_words_said(&l->job->heard);
    if (!began) {
        snprintf(l->text, sizeof l->text, "%s did not start the ranks: %.1500s", l->job->command.name,
                 *said ? said : "it said nothing");
        l->missed = LS_MISSED_NOT;
        ls_launch_note(l, 0, l->o->restart ? LS_E_PEER : LS_E_IO);
    } else if (silent == hosts && hosts > 1 && l->failed_at == 0) {
        snprintf(l->text, sizeof l->text, "%s ended before any rank did, on all %d hosts: %.1500s",
                 l->job->command.name, hosts, *said ? said : "it said nothing");
        l->missed = LS_MISSED_NOT;
        ls_launch_note(l, 0, LS_E_PEER);
        l->host_unknown = true;
    } else if (silent && (silent < hosts || l->failed_at == 0) &&
               (l->failed_at == 0 || l->code == LS_E_PEER)) {
        snprintf(l->text, sizeof l->text, "%.2000s%s%.*s; the other ranks were stopped", ls_str_text(&text),
                 *said ? ": " : "", first_sentence(said), said);
        l->missed = LS_MISSED_NOT;
        ls_launch_note(l, first, LS_E_PEER);
    }
    ls_str_release(&text);
}

/* Whether a rank did not report its end, although others of its host did. */
static void explain_unsaid(launch *l)
{
    for (int r = 0; r < l->o->ranks && l->failed_at == 0; r++)
        if (!l->children[r].ended) {
            snprintf(l->text, sizeof l->text, "rank %d on host %s ended without a message: %.1000s", r,
                     host_of(l, r), ls_mpirun_words_said(&l->job->heard));
            ls_launch_note(l, r, LS_E_PEER);
        }
}

/* Ends processes that mpirun has left. */
static void sweep(void)
{
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    for (int round = 0; round < 50; round++) {
        FILE *f = fopen(path, "re");
        int n = 0;
        for (; f && fscanf(f, "%ld", &pid) == 1; n++)
            kill((pid_t)pid, SIGKILL);
        if (f)
            fclose(f);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (!n)
            return;
        poll(NULL, 0, 10);
    }
}

static void end(launch *l)
{
    ls_hosts_job *j = l->job;
    for (double until = ls_now() + DRAIN_SECONDS; ls_now() < until && read_words(l);)
        poll(&(struct pollfd){ .fd = j->words, .events = POLLIN }, 1, 20);
    ls_mpirun_words_end(&j->heard, take_line, l);
    sweep();
    if (l->failed_at == 0)
        ls_launch_hear(l);
    explain_silence(l);
    explain_unsaid(l);
    l->alive = 0;
}

/* ---- watching */

static void send(const ls_hosts_job *j, int number)
{
    if (j->pid > 0)
        kill(j->pid, number);
}

static void job_look(launch *l)
{
    ls_hosts_job *j = l->job;
    int status;
    poll(&(struct pollfd){ .fd = j->words, .events = POLLIN }, 1, TICK_MS);
    if (!read_words(l))
        poll(NULL, 0, TICK_MS / 5);
    if (waitpid(j->pid, &status, WNOHANG) == j->pid) {
        j->pid = 0;
        end(l);
    } else if (j->end_at > 0 && ls_now() > j->end_at) {
        send(j, SIGKILL);
    }
    ls_launch_look_silent(l, j->command.name, j->pid);
}

static void stop(launch *l) { send(l->job, l->job->command.stop_signal); }

static void save(launch *l)
{
    if (l->job->command.save_signal)
        send(l->job, l->job->command.save_signal);
    else
        ls_log_warn("SIGUSR1 is not passed on: %s passes no second signal on", l->job->command.name);
}

/* When a rank ends badly, mpirun ends all others by itself, so it is not asked to do so. */
static void kill_all(launch *l)
{
    bool bad = false;
    if (l->job->end_at > 0) /* this is not the first call */
        return;
    for (int r = 0; r < l->o->ranks; r++)
        bad = bad || (l->children[r].ended && !ls_launch_ended_well(l->children[r].status));
    if (!bad)
        send(l->job, SIGTERM);
    l->job->end_at = ls_now() + END_SECONDS;
}

static void job_release(launch *l)
{
    if (!l->job)
        return;
    if (l->job->words >= 0)
        close(l->job->words);
    ls_mpirun_words_release(&l->job->heard);
    ls_job_command_release(&l->job->command);
    free(l->job);
    l->job = NULL;
}

const ls_ranks_place LS_RANKS_ON_HOSTS = { job_start, job_look, stop, save, kill_all, job_release };
