/* background.h - runs one function in a thread of its own and reports how it ended. */
#pragma once
#include <pthread.h>
#include "lockstep/status.h"

typedef struct ls_background {
    pthread_t thread;
    bool started;
    bool done; /* accessed atomically */
    ls_status (*run)(void *context);
    void *context;
    ls_status status;
    char message[1024];
} ls_background;

ls_status ls_background_start(ls_background *b, ls_status (*run)(void *context), void *context);
/* The function has ended, or was never started: ls_background_wait would return at once. */
bool ls_background_done(const ls_background *b);
/* Waits until the function has ended and returns its status, with its message as this thread's error. LS_OK
 * if it was never started. Afterwards it can be started again. */
ls_status ls_background_wait(ls_background *b);
