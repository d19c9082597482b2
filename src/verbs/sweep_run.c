/* sweep_run.c - trains the runs of a sweep, some beside each other. Each is a process of `lockstep train`,
 * bound to its part of the cores, whose messages go to FOLDER/log/NAME.txt. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "launch/launch.h"
#include "record/heartbeat.h"
#include "record/metric_text.h"
#include "record/run_list.h"
#include "sweep.h"

enum { LOOK = 100, CANNOT_EXEC = 127 }; /* milliseconds between two looks at the processes */

typedef struct work {
    ls_sweep *s;
    const ls_ui *ui;
    int wanted, ended, alive; /* runs that this command trains */
    bool *busy;               /* [parallel]: the slots */
    bool stopping;
    double began, looked;
} work;

/* ---- processes */

static _Noreturn void become_run(char *const *words, const ls_cpu_set *cpus, int log, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    /* a run whose sweep was killed saves, and ends; the sweep passes requests on, a terminal does not */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent || setpgid(0, 0))
        _exit(CANNOT_EXEC);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (cpus)
        ls_cpu_set_apply(cpus);
    execv("/proc/self/exe", words);
    dprintf(STDERR_FILENO, "error: lockstep could not be started: %s\n", strerror(errno));
    _exit(CANNOT_EXEC);
}

static ls_status start_run(work *w, ls_sweep_run *r, int slot)
{
    ls_sweep *s = w->s;
    const int sets = s->n_fixed + s->n_keys + 2;
    char **words = LS_ARENA_ARRAY(&s->arena, char *, 2 * sets + 5);
    char *path = ls_arena_printf(&s->arena, "%s/log/%s.txt", s->dir, r->name);
    int n = 0;
    LS_TRY(ls_arena_status(&s->arena));
    words[n++] = "lockstep";
    words[n++] = "train";
    words[n++] = (char *)s->o->recipe.name;
    words[n++] = "--no-progress";
    for (int i = 0; i < sets; i++) {
        words[n++] = "--set";
        words[n++] = (char *)r->sets[i];
    }
    LS_TRY(ls_make_parent(path));
    const int log = ls_sys_open(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (log < 0)
        return ls_fail_os(path, "write", errno);
    const pid_t parent = getpid();
    r->pid = ls_sys_fork();
    if (r->pid == 0)
        become_run(words, s->parts ? &s->parts[slot] : NULL, log, parent);
    const int error = errno;
    close(log);
    if (r->pid < 0) {
        r->pid = 0;
        return ls_fail(LS_E_MEMORY, "%s could not be started: %s", r->name, strerror(error));
    }
    r->slot = slot;
    r->seconds = -ls_now();
    w->busy[slot] = true;
    w->alive++;
    ls_log_debug("%s begins; its messages are in %s", r->name, path);
    return LS_OK;
}

/* ---- progress */

/* Steps that a run has finished. Sets r->steps where the run tells it. */
static int64_t steps_of(ls_sweep_run *r)
{
    ls_heartbeat h;
    ls_run_info info;
    int64_t done = 0;
    if (r->pid && ls_heartbeat_read(&h, r->dir, 0)) {
        r->steps = h.steps > 0 ? h.steps : r->steps;
        return h.step;
    }
    if (ls_run_is(r->dir) && ls_run_info_read(&info, r->dir) == LS_OK) {
        done = info.metrics.step;
        ls_run_info_release(&info);
    }
    return done;
}

/* `left`: seconds until all runs are done, if every run has as many steps as the longest that is known; NAN:
 * nothing is known yet. */
static void measure(work *w, ls_progress *p, double *left)
{
    ls_sweep *s = w->s;
    int64_t done = 0, all = 0, most = 0, before = 0;
    for (int i = 0; i < s->n; i++)
        most = s->runs[i].steps > most ? s->runs[i].steps : most;
    for (int i = 0; i < s->n; i++) {
        ls_sweep_run *r = &s->runs[i];
        if (r->finished || r->refused)
            continue;
        const bool over = r->status >= 0 && !r->pid;
        const int64_t steps = r->steps ? r->steps : most, now = over     ? steps
                                                                : r->pid ? steps_of(r)
                                                                         : r->before;
        all += steps;
        done += now < steps ? now : steps;
        before += r->before;
    }
    const double seconds = ls_now() - w->began;
    *p = (ls_progress){ .what = "sweep", .done = done, .total = all, .unit = "steps" };
    p->rate = done > before && seconds > 1 ? (double)(done - before) / seconds : 0;
    *left = p->rate > 0 ? (double)(all - done) / p->rate : NAN;
}

static void show_progress(work *w)
{
    char what[64];
    double left;
    ls_progress p;
    if (!w->ui->progress || ls_now() - w->looked < 0.5)
        return;
    w->looked = ls_now();
    measure(w, &p, &left);
    snprintf(what, sizeof what, "sweep, run %d of %d", w->ended + (w->alive > 0), w->wanted);
    p.what = what;
    if (p.total)
        w->ui->progress(w->ui->context, &p);
}

/* One line for a run that has ended. */
static void tell(work *w, ls_sweep_run *r)
{
    char duration[32], number[32], value[160] = "", rest[48] = "";
    ls_run_info info;
    ls_progress p;
    double left;
    if (r->status == LS_EXIT_DONE && ls_run_info_read(&info, r->dir) == LS_OK) {
        r->steps = info.metrics.step;
        if (!isnan(info.metrics.best_value))
            ls_snprintf(value, sizeof value, ": best %s %s", info.best_metric,
                        ls_metric_text(number, info.best_metric, "%.5g", info.metrics.best_value));
        ls_run_info_release(&info);
    }
    measure(w, &p, &left);
    if (left >= 0.5 && w->ended < w->wanted)
        snprintf(rest, sizeof rest, "; about %s left", ls_format_duration(number, ceil(left)));
    if (r->status == LS_EXIT_DONE)
        ls_log_info("%d of %d  %s%s, %s%s", w->ended, w->wanted, r->name, value,
                    ls_format_duration(duration, r->seconds), rest);
    else if (r->status == LS_EXIT_STOPPED)
        ls_log_info("%s stopped with everything saved", r->name);
    else
        ls_log_warn("%d of %d  %s failed: %s; its messages are in %s/log/%s.txt%s", w->ended, w->wanted,
                    r->name, ls_sweep_failure(w->s, r), w->s->dir, r->name, rest);
}

/* ---- all runs */

static void look(work *w)
{
    int status;
    for (int i = 0; i < w->s->n; i++) {
        ls_sweep_run *r = &w->s->runs[i];
        if (!r->pid || waitpid(r->pid, &status, WNOHANG) != r->pid)
            continue;
        r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        r->pid = 0;
        r->seconds += ls_now();
        w->busy[r->slot] = false;
        w->alive--;
        w->ended++;
        tell(w, r);
    }
}

static void stop_all(work *w)
{
    for (int i = 0; i < w->s->n && !w->stopping; i++)
        if (w->s->runs[i].pid)
            kill(w->s->runs[i].pid, SIGTERM);
    if (!w->stopping && w->alive)
        ls_log_info("asked to stop: %d run%s save%s", w->alive, w->alive == 1 ? "" : "s",
                    w->alive == 1 ? "s" : "");
    w->stopping = true;
}

/* A run that another process trains is left to it: a task of the same array job, or another sweep. */
static bool is_taken(const ls_sweep_run *r)
{
    ls_run_info info;
    if (!ls_run_is(r->dir) || ls_run_info_read(&info, r->dir) != LS_OK)
        return false;
    const bool lives = ls_run_state_lives(info.state);
    ls_run_info_release(&info);
    return lives;
}

static bool is_wanted(const ls_sweep *s, int i, int only)
{
    return !s->runs[i].finished && !s->runs[i].refused && (only < 0 || only == i);
}

static ls_status start_next(work *w, int *next, int only)
{
    int slot = 0;
    while (*next < w->s->n && !is_wanted(w->s, *next, only))
        ++*next;
    while (slot < w->s->parallel && w->busy[slot])
        slot++;
    if (*next == w->s->n || slot == w->s->parallel)
        return LS_OK;
    ls_sweep_run *r = &w->s->runs[(*next)++];
    if (is_taken(r)) {
        ls_log_info("%s is trained by another process", r->name);
        w->wanted--;
        return LS_OK;
    }
    return start_run(w, r, slot);
}

ls_status ls_sweep_train(ls_sweep *s, int only, const ls_ui *ui)
{
    work w = { .s = s, .ui = ui, .began = ls_now() };
    ls_status st = LS_OK;
    int next = 0;
    w.busy = LS_ARENA_ARRAY(&s->arena, bool, s->parallel);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < s->n; i++)
        if (is_wanted(s, i, only)) {
            w.wanted++;
            s->runs[i].before = steps_of(&s->runs[i]);
        }
    while (w.alive || (next < s->n && !w.stopping)) {
        if (ls_stop_asked() || st != LS_OK)
            stop_all(&w);
        if (!w.stopping)
            st = start_next(&w, &next, only);
        look(&w);
        show_progress(&w);
        if (w.alive)
            poll(NULL, 0, next < s->n && w.alive < s->parallel ? 0 : LOOK);
    }
    if (ui->progress)
        ui->progress(ui->context, NULL);
    return st == LS_OK && w.stopping
               ? ls_fail(LS_E_STOPPED, "stopped with everything saved: the same command continues the sweep")
               : st;
}
