/* history.h - reads metrics.jsonl for all that show a run: report.html, `lockstep runs --metrics`, the table
 * at the end of a run. An attempt that continues from a checkpoint repeats the steps after it, so the earlier
 * rows of these steps are left out. A run may be read while it is written. */
#pragma once
#include "base/metric_list.h"
#include "metrics.h"

/* A number that was not finite is NAN; one that a row lacks has the value of its column (rows.c). */
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
} ls_past_epoch;
/* A checkpoint that was saved; it may have been removed later. */
typedef struct ls_past_checkpoint {
    int64_t step, epoch, bytes, attempt;
} ls_past_checkpoint;
/* The start of a later attempt: the step that it continues from, and how many steps it repeats. */
typedef struct ls_past_start {
    int64_t attempt, step, lost;
    char *cause; /* the failure; NULL: the user started the run again */
} ls_past_start;

/* A report of a user's program (lockstep/run.h). */
typedef struct ls_past_report {
    ls_report_row row;
    int64_t attempt;
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
    bool no_memory;  /* rows are missing */
    int bad_lines;   /* lines that are not rows: the machine stopped while they were written */
    int64_t read;    /* bytes of the file that have been read: whole lines */
} ls_history;

/* The rows of one kind: [n] structs of `each` bytes, which begin with the row. */
typedef struct ls_past_rows {
    const ls_row_kind *kind;
    const void *rows;
    size_t each, attempt_at;
    int n;
} ls_past_rows;
/* Of steps, evaluations, epochs or reports. */
ls_past_rows ls_history_rows(const ls_history *h, const ls_row_kind *kind);
const void *ls_past_row(const ls_past_rows *r, int i);
int64_t ls_past_attempt(const ls_past_rows *r, int i);

ls_status ls_history_read(ls_history *out, const char *run_dir);
/* Adds the rows that were written since the last call; at first h is zeroed. If the file is shorter now, it
 * begins again, because the run is another one. After an error h is empty. */
ls_status ls_history_follow(ls_history *h, const char *run_dir);
void ls_history_release(ls_history *h); /* may be called after an error */
