/* metrics_csv.h - rows as CSV, and the file metrics.csv.
 *
 * Of a recipe's run the columns are those of LS_EPOCH_CSV, and eval_NAME for each metric that has none there.
 * Of a user's program (lockstep/run.h) they are report, step, epoch, seconds, attempt, and one for each
 * metric. Columns of metrics stand in the order in which the metrics came. */
#pragma once
#include "metrics.h"

#define LS_CSV_ROW 512
#define LS_EPOCH_CSV "epoch,step,samples,train_loss,eval_loss,eval_accuracy,lr,seconds,attempt"
/* What an older version called them. A run that it began continues, with the names of this one. */
#define LS_EPOCH_CSV_BEFORE "epoch,step,samples,loss,eval_loss,eval_accuracy,lr,seconds,attempt"
#define LS_STEP_CSV "step,epoch,samples,loss,lr,seconds,grad_norm,loss_scale,skipped,attempt"
/* The cells of these columns. */
const char *ls_epoch_row_csv(char text[LS_CSV_ROW], const ls_epoch_row *row, int64_t attempt);
const char *ls_step_row_csv(char text[LS_CSV_ROW], const ls_step_row *row, int64_t attempt);

/* Append a row to metrics.csv. */
ls_status ls_csv_epoch(ls_rundir *d, const ls_epoch_row *row);
ls_status ls_csv_report(ls_rundir *d, const ls_report_row *row);
