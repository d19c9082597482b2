/* background.h - one function that runs in a thread of its own, beside whoever started it, and then tells how
 * it ended. */
#pragma once
#include <pthread.h>
#include "lockstep/status.h"

typedef struct ls_background {
    pthread_t thread;
    bool started;
    bool done; /* atomic */
    ls_status (*run)(void *context);
    void *context;
    ls_status status;
    char message[1024];
} ls_background;

ls_status ls_background_start(ls_background *b, ls_status (*run)(void *context), void *context);
/* Has ended, or was never started: a wait would be short. */
bool ls_background_done(const ls_background *b);
/* Waits for the end. The status, and the message as if it had failed here; LS_OK when it was never started.
 * It can be started again. */
ls_status ls_background_wait(ls_background *b);
