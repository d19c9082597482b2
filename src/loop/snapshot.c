/* snapshot.c - saves the checkpoints of a run, and removes old ones. */
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/background.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "record/remote.h"
#include "record/step_folder.h"
#include "setup/setup.h"
#include "step/state.h"
#include "step/trainer.h"

/* A save during training. While `work` commits it, `all` belongs to that thread. */
typedef struct ls_pending {
    ls_snapshots *all;
    ls_committed what;
    double began, ended;  /* times; ended 0: it has no name yet */
    double waited;        /* seconds for which training has waited for it */
    ls_state_lists lists; /* of the copies that are written */
    ls_saving *saving;
    bool written; /* every rank has written its part; rank 0 is committing */
    ls_background work;
} pending;

static int is_checkpoint(const struct dirent *e) { return ls_step_folder_parse(e->d_name) >= 0; }

static int by_step(const struct dirent **a, const struct dirent **b)
{
    const int64_t x = ls_step_folder_parse((*a)->d_name), y = ls_step_folder_parse((*b)->d_name);
    return (x > y) - (x < y);
}

static ls_status add_step(ls_snapshots *s, int64_t step, double value)
{
    ls_kept *all = ls_sys_grow(s->all, s->n, &s->room, sizeof *all);
    LS_TRY(ls_sys_have(all));
    s->all = all;
    s->all[s->n++] = (ls_kept){ step, value };
    return LS_OK;
}

static ls_status find_all(ls_snapshots *s)
{
    struct dirent **list = NULL;
    const int n = scandir(s->dir, &list, is_checkpoint, by_step);
    if (n < 0)
        return ls_fail_os(s->dir, "list", errno);
    ls_status status = LS_OK;
    for (int i = 0; i < n; i++) {
        if (status == LS_OK)
            status = add_step(s, ls_step_folder_parse(list[i]->d_name), NAN);
        free(list[i]);
    }
    free(list);
    LS_TRY(status);
    char *link = ls_path_join(s->dir, "best"), target[64] = "";
    if (link && readlink(link, target, sizeof target - 1) > 0)
        s->best = ls_step_folder_parse(target);
    status = ls_sys_have(link);
    free(link);
    return status;
}

ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d, int64_t from)
{
    char name[LS_STEP_FOLDER_ROOM];
    *s = (ls_snapshots){
        .best = -1, .latest = -1, .from = from, .dir = ls_path_join(d->path, "checkpoints")
    };
    if (d->rank)
        return ls_sys_have(s->dir);
    LS_TRY(ls_make_dirs(s->dir));
    ls_checkpoint_clean(s->dir);
    LS_TRY(find_all(s));
    /* the earlier process may have died before it moved the link */
    return s->n > 0 && s->all[s->n - 1].step == from
               ? ls_checkpoint_point(s->dir, "latest", ls_step_folder(name, from))
               : LS_OK;
}

void ls_snapshots_release(ls_snapshots *s)
{
    free(s->dir);
    free(s->all);
    *s = (ls_snapshots){ 0 };
}

/* ---- which checkpoints stay (on rank 0) */

static ls_status forget(ls_snapshots *s, int i)
{
    char *dir = ls_snapshots_path(s, s->all[i].step);
    ls_status status = ls_checkpoint_remove(dir);
    free(dir);
    memmove(&s->all[i], &s->all[i + 1], sizeof s->all[0] * (size_t)(s->n - i - 1));
    s->n--;
    return status;
}

/* The number of checkpoints that are better than checkpoint i. The one that `best` points to is better than
 * all others; of equal ones the older is better. */
static int64_t better_ones(const ls_snapshots *s, int i)
{
    const double value = s->all[i].value;
    int64_t n = 0;
    for (int k = 0; k < s->n; k++)
        n += k != i &&
             (s->all[k].step == s->best || s->all[k].value < value || (s->all[k].value == value && k < i));
    return n;
}

/* Removes all but the `count` newest and the `best` best ones. It goes from the oldest on: removing one then
 * changes nothing about the newer ones. */
static ls_status snapshot_keep(ls_snapshots *s, int64_t count, int64_t best)
{
    for (int i = 0; s->n > count && i < s->n - (int)count;)
        if (s->all[i].step == s->best || (!isnan(s->all[i].value) && better_ones(s, i) < best))
            i++;
        else
            LS_TRY(forget(s, i));
    return LS_OK;
}

/* The value of ls_kept for an epoch's row. NULL: no epoch ended with the checkpoint. */
static double value_of(const ls_recipe *r, const ls_epoch_row *row)
{
    const double value = row ? ls_epoch_row_metric(row, r->checkpoint.best.metric) : NAN;
    return r->checkpoint.best.mode == LS_MODE_MIN ? value : -value;
}

void ls_snapshots_compare(ls_snapshots *s, const ls_recipe *r, const ls_dataset *train,
                          const ls_dataset *eval)
{
    for (int i = 0; i < s->n; i++) {
        ls_epoch_row row;
        char *dir = ls_snapshots_path(s, s->all[i].step);
        s->all[i].value = ls_resume_ended(&row, dir, train, eval) ? value_of(r, &row) : NAN;
        ls_metric_list_release(&row.eval);
        free(dir);
    }
}

ls_status ls_snapshots_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, const ls_recipe *r,
                                  const ls_epoch_row *row, bool *yes)
{
    const double value = value_of(r, row);
    *yes = false;
    if (r->checkpoint.keep_best == 1 ||
        isnan(value)) /* only the best one stays, and the caller knows whether this is it */
        return LS_OK;
    LS_TRY(ls_snapshots_finish(s, d)); /* adds it to the list */
    int64_t better = 0;
    for (int k = 0; k < s->n; k++)
        better += s->all[k].step == s->best || s->all[k].value <= value;
    *yes = better < r->checkpoint.keep_best;
    return g ? ls_group_broadcast(g, yes, sizeof *yes, 0) : LS_OK;
}

ls_status ls_snapshots_began_here(const ls_snapshots *s, ls_group *g, bool *yes)
{
    *yes = false;
    for (int k = 0; k < s->n; k++)
        *yes = *yes || s->all[k].step == s->from;
    return g ? ls_group_broadcast(g, yes, sizeof *yes, 0) : LS_OK;
}

char *ls_snapshots_path(const ls_snapshots *s, int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM];
    return ls_path_join(s->dir, ls_step_folder(name, step));
}

static void relative_path(char path[64], int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM];
    snprintf(path, 64, "checkpoints/%s", ls_step_folder(name, step));
}

/* Copies the checkpoint to the run's bucket. A bucket that cannot take it now does not end training, because
 * the checkpoint is on this machine's disk. */
static void snapshot_copy(ls_snapshots *s)
{
    if (ls_remote_push(s->remote) != LS_OK)
        ls_log_warn("%s; the checkpoint is in %s, and the next one tries again", ls_error_message(), s->dir);
}

/* Called when a checkpoint has its name: moves the links and removes old checkpoints. Only on rank 0. */
static ls_status publish(ls_snapshots *s, const ls_committed *c)
{
    char name[LS_STEP_FOLDER_ROOM];
    ls_step_folder(name, c->step);
    if (s->n && s->all[s->n - 1].step == c->step)
        s->all[s->n - 1].value = c->value; /* it was replaced */
    else
        LS_TRY(add_step(s, c->step, c->value));
    LS_TRY(ls_checkpoint_point(s->dir, "latest", name));
    if (c->best)
        LS_TRY(ls_checkpoint_point(s->dir, "best", name));
    LS_TRY(snapshot_keep(s, c->keep, c->keep_best));
    snapshot_copy(s);
    return LS_OK;
}

/* Notes a checkpoint that is being saved, with the present metrics. result.json lists it as soon as it has
 * its name. */
static void expect(ls_snapshots *s, ls_rundir *d, const ls_committed *c)
{
    char path[64];
    relative_path(path, c->step);
    s->latest = c->step;
    s->best = c->best ? c->step : s->best;
    if (d->rank == 0) /* only rank 0 writes result.json */
        ls_rundir_add_checkpoint(d, path, c->step, false);
}

static ls_status record(ls_snapshots *s, ls_rundir *d, const ls_committed *c)
{
    char path[64];
    s->took = c->seconds;
    relative_path(path, c->step);
    if (c->best)
        ls_rundir_best_checkpoint(d, path);
    ls_log_debug("saved %s (%llu bytes) in %.3f s, for %.3f s of which training waited", path,
                 (unsigned long long)c->bytes, c->seconds, c->seconds - c->beside);
    return ls_metrics_checkpoint(d, &(ls_checkpoint_row){ c->step, c->epoch, path, (int64_t)c->bytes,
                                                          c->seconds - c->beside, c->seconds });
}

ls_status ls_snapshots_commit(ls_snapshots *s, ls_rundir *d, const ls_committed *c)
{
    expect(s, d, c);
    if (d->rank)
        return LS_OK;
    LS_TRY(publish(s, c));
    return record(s, d, c);
}

/* The newest checkpoint turns out to be the best. */
static ls_status mark_best(ls_snapshots *s, ls_rundir *d)
{
    char name[LS_STEP_FOLDER_ROOM], path[64];
    LS_TRY(ls_snapshots_finish(s, d));
    relative_path(path, s->latest);
    s->best = s->latest;
    if (d->rank)
        return LS_OK;
    LS_TRY(ls_checkpoint_point(s->dir, "best", ls_step_folder(name, s->latest)));
    ls_rundir_add_checkpoint(d, path, s->best, true);
    return LS_OK;
}

/* ---- during training */

static ls_status write_part(void *context) { return ls_saving_write(((pending *)context)->saving); }

static ls_status commit(void *context)
{
    pending *p = context;
    LS_TRY(ls_saving_commit(p->saving));
    LS_TRY(publish(p->all, &p->what));
    p->ended = ls_now();
    return LS_OK;
}

static void drop(ls_snapshots *s)
{
    ls_saving_end(&s->pending->saving);
    ls_state_lists_release(&s->pending->lists);
    free(s->pending);
    s->pending = NULL;
}

/* The checkpoint is complete: rank 0 writes it to metrics.jsonl and result.json. */
static ls_status settle(ls_snapshots *s, ls_rundir *d)
{
    ls_committed *c = &s->pending->what;
    c->seconds = s->pending->ended - s->pending->began;
    c->beside = fmax(0, c->seconds - s->pending->waited);
    const ls_status status = d->rank ? LS_OK : record(s, d, c);
    drop(s);
    return status;
}

ls_status ls_snapshots_before_step(ls_snapshots *s, bool *writing)
{
    pending *p = s->pending;
    const bool busy = p && !ls_background_done(&p->work);
    *writing = busy && !p->written;
    return p && !busy ? ls_background_wait(&p->work) : LS_OK;
}

ls_status ls_snapshots_after_step(ls_snapshots *s, ls_rundir *d, bool writing)
{
    pending *p = s->pending;
    if (!p || (!p->written && writing) || (p->written && !ls_background_done(&p->work)))
        return LS_OK;
    LS_TRY(ls_background_wait(&p->work));
    if (p->written)
        return settle(s, d);
    const double start = ls_now();
    LS_TRY(ls_saving_collect(p->saving));
    p->written = true;
    if (d->rank)
        return settle(s, d);
    const ls_status status = ls_background_start(&p->work, commit, p);
    p->waited += ls_now() - start;
    return status;
}

ls_status ls_snapshots_finish(ls_snapshots *s, ls_rundir *d)
{
    pending *p = s->pending;
    const double start = ls_now();
    if (!p)
        return LS_OK;
    LS_TRY(ls_background_wait(&p->work));
    if (!p->written) {
        LS_TRY(ls_saving_collect(p->saving));
        if (d->rank == 0)
            LS_TRY(commit(p));
    }
    p->waited += ls_now() - start;
    return settle(s, d);
}

void ls_snapshots_abandon(ls_snapshots *s, ls_rundir *d)
{
    if (!s->pending)
        return;
    char message[4096];
    snprintf(message, sizeof message, "%s", ls_error_message());
    if (ls_background_wait(&s->pending->work) == LS_OK && s->pending->ended > 0)
        settle(s, d);
    else
        drop(s);
    ls_fail(LS_E_INTERNAL, "%s", message);
}

/* ---- saving */

static ls_status save_now(ls_snapshots *s, ls_trainer *t, ls_rundir *d, ls_committed *c, const char *dir,
                          const ls_checkpoint_contents *texts)
{
    const double start = ls_now();
    LS_TRY(ls_metrics_saving(d));
    LS_TRY(ls_trainer_save_state(t, dir, texts, &c->bytes));
    c->seconds = ls_now() - start;
    return ls_snapshots_commit(s, d, c);
}

static ls_status save_beside(ls_snapshots *s, ls_trainer *t, ls_rundir *d, const ls_committed *c,
                             const char *dir, const ls_checkpoint_contents *texts)
{
    pending *p = s->pending = ls_sys_calloc(1, sizeof *p);
    LS_TRY(ls_sys_have(p));
    *p = (pending){ .all = s, .what = *c, .began = ls_now() };
    LS_TRY(ls_trainer_stage_state(&p->saving, &p->lists, t, dir, texts));
    p->what.bytes = ls_saving_bytes(p->saving);
    expect(s, d, c);
    const ls_status status = ls_background_start(&p->work, write_part, p);
    p->waited = ls_now() - p->began;
    return status;
}

ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d,
                           const ls_resume_point *at, int64_t epoch, bool best)
{
    if (at->step == s->latest)
        return best && s->best != at->step ? mark_best(s, d) : LS_OK;
    if (s->pending && !ls_background_done(&s->pending->work))
        ls_log_debug("the checkpoint of step %lld waits for that of step %lld", (long long)at->step,
                     (long long)s->pending->what.step);
    LS_TRY(ls_snapshots_finish(s, d));
    ls_committed c = { .step = at->step,
                       .epoch = epoch,
                       .keep = r->checkpoint.keep,
                       .keep_best = r->checkpoint.keep_best,
                       .best = best,
                       .value = value_of(r, at->ended) };
    char *dir = ls_snapshots_path(s, at->step),
         *config = ls_recipe_config_json(r, at->train ? at->train->end_token : NULL),
         *trainer = ls_resume_text(at, r, t);
    const ls_checkpoint_contents texts = { .config = config,
                                           .trainer = trainer,
                                           .max_file = (uint64_t)r->checkpoint.max_file,
                                           .per_rank = r->checkpoint.files == LS_FILES_PER_RANK,
                                           .replace = at->step == s->from };
    const bool whole = dir && config && trainer;
    const ls_status status = !whole ? ls_fail(LS_E_MEMORY, "no memory for a checkpoint's name and texts")
                             : r->checkpoint.async ? save_beside(s, t, d, &c, dir, &texts)
                                                   : save_now(s, t, d, &c, dir, &texts);
    free(dir);
    free(config);
    free(trainer);
    return status;
}
