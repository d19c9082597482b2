/* ui.h - how long work shows progress and is stopped. The program passes these to the library, which neither
 * prints nor installs signal handlers. */
#pragma once
#include <signal.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdint.h>

/* Progress of long work. The program shows it as one line on a terminal, or not at all. total 0: unknown. */
typedef struct ls_progress {
    const char *what;    /* "epoch 2/5", "evaluating", "downloading train-images" */
    int64_t done, total; /* counted in `unit`s */
    const char *unit;    /* "steps", "samples", "bytes" */
    double rate;         /* units per second; 0: not known yet */
    const char *note;    /* "loss 0.5312"; may be NULL */
} ls_progress;

typedef struct ls_ui {
    FILE *out;   /* results */
    int width;   /* columns of `out`; 0: it is not a terminal */
    bool colour; /* `out` is a terminal that shows colours */
    bool quiet;  /* print no summary */
    /* Shows progress, at most a few times a second; p NULL removes the line. May be NULL. */
    void (*progress)(void *context, const ls_progress *p);
    void *context;
    /* If this becomes nonzero, the run stops at the end of the step, saves, and returns LS_E_STOPPED. The
     * program also passes it to ls_stop_on. May be NULL. */
    const volatile sig_atomic_t *stop;
    /* Each time this changes, the run saves at the end of the step and continues. May be NULL. */
    const volatile sig_atomic_t *save;
    /* Prints a line that another process, on any host, has written to its stderr. May be NULL. */
    void (*pass)(const char *line);
    /* While a run directory is open, *log_to points to it, so that its log file receives all messages. May be
     * NULL. */
    struct ls_rundir **log_to;
    /* A rank that is not to use the terminal sets *silent: its messages go to its log file only. May be
     * NULL. */
    bool *silent;
} ls_ui;
