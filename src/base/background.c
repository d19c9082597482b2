/* background.c - runs a function in a thread. Signals are left to the main thread. Errors are recorded per
 * thread, so the thread's message is copied to the thread that waits. */
#include "background.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sys.h"

static void *background_run(void *context)
{
    ls_background *b = context;
    b->status = b->run(b->context);
    if (b->status != LS_OK)
        snprintf(b->message, sizeof b->message, "%s", ls_error_message());
    __atomic_store_n(&b->done, true, __ATOMIC_RELEASE);
    return NULL;
}

ls_status ls_background_start(ls_background *b, ls_status (*work)(void *context), void *context)
{
    sigset_t all, before;
    *b = (ls_background){ .run = work, .context = context };
    sigfillset(&all);
    /* but not the thread's own faults: SIGBUS comes from reading a mapped file that was truncated, SIGSEGV
     * from reading at an address that is not the host's */
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = ls_sys_thread(&b->thread, background_run, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    b->started = !error;
    return error ? ls_fail(LS_E_IO, "cannot start a thread: %s", strerror(error)) : LS_OK;
}

bool ls_background_done(const ls_background *b)
{
    return !b->started || __atomic_load_n(&b->done, __ATOMIC_ACQUIRE);
}

ls_status ls_background_wait(ls_background *b)
{
    if (!b->started)
        return LS_OK;
    pthread_join(b->thread, NULL);
    b->started = false;
    return b->status == LS_OK ? LS_OK : ls_fail(b->status, "%s", b->message);
}
