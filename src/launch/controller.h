/* controller.h - the parent's side of ranks that survive their failures: starts them, and again after a
 * failure that need not repeat, each time as many as there is room for. */
#pragma once
#include "launch.h"

/* One restart, or the failure that none follows. */
typedef struct ls_restart {
    const char *cause;
    int number;       /* 1: the first */
    int workers;      /* of the attempt that comes */
    double pause;     /* seconds before it */
    int64_t step;     /* it begins from this step, */
    int64_t lost;     /* and computes so many again */
    const char *text; /* what the user is told */
} ls_restart;

/* Who keeps account of the attempts: the run directory (run_account.h). Between `open` and `close` it is the
 * parent's. */
typedef struct ls_account {
    void *context;
    void (*begin)(void *context); /* an attempt begins */
    ls_status (*open)(void *context);
    ls_status (*find_loss)(void *context, ls_restart *r); /* fills step and lost */
    ls_status (*restart)(void *context, const ls_restart *r);
    /* what follows: LS_OK: an attempt; LS_E_STOPPED: nothing, on request; any other: nothing, it has failed
     */
    ls_status (*close)(void *context, ls_status next, const char *why);
    /* The last attempt ended so, and no other follows: does the directory know? */
    void (*end)(void *context, ls_status s, const char *cause);
} ls_account;

typedef struct ls_control_opts {
    ls_launch_opts ranks;      /* of the first attempt */
    int64_t max_failures;      /* -1: without end */
    const char *named;         /* in messages: "failure.max_failures" */
    const ls_account *account; /* NULL: nobody keeps any */
    /* How many ranks the next attempt has, at most `most` (0: no such limit). NULL: as many as before. */
    ls_status (*choose)(void *context, int most, int *workers);
    void *context;
} ls_control_opts;

/* ls_launch, and again up to max_failures times, after a pause, when a rank was killed, crashed, did not come
 * or ended without a word; what any rank said itself (recipe, data, disk, NaN), and a program that cannot be
 * executed, would come again and ends the run. After the kernel killed a rank for want of memory there is one
 * rank fewer, if `choose` allows it. Each failure is told (ls_log_warn). Status as ls_launch; LS_E_STOPPED
 * also when the request came during the pause. Local. */
ls_status ls_control(const ls_control_opts *o);
