/* snapshot.h - the checkpoints of a run: writes one, keeps the newest and the best ones, and points the links
 * `latest` and `best` at them.
 *
 * With checkpoint.async training continues during a save. Each rank writes its part in a thread of its own.
 * Ranks exchange a "still writing" flag together with the losses of a step. After the step in which no rank
 * is writing, rank 0 collects the checksums, and its thread gives the checkpoint its name. Only the training
 * threads use the group. There is at most one save at a time. */
#pragma once
#include "lockstep/recipe.h"
#include "lockstep/trainer.h"
#include "record/metrics.h"
#include "resume.h"

/* An existing checkpoint, and the value by which it is compared: lower is better; NAN: it is never among the
 * best. */
typedef struct ls_kept {
    int64_t step;
    double value;
} ls_kept;

typedef struct ls_snapshots {
    char *dir;    /* RUN/checkpoints */
    ls_kept *all; /* oldest first; only on rank 0 */
    int n, room;
    int64_t best, latest;       /* steps; -1: none. A save that is not finished counts */
    int64_t from;               /* the step that the run continues from */
    double took;                /* seconds of the last finished save, on rank 0; 0: none yet */
    struct ls_pending *pending; /* the save that is not finished; NULL: none */
    struct ls_remote *remote;   /* rank 0's: the bucket that gets every checkpoint; not owned; NULL: none */
} ls_snapshots;

/* Lists the existing checkpoints, and removes what interrupted saves left. The run continues from step
 * `from`. */
ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d, int64_t from);
void ls_snapshots_release(ls_snapshots *s);
/* Reads the values by which the existing checkpoints are compared from their trainer.json. A checkpoint of
 * other data than `train` and `eval` (NULL: not compared) gets NAN. Only rank 0 has a list. */
void ls_snapshots_compare(ls_snapshots *s, const ls_recipe *r, const ls_dataset *train,
                          const ls_dataset *eval);
/* *yes: whether a checkpoint of an epoch with this row would be among the checkpoint.keep_best best ones.
 * Collective. */
ls_status ls_snapshots_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, const ls_recipe *r,
                                  const ls_epoch_row *row, bool *yes);

/* *yes: whether the run has the checkpoint that it continues from; else that is another run's, or
 * PyTorch's. Collective. */
ls_status ls_snapshots_began_here(const ls_snapshots *s, ls_group *g, bool *yes);

/* Saves step-NNNNNNNN, moves the link `latest` (and `best`), and removes checkpoints that need not be kept:
 * never the newest or the best. Writes the metrics row. `epoch` is that of the last step. Does nothing if
 * this step has been saved. The checkpoint that the run continues from is replaced: it may lack the end of
 * its epoch. With checkpoint.async it returns when the state is copied. Collective. */
ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d,
                           const ls_resume_point *at, int64_t epoch, bool best);

/* The same in two parts, for callers that save other things: ls_snapshots_path returns the checkpoint's
 * folder (malloc'ed), ls_snapshots_commit does what follows when it is complete. Local. */
typedef struct ls_committed {
    int64_t step, epoch;
    uint64_t bytes;
    double seconds;          /* time of the save */
    double beside;           /* the part of `seconds` in which training continued */
    int64_t keep, keep_best; /* how many of the newest checkpoints stay, and of the best */
    bool best;               /* it is the best so far, so the link `best` points to it */
    double value;            /* as in ls_kept */
} ls_committed;
char *ls_snapshots_path(const ls_snapshots *s, int64_t step);
ls_status ls_snapshots_commit(ls_snapshots *s, ls_rundir *d, const ls_committed *c);

/* Called before a step. *writing: whether this rank is still writing its part. Returns the status of a thread
 * that has ended. Local. */
ls_status ls_snapshots_before_step(ls_snapshots *s, bool *writing);
/* Called after a step. Continues the save when no rank is `writing`. Collective. */
ls_status ls_snapshots_after_step(ls_snapshots *s, ls_rundir *d, bool writing);
/* Waits for the save that is not finished. Collective. */
ls_status ls_snapshots_finish(ls_snapshots *s, ls_rundir *d);
/* Called when the run has failed. Waits for this rank's threads. A checkpoint without a name does not get
 * one. Keeps the error message. Local. */
void ls_snapshots_abandon(ls_snapshots *s, ls_rundir *d);
