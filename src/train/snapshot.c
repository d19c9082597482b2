/* snapshot.c - checkpoints of a run in order, and which of them stay. */
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "ckpt/checkpoint.h"
#include "setup.h"
#include "state.h"
#include "trainer.h"

ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d)
{
    *s = (ls_snapshots){ .best = -1, .latest = -1, .dir = ls_path_join(d->path, "checkpoints") };
    return d->rank ? LS_OK : ls_make_dirs(s->dir);
}

void ls_snapshots_release(ls_snapshots *s)
{
    free(s->dir);
    *s = (ls_snapshots){ 0 };
}

static void name_of(char name[32], int64_t step) { snprintf(name, 32, "step-%08lld", (long long)step); }

static char *trainer_json(const ls_recipe *r, const ls_snapshot_at *at, int64_t world)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_int(&j, "step", at->step);
    ls_json_int(&j, "epoch", at->epoch);
    ls_json_int(&j, "epoch_step", at->epoch_step);
    ls_json_int(&j, "seed", r->run.seed);
    ls_json_int(&j, "global_batch", r->train.global_batch);
    ls_json_int(&j, "micro_batch", r->train.micro_batch);
    ls_json_int(&j, "world", world);
    ls_json_text(&j, "version", LS_VERSION);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return j.out.data;
}

static ls_status save(const char *dir, ls_trainer *t, const ls_recipe *r, const ls_snapshot_at *at, uint64_t *bytes)
{
    char *config = ls_setup_config_json(r), *trainer = trainer_json(r, at, ls_mesh_ranks(&t->compiled.parallel.mesh));
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

ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d, const ls_snapshot_at *at)
{
    double start = ls_now();
    char name[32], relative[64];
    name_of(name, at->step);
    snprintf(relative, sizeof relative, "checkpoints/%s", name);
    if (at->step == s->latest) {
        if (at->best && s->best != at->step) {
            s->best = at->step;
            if (d->rank)
                return LS_OK;
            LS_TRY(ls_checkpoint_point(s->dir, "best", name));
            ls_rundir_add_checkpoint(d, relative, at->step, true);
        }
        return LS_OK;
    }
    char *dir = ls_path_join(s->dir, name);
    uint64_t bytes = 0;
    ls_status status = save(dir, t, r, at, &bytes);
    free(dir);
    LS_TRY(status);
    s->latest = at->step;
    if (at->best)
        s->best = at->step;
    if (d->rank) /* the folders are rank 0's */
        return LS_OK;
    s->steps[s->n++] = at->step;
    LS_TRY(ls_checkpoint_point(s->dir, "latest", name));
    if (at->best)
        LS_TRY(ls_checkpoint_point(s->dir, "best", name));
    LS_TRY(keep(s, r->checkpoint.keep));
    ls_rundir_add_checkpoint(d, relative, at->step, at->best);
    ls_log_debug("saved %s (%llu bytes) in %.3f s", relative, (unsigned long long)bytes, ls_now() - start);
    return ls_metrics_checkpoint(d, &(ls_checkpoint_row){ at->step, at->epoch, relative, (int64_t)bytes, ls_now() - start });
}
