/* controller.h - restarts: the parent starts the ranks again after a failure that need not repeat, each time
 * as many as there are resources for. */
#pragma once
#include "launch.h"

/* A restart, or the failure after which there is none. */
typedef struct ls_restart {
    const char *cause;
    bool grown;       /* nothing failed: there is room for more ranks */
    int number;       /* 1: the first */
    int workers;      /* of the next attempt */
    double pause;     /* seconds before it */
    int64_t step;     /* the step that it continues from; -1: no run directory records it */
    int64_t lost;     /* the number of steps that it repeats */
    const char *text; /* the message for the user */
} ls_restart;

/* Functions that record the attempts in the run directory (run_account.h). Between `open` and `close` the
 * parent owns the directory. */
typedef struct ls_account {
    void *context;
    void (*begin)(void *context); /* called when an attempt begins */
    /* Before the ranks are asked to stop: leaves a text for rank 0 that says what starts in their place
     * (record/next_attempt.h). */
    ls_status (*tell_next)(void *context, const char *next);
    bool (*heard_next)(void *context); /* whether it has stopped for that; called when all have ended */
    bool (*worked)(void *context);     /* whether it has recorded anything since, as a step */
    ls_status (*open)(void *context);
    ls_status (*find_loss)(void *context, ls_restart *r); /* fills step and lost */
    ls_status (*restart)(void *context, const ls_restart *r);
    /* `next` LS_OK: another attempt follows; LS_E_STOPPED: none, on request; else none, because of this
     * failure */
    ls_status (*close)(void *context, ls_status next, const char *why);
    /* called after a last attempt with status `s`, to record the failure if the ranks could not */
    void (*end)(void *context, ls_status s, const char *cause);
} ls_account;

/* Why the ranks that run are to stop, and what is started then: "host b answers again", "4 workers on hosts
 * a, b". */
typedef struct ls_more {
    char why[512], next[400];
} ls_more;

typedef struct ls_control_opts {
    ls_launch_opts ranks; /* of the first attempt */
    int64_t max_failures; /* -1: no limit */
    const char *named;    /* name of max_failures in messages: "failure.max_failures" */
    const ls_account *account;
    /* Chooses the number of ranks of the next attempt, at most `most` (0: no limit). NULL: as many as before.
     */
    ls_status (*choose)(void *context, int most, int *workers);
    /* Whether there is room for more than `workers` ranks now. Asked often while ranks run, and does not
     * wait. Then they are asked to stop, and start again. NULL: never */
    bool (*more)(void *context, int workers, ls_more *out);
    /* Called after an attempt. True if it failed on what `choose` had added, which will be left out when that
     * comes again: then the failure is not counted. NULL: never */
    bool (*judge)(void *context, const ls_attempt_end *end);
    void *context;
} ls_control_opts;

/* Calls ls_launch, and again after a pause, up to max_failures times, if a rank was killed, crashed, stalled
 * or ended without a message. Failures that a rank has reported itself (recipe, data, disk, NaN), and a
 * program that cannot be executed, would repeat, so they end the run. If the kernel killed a rank for lack of
 * memory, the next attempt has one rank less, if `choose` allows it. Each failure is logged as a warning.
 * Ranks that have stopped because `more` said so start again, which does not count as a failure. Status as
 * ls_launch; LS_E_STOPPED also for a request during the pause. Local. */
ls_status ls_control(const ls_control_opts *o);

/* Seconds before the restart after this many failures, at least 1: twice as many each time, up to 30. */
double ls_control_pause(int failures);
