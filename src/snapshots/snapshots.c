/* snapshots.c - see snapshots.h. */
#include "snapshots.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
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
#include "comm/agree.h"
#include "record/metrics.h"
#include "record/remote_hosts.h"
#include "record/step_folder.h"
#include "step/state.h"
#include "step/trainer.h"

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
        status = status == LS_OK ? add_step(s, ls_step_folder_parse(list[i]->d_name), NAN) : status;
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
    *s = (ls_snapshots){ .best = -1, .latest = -1, .from = from, .remote = s->remote, .apart = s->apart };
    s->dir = ls_path_join(d->path, "checkpoints");
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
    free(s->copy);
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

ls_status ls_snapshots_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, double value, int64_t count,
                                  bool *yes)
{
    *yes = false;
    LS_TRY(ls_snapshots_finish(s, d)); /* adds it to the list */
    int64_t better = 0;
    for (int k = 0; k < s->n; k++)
        better += s->all[k].step == s->best || s->all[k].value <= value;
    *yes = better < count;
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

enum { NAME_ROOM = 128 };

/* A save that has begun. While `work` commits it, `all` belongs to that thread. */
typedef struct ls_pending {
    ls_snapshots *all;
    ls_snapshot what; /* without what is used only at its beginning */
    char name[NAME_ROOM];
    ls_metric_list metrics;
    ls_saved saved;
    double began, ended;  /* times; ended 0: it has no name yet */
    double waited;        /* seconds for which the ranks' own work has waited for it */
    ls_state_lists lists; /* of the copies that are written */
    ls_saving *saving;
    bool written; /* every rank has written its part; rank 0 is committing */
    ls_background work;
} pending;

static const char *folder_of(const pending *p, char name[LS_STEP_FOLDER_ROOM])
{
    return p->what.name ? p->name : ls_step_folder(name, p->what.step);
}

static void relative_path(char path[32 + NAME_ROOM], const pending *p)
{
    char name[LS_STEP_FOLDER_ROOM];
    snprintf(path, 32 + NAME_ROOM, "checkpoints/%s", folder_of(p, name));
}

/* A bucket that cannot take the checkpoint now does not end training: it is on this machine's disk. */
static void snapshot_copy(ls_snapshots *s)
{
    if (ls_remote_push(s->remote) != LS_OK)
        ls_log_warn("%s; the checkpoint is in %s, and the next one tries again", ls_error_message(), s->dir);
}

static ls_status move_links(ls_snapshots *s, const ls_snapshot *w)
{
    char name[LS_STEP_FOLDER_ROOM];
    if (s->n && s->all[s->n - 1].step == w->step)
        s->all[s->n - 1].value = w->value; /* it was replaced */
    else
        LS_TRY(add_step(s, w->step, w->value));
    LS_TRY(ls_checkpoint_point(s->dir, "latest", ls_step_folder(name, w->step)));
    if (w->best)
        LS_TRY(ls_checkpoint_point(s->dir, "best", name));
    return snapshot_keep(s, w->keep, w->keep_best);
}

/* Called when a checkpoint has its name. Only on rank 0. */
static ls_status publish(pending *p)
{
    if (!p->what.name)
        LS_TRY(move_links(p->all, &p->what));
    snapshot_copy(p->all);
    p->ended = ls_now();
    return LS_OK;
}

/* Notes a checkpoint that is being saved, with the present metrics. result.json lists it as soon as it has
 * its name. One with a name of its own may replace another, so it is listed when that has happened. */
static void expect(ls_rundir *d, const pending *p)
{
    char path[32 + NAME_ROOM];
    ls_snapshots *s = p->all;
    if (p->what.name)
        return;
    relative_path(path, p);
    s->latest = p->what.step;
    s->best = p->what.best ? p->what.step : s->best;
    if (d->rank == 0) /* only rank 0 writes result.json */
        ls_rundir_add_checkpoint(d, path, p->what.step, false);
}

static const char *hexadecimal(char text[17], uint64_t digest)
{
    snprintf(text, 17, "%016" PRIx64, digest);
    return text;
}

static ls_status record(ls_rundir *d, pending *p)
{
    char path[32 + NAME_ROOM], model[17], optimizer[17];
    const ls_snapshot *w = &p->what;
    const double seconds = p->ended - p->began, waited = w->beside ? fmin(p->waited, seconds) : seconds;
    if (d->rank)
        return LS_OK;
    p->all->took = seconds;
    relative_path(path, p);
    if (w->best)
        ls_rundir_best_checkpoint(d, path);
    if (w->name)
        ls_rundir_list_checkpoint(d, path, w->step, w->epoch, p->metrics, false);
    p->metrics = (ls_metric_list){ 0 };
    ls_log_debug("saved %s (%llu bytes) in %.3f s, for %.3f s of which training waited", path,
                 (unsigned long long)p->saved.bytes, seconds, waited);
    return ls_metrics_checkpoint(
        d, &(ls_checkpoint_row){ w->step, w->epoch, path, (int64_t)p->saved.bytes, waited, seconds,
                                 hexadecimal(model, p->saved.model),
                                 p->saved.optimizer ? hexadecimal(optimizer, p->saved.optimizer) : NULL });
}

ls_status ls_snapshots_mark_best(ls_snapshots *s, ls_rundir *d)
{
    char name[LS_STEP_FOLDER_ROOM], path[32 + NAME_ROOM];
    LS_TRY(ls_snapshots_finish(s, d));
    snprintf(path, sizeof path, "checkpoints/%s", ls_step_folder(name, s->latest));
    s->best = s->latest;
    if (d->rank)
        return LS_OK;
    LS_TRY(ls_checkpoint_point(s->dir, "best", name));
    ls_rundir_add_checkpoint(d, path, s->best, true);
    return LS_OK;
}

/* ---- beside other work */

static void drop(ls_snapshots *s)
{
    ls_saving_end(&s->pending->saving);
    ls_state_lists_release(&s->pending->lists);
    ls_metric_list_release(&s->pending->metrics);
    free(s->pending);
    s->pending = NULL;
}

static ls_status settle(ls_snapshots *s, ls_rundir *d)
{
    if (s->pending->saving) /* beside other work: the digests are known now */
        s->pending->saved = ls_saving_result(s->pending->saving);
    const ls_status status = record(d, s->pending);
    drop(s);
    return status;
}

static ls_status write_part(void *context) { return ls_saving_write(((pending *)context)->saving); }

static ls_status commit(void *context)
{
    pending *p = context;
    LS_TRY(ls_saving_commit(p->saving));
    return publish(p);
}

/* All that a rank does which saves alone. */
static ls_status write_whole(void *context)
{
    pending *p = context;
    LS_TRY(ls_saving_write(p->saving));
    LS_TRY(ls_saving_collect(p->saving));
    return commit(p);
}

ls_status ls_snapshots_before_step(ls_snapshots *s, ls_rundir *d, bool *writing)
{
    pending *p = s->pending;
    const bool busy = p && !ls_background_done(&p->work);
    *writing = busy && !p->written;
    if (!p || busy)
        return LS_OK;
    LS_TRY(ls_background_wait(&p->work));
    return p->written ? settle(s, d) : LS_OK;
}

ls_status ls_snapshots_after_step(ls_snapshots *s, ls_rundir *d, bool writing)
{
    pending *p = s->pending;
    if (!p || p->written || writing)
        return LS_OK;
    const double start = ls_now();
    LS_TRY(ls_saving_collect(p->saving));
    p->written = true;
    if (d->rank)
        return settle(s, d);
    const ls_status status = ls_background_start(&p->work, commit, p);
    p->waited += ls_now() - start;
    return status;
}

static ls_status await_part(void *context) { return ls_background_wait(&((pending *)context)->work); }

bool ls_snapshots_are_busy(const ls_snapshots *s)
{
    return s->pending && !ls_background_done(&s->pending->work);
}

ls_status ls_snapshots_finish(ls_snapshots *s, ls_rundir *d)
{
    pending *p = s->pending;
    const double start = ls_now();
    if (!p)
        return LS_OK;
    if (s->apart && !p->written) /* sending takes as long as the network does */
        LS_TRY(ls_ranks_await(p->what.trainer ? p->what.trainer->group : p->what.group, await_part, p));
    LS_TRY(ls_background_wait(&p->work));
    if (!p->written) {
        LS_TRY(ls_saving_collect(p->saving));
        p->written = true;
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

/* ---- the copy of this rank's part */

static ls_status have_copy(ls_snapshots *s, size_t bytes)
{
    if (bytes <= s->copy_bytes)
        return LS_OK;
    free(s->copy);
    s->copy_bytes = 0;
    s->copy = ls_sys_malloc(bytes);
    if (!s->copy)
        return ls_fail(LS_E_MEMORY, "%s: out of memory for a copy of what is saved, %zu bytes", s->dir,
                       bytes);
    s->copy_bytes = bytes;
    return LS_OK;
}

static size_t room_for(const ls_tensor_list *l, int64_t i)
{
    return (ls_state_range_bytes(l, i) + 63) / 64 * 64;
}

/* *to becomes a copy of a list of tensors in host memory, with its names and this rank's ranges. */
static ls_status copy_tensors(pending *p, ls_tensor_list *to, const ls_tensor_list *from)
{
    ls_arena *a = &p->lists.arena;
    size_t bytes = 0;
    ls_named_tensor *tensors = ls_arena_dup(a, from->tensors, sizeof *tensors * (size_t)from->n);
    ls_range *mine = ls_arena_dup(a, from->mine, sizeof *mine * (size_t)from->n);
    for (int64_t i = 0; i < from->n; i++)
        bytes += room_for(from, i);
    LS_TRY(ls_arena_status(a));
    LS_TRY(have_copy(p->all, bytes));
    char *at = p->all->copy;
    for (int64_t i = 0; i < from->n; i++) {
        tensors[i].name = ls_arena_strdup(a, tensors[i].name);
        if (mine[i].count > 0)
            memcpy(at, mine[i].data, ls_state_range_bytes(from, i));
        mine[i].data = at;
        at += room_for(from, i);
    }
    *to = *from;
    to->tensors = tensors;
    to->mine = mine;
    return ls_arena_status(a);
}

static ls_status begin_tensors(pending *p, const ls_snapshot *w, const char *dir)
{
    ls_checkpoint_contents copied = *w->contents;
    ls_arena_init(&p->lists.arena);
    LS_TRY(ls_checkpoint_together(w->group, copy_tensors(p, &copied.model, &w->contents->model)));
    return ls_saving_begin(&p->saving, dir, &copied, w->group);
}

static ls_status begin_trainer(pending *p, const ls_snapshot *w, const char *dir)
{
    size_t bytes = 0;
    char *room = w->room;
    if (!room) {
        ls_status s = ls_state_share_bytes(&bytes, &w->trainer->compiled);
        s = s == LS_OK ? have_copy(p->all, bytes) : s;
        LS_TRY(ls_checkpoint_together(w->trainer->group, s));
        room = p->all->copy;
    }
    return ls_trainer_stage_state(&p->saving, &p->lists, w->trainer, dir, w->contents, room);
}

/* ---- saving */

static ls_status save_beside(pending *p, ls_rundir *d, const ls_snapshot *w, const char *dir)
{
    const ls_group *g = w->trainer ? w->trainer->group : w->group;
    LS_TRY(w->trainer ? begin_trainer(p, w, dir) : begin_tensors(p, w, dir));
    p->saved = ls_saving_result(p->saving);
    p->written = !g || ls_group_size(g) == 1; /* then only this rank's thread is left to wait for */
    expect(d, p);
    const ls_status status = ls_background_start(&p->work, p->written ? write_whole : write_part, p);
    p->waited = ls_now() - p->began;
    return status;
}

static ls_status save_now(pending *p, ls_rundir *d, const ls_snapshot *w, const char *dir)
{
    LS_TRY(w->trainer ? ls_trainer_save_state(w->trainer, dir, w->contents, &p->saved)
                      : ls_checkpoint_save(dir, w->contents, w->group, &p->saved));
    expect(d, p);
    if (d->rank == 0)
        LS_TRY(publish(p));
    return settle(p->all, d);
}

static ls_status save(ls_snapshots *s, ls_rundir *d, const ls_snapshot *w)
{
    LS_CHECK(!s->pending, "a save begins while another one is not finished");
    ls_group *g = w->trainer ? w->trainer->group : w->group;
    pending *p = ls_sys_calloc(1, sizeof *p);
    char name[LS_STEP_FOLDER_ROOM], *dir = NULL;
    ls_status status = ls_sys_have(p);
    if (status == LS_OK) {
        *p = (pending){ .all = s, .what = *w, .began = ls_now() };
        snprintf(p->name, sizeof p->name, "%s", w->name ? w->name : "");
        if (w->name && d->rank == 0)
            p->metrics = ls_metric_list_copy(w->metrics);
        dir = ls_path_join(s->dir, folder_of(p, name));
        status = ls_sys_have(dir);
    }
    status = ls_checkpoint_together(g, status);
    if (status != LS_OK) { /* of this rank, or of another one */
        if (p)
            ls_metric_list_release(&p->metrics);
        free(dir);
        free(p);
        return status;
    }
    s->pending = p;
    status = w->beside ? save_beside(p, d, w, dir) : save_now(p, d, w, dir);
    if (status != LS_OK && s->pending && !w->beside)
        drop(s);
    free(dir);
    return status;
}

ls_status ls_snapshots_save(ls_snapshots *s, ls_rundir *d, const ls_snapshot *w)
{
    ls_snapshot what = *w;
    ls_checkpoint_contents contents = *w->contents;
    const ls_away away = ls_remote_away(s->remote);
    const bool apart = s->apart && (w->trainer ? w->trainer->group : w->group);
    contents.per_rank = contents.per_rank || apart;
    contents.away = apart ? &away : NULL;
    what.contents = &contents;
    return save(s, d, &what);
}
