/* run_account.c - see run_account.h. Between two attempts the parent has the lock of the run directory, so no
 * other process can take the run. */
#include "run_account.h"

#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "loop/resume.h"
#include "pages/report.h"
#include "record/metrics.h"
#include "record/next_attempt.h"
#include "record/remote.h"
#include "record/run_owner.h"

enum { LOCKED_TICKS = 100 }; /* of 20 ms */

static char *account_path_of(const ls_run_account *r, const char *file)
{
    char *run = r->recipe ? ls_storage_run((*r->recipe)->run.storage, (*r->recipe)->run.name)
                          : ls_sys_strdup(r->program),
         *path = ls_path_join(run, file);
    free(run);
    return path;
}

static bool names_run(const ls_run_account *r) { return r->recipe || r->program[0]; }

static ls_status tell_next(void *context, const char *next)
{
    char *run = account_path_of(context, "");
    const ls_status s = names_run(context) ? ls_next_attempt_tell(run, next) : LS_OK;
    free(run);
    return s;
}

static bool heard_next(void *context)
{
    char *run = account_path_of(context, "");
    const bool heard = !names_run(context) || !ls_next_attempt_withdraw(run);
    free(run);
    return heard;
}

static void account_begin(void *context)
{
    ls_run_account *r = context;
    heard_next(r); /* one of a parent that was killed */
    char *path = account_path_of(r, "metrics.jsonl");
    const int64_t size = names_run(r) ? ls_file_size(path) : 0;
    r->rows_before = size < 0 ? 0 : size;
    free(path);
}

static bool account_worked(void *context)
{
    const ls_run_account *r = context;
    char *path = account_path_of(r, "metrics.jsonl");
    const int64_t size = names_run(r) ? ls_file_size(path) : 0;
    free(path);
    return size > r->rows_before;
}

/* A program that a rank started, as a debugger, may hold the run's lock for a moment after the rank. */
static void wait_for_lock(const ls_run_account *r)
{
    char *run = account_path_of(r, "");
    for (int i = 0; i < LOCKED_TICKS && ls_run_is_held(run) && !ls_run_owner_lives(run); i++)
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    free(run);
}

static ls_status open_run(void *context)
{
    ls_run_account *r = context;
    r->run = NULL;
    if (r->recipe)
        return ls_rundir_open_between(&r->run, *r->recipe, r->allow_change);
    if (!names_run(r))
        return LS_OK;
    wait_for_lock(r);
    if (ls_rundir_open_own_between(&r->run, r->program) != LS_OK)
        ls_log_warn("%s does not record this failure: %s", r->program, ls_error_message());
    return LS_OK;
}

/* The step from which the next attempt continues. */
static ls_status find_step(const ls_run_account *r, int64_t *step)
{
    char checkpoint[4096], *folder;
    if (r->recipe) {
        LS_TRY(ls_resume_find_again(checkpoint, *r->recipe, r->resume));
        return checkpoint[0] ? ls_resume_step(step, checkpoint) : LS_OK;
    }
    folder = account_path_of(r, "checkpoints");
    const int64_t newest = ls_resume_newest(folder);
    free(folder);
    *step = newest > 0 ? newest : 0;
    return LS_OK;
}

static ls_status find_loss(void *context, ls_restart *out)
{
    const ls_run_account *r = context;
    if (!r->run) {
        out->step = -1;
        return LS_OK;
    }
    LS_TRY(find_step(r, &out->step));
    int64_t last = ls_metrics_last_step(r->run, r->rows_before);
    out->lost = last > out->step ? last - out->step : 0;
    return LS_OK;
}

static ls_status restart(void *context, const ls_restart *one)
{
    const ls_run_account *r = context;
    const ls_restart_row row = { .cause = one->cause,
                                 .pause = one->pause,
                                 .step = one->step,
                                 .lost = one->lost,
                                 .workers = one->workers };
    if (!r->run)
        return LS_OK;
    ls_rundir_log(r->run, one->grown ? LS_INFO : LS_WARN, one->text);
    return ls_metrics_restart(r->run, &row);
}

/* The page of a run whose ranks were killed; ranks that failed have written it themselves. Where it cannot be
 * written, the failure remains. */
static void report_failure(const ls_run_account *r, const char *why)
{
    const ls_rundir *d = r->run;
    const ls_report page = { .recipe = r->recipe ? *r->recipe : NULL,
                             .state = LS_RUN_FAILED,
                             .data_note = d->data_note,
                             .builtin_data = d->builtin_data,
                             .hardware = d->hardware };
    if (d->before == LS_RUN_FAILED)
        return;
    if (ls_rundir_save_result(r->run, LS_RUN_FAILED, why) != LS_OK || ls_report_write(d, &page) != LS_OK)
        ls_log_warn("no report.html of the failed run: %s", ls_error_message());
}

static ls_status close_run(void *context, ls_status next, const char *why)
{
    ls_run_account *r = context;
    const bool failed = next != LS_OK && next != LS_E_STOPPED;
    if (!r->run)
        return LS_OK;
    if (failed) {
        ls_rundir_log(r->run, LS_ERROR, why);
        r->run->attempt--; /* no next attempt follows */
        report_failure(r, why);
    }
    return ls_rundir_close(&r->run,
                           next == LS_OK          ? LS_RUN_RESTARTING
                           : next == LS_E_STOPPED ? LS_RUN_STOPPED
                                                  : LS_RUN_FAILED,
                           failed ? why : NULL);
}

/* Whether result.json of the failed run lacks the failure, or has only what the ranks could see of it. */
static bool lacks_cause(const ls_run_account *r, ls_status s)
{
    char *run = account_path_of(r, "");
    ls_run_info info;
    const bool there = names_run(r) && ls_run_is(run), read = there && ls_run_info_read(&info, run) == LS_OK;
    if (read)
        ls_run_info_release(&info);
    free(run);
    return there && (!read || info.state == LS_RUN_DIED || info.state == LS_RUN_RESTARTING ||
                     (s == LS_E_PEER && info.state == LS_RUN_FAILED));
}

static void end(void *context, ls_status s, const char *cause)
{
    ls_run_account *r = context;
    if (names_run(r))
        wait_for_lock(r);
    if (!lacks_cause(r, s))
        return;
    ls_status kept = open_run(r);
    if (kept == LS_OK)
        kept = close_run(r, s, cause);
    if (kept != LS_OK)
        ls_log_warn("result.json does not say why the run failed: %s", ls_error_message());
}

ls_account ls_run_account_of(ls_run_account *r)
{
    return (ls_account){ .context = r,
                         .begin = account_begin,
                         .tell_next = tell_next,
                         .heard_next = heard_next,
                         .worked = account_worked,
                         .open = open_run,
                         .find_loss = find_loss,
                         .restart = restart,
                         .close = close_run,
                         .end = end };
}
