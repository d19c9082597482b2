/* history.h - metrics.jsonl read back, for everybody who shows a run: report.html, `lockstep runs --metrics`,
 * the table at a run's end. What counts is what the weights have seen: an attempt that continues from a
 * checkpoint takes back the rows after it. A run may be read while it is written. */
#pragma once
#include "metric_list.h"
#include "metrics.h"

/* losses that were not finite are NAN; grad_norm -1, loss_scale 0: none */
typedef struct ls_past_step {
    ls_step_row row;
    int64_t attempt;
} ls_past_step;
typedef struct ls_past_eval {
    ls_eval_row row;
    int64_t attempt;
} ls_past_eval;
typedef struct ls_past_epoch {
    ls_epoch_row row;
    int64_t attempt;
} ls_past_epoch; /* NAN: no evaluation */
/* saved; it may have been removed since */
typedef struct ls_past_checkpoint {
    int64_t step, epoch, bytes, attempt;
} ls_past_checkpoint;
/* The beginning of an attempt after the first: from which step, and how many steps done before were lost. */
typedef struct ls_past_start {
    int64_t attempt, step, lost;
    char *cause; /* of a failure; NULL: started again by hand */
} ls_past_start;

/* Of a program of its own. */
typedef struct ls_past_report {
    int64_t report, step, epoch, attempt;
    double seconds;
    ls_metric_list metrics;
} ls_past_report;

typedef struct ls_history {
    ls_past_step *steps;
    ls_past_eval *evals;
    ls_past_epoch *epochs;
    ls_past_checkpoint *checkpoints;
    ls_past_start *starts;
    ls_past_report *reports;
    int n_steps, n_evals, n_epochs, n_checkpoints, n_starts, n_reports;
    int cap_steps, cap_evals, cap_epochs, cap_checkpoints, cap_starts, cap_reports;
    int64_t attempt; /* of the last row */
    int bad_lines;   /* that are no rows: the machine stopped while one was written */
} ls_history;

ls_status ls_history_read(ls_history *out, const char *run_dir);
void ls_history_release(ls_history *h); /* harmless after an error */
