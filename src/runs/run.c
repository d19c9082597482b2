/* run.c - opens, queries and ends the run of a user's program (lockstep/run.h). */
#include "lockstep/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/agree.h"
#include "base/argument.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "comm/group.h"
#include "comm/launched.h"
#include "record/remote_hosts.h"
#include "record/run_owner.h"
#include "record/rundir.h"
#include "record/step_folder.h"
#include "run_own.h"
#include "pages/report.h"
#include "record/heartbeat.h"

/* ---- opening */

bool ls_run_is_best(ls_run *r, int64_t step, int64_t epoch, const ls_metric_list *metrics)
{
    const double value = r->best ? ls_metric_list_find(metrics, r->best) : NAN;
    if (r->best && isnan(value))
        snprintf(r->dir->no_best, sizeof r->dir->no_best, "%s was not reported, or was NaN", r->best);
    return ls_rundir_is_best(r->dir, value, r->opts.best_is_max, step, epoch);
}

double ls_run_value(const ls_run *r, const ls_metric_list *metrics)
{
    const double value = r->best ? ls_metric_list_find(metrics, r->best) : NAN;
    return r->opts.best_is_max ? -value : value;
}

/* Reads trainer.json of checkpoint i of an earlier start, and lists the checkpoint in result.json. */
static ls_status list_checkpoint(ls_run *r, int i, char **json)
{
    const int64_t step = r->snapshots.all[i].step;
    char *dir = ls_snapshots_path(&r->snapshots, step), *path = ls_path_join(dir, "trainer.json"),
         relative[64], name[LS_STEP_FOLDER_ROOM];
    size_t size;
    ls_run_saved c = { 0 };
    ls_status s = ls_file_read(json, &size, path);
    if (s == LS_OK)
        s = ls_run_saved_read(&c, *json, path);
    if (s != LS_OK && s != LS_E_MEMORY)
        ls_fail_in(
            s, "checkpoint %s is damaged; remove the folder, and the run continues from the one before", dir);
    snprintf(relative, sizeof relative, "checkpoints/%s", ls_step_folder(name, step));
    const bool best = ls_run_is_best(r, step, c.epoch, &c.metrics);
    r->snapshots.all[i].value = ls_run_value(r, &c.metrics);
    ls_rundir_list_checkpoint(r->dir, relative, step, c.epoch, c.metrics, best); /* takes c.metrics */
    free(c.text);
    free(path);
    free(dir);
    return s;
}

/* Lists the checkpoints from their own files, because a killed process may not have written them to
 * result.json. An old one that cannot be read is only logged. The newest becomes the latest. Only on rank 0.
 */
static ls_status find_checkpoints(ls_run *r, int64_t newest)
{
    ls_snapshots *s = &r->snapshots;
    r->dir->metrics.best_value = NAN;
    for (int i = 0; i < s->n; i++) {
        free(r->coming);
        r->coming = NULL;
        ls_status status = list_checkpoint(r, i, &r->coming);
        if (s->all[i].step == newest || status == LS_E_MEMORY)
            LS_TRY(status);
        else if (status != LS_OK)
            ls_run_log(r, ls_error_message());
    }
    if (isnan(r->dir->metrics.best_value) || r->dir->metrics.best_step == s->best)
        return LS_OK;
    s->best = r->dir->metrics.best_step;
    char name[LS_STEP_FOLDER_ROOM];
    return ls_checkpoint_point(s->dir, "best", ls_step_folder(name, s->best));
}

static ls_status open_checkpoints(ls_run *r)
{
    char *folder = ls_path_join(r->place.path, "checkpoints");
    if (r->place.rank == 0)
        ls_checkpoint_settle(folder);
    const int64_t newest = r->place.rank ? -1 : ls_resume_newest(folder);
    free(folder);
    r->snapshots = (ls_snapshots){ .remote = r->remote, .apart = r->apart };
    ls_status s = ls_snapshots_open(&r->snapshots, r->dir, newest);
    if (s == LS_OK && r->place.rank == 0)
        s = find_checkpoints(r, newest);
    LS_TRY(ls_ranks_agree(r->group, s));
    LS_TRY(ls_run_point(r));
    if (r->latest.path) { /* the next report follows it */
        r->step = r->saved.step;
        r->reports = r->saved.report + 1;
    }
    return LS_OK;
}

static ls_status run_check(const char *storage, const char *name, const ls_run_opts *o)
{
    if (!storage || !*storage || !name || !*name || strchr(name, '/') || name[0] == '.')
        return ls_fail(LS_E_ARG,
                       "a run needs a storage, and the name of a folder in it, without '/' and not beginning "
                       "with '.': got \"%s\", \"%s\"",
                       storage ? storage : "", name ? name : "");
    const bool elsewhere = !strncmp(storage, "s3://", 5) || !strncmp(storage, "file://", 7);
    if (!o->config || o->keep < 1 || o->keep_best < 0)
        return ls_fail(LS_E_ARG, "run %s: keep 1 checkpoint or more, and a config that is not NULL", name);
    if (o->keep_best > 1 && !o->best)
        return ls_fail(LS_E_ARG, "run %s: keep_best %lld needs the metric by which they are the best: best",
                       name, (long long)o->keep_best);
    return elsewhere ? LS_OK : ls_path_check(name, storage);
}

/* `lockstep launch` records there why it starts the ranks again. */
static void tell_launcher(const ls_run *r)
{
    char *path = realpath(r->place.path, NULL); /* the program may go to another folder */
    ls_group_names_run(r->group, path ? path : "");
    free(path);
}

/* Fetches what the bucket has of the run, unless another process has the run here. Only on rank 0. */
static ls_status open_bucket(ls_run *r)
{
    LS_TRY(ls_remote_open(&r->remote, r->storage, r->name));
    return r->remote && !ls_run_is_held(ls_remote_folder(r->remote)) ? ls_remote_pull(r->remote) : LS_OK;
}

static ls_status open_run(ls_run *r, const char *config)
{
    enum { DEFAULT_STALL = 300 }; /* as of a group, and failure.stall_seconds */
    const double stall = ls_launch_stall();
    const ls_own_run own = { r->storage, r->name, config, r->best };
    if (ls_group_rank(r->group) == 0)
        LS_TRY(open_bucket(r));
    LS_TRY(ls_remote_join(&r->remote, &r->apart, r->storage, r->name, r->group,
                          stall > 0 ? stall : DEFAULT_STALL));
    LS_TRY(ls_rundir_open_own(&r->dir, &own, r->group));
    ls_run_place *p = &r->place;
    ls_group *g = r->group;
    *p = (ls_run_place){
        ls_group_rank(g), ls_group_size(g), ls_group_local_rank(g), ls_group_local_size(g), ls_group_hosts(g),
        r->name,          r->storage,       r->dir->path,           r->dir->attempt
    };
    LS_TRY(open_checkpoints(r));
    ls_rundir_set_reported(r->dir, r->latest.step, r->latest.epoch, &r->saved.metrics);
    r->reported = ls_now();
    char text[4200];
    snprintf(text, sizeof text, "attempt %lld %s%.4096s", (long long)p->attempt,
             r->latest.path ? "continues from " : "begins without a checkpoint",
             r->latest.path ? r->latest.path : "");
    ls_run_log(r, text);
    ls_status s = ls_rundir_save_result(r->dir, LS_RUN_STARTING, NULL);
    s = ls_ranks_agree(g, s == LS_OK ? ls_rundir_save_result(r->dir, LS_RUN_RUNNING, NULL) : s);
    if (s == LS_OK && p->rank == 0)
        tell_launcher(r);
    return s;
}

static void destroy(ls_run *r)
{
    ls_snapshots_release(&r->snapshots);
    ls_run_saved_release(&r->saved);
    ls_remote_close(&r->remote);
    free(r->coming);
    free((char *)r->latest.path);
    if (r->own_group)
        ls_group_destroy(&r->group);
    ls_profiler_release(&r->profiler);
    free(r->storage);
    free(r->name);
    free(r->best);
    free(r->words);
    free(r);
}

ls_status ls_run_open_with(ls_run **out, const char *storage, const char *name, ls_group *group,
                           const ls_run_opts *o)
{
    LS_ARG(out);
    LS_ARG(storage);
    LS_ARG(name);
    o = o ? o : &(const ls_run_opts){ LS_RUN_DEFAULTS };
    *out = NULL;
    ls_status s = run_check(storage, name, o);
    LS_TRY(group ? ls_ranks_agree(group, s) : s);
    ls_run *r = ls_sys_calloc(1, sizeof *r);
    if (!r) {
        s = ls_fail(LS_E_MEMORY, "run %s: out of memory", name);
        if (group)
            ls_group_fail(group, s, ls_error_message());
        return s;
    }
    *r = (ls_run){ .opts = *o,
                   .group = group,
                   .name = ls_sys_strdup(name),
                   .storage = ls_sys_strdup(storage),
                   .best = ls_sys_strdup(o->best),
                   .step = -1 };
    r->own_group = !group;
    s = group ? LS_OK : ls_group_self(&r->group);
    if (s == LS_OK && (!r->name || !r->storage || (o->best && !r->best)))
        s = ls_fail(LS_E_MEMORY, "run %s: out of memory", name);
    if (s == LS_OK && !(r->words = ls_sys_calloc((size_t)ls_group_size(r->group), sizeof *r->words)))
        s = ls_fail(LS_E_MEMORY, "run %s: no memory for %d ranks", name, ls_group_size(r->group));
    if (s == LS_OK)
        s = open_run(r, o->config);
    if (s != LS_OK) {
        char message[4096];
        snprintf(message, sizeof message, "%s", ls_error_message());
        if (r->group && s != LS_E_PEER)
            ls_group_fail(r->group, s, message);
        ls_rundir_close(&r->dir, LS_RUN_NEW, NULL); /* the run keeps its state */
        destroy(r);
        return ls_fail(s, "%s", message);
    }
    *out = r;
    return LS_OK;
}

const ls_run_place *ls_run_where(const ls_run *r)
{
    LS_ARG_OR(r, NULL);
    return &r->place;
}
void ls_run_log(ls_run *r, const char *message)
{
    LS_ARG_VOID(r);
    LS_ARG_VOID(message);
    ls_rundir_log(r->dir, LS_INFO, message);
}

/* ---- the end */

ls_status ls_run_stop_requested(ls_run *r, bool asked, bool *any)
{
    LS_ARG(r);
    LS_ARG(any);
    *any = false;
    LS_TRY(ls_run_compare(r, "a question whether to stop", LS_OK, asked));
    for (int k = 0; k < r->place.ranks; k++)
        *any = *any || r->words[k];
    return LS_OK;
}

/* Writes the page first: a reader that finds the state `finished` finds the page, too. Only on rank 0. */
static ls_status save_end(ls_run *r, ls_run_state state)
{
    if (state == LS_RUN_STOPPED)
        LS_TRY(ls_rundir_save_result(r->dir, LS_RUN_STOPPING, NULL));
    LS_TRY(ls_report_write(r->dir, &(ls_report){ .state = state }));
    return ls_rundir_save_result(r->dir, state, NULL);
}

static ls_status end_well(ls_run *r, ls_status how)
{
    LS_TRY(ls_run_compare(r, how == LS_OK ? "the end of the run" : "the end of a run that was stopped", LS_OK,
                          0));
    LS_TRY(ls_run_settle(r));
    const ls_run_state state = how == LS_OK ? LS_RUN_FINISHED : LS_RUN_STOPPED;
    ls_heartbeat last = { .ranks = r->place.ranks, .step = r->step < 0 ? 0 : r->step };
    snprintf(last.doing, sizeof last.doing, "%s", ls_run_state_name(state));
    ls_heartbeat_write(r->dir, &last, true);
    return ls_ranks_agree(r->group, r->place.rank ? LS_OK : save_end(r, state));
}

/* Only the first error is reported; errors in here are ignored. */
static void end_badly(ls_run *r, ls_status s, const char *message)
{
    ls_rundir_log(r->dir, LS_ERROR, message);
    if (s != LS_E_PEER)
        ls_group_fail(r->group, s, message);
    ls_snapshots_abandon(&r->snapshots, r->dir);
    if (r->place.rank)
        return;
    ls_rundir_save_result(r->dir, LS_RUN_FAILED, message);
    ls_report_write(r->dir, &(ls_report){ .state = LS_RUN_FAILED });
}

/* Uploads what the bucket has not got, while the run is still locked. A failure is only reported where the
 * run ended well. Only rank 0 has a bucket. */
static ls_status send_end(const ls_run *r, ls_status how)
{
    char reason[2048];
    ls_status s = ls_remote_push(r->remote);
    if (s == LS_OK && how == LS_OK && r->apart && !r->place.rank)
        s = ls_remote_complete(r->remote);
    snprintf(reason, sizeof reason, "%s", s == LS_OK ? "" : ls_error_message());
    if (s != LS_OK && how != LS_OK)
        ls_log_warn("%s", reason);
    return s == LS_OK || how != LS_OK
               ? LS_OK
               : ls_fail(s, "%s; the run is complete in %s; start the program again to upload it", reason,
                         r->place.path);
}

ls_status ls_run_finish(ls_run **run, ls_status how, ls_result **result)
{
    LS_ARG(run);
    ls_run *r = *run;
    char message[4096] = "", *path;
    if (result)
        *result = NULL;
    if (!r)
        return how;
    *run = NULL;
    if (how != LS_OK)
        snprintf(message, sizeof message, "%s", ls_error_message());
    const ls_status ended = how == LS_OK || how == LS_E_STOPPED ? end_well(r, how) : how;
    if (ended != LS_OK) {
        snprintf(message, sizeof message, "%s", ls_error_message());
        end_badly(r, ended, message);
        how = ended;
    } else if (r->place.rank == 0) {
        ls_group_names_run(r->group, "");
    }
    const ls_status sent = send_end(r, how);
    if (sent != LS_OK) {
        snprintf(message, sizeof message, "%s", ls_error_message());
        how = sent;
    }
    path = ls_sys_strdup(r->place.path);
    ls_rundir_close(&r->dir, LS_RUN_NEW, NULL); /* the final state is already written */
    if (result && (!path || ls_result_read(result, path) != LS_OK))
        *result = NULL;
    free(path);
    destroy(r);
    return how == LS_OK ? LS_OK : ls_fail(how, "%s", message);
}

ls_run_opts ls_run_opts_default(void) { return (ls_run_opts){ LS_RUN_DEFAULTS }; }
