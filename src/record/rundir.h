/* rundir.h - the run directory storage/name/ (docs/run_directory.md): makes and opens it, locks it, and keeps
 * result.json up to date. metrics.h writes the rows, report.h the page.
 *
 * One process owns a run directory at a time. It locks lock.txt, which has its host and process id.
 * result.json is replaced at the start, at evaluations, at checkpoints and at the end, and in between every
 * ten seconds of training. If result.json has a state of a living run but no process has the lock, the run
 * has died, and `lockstep runs` says so. */
#pragma once
#include <stdio.h>
#include "base/metric_list.h"
#include "base/log.h"
#include "lockstep/group.h"
#include "lockstep/recipe.h"
#include "run_state.h"

#define LS_RUN_RECIPE "recipe.yaml"
#define LS_RUN_CONFIG "config.txt"
bool ls_run_is(const char *dir); /* whether it is a run directory: it has one of these files */

/* The present numbers of a run, beside its last evaluation. The functions of metrics.h update them;
 * result.json, `lockstep runs` and the report show them. NAN: none yet. A plain value: rank 0 sends it. */
typedef struct ls_run_metrics {
    int64_t step, epoch; /* finished optimizer steps; epoch of the last one */
    double loss, lr;     /* of the last step */
    bool skipped;        /* the last step changed no weight */
    int64_t eval_step;   /* of the last evaluation */
    int64_t eval_texts;  /* that it generated; 0: none */
    double best_value;   /* of checkpoint.best.metric */
    int64_t best_step, best_epoch;
    double stop_value;    /* early stopping: the best value that was better by more than min_delta */
    int64_t stop_waited;  /* epochs since then that evaluated it */
    double plateau_value; /* schedule plateau: the best value, evaluations since, and cuts of the rate */
    int64_t plateau_waited, plateau_cuts;
    int64_t nonfinite_steps; /* skipped because a loss or gradient was not finite */
} ls_run_metrics;

/* Those that are known: `loss`; `lr`, if it is wanted; `eval_NAME` of the last evaluation. To be released. */
ls_metric_list ls_run_metrics_list(const ls_run_metrics *m, const ls_metric_list *eval, bool lr);

#define LS_STARTUP_PARTS 8
typedef struct ls_startup {
    int n;
    struct {
        const char *name;
        double seconds;
    } parts[LS_STARTUP_PARTS];
    double total; /* from exec to the first step */
} ls_startup;

typedef struct ls_rundir {
    char *path;             /* storage/name */
    int rank;               /* only rank 0 writes more than its log */
    ls_run_state before;    /* the state when it was opened; LS_RUN_NEW: there was no run */
    ls_run_state state;     /* as in result.json; only ls_rundir_save_result changes it */
    int64_t attempt;        /* 0 for the first start, 1 for the next, ... */
    ls_run_metrics metrics; /* of an existing run, at first those of result.json */
    ls_metric_list eval;    /* the last evaluation; until there is one, only rank 0 has that of result.json */
    ls_startup startup;     /* set by the train loop; goes to result.json */
    double step_median, train_seconds, eval_seconds; /* set by the train loop; 0: not known */
    int64_t peak_rss;                                /* bytes; 0: not known */
    char device[16], hardware[64]; /* set by the train loop: "cuda", "NVIDIA H100 80GB HBM3"; "": not known */
    const char *data_note;         /* one line about the data set; not owned */
    bool builtin_data;
    char ended[200];   /* set by the train loop: why training ended; "": it has not */
    char no_best[256]; /* the same: why no epoch can be the best; "": one can. A best one makes it void */
    struct ls_rundir_private *own;
} ls_rundir;

/* Opens storage/name, or makes it with recipe.yaml, metrics.jsonl, metrics.csv, result.json (starting) and
 * log/rank-0.log. LS_E_USAGE if the folder is not a run directory, if it has another recipe (the message
 * names the keys), or if another process has it (the message names host and process). recipe.yaml of an
 * existing run changes only with ls_rundir_save_recipe. With `allow_change` the run may have another recipe.
 *
 * Rank 0 of g opens the run. The others get what it found, have log/rank-N.log, keep the same numbers, and
 * write no other file. g NULL: one rank. Collective. */
ls_status ls_rundir_open_ranks(ls_rundir **out, const ls_recipe *r, ls_group *g, bool allow_change);
/* For the parent of the ranks, after a failed attempt: opens the run, or makes it if the ranks did not.
 * `attempt` becomes that of the next ranks. Local. */
ls_status ls_rundir_open_between(ls_rundir **out, const ls_recipe *r, bool allow_change);
/* The same for the run of a user's program, which must exist already. Local. */
ls_status ls_rundir_open_own_between(ls_rundir **out, const char *run_dir);
/* The run of a user's program (lockstep/run.h), which has config.txt in place of recipe.yaml. */
typedef struct ls_own_run {
    const char *storage, *name, *config; /* config: the whole text of config.txt */
    const char *best_metric;             /* NULL: none */
} ls_own_run;
/* Opens or makes it. The program may have changed `config`. Collective. */
ls_status ls_rundir_open_own(ls_rundir **out, const ls_own_run *r, ls_group *g);
/* The micro_batch that the first start of this run resolved, for a recipe with train.micro_batch 0; 0: the
 * run does not exist. Local. */
int64_t ls_rundir_micro_batch(const ls_recipe *r);
/* Replaces recipe.yaml, after train.micro_batch was resolved or a key changed. Local. */
ls_status ls_rundir_save_recipe(ls_rundir *d, const ls_recipe *r);
/* Adds a checkpoint with the present metrics to the list of result.json, which shows it as long as its folder
 * exists. `best`: it is the best so far. */
void ls_rundir_add_checkpoint(ls_rundir *d, const char *path, int64_t step, bool best);
void ls_rundir_best_checkpoint(ls_rundir *d, const char *path); /* marks one of the list as the best */
/* Whether `value` is better than all before. If so, d->metrics gets it as the best value. NAN is never
 * better. */
bool ls_rundir_is_best(ls_rundir *d, double value, bool highest, int64_t step, int64_t epoch);
/* Forgets the evaluations of all checkpoints, and which one was the best, because later evaluations use other
 * data. */
void ls_rundir_forget_evaluations(ls_rundir *d);
/* What the bits of steps depend on beside recipe and data. `lockstep verify` reads it in result.json. */
typedef struct ls_run_build {
    uint64_t code;            /* a digest of the program (base/code_hash.h) */
    const char *device, *isa; /* whose rounding it is, and its arch */
    const char *layout;       /* of the ranks; "": another one gives the same bits */
    int64_t ranks;
} ls_run_build;
/* Such a build trains the steps behind step `after`. On rank 0 it goes into result.json at the next save. */
ls_status ls_rundir_trained_by(ls_rundir *d, const ls_run_build *b, int64_t after);
/* Sets the state of the run (run_state.h says which changes are allowed) and replaces result.json. It waits
 * until the file is on the disk, except for the states starting, running and saving, which soon change again.
 */
ls_status ls_rundir_save_result(ls_rundir *d, ls_run_state state, const char *error);
/* Writes result.json with the final state (error NULL unless failed), releases the lock, frees, and nulls *d.
 * LS_RUN_NEW keeps result.json as it is; so does closing an existing run in which nothing was done. */
ls_status ls_rundir_close(ls_rundir **d, ls_run_state state, const char *error);

/* Writes a message with time and level to log/rank-N.log. While a run is open, the sink of ls_log calls this
 * for every message. */
void ls_rundir_log(ls_rundir *d, ls_level level, const char *message);

/* A run as another process sees it. LS_E_IO if result.json is missing, LS_E_FORMAT if it is damaged. */
typedef struct ls_run_info {
    char name[128];
    ls_run_state state;
    ls_run_metrics metrics;
    ls_metric_list eval;     /* the last evaluation */
    ls_metric_list reported; /* the last report of a user's program */
    /* Its metrics by their names in the files of the run: those that its program reported, `loss`, and those
     * of the last evaluation as eval_NAME. */
    ls_metric_list named;
    char best_metric[LS_METRIC_NAME]; /* of metrics.best_value; "": none */
    int64_t attempt;
    double seconds_ago; /* since result.json was written */
    char error[256];
    int restarts;         /* after failures */
    bool builtin_data;    /* its metrics are of the built-in shapes */
    char checkpoint[256]; /* path of the last one, relative to the run directory; "": none */
} ls_run_info;
ls_status ls_run_info_read(ls_run_info *out,
                           const char *run_dir); /* after an error there is nothing to release */
void ls_run_info_release(ls_run_info *info);
#define LS_BUILTIN_NOTE \
    "measured on the BUILT-IN shapes, not real data" /* shown with every result of such a run */
/* The folder of the run in `storage` that wrote last; malloc'ed. *out NULL: there is no run. */
ls_status ls_runs_latest(char **out, const char *storage);

/* As ls_rundir_add_checkpoint, with other metrics than the present ones. It takes ownership of them. */
void ls_rundir_list_checkpoint(ls_rundir *d, const char *path, int64_t step, int64_t epoch,
                               ls_metric_list metrics, bool best);
/* Sets the metrics of a user's program from its report; d->metrics gets those whose names it has. */
void ls_rundir_set_reported(ls_rundir *d, int64_t step, int64_t epoch, const ls_metric_list *metrics);
