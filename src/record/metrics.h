/* metrics.h - writes the rows of metrics.jsonl (append-only, a row for every optimizer step) and of
 * metrics.csv (a row for every epoch). A row is one write, so neither a reader nor a crash sees half a row.
 * Losses are printed so that they read back as the same float. A step's row allocates nothing. */
#pragma once
#include "base/metric_list.h"
#include "row.h"
#include "rundir.h"

typedef struct ls_step_row {
    int64_t step, epoch, samples; /* step: number of finished optimizer steps, so the first row says 1 */
    int64_t targets;              /* of text: tokens with a loss; 0: one target a sample */
    float loss;                   /* global mean over the step's targets; NAN: no target counted */
    double lr, seconds;
    double grad_norm;      /* before clipping; < 0: not measured */
    double loss_scale;     /* with f16; 0: none */
    bool skipped;          /* no weight changed: gradients overflowed f16, or no target counted, or */
    const char *nonfinite; /* this was not finite: "loss" or "gradient"; NULL: it was */
} ls_step_row;

typedef struct ls_eval_row {
    int64_t step, epoch, samples;
    double seconds;
    ls_metric_list eval; /* with those of generated texts (text/rouge.h) behind the model's */
    int64_t texts;       /* that were generated; 0: none */
    double generate_seconds;
} ls_eval_row;

typedef struct ls_epoch_row {
    int64_t epoch, step, samples;
    double train_loss;   /* mean over the epoch's targets in training; NAN: none counted */
    int64_t skipped;     /* steps that changed no weight */
    ls_metric_list eval; /* empty: no evaluation this epoch */
    int64_t eval_texts;  /* that it generated; 0: none */
    double lr, seconds;
    double data_seconds; /* of `seconds`: rank 0 waited for its loader; 0: not known */
    int64_t replaced;    /* training samples that stood in for broken ones, over all ranks */
    int64_t memory;      /* bytes of anonymous memory on rank 0, without shared windows; 0: not known */
    /* of all ranks the largest: the same, and bytes that the plan gives a rank; 0: not known */
    int64_t memory_most, memory_planned;
    /* of rank 0, 0 (load: NAN): not known: processors that its process used on average; the host's load
     * average over the last minute; GFLOP/s of the model's arithmetic, and its share of what the device can
     * do at most */
    double cpu, load, gflops, mfu;
} ls_epoch_row;

/* Of one rank at the end of an epoch, if there are several. */
typedef struct ls_memory_row {
    int64_t epoch, step, rank;
    int64_t memory, planned; /* as in ls_heartbeat */
} ls_memory_row;

typedef struct ls_checkpoint_row {
    int64_t step, epoch;
    const char *path; /* relative to the run directory */
    int64_t bytes;
    double waited, seconds;        /* time for which training waited; time of the whole save */
    const char *model, *optimizer; /* digests of their values, hexadecimal; NULL: none */
} ls_checkpoint_row;

typedef struct ls_digest_row {
    int64_t step, epoch;
    const char *model, *optimizer; /* digests of their values, hexadecimal */
    double seconds;                /* that they took */
} ls_digest_row;

typedef struct ls_restart_row {
    const char *cause;
    int64_t step, lost; /* the checkpoint's step; how many steps after it are repeated */
    double pause;       /* seconds */
    int64_t workers;    /* from now on */
} ls_restart_row;

typedef struct ls_change_row {
    int64_t step;
    const char *what;
} ls_change_row;

/* of a user's program (lockstep/run.h) */
typedef struct ls_report_row {
    int64_t report, step, epoch;
    double seconds;
    ls_metric_list metrics;
} ls_report_row;

/* The columns of these rows. A list in a row that is written is a view. */
extern const ls_row_kind LS_STEP_ROW, LS_EVAL_ROW, LS_EPOCH_ROW, LS_MEMORY_ROW, LS_CHECKPOINT_ROW,
    LS_DIGEST_ROW, LS_RESTART_ROW, LS_CHANGE_ROW, LS_REPORT_ROW;

ls_status ls_metrics_step(ls_rundir *d, const ls_step_row *row);
ls_status ls_metrics_eval(ls_rundir *d, const ls_eval_row *row);
ls_status ls_metrics_epoch(ls_rundir *d, const ls_epoch_row *row);
ls_status ls_metrics_memory(ls_rundir *d, const ls_memory_row *row);
/* The value of a word of checkpoint.best.metric: train_loss, eval_NAME. NAN: not measured, or undefined. */
double ls_epoch_row_metric(const ls_epoch_row *row, const char *metric);
/* A save begins. Until its row is written the state of the run is `saving`, unless it is `stopping`. */
ls_status ls_metrics_saving(ls_rundir *d);
ls_status ls_metrics_checkpoint(ls_rundir *d, const ls_checkpoint_row *row);
ls_status ls_metrics_digest(ls_rundir *d, const ls_digest_row *row);
/* Also adds it to the list in result.json, and sets the state `restarting`. */
ls_status ls_metrics_restart(ls_rundir *d, const ls_restart_row *row);
/* The attempt continues from `step` with these changes, which --allow-change permitted. */
ls_status ls_metrics_change(ls_rundir *d, int64_t step, const char *what);
/* Also writes to metrics.csv, which gets a column for each new metric. */
ls_status ls_metrics_report(ls_rundir *d, const ls_report_row *row);
/* Number of the last step, or step of the last report, in metrics.jsonl from byte `from` on; -1: there is
 * none. Local. */
int64_t ls_metrics_last_step(const ls_rundir *d, int64_t from);
