/* stand.h - saves where a run stands, and answers requests to save or stop. */
#pragma once
#include "loop.h"

/* Sums over the running epoch. `start` is when the epoch would have begun, had one process run all of it. */
typedef struct ls_epoch_sum {
    double loss;                     /* sum over `count` targets */
    int64_t samples, count, skipped; /* skipped: steps that changed no weight */
    bool targets;                    /* a step of this attempt had some that count */
    double start;                    /* on the clock of ls_now */
    double began, processors;        /* ls_now, ls_processor_seconds when this attempt began it */
    int64_t replaced;                /* by this rank's loader in this attempt */
    int64_t replaced_before;         /* by all ranks in earlier attempts */
    double waited;                   /* seconds for this rank's loader in this attempt */
    int64_t ending;                  /* the steps of the epoch, if all are done and its end is not; else 0 */
} ls_epoch_sum;

ls_epoch_sum ls_epoch_begin(void);

/* *out: how many samples of the epoch all ranks replaced because they were broken. Collective. */
ls_status ls_epoch_replaced(int64_t *out, const ls_loop *l, const ls_epoch_sum *sum);

/* Writes what this rank does, for `lockstep watch`. */
void ls_loop_beat(const ls_loop *l, const char *doing, bool now);

bool ls_loop_saves(const ls_loop *l); /* checkpoint.every_epochs is not -1 */
/* Saves a checkpoint. `epoch` is that of the last step. `ended` is its row if it ended with this step; the
 * sums of an epoch whose steps are all done are not stored then. Collective. */
ls_status ls_loop_save(ls_loop *l, const ls_epoch_sum *sum, int64_t epoch, const ls_epoch_row *ended,
                       bool best);
/* Answers LS_REQUEST_ bits: saves, and ends the loop (LS_E_STOPPED) if that was requested. Collective. */
ls_status ls_loop_answer(ls_loop *l, const ls_epoch_sum *sum, int64_t epoch, uint32_t asked);
