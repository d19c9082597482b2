/* snapshots.h - the checkpoints of a run: saves one, keeps the newest and the best ones, points the links
 * `latest` and `best` at them, and copies them to the run's bucket. The loop of a recipe and a user's program
 * (lockstep/run.h) both save through it.
 *
 * A save may go on beside the ranks' work. Each rank copies its part, and a thread of it writes the copy. The
 * ranks tell each other whether one of them still writes: the loop together with the losses of a step, a
 * program with every collective call of its run. When none is writing, rank 0 collects the checksums, and its
 * thread gives the checkpoint its name. Only the ranks' own threads use the group. The thread of a rank that
 * saves alone does all of it. There is at most one save at a time. */
#pragma once
#include "ckpt/checkpoint.h"
#include "lockstep/trainer.h"
#include "base/metric_list.h"
#include "record/rundir.h"

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
    bool apart;                 /* the hosts share no folder: every rank has it, and sends its own files */
    char *copy;                 /* memory for a copy of this rank's part; kept for the next save */
    size_t copy_bytes;
} ls_snapshots;

/* Lists the existing checkpoints, and removes what interrupted saves left. The run continues from step
 * `from`. Of *s, `remote` and `apart` are set. */
ls_status ls_snapshots_open(ls_snapshots *s, const ls_rundir *d, int64_t from);
void ls_snapshots_release(ls_snapshots *s);

/* *yes: whether a checkpoint of this value would be among the `count` best ones. Waits for a save that is not
 * finished. Collective. */
ls_status ls_snapshots_among_best(ls_snapshots *s, ls_rundir *d, ls_group *g, double value, int64_t count,
                                  bool *yes);
/* *yes: whether the run has the checkpoint that it continues from; else that is another run's, or
 * PyTorch's. Collective. */
ls_status ls_snapshots_began_here(const ls_snapshots *s, ls_group *g, bool *yes);
char *ls_snapshots_path(const ls_snapshots *s, int64_t step); /* of its folder; malloc'ed */

/* A checkpoint to be saved: the state of a trainer, or tensors. */
typedef struct ls_snapshot {
    int64_t step, epoch; /* epoch: of the last step, or of the program's report */
    /* Its folder. It stays, whatever `keep` says, until one of this name replaces it, and no link points to
     * it. NULL: step-NNNNNNNN, by the step */
    const char *name;
    const ls_metric_list *metrics; /* with `name`: its metrics in result.json */
    int64_t keep, keep_best;       /* how many of the newest checkpoints stay, and of the best */
    bool best;                     /* it is the best so far, so the link `best` points to it */
    double value;                  /* as in ls_kept */
    bool beside;                   /* return when this rank's part is copied */
    ls_trainer *trainer;           /* NULL: the tensors in `contents` */
    char *room;                    /* the trainer's memory for the copy (stage_saves); NULL: own memory */
    ls_group *group;               /* without a trainer: the ranks that save; NULL: this one alone */
    const ls_checkpoint_contents *contents; /* texts and settings; of tensors also their lists */
} ls_snapshot;

/* Saves it: when it has its name, moves the links, removes checkpoints that need not be kept (never the
 * newest or the best), copies it to the bucket, and writes its row. Another save must have ended
 * (ls_snapshots_finish). Beside, nothing of what it is given is used after the call, besides the group.
 * Collective over the ranks that save. */
ls_status ls_snapshots_save(ls_snapshots *s, ls_rundir *d, const ls_snapshot *what);
/* The newest checkpoint turns out to be the best. Collective. */
ls_status ls_snapshots_mark_best(ls_snapshots *s, ls_rundir *d);

/* Called before a step, or a collective call. *writing: whether this rank is still writing its part. Returns
 * the status of a thread that has ended; rank 0 writes the row of a checkpoint that is complete. Local. */
ls_status ls_snapshots_before_step(ls_snapshots *s, ls_rundir *d, bool *writing);
/* Called after it. Continues the save when no rank is `writing`. Collective. */
ls_status ls_snapshots_after_step(ls_snapshots *s, ls_rundir *d, bool writing);
bool ls_snapshots_are_busy(const ls_snapshots *s); /* whether a thread of this rank is saving. Local */
/* Waits for the save that is not finished. Collective. */
ls_status ls_snapshots_finish(ls_snapshots *s, ls_rundir *d);
/* Called when the run has failed. Waits for this rank's threads. A checkpoint without a name does not get
 * one. Keeps the error message. Local. */
void ls_snapshots_abandon(ls_snapshots *s, ls_rundir *d);
