/* rundir_own.h - what rundir*.c, metrics*.c, tensorboard.c and runs.c share behind rundir.h. */
#pragma once
#include "base/json.h"
#include "metric_list.h"
#include "rundir.h"

typedef struct ls_saved_checkpoint {
    char *path;
    int64_t step, epoch;
    ls_metric_list metrics;
} ls_saved_checkpoint;

struct ls_rundir_private {
    int lock, metrics, csv, log, events; /* descriptors, -1: not open */
    bool wants_events;                   /* for TensorBoard */
    char *name, *best_metric;
    /* of metrics.csv where its columns are a program's; empty: not looked at yet */
    ls_str header;
    ls_json row;       /* reused, so that a row allocates nothing once the text has grown */
    double last_saved; /* ls_now() of the last result.json */
    ls_saved_checkpoint *checkpoints;
    int n_checkpoints, cap_checkpoints;
    char *best_checkpoint;
    /* the last report of a program of its own; empty: none, or a run of a recipe */
    ls_metric_list reported;
    /* what others measured (ls_rundir_open_between): names and texts of it are in use; NULL: nothing */
    json_t *recalled;
    json_t *restarts; /* of all attempts, as in result.json; NULL: none */
};

/* One whole line at the end of `fd` (path `name` in messages): all of it or, when the disk is full, nothing.
 * Ranks above 0 write nothing. */
ls_status ls_rundir_append(const ls_rundir *d, int fd, const char *name, const char *text, size_t n);
