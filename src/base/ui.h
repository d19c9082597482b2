/* ui.h - how long work shows itself and is stopped: what the program gives the library, which neither prints
 * nor owns a signal handler. */
#pragma once
#include <signal.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdint.h>

/* Where long work is; `total` 0: unknown. The program draws a line of it on a terminal, or nothing. */
typedef struct ls_progress {
    const char *what;    /* "epoch 2/5", "evaluating", "downloading train-images" */
    int64_t done, total; /* in `unit`s */
    const char *unit;    /* "steps", "samples", "bytes" */
    double rate;         /* units per second; 0: not known yet */
    const char *note;    /* "loss 0.5312"; may be NULL */
} ls_progress;

typedef struct ls_ui {
    FILE *out;   /* results */
    int width;   /* of `out` in columns; 0: it is no terminal */
    bool colour; /* `out` is a terminal that shows colours */
    bool quiet;  /* no summary that nobody asked for */
    /* may be NULL; cheap: it throttles itself. p NULL: remove the line */
    void (*progress)(void *context, const ls_progress *p);
    void *context;
    /* nonzero: stop at the next step's end, save, return LS_E_STOPPED; may be NULL. The program gives it to
     * ls_stop_on, too */
    const volatile sig_atomic_t *stop;
    /* each time it changes: save at the end of the step and go on; may be NULL */
    const volatile sig_atomic_t *save;
    /* set *log_to while a run directory is open: its log file gets every message; may be NULL */
    struct ls_rundir **log_to;
    /* set *silent in a rank that leaves the terminal to others: messages go to its log file only; may be NULL
     */
    bool *silent;
} ls_ui;
