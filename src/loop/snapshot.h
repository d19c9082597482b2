/* snapshot.h - saves the checkpoints of a recipe's run (snapshots/snapshots.h), as its keys say. */
#pragma once
#include "lockstep/recipe.h"
#include "record/metrics.h"
#include "resume.h"
#include "snapshots/snapshots.h"

/* Reads the values by which the existing checkpoints are compared from their trainer.json. A checkpoint of
 * other data than `train` and `eval` (NULL: not compared) gets NAN. Only rank 0 has a list. */
void ls_snapshots_compare(ls_snapshots *s, const ls_recipe *r, const ls_dataset *train,
                          const ls_dataset *eval);
/* The run continues from the checkpoint at this path ("": from none). If it is the run's own, and the hosts
 * share no folder, it is not replaced: its weights are the same, and meanwhile the bucket would have none.
 * Local. */
ls_status ls_snapshots_continue(ls_snapshots *s, const char *checkpoint);

/* *yes: whether a checkpoint of an epoch with this row would be among the checkpoint.keep_best best ones.
 * Collective. */
ls_status ls_snapshot_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, const ls_recipe *r,
                                 const ls_epoch_row *row, bool *yes);

/* Saves step-NNNNNNNN. `epoch` is that of the last step. Does nothing if this step has been saved. The
 * checkpoint that the run continues from is replaced: it may lack the end of its epoch. With checkpoint.async
 * it returns when the state is copied. Collective. */
ls_status ls_snapshot_save(ls_snapshots *s, ls_trainer *t, const ls_recipe *r, ls_rundir *d,
                           const ls_resume_point *at, int64_t epoch, bool best);
