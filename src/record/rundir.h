/* rundir.h - the run directory storage/name/ (docs/run_directory.md): made or refused, locked against a
 * second process, and result.json kept true. metrics.h writes the rows, report.h the page.
 *
 * One process owns a run directory at a time: lock.txt in it is locked for the life of the run and says host
 * and process id. result.json is replaced whole: at the start, at evaluations, checkpoints and the end, and
 * every ten seconds of steps in between. A run whose result.json names a state of a living run while nobody
 * holds the lock has died; `lockstep runs` says so. */
#pragma once
#include <stdio.h>
#include "metric_list.h"
#include "base/log.h"
#include "lockstep/group.h"
#include "lockstep/recipe.h"
#include "run_state.h"

#define LS_RUN_RECIPE "recipe.yaml"
#define LS_RUN_CONFIG "config.txt"
bool ls_run_is(const char *dir); /* has one of them: it is a run directory */

/* What is known about the run's metrics; kept by the row writers of metrics.h, read by result.json, `runs`
 * and the report. NAN: none yet. */
typedef struct ls_run_metrics {
    int64_t step, epoch;             /* finished optimizer steps; epoch of the last one */
    double loss, lr;                 /* of the last step */
    double eval_loss, eval_accuracy; /* last evaluation */
    int64_t eval_step;
    double best_value; /* of checkpoint.best.metric */
    int64_t best_step, best_epoch;
} ls_run_metrics;

#define LS_STARTUP_PARTS 8
typedef struct ls_startup {
    int n;
    struct {
        const char *name;
        double seconds;
    } parts[LS_STARTUP_PARTS];
    double total; /* exec to first step */
} ls_startup;

typedef struct ls_rundir {
    char *path;             /* storage/name */
    int rank;               /* of several: only rank 0 writes anything but its log */
    ls_run_state before;    /* what was there when it was opened; LS_RUN_NEW: nothing */
    ls_run_state state;     /* what result.json says; only ls_rundir_save_result changes it */
    int64_t attempt;        /* 0, one more for each later process */
    ls_run_metrics metrics; /* at first those of result.json when the run existed */
    ls_startup startup;     /* set by the train loop; goes to result.json */
    double step_median, train_seconds, eval_seconds; /* set by the train loop; 0: not known */
    int64_t peak_rss;                                /* bytes; 0: not known */
    const char *data_note;                           /* what the data set was, one line; not owned */
    bool builtin_data;
    struct ls_rundir_private *own;
} ls_rundir;

/* Makes storage/name with recipe.yaml, metrics.jsonl, metrics.csv, result.json (starting), log/rank-0.log; or
 * opens the one that is there: refuses with LS_E_USAGE when it belongs to another recipe (the differing keys
 * are named) or is not a run directory, and when another process holds it (host and pid are named).
 * recipe.yaml of an existing run changes only with ls_rundir_save_recipe. Local. */
ls_status ls_rundir_open(ls_rundir **out, const ls_recipe *r);
/* The same for the ranks of g: rank 0 opens the run, the others follow it: they know what it found, have
 * log/rank-N.log, keep the same numbers, and write none of them. With `allow_change`, a run of another recipe
 * is opened too. Collective; NULL: no other ranks. */
ls_status ls_rundir_open_ranks(ls_rundir **out, const ls_recipe *r, ls_group *g, bool allow_change);
/* For the parent of the ranks, after an attempt that failed: opens what they left, or makes it when they did
 * not come so far. `attempt` is that of the ranks to come. Local. */
ls_status ls_rundir_open_between(ls_rundir **out, const ls_recipe *r, bool allow_change);
/* The same for a program of its own, which has no recipe: config.txt stands in its place, and the program may
 * change it. Collective. */
typedef struct ls_own_run {
    const char *storage, *name, *config; /* config: the whole text of config.txt */
    const char *best_metric;             /* NULL: none */
} ls_own_run;
ls_status ls_rundir_open_own(ls_rundir **out, const ls_own_run *r, ls_group *g);
/* The micro_batch that the first start of this run resolved, for a recipe that leaves it 0; 0: there is no
 * such run. Local. */
int64_t ls_rundir_micro_batch(const ls_recipe *r);
/* Writes recipe.yaml anew (train.micro_batch was resolved, train.epochs grew). Local. */
ls_status ls_rundir_save_recipe(ls_rundir *d, const ls_recipe *r);
/* Remembers a checkpoint, with the metrics of this moment, for result.json's list, where it is as soon and as
 * long as its folder exists. `best` marks it as the best so far. */
void ls_rundir_add_checkpoint(ls_rundir *d, const char *path, int64_t step, bool best);
void ls_rundir_best_checkpoint(ls_rundir *d, const char *path); /* one of those is the best after all */
/* Whether `value` is better than all before, the best of which is in the metrics; then it is what the next
 * ones are compared with. NAN never is. */
bool ls_rundir_is_best(ls_rundir *d, double value, bool highest, int64_t step, int64_t epoch);
/* Evaluations to come are on other data: those of the checkpoints so far, and which was the best, are no
 * longer told. */
void ls_rundir_forget_evaluations(ls_rundir *d);
/* The run moves on to `state` (run_state.h says from where that is allowed), and result.json is replaced now;
 * it is on the disk for sure when this returns, unless the state is one of those that a run passes through:
 * starting, running, saving. */
ls_status ls_rundir_save_result(ls_rundir *d, ls_run_state state, const char *error);
/* result.json with the final state (error NULL unless failed), then unlocks and frees; nulls *d. LS_RUN_NEW
 * leaves result.json as it is, and so does a run that existed and in which nothing was done. */
ls_status ls_rundir_close(ls_rundir **d, ls_run_state state, const char *error);

/* log/rank-N.log: each message with time and level. The program's sink calls it for every message while a run
 * is open. */
void ls_rundir_log(ls_rundir *d, ls_level level, const char *message);

/* result.json of a run directory as others see it; a broken or missing file gives LS_E_FORMAT or LS_E_IO. */
typedef struct ls_run_info {
    char name[128];
    ls_run_state state;
    ls_run_metrics metrics;
    double seconds_ago; /* since result.json was written */
    char error[256];
    int restarts;         /* after failures */
    bool builtin_data;    /* its numbers come from the built-in shapes */
    char checkpoint[256]; /* the last one's path relative to the run directory; "" if none */
} ls_run_info;
ls_status ls_run_info_read(ls_run_info *out, const char *run_dir);
#define LS_BUILTIN_NOTE \
    "measured on the BUILT-IN shapes, not real data" /* stands wherever a result of such a run is shown */
/* The table of `lockstep runs`: every run directory in `storage`, by name. width: columns of the terminal; 0:
 * as wide as it is. */
ls_status ls_runs_print(FILE *out, const char *storage, bool json, int width);

/* As ls_rundir_add_checkpoint, with metrics (taken over) that are not those of this moment. */
void ls_rundir_list_checkpoint(ls_rundir *d, const char *path, int64_t step, int64_t epoch,
                               ls_metric_list metrics, bool best);
/* How a program's run stands, by what it reported: as ls_run_metrics where they know the name. */
void ls_rundir_set_reported(ls_rundir *d, int64_t step, int64_t epoch, const ls_metric_list *metrics);
