/* verify_rows.h - what metrics.jsonl says of the steps, evaluations and checkpoints of a run, for `lockstep
 * verify`: everything but times. Private to the verify files. */
#pragma once
#include "base/json.h"

typedef enum ls_verify_kind {
    LS_VERIFY_STEP,
    LS_VERIFY_EVAL,
    LS_VERIFY_CHECKPOINT, /* from here on only the digests count */
    LS_VERIFY_DIGEST,
    LS_VERIFY_KINDS
} ls_verify_kind;

typedef struct ls_verify_rows {
    json_t *of[LS_VERIFY_KINDS]; /* by step, as text: the row. An attempt that repeats steps replaces them and
                                    those behind them */
    int64_t first;               /* the first step that has a row */
    int64_t last;                /* the last step that has a row */
    int64_t most;    /* the last step that has one, also of an attempt that a later one replaced */
    int64_t attempt; /* of the last row of a step */
    int64_t changed; /* behind this step recipe or data were changed, the last time; 0: never */
} ls_verify_rows;

/* Reads RUN/metrics.jsonl. Release it also after a failure. Local. */
ls_status ls_verify_rows_read(ls_verify_rows *out, const char *run_dir);
void ls_verify_rows_release(ls_verify_rows *r);
/* The row with the digests of a step, NULL: there is none. */
const json_t *ls_verify_digests(const ls_verify_rows *r, int64_t step);
/* The row of a step; NULL: there is none. */
const json_t *ls_verify_row(const ls_verify_rows *r, ls_verify_kind kind, int64_t step);

typedef struct ls_verify_result {
    int64_t n[LS_VERIFY_KINDS]; /* rows that were compared */
    int64_t differ;             /* the first step with another row; 0: none */
    char what[160];             /* what differs there */
} ls_verify_result;
/* Compares the rows of steps from + 1 to `to`. A step of which `run` has no loss is a difference, and a row
 * of `run` that `again` lacks, but not a digest before `to`: the run may have been stopped there. `again` may
 * have more evaluations and digests. */
void ls_verify_rows_compare(ls_verify_result *out, const ls_verify_rows *run, const ls_verify_rows *again,
                            int64_t from, int64_t to);
