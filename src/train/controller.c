/* controller.c - restarts. Between two attempts no rank lives, so the run directory is the parent's: it writes there what happened, and its lock keeps
 * others away. */
#include "controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "metrics.h"
#include "resume.h"

#define PAUSE 0.5      /* seconds before the first restart; each later one waits twice as long, */
#define PAUSE_MAX 30.0 /* but no longer than this */
#define TICK 0.1       /* seconds between looks for a request to stop */

typedef struct controller {
    const ls_recipe *recipe;
    const char *resume;
    bool allow_change;
    const volatile sig_atomic_t *stop;
    int failures;
    int64_t rows_before; /* bytes of metrics.jsonl when the attempt began */
} controller;

static int64_t size_of_rows(const ls_recipe *r)
{
    char *run = ls_path_join(r->run.storage, r->run.name), *path = ls_path_join(run, "metrics.jsonl");
    struct stat s;
    int64_t size = stat(path, &s) ? 0 : (int64_t)s.st_size;
    free(path);
    free(run);
    return size;
}

static bool stop_wanted(const controller *c) { return c->stop && *c->stop; }

static void pause_for(const controller *c, double seconds)
{
    const double end = ls_now() + seconds;
    while (ls_now() < end && !stop_wanted(c))
        nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * TICK) }, NULL);
}

/* Where the next attempt begins, and how much of the last one it computes again. */
static ls_status find_loss(ls_restart_row *row, const controller *c, const ls_rundir *d)
{
    char checkpoint[4096];
    LS_TRY(ls_resume_find_again(checkpoint, c->recipe, c->resume));
    if (checkpoint[0])
        LS_TRY(ls_resume_step(&row->step, checkpoint));
    int64_t last = ls_metrics_last_step(d, c->rows_before);
    row->lost = last > row->step ? last - row->step : 0;
    return LS_OK;
}

/* The last failure that was allowed for has been: the run has failed. */
static ls_status give_up(const controller *c, ls_rundir **d, ls_status s, const char *cause)
{
    char text[4096];
    const long long most = c->recipe->failure.max_failures;
    snprintf(text, sizeof text, "%.3800s; that was failure %d, and failure.max_failures is %lld", cause, c->failures, most);
    ls_rundir_log(*d, LS_ERROR, text);
    (*d)->attempt--; /* no other comes */
    LS_TRY(ls_rundir_close(d, LS_RUN_FAILED, text));
    return ls_fail(s, "%s", text);
}

static ls_status wait_for_next(const controller *c, ls_rundir *d, const char *cause)
{
    char text[4096], of[32] = "", again[64] = "";
    ls_restart_row row = { .cause = cause, .pause = PAUSE_MAX };
    LS_TRY(find_loss(&row, c, d));
    if (c->failures < 8)
        row.pause = PAUSE * (1 << (c->failures - 1)) < PAUSE_MAX ? PAUSE * (1 << (c->failures - 1)) : PAUSE_MAX;
    if (c->recipe->failure.max_failures > 0)
        snprintf(of, sizeof of, " of %lld", (long long)c->recipe->failure.max_failures);
    if (row.lost)
        snprintf(again, sizeof again, ", %lld step%s computed again", (long long)row.lost, row.lost == 1 ? " is" : "s are");
    snprintf(text, sizeof text, "%.3800s; restart %d%s in %g s from step %lld%s", cause, c->failures, of, row.pause, (long long)row.step, again);
    ls_log_warn("%s", text);
    ls_rundir_log(d, LS_WARN, text);
    LS_TRY(ls_metrics_restart(d, &row));
    pause_for(c, row.pause);
    return stop_wanted(c) ? ls_fail(LS_E_STOPPED, "stopped on request before restart %d; start it again to continue from step %lld", c->failures,
                                    (long long)row.step) : LS_OK;
}

/* Between two attempts. LS_OK: the next one is to begin. */
static ls_status after_failure(const controller *c, ls_status s)
{
    char cause[4096], message[4096];
    ls_rundir *d;
    snprintf(cause, sizeof cause, "%s", ls_error_message());
    LS_TRY(ls_rundir_open_between(&d, c->recipe, c->allow_change));
    if (c->recipe->failure.max_failures >= 0 && c->failures > c->recipe->failure.max_failures)
        return give_up(c, &d, s, cause);
    s = wait_for_next(c, d, cause);
    snprintf(message, sizeof message, "%s", s == LS_OK ? "" : ls_error_message());
    LS_TRY(ls_rundir_close(&d, s == LS_OK ? LS_RUN_RESTARTING : s == LS_E_STOPPED ? LS_RUN_STOPPED : LS_RUN_FAILED,
                           s == LS_OK || s == LS_E_STOPPED ? NULL : message));
    return s == LS_OK ? s : ls_fail(s, "%s", message);
}

/* Whoever could say what is wrong would say it again. What happened to a process from outside, or in a crash, need not come again. */
static bool may_pass(ls_status s) { return s == LS_E_PEER; }

ls_status ls_control(const ls_launch_opts *o, const ls_recipe *r, const char *resume, bool allow_change)
{
    controller c = { .recipe = r, .resume = resume, .allow_change = allow_change, .stop = o->stop };
    for (ls_launch_opts next = *o;; next.restart = c.failures) {
        c.rows_before = size_of_rows(r);
        ls_status s = ls_launch(&next);
        if (!may_pass(s) || r->failure.max_failures == 0)
            return s;
        c.failures++;
        LS_TRY(after_failure(&c, s));
    }
}
