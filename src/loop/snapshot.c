/* snapshot.c - see snapshot.h. */
#include "snapshot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/log.h"
#include "base/sys.h"
#include "setup/base.h"
#include "setup/companions.h"
#include "setup/setup.h"
#include "step/trainer.h"

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

ls_status ls_snapshots_continue(ls_snapshots *s, const char *checkpoint)
{
    if (!s->apart)
        return LS_OK;
    char *from = ls_snapshots_path(s, s->from);
    if (from && !strcmp(from, checkpoint))
        s->latest = s->from;
    const ls_status status = ls_sys_have(from);
    free(from);
    return status;
}

ls_status ls_snapshot_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, const ls_recipe *r,
                                 const ls_epoch_row *row, bool *yes)
{
    const double value = value_of(r, row);
    *yes = false;
    if (r->checkpoint.keep_best == 1 ||
        isnan(value)) /* only the best one stays, and the caller knows whether this is it */
        return LS_OK;
    return ls_snapshots_among_best(s, d, g, value, r->checkpoint.keep_best, yes);
}

/* A tokenizer that somebody has removed meanwhile must not cost the state of the training. */
static void find_companions(ls_companions *c, const ls_recipe *r)
{
    if (ls_companions_of(c, r) == LS_OK)
        return;
    ls_log_warn("the checkpoint is saved without the files of the tokenizer: %s", ls_error_message());
    ls_companions_release(c);
}

ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d,
                           const ls_resume_point *at, int64_t epoch, bool best)
{
    if (at->step == s->latest)
        return best && s->best != at->step ? ls_snapshots_mark_best(s, d) : LS_OK;
    if (ls_snapshots_are_busy(s))
        ls_log_debug("the checkpoint of step %lld waits for the one before it", (long long)at->step);
    LS_TRY(ls_snapshots_finish(s, d));
    char *config = ls_recipe_config_json(r, at->train ? at->train->end_token : NULL),
         *trainer = ls_resume_text(at, r, t), *adapter = NULL;
    ls_companions beside = { 0 };
    if (d->rank == 0)
        find_companions(&beside, r);
    ls_status status = ls_base_adapter_text(&adapter, r, &t->compiled.units);
    const ls_checkpoint_contents texts = { .config = config,
                                           .trainer = trainer,
                                           .beside = beside.at,
                                           .n_beside = beside.n,
                                           .adapter = adapter,
                                           .max_file = (uint64_t)r->checkpoint.max_file,
                                           .per_rank = r->checkpoint.files == LS_FILES_PER_RANK,
                                           .replace = at->step == s->from };
    const ls_snapshot what = { .step = at->step,
                               .epoch = epoch,
                               .keep = r->checkpoint.keep,
                               .keep_best = r->checkpoint.keep_best,
                               .best = best,
                               .value = value_of(r, at->ended),
                               .beside = r->checkpoint.async,
                               .trainer = t,
                               .room = t->staging,
                               .contents = &texts };
    if (status == LS_OK && !(config && trainer))
        status = ls_fail(LS_E_MEMORY, "no memory for the texts of a checkpoint");
    if (status == LS_OK && !what.beside)
        status = ls_metrics_saving(d);
    if (status == LS_OK)
        status = ls_snapshots_save(s, d, &what);
    ls_companions_release(&beside);
    free(config);
    free(trainer);
    free(adapter);
    return status;
}
