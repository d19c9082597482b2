/* snapshot.c - checkpoints of a run in order, and which of them stay. */
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "ckpt/checkpoint.h"
#include "setup.h"
#include "state.h"
#include "trainer.h"

static void name_of(char name[32], int64_t step) { snprintf(name, 32, "step-%08lld", (long long)step); }

static bool step_of(const char *name, int64_t *step)
{
    long long n;
    int used = 0;
    const bool is = sscanf(name, "step-%8lld%n", &n, &used) == 1 && !name[used];
    *step = is ? n : -1;
    return is;
}

static int is_checkpoint(const struct dirent *e)
{
    int64_t step;
    return step_of(e->d_name, &step);
}

/* Names have leading zeros: their order is that of the steps. */
static ls_status find_all(ls_snapshots *s)
{
    struct dirent **list = NULL;
    const int n = scandir(s->dir, &list, is_checkpoint, alphasort);
    if (n < 0)
        return ls_fail_os(s->dir, "list", errno);
    for (int i = 0; i < n; i++) {
        if (s->n < (int)(sizeof s->steps / sizeof s->steps[0]) - 1) /* more than `keep` can ask for were put there by others */
            step_of(list[i]->d_name, &s->steps[s->n++]);
        free(list[i]);
    }
    free(list);
    char *link = ls_path_join(s->dir, "best"), target[64] = "";
    if (readlink(link, target, sizeof target - 1) > 0)
        step_of(target, &s->best);
    free(link);
    return LS_OK;
}

ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d, int64_t from)
{
    char name[32];
    *s = (ls_snapshots){ .best = -1, .latest = -1, .dir = ls_path_join(d->path, "checkpoints") };
    if (d->rank)
        return LS_OK;
    LS_TRY(ls_make_dirs(s->dir));
    LS_TRY(find_all(s));
    name_of(name, from);
    return s->n > 0 && s->steps[s->n - 1] == from ? ls_checkpoint_point(s->dir, "latest", name) : LS_OK; /* the process may have died before it did so */
}

void ls_snapshots_release(ls_snapshots *s)
{
    free(s->dir);
    *s = (ls_snapshots){ 0 };
}

static ls_status save(const char *dir, ls_trainer *t, const ls_recipe *r, const ls_resume_point *at, uint64_t *bytes)
{
    char *config = ls_setup_config_json(r), *trainer = ls_resume_text(at, r, t);
    ls_status s = ls_trainer_save_state(t, dir, config, trainer, (uint64_t)r->checkpoint.max_file, bytes);
    free(config);
    free(trainer);
    return s;
}

static ls_status forget(ls_snapshots *s, int i)
{
    char name[32];
    name_of(name, s->steps[i]);
    char *dir = ls_path_join(s->dir, name);
    ls_status status = ls_checkpoint_remove(dir);
    free(dir);
    memmove(&s->steps[i], &s->steps[i + 1], sizeof s->steps[0] * (size_t)(s->n - i - 1));
    s->n--;
    return status;
}

static ls_status keep(ls_snapshots *s, int64_t count)
{
    if (count > 60)
        count = 60;
    for (int i = 0; s->n > count && i < s->n - (int)count;)
        if (s->steps[i] == s->best)
            i++;
        else
            LS_TRY(forget(s, i));
    return LS_OK;
}

char *ls_snapshots_path(const ls_snapshots *s, int64_t step)
{
    char name[32];
    name_of(name, step);
    return ls_path_join(s->dir, name);
}

ls_status ls_snapshots_commit(ls_snapshots *s, ls_rundir *d, const ls_committed *c)
{
    char name[32], relative[64];
    name_of(name, c->step);
    snprintf(relative, sizeof relative, "checkpoints/%s", name);
    s->latest = c->step;
    if (c->best)
        s->best = c->step;
    if (d->rank) /* the folders are rank 0's */
        return LS_OK;
    s->steps[s->n++] = c->step;
    LS_TRY(ls_checkpoint_point(s->dir, "latest", name));
    if (c->best)
        LS_TRY(ls_checkpoint_point(s->dir, "best", name));
    LS_TRY(keep(s, c->keep));
    ls_rundir_add_checkpoint(d, relative, c->step, c->best);
    ls_log_debug("saved %s (%llu bytes) in %.3f s", relative, (unsigned long long)c->bytes, c->seconds);
    return ls_metrics_checkpoint(d, &(ls_checkpoint_row){ c->step, c->epoch, relative, (int64_t)c->bytes, c->seconds });
}

/* The newest one is the best after all. */
static ls_status mark_best(ls_snapshots *s, ls_rundir *d)
{
    char name[32], relative[64];
    name_of(name, s->latest);
    snprintf(relative, sizeof relative, "checkpoints/%s", name);
    s->best = s->latest;
    if (d->rank)
        return LS_OK;
    LS_TRY(ls_checkpoint_point(s->dir, "best", name));
    ls_rundir_add_checkpoint(d, relative, s->best, true);
    return LS_OK;
}

ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d, const ls_resume_point *at, int64_t epoch, bool best)
{
    if (at->step == s->latest)
        return best && s->best != at->step ? mark_best(s, d) : LS_OK;
    double start = ls_now();
    uint64_t bytes = 0;
    LS_TRY(ls_metrics_saving(d));
    char *dir = ls_snapshots_path(s, at->step);
    ls_status status = save(dir, t, r, at, &bytes);
    free(dir);
    LS_TRY(status);
    return ls_snapshots_commit(s, d, &(ls_committed){ at->step, epoch, bytes, ls_now() - start, r->checkpoint.keep, best });
}
