/* sweep_page.h - the page of a sweep: the runs in the order of their metric, and parallel coordinates. */
#pragma once
#include "lockstep/status.h"

typedef struct ls_sweep_line { /* a run */
    int number;                /* its place in the sweep, from 0 */
    const char *name;          /* of the run directory in the folder of the page */
    const char *state;         /* "finished", "refused", "not started", ... */
    const char *const *values; /* of each key */
    double best, last;         /* of the metric; NAN: none */
    int64_t best_step, step;
    double seconds;    /* of training; NAN: not known */
    const char *error; /* NULL: none */
    bool report;       /* it has a report.html */
} ls_sweep_line;

typedef struct ls_sweep_group { /* runs that differ in run.seed alone, and have a value of the metric */
    const char *const *values;  /* of each key; that of run.seed is one of many */
    int n;
    double mean, deviation, least, greatest; /* of `best`; deviation: of a sample, NAN of one run */
    double squares;                          /* sum of the squared differences from the mean */
} ls_sweep_group;

typedef struct ls_sweep_view {
    const char *name, *metric;
    bool highest; /* the largest value is the best */
    int n_keys, n, finished;
    const char *const *keys;
    ls_sweep_line *lines;   /* the best first; runs without a value last */
    int seed, n_groups;     /* number of the key run.seed; -1: it has one value, and there are no groups */
    ls_sweep_group *groups; /* the best mean first */
} ls_sweep_view;

/* Writes FOLDER/sweep.html. Local. */
ls_status ls_sweep_page_write(const char *folder, const ls_sweep_view *v);
