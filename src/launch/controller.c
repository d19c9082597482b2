/* controller.c - restarts. Between two attempts no rank lives, so the run directory is the parent's: it
 * writes there what happened, and its lock keeps others away. */
#include "controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "record/metrics.h"
#include "loop/resume.h"

#define PAUSE 0.5      /* seconds before the first restart; each later one waits twice as long, */
#define PAUSE_MAX 30.0 /* but no longer than this */
#define TICK 0.1       /* seconds between looks for a request to stop */

typedef struct controller {
    const ls_control_opts *o;
    ls_launch_opts next; /* attempt */
    int failures;
    bool out_of_memory;  /* the attempt ended so */
    int64_t rows_before; /* bytes of metrics.jsonl when it began */
} controller;

static const ls_recipe *recipe_of(const controller *c) { return *c->o->recipe; }

static char *path_of(const controller *c, const char *file)
{
    char *run = ls_path_join(recipe_of(c)->run.storage, recipe_of(c)->run.name),
         *path = ls_path_join(run, file);
    free(run);
    return path;
}

static int64_t size_of_rows(const controller *c)
{
    char *path = path_of(c, "metrics.jsonl");
    int64_t size = ls_file_size(path);
    free(path);
    return size < 0 ? 0 : size;
}

static bool stop_wanted(const controller *c) { return c->next.stop && *c->next.stop; }

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
    LS_TRY(ls_resume_find_again(checkpoint, recipe_of(c), c->o->resume));
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
    const long long most = recipe_of(c)->failure.max_failures;
    snprintf(text, sizeof text, "%.3800s; that was failure %d, and failure.max_failures is %lld", cause,
             c->failures, most);
    ls_rundir_log(*d, LS_ERROR, text);
    (*d)->attempt--; /* no other comes */
    LS_TRY(ls_rundir_close(d, LS_RUN_FAILED, text));
    return ls_fail(s, "%s", text);
}

/* Cores may have come or gone since; ranks that had too little memory have more of it when they are fewer. */
static ls_status choose_workers(controller *c, char text[96])
{
    const int before = c->next.ranks;
    text[0] = 0;
    LS_TRY(c->o->choose(c->o->context, c->out_of_memory && before > 1 ? before - 1 : 0, &c->next.ranks));
    if (c->next.ranks != before)
        snprintf(text, 96, ", on %d worker%s instead of %d", c->next.ranks, c->next.ranks == 1 ? "" : "s",
                 before);
    return LS_OK;
}

static ls_status wait_for_next(controller *c, ls_rundir *d, const char *cause)
{
    char text[4096], of[32] = "", again[64] = "", workers[96];
    ls_restart_row row = { .cause = cause, .pause = PAUSE_MAX };
    LS_TRY(find_loss(&row, c, d));
    LS_TRY(choose_workers(c, workers));
    row.workers = c->next.ranks;
    if (c->failures < 8)
        row.pause = PAUSE * (1 << (c->failures - 1)) < PAUSE_MAX ? PAUSE * (1 << (c->failures - 1))
                                                                 : PAUSE_MAX;
    if (recipe_of(c)->failure.max_failures > 0)
        snprintf(of, sizeof of, " of %lld", (long long)recipe_of(c)->failure.max_failures);
    if (row.lost)
        snprintf(again, sizeof again, ", %lld step%s computed again", (long long)row.lost,
                 row.lost == 1 ? " is" : "s are");
    snprintf(text, sizeof text, "%.3800s; restart %d%s in %g s from step %lld%s%s", cause, c->failures, of,
             row.pause, (long long)row.step, again, workers);
    ls_log_warn("%s", text);
    ls_rundir_log(d, LS_WARN, text);
    LS_TRY(ls_metrics_restart(d, &row));
    pause_for(c, row.pause);
    return stop_wanted(c)
               ? ls_fail(LS_E_STOPPED,
                         "stopped on request before restart %d; start it again to continue from step %lld",
                         c->failures, (long long)row.step)
               : LS_OK;
}

/* Between two attempts. LS_OK: the next one is to begin. */
static ls_status after_failure(controller *c, ls_status s)
{
    char cause[4096], message[4096];
    ls_rundir *d;
    snprintf(cause, sizeof cause, "%s", ls_error_message());
    LS_TRY(ls_rundir_open_between(&d, recipe_of(c), c->o->allow_change));
    if (recipe_of(c)->failure.max_failures >= 0 && c->failures > recipe_of(c)->failure.max_failures)
        return give_up(c, &d, s, cause);
    s = wait_for_next(c, d, cause);
    snprintf(message, sizeof message, "%s", s == LS_OK ? "" : ls_error_message());
    LS_TRY(ls_rundir_close(&d,
                           s == LS_OK          ? LS_RUN_RESTARTING
                           : s == LS_E_STOPPED ? LS_RUN_STOPPED
                                               : LS_RUN_FAILED,
                           s == LS_OK || s == LS_E_STOPPED ? NULL : message));
    return s == LS_OK ? s : ls_fail(s, "%s", message);
}

/* Whether the run in the directory is the one that failed, and does not say so, or knows only what its ranks
 * could see of it. */
static bool lacks_cause(const controller *c, ls_status s)
{
    char *run = path_of(c, ""), *recipe = path_of(c, "recipe.yaml");
    ls_run_info info;
    const bool there = ls_file_exists(recipe), read = there && ls_run_info_read(&info, run) == LS_OK;
    free(recipe);
    free(run);
    return there && (!read || info.state == LS_RUN_DIED || info.state == LS_RUN_RESTARTING ||
                     (s == LS_E_PEER && info.state == LS_RUN_FAILED));
}

/* No attempt follows. */
static ls_status end_as_failed(const controller *c, ls_status s)
{
    char cause[4400];
    ls_rundir *d;
    snprintf(cause, sizeof cause, "%s", ls_error_message());
    if (!lacks_cause(c, s))
        return ls_fail(s, "%s", cause);
    ls_status kept = ls_rundir_open_between(&d, recipe_of(c), c->o->allow_change);
    if (kept == LS_OK) {
        d->attempt--; /* no other comes */
        ls_rundir_log(d, LS_ERROR, cause);
        kept = ls_rundir_close(&d, LS_RUN_FAILED, cause);
    }
    if (kept != LS_OK)
        ls_log_warn("result.json does not say why the run failed: %s", ls_error_message());
    return ls_fail(s, "%s", cause);
}

/* Whoever could say what is wrong would say it again. What happened to a process from outside, or in a crash,
 * need not come again. */
static bool may_pass(ls_status s) { return s == LS_E_PEER; }

ls_status ls_control(const ls_control_opts *o)
{
    controller c = { .o = o, .next = o->ranks };
    for (c.next.out_of_memory = &c.out_of_memory;; c.next.restart = c.failures) {
        c.rows_before = size_of_rows(&c);
        c.out_of_memory = false;
        ls_status s = ls_launch(&c.next);
        if (s == LS_OK || s == LS_E_STOPPED)
            return s;
        if (!may_pass(s) || recipe_of(&c)->failure.max_failures == 0)
            return end_as_failed(&c, s);
        c.failures++;
        LS_TRY(after_failure(&c, s));
    }
}
