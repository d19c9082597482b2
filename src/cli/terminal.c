/* terminal.c - prints messages on stderr (as text or JSON lines) and, on a terminal, one progress line. It
 * also handles signals: SIGINT, SIGTERM, SIGHUP and SIGUSR2 set a flag, SIGUSR1 increments a number. Only one
 * of several ranks prints; messages of the others go to their log files. Any thread may log: ls_log admits
 * one at a time, and a lock protects the progress line. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "base/str.h"
#include "comm/launched.h"
#include "record/rundir.h"

static struct {
    pthread_mutex_t lock;
    bool json, color, bars; /* bars: stderr is a terminal that takes a progress line */
    bool silent;            /* another rank prints */
    bool drawn;             /* the terminal shows a progress line now */
    double last_draw;
    ls_rundir *log_to; /* an open run, whose log file gets the messages, too */
    ls_str early;      /* messages of before that, a line each: what was loaded, for example */
} T = { .lock = PTHREAD_MUTEX_INITIALIZER };

#define DELIBERATE 5.0 /* seconds after the request to stop from which Ctrl-C ends the process */

static volatile sig_atomic_t stop_wanted, saves_wanted;
static _Atomic double asked_at; /* when the first request to stop came; 0: none. Threads may set it at once */

/* The first request to stop sets a flag. More of them change nothing: at a time limit Slurm sends SIGTERM
 * twice within milliseconds, and SIGKILL only after the seconds in which the checkpoint is written. Only a
 * person at the keyboard ends the process at once, by a second SIGINT some seconds later. */
static void on_stop(int number)
{
    const double now = ls_now();
    double first = 0;
    if (!atomic_compare_exchange_strong(&asked_at, &first, now) && number == SIGINT &&
        now - first >= DELIBERATE) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when the handler returns */
    }
    stop_wanted = 1;
}

static void on_save(int number)
{
    (void)number;
    saves_wanted++;
}

/* Also removes the progress line of a rank that was killed. */
static void clear_line(void)
{
    if (T.drawn || T.bars)
        fputs("\r\033[K", stderr);
    T.drawn = false;
}

static void print_json(ls_level level, const char *message)
{
    static const char *const NAMES[] = { "error", "warning", "info", "debug", "trace" };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_f64(&j, "time", (double)now.tv_sec + (double)(now.tv_nsec / 1000) * 1e-6);
    ls_json_text(&j, "level", NAMES[level]);
    ls_json_text(&j, "message", message);
    ls_json_close_object(&j);
    fprintf(stderr, "%s\n", ls_str_text(&j.out));
    ls_str_release(&j.out);
}

static void show(ls_level level, const char *message)
{
    static const char *const MARK[] = { "error: ", "warning: ", "", "", "" };
    static const char *const COLOR[] = { "\033[1;31m", "\033[1;33m", "", "\033[2m", "\033[2m" };
    pthread_mutex_lock(&T.lock);
    clear_line();
    if (T.json)
        print_json(level, message);
    else if (T.color && *COLOR[level])
        fprintf(stderr, "%s%s%s%s\n", COLOR[level], MARK[level], level <= LS_WARN ? "\033[0m" : "", message);
    else
        fprintf(stderr, "%s%s\n", MARK[level], message);
    if (T.color && level > LS_INFO && !T.json)
        fputs("\033[0m", stderr);
    fflush(stderr);
    pthread_mutex_unlock(&T.lock);
}

static void pass(const char *line)
{
    pthread_mutex_lock(&T.lock);
    clear_line();
    fprintf(stderr, "%s\n", line);
    fflush(stderr);
    pthread_mutex_unlock(&T.lock);
}

enum { EARLY = 1 << 16 }; /* bytes */

/* Writes the messages of before the run was open to its log. */
static void log_early(void)
{
    pthread_mutex_lock(&T.lock);
    char *text = T.early.len ? ls_str_take(&T.early) : NULL, *rest = text;
    pthread_mutex_unlock(&T.lock);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line)
            ls_rundir_log(T.log_to, LS_INFO, line);
    free(text);
}

static void sink(void *context, ls_level level, const char *message)
{
    (void)context;
    if (!T.silent)
        show(level, message);
    if (T.log_to) {
        log_early();
        ls_rundir_log(T.log_to, level, message);
    } else if (T.early.len < EARLY) {
        pthread_mutex_lock(&T.lock);
        ls_str_printf(&T.early, "%s\n", message);
        pthread_mutex_unlock(&T.lock);
    }
}

static int terminal_width(int fd)
{
    struct winsize w;
    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 20 ? w.ws_col : 80;
}

static void amount(char buffer[32], const ls_progress *p, double n)
{
    if (!strcmp(p->unit, "bytes"))
        ls_format_bytes(buffer, (uint64_t)n);
    else
        snprintf(buffer, 32, n < 10 && n != (double)(int64_t)n ? "%.1f" : "%.0f", n);
}

/* "epoch 2/5 [#######---------]  43%  201/468 steps  12.4 steps/s  22 s left  loss 0.5312" */
static void draw(const ls_progress *p)
{
    char done[32], total[32], rate[32], left[32], bar[32] = "", text[512];
    size_t n = 0;
    amount(done, p, (double)p->done);
    amount(total, p, (double)p->total);
    amount(rate, p, p->rate);
    bool bytes = !strcmp(p->unit, "bytes");
#define ADD(...) n += (size_t)ls_snprintf(text + n, n < sizeof text ? sizeof text - n : 0, __VA_ARGS__)
    ADD("%s", p->what);
    if (p->total > 0) {
        int filled = (int)(20 * (double)p->done / (double)p->total);
        filled = filled < 0 ? 0 : filled > 20 ? 20 : filled;
        memset(bar, '#', (size_t)filled);
        memset(bar + filled, '-', (size_t)(20 - filled));
        bar[20] = 0;
        ADD(" [%s] %3.0f%%  %s/%s%s%s", bar, 100 * (double)p->done / (double)p->total, done, total,
            bytes ? "" : " ", bytes ? "" : p->unit);
    } else {
        ADD("  %s%s%s", done, bytes ? "" : " ", bytes ? "" : p->unit);
    }
    if (p->rate > 0)
        ADD("  %s%s%s/s", rate, bytes ? "" : " ", bytes ? "" : p->unit);
    if (p->rate > 0 && p->total > p->done)
        ADD("  %s left", ls_format_duration(left, (double)(p->total - p->done) / p->rate));
    if (p->note)
        ADD("  %s", p->note);
#undef ADD
    fprintf(stderr, "\r\033[K%.*s", terminal_width(STDERR_FILENO) - 1, text);
    fflush(stderr);
    T.drawn = true;
}

static void progress(void *context, const ls_progress *p)
{
    (void)context;
    double now = ls_now();
    if (T.silent || (p && now - T.last_draw < 0.1))
        return;
    pthread_mutex_lock(&T.lock);
    T.last_draw = now;
    if (p) {
        draw(p);
    } else {
        clear_line();
        fflush(stderr);
    }
    pthread_mutex_unlock(&T.lock);
}

/* A rank ignores the signals that its parent passes on as SIGTERM (launch/start.c); they stay ignored here,
 * as SIGHUP does after `nohup`. SIGTERM is always taken. */
static void take_signals(bool is_rank)
{
    static const int STOP[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2 };
    struct sigaction stop = { .sa_handler = on_stop },
                     save = { .sa_handler = on_save, .sa_flags = SA_RESTART }, before;
    sigset_t requests;
    sigemptyset(&requests);
    sigaddset(&requests, SIGUSR1);
    for (size_t i = 0; i < sizeof STOP / sizeof STOP[0]; i++) {
        sigaddset(&stop.sa_mask, STOP[i]);
        sigaddset(&requests, STOP[i]);
    }
    for (size_t i = 0; i < sizeof STOP / sizeof STOP[0]; i++) {
        sigaction(STOP[i], NULL, &before);
        if (before.sa_handler != SIG_IGN || STOP[i] == SIGTERM || (STOP[i] == SIGINT && !is_rank))
            sigaction(STOP[i], &stop, NULL);
    }
    sigaction(SIGUSR1, &save, NULL);
    if (is_rank)
        sigprocmask(SIG_UNBLOCK, &requests, NULL);
}

/* Records in the open run why this process ends. The parent of ranks records it by itself. */
static void record_loss(const char *why)
{
    ls_rundir *run = T.log_to;
    if (!run)
        return;
    ls_rundir_log(run, LS_ERROR, why);
    if (!ls_launch_watched() && ls_run_state_lives(run->state)) /* a finished run stays finished */
        ls_rundir_save_result(run, LS_RUN_FAILED, why);
}

void ls_terminal_open(ls_ui *ui, const ls_terminal_opts *o)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool able = !(term && !strcmp(term, "dumb")), colours = able && !(no_color && *no_color),
               terminal = able && isatty(STDERR_FILENO);
    T.json = o->json;
    T.color = terminal && colours;
    T.bars = terminal && !o->json && !o->no_progress && o->level >= LS_INFO;
    ls_log_set(sink, NULL, o->level);
    T.silent = ls_launch_rank() > 0;
    ls_stop_on(&stop_wanted);
    take_signals(ls_launch_watched());
    ls_lost_pages_take(T.json, T.bars, record_loss);
    *ui = (ls_ui){ .out = stdout,
                   .width = terminal_width(STDOUT_FILENO),
                   .colour = colours && isatty(STDOUT_FILENO),
                   .quiet = o->level < LS_INFO,
                   .progress = T.bars ? progress : NULL,
                   .stop = &stop_wanted,
                   .save = &saves_wanted,
                   .pass = pass,
                   .log_to = &T.log_to,
                   .silent = &T.silent };
}

void ls_terminal_close(void)
{
    pthread_mutex_lock(&T.lock);
    clear_line();
    fflush(stderr);
    pthread_mutex_unlock(&T.lock);
    ls_log_set(NULL, NULL, LS_ERROR);
    ls_str_release(&T.early);
    ls_stop_on(NULL);
}
