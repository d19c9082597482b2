/* rundir_own.h - the private part of ls_rundir, for rundir*.c, metrics*.c, tensorboard.c and runs.c. */
#pragma once
#include "base/json.h"
#include "base/metric_list.h"
#include "rundir.h"

typedef struct ls_saved_checkpoint {
    char *path;
    int64_t step, epoch;
    ls_metric_list metrics;
} ls_saved_checkpoint;

struct ls_rundir_private {
    int lock, metrics, csv, log, events, beat; /* file descriptors; -1: not open */
    bool wants_events;                         /* for TensorBoard */
    ls_str hparams;                            /* for TensorBoard: the settings, until they are written */
    char *name, *best_metric;
    ls_str header; /* of metrics.csv of a user's program; empty: not read yet */
    ls_json row;   /* reused, so that a row allocates nothing once the text has grown */
    /* times of the last writes of result.json and of the heartbeat, on the clock of ls_now */
    double last_saved, last_beat;
    ls_saved_checkpoint *checkpoints;
    int n_checkpoints, cap_checkpoints;
    bool no_memory; /* a checkpoint or a metric is missing; the next ls_rundir_save_result says so, once */
    char *best_checkpoint;
    ls_metric_list reported; /* the last report of a user's program; empty: there is none */
    /* result.json of the ranks (ls_rundir_open_between); strings of it are in use; NULL: none */
    json_t *recalled;
    json_t *restarts; /* of all attempts, as in result.json; NULL: none */
    json_t *builds;   /* as in result.json; NULL: none */
};

/* Appends a line to `fd` (`name` in messages): the whole line or, if the disk is full, nothing. Only on rank
 * 0. */
ls_status ls_rundir_append(const ls_rundir *d, int fd, const char *name, const char *text, size_t n);
