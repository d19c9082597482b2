/* snapshot.h - the run's checkpoints: write one, at once or beside the steps that follow, keep the last few
 * and the best, point `latest` and `best` at them.
 *
 * With checkpoint.async a save goes on while training does. Each rank writes its part in a thread that talks
 * to nobody; that some rank is still writing travels with the losses of each step; at the step after which
 * none is, the checksums meet at rank 0, which gives the checkpoint its name in a thread too. Only the
 * training threads use the group. At most one save is under way. */
#pragma once
#include "lockstep/recipe.h"
#include "lockstep/trainer.h"
#include "record/metrics.h"
#include "resume.h"

/* A checkpoint that is there, and what it is compared by: the lower the better; NAN: it is no candidate. */
typedef struct ls_kept {
    int64_t step;
    double value;
} ls_kept;

typedef struct ls_snapshots {
    char *dir;    /* RUN/checkpoints */
    ls_kept *all; /* oldest first; rank 0's */
    int n, room;
    int64_t best, latest;       /* steps, -1 none; the one under way counts */
    double took;                /* seconds of the last one that has its name; rank 0's; 0: none yet */
    struct ls_pending *pending; /* under way; NULL: none */
} ls_snapshots;

/* Finds those that are there, and removes what interrupted saves left; `from` is the step that the run
 * continues from. */
ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d, int64_t from);
void ls_snapshots_release(ls_snapshots *s);
/* What those that are there are compared by, as their trainer.json says it: where they were trained and
 * evaluated on this data (eval NULL: not evaluated). Rank 0's; the others have none. */
void ls_snapshots_compare(ls_snapshots *s, const ls_recipe *r, const ls_dataset *train,
                          const ls_dataset *eval);
/* *yes: a checkpoint of an epoch with this row would be among the checkpoint.keep_best best ones. Collective.
 */
ls_status ls_snapshots_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, const ls_recipe *r,
                                  const ls_epoch_row *row, bool *yes);

/* Saves step-NNNNNNNN, then moves `latest` (and `best`), then removes what need not be kept: never the
 * newest, nor the best. Does nothing if this step has been saved. Writes the metrics row. `epoch`: of the
 * last step. With checkpoint.async it returns when the state is copied. Collective. */
ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d,
                           const ls_resume_point *at, int64_t epoch, bool best);

/* The same in two, for whoever saves other things: where the checkpoint of a step goes (malloc'ed), and what
 * is done when it is there. Local. */
typedef struct ls_committed {
    int64_t step, epoch;
    uint64_t bytes;
    double seconds;          /* that saving took */
    int64_t keep, keep_best; /* so many of the newest stay, and of the best */
    bool best;               /* of all so far: `best` points to it */
    double value;            /* as in ls_kept */
    double beside;           /* of the seconds, those in which training went on */
} ls_committed;
char *ls_snapshots_path(const ls_snapshots *s, int64_t step);
ls_status ls_snapshots_commit(ls_snapshots *s, ls_rundir *d, const ls_committed *c);

/* Before a step: *writing says whether this rank still writes its part; or the failure of what ran beside
 * training. Local. */
ls_status ls_snapshots_before_step(ls_snapshots *s, bool *writing);
/* After it: goes on with the save once no rank is `writing`. Collective. */
ls_status ls_snapshots_after_step(ls_snapshots *s, ls_rundir *d, bool writing);
/* The save under way, to its end. Collective. */
ls_status ls_snapshots_finish(ls_snapshots *s, ls_rundir *d);
/* The run has failed: waits for this rank's threads; what has no name yet gets none. Leaves the error message
 * as it is. Local. */
void ls_snapshots_abandon(ls_snapshots *s, ls_rundir *d);
