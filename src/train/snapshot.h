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

/* The same in two, for whoever saves other things: where the checkpoint of a step goes (malloc'ed), and what is done when it is there. Local. */
typedef struct ls_committed {
    int64_t step, epoch;
    uint64_t bytes;
    double seconds; /* that saving took */
    int64_t keep;   /* so many of the newest stay, and the best */
    bool best;
} ls_committed;
char *ls_snapshots_path(const ls_snapshots *s, int64_t step);
ls_status ls_snapshots_commit(ls_snapshots *s, ls_rundir *d, const ls_committed *c);
