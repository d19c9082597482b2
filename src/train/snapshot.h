/* snapshot.h - the run's checkpoints: write one, keep the last few and the best, point `latest` and `best` at them. */
#pragma once
#include "lockstep/recipe.h"
#include "lockstep/trainer.h"
#include "metrics.h"
#include "resume.h"

typedef struct ls_snapshots {
    char *dir;               /* RUN/checkpoints */
    int64_t steps[64];       /* of the checkpoints that exist, oldest first */
    int n;
    int64_t best, latest;    /* steps, -1 none */
} ls_snapshots;

/* Finds those that are there; `from` is the step that the run continues from. */
ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d, int64_t from);
void ls_snapshots_release(ls_snapshots *s);

/* Saves step-NNNNNNNN, then moves `latest` (and `best`), then removes what need not be kept: never the newest, nor the best. Does nothing if this
 * step has been saved. Writes the metrics row. `epoch`: of the last step. Collective. */
ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d, const ls_resume_point *at, int64_t epoch, bool best);
