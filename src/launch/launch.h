/* launch.h - the process that the user started, when several ranks train on this host: it starts one process
 * a rank (fork and exec of this very program with the same words, no shell), passes requests to stop on, ends
 * all ranks when one fails, and says once what happened. It computes nothing. */
#pragma once
#include <signal.h>
#include "lockstep/status.h"

typedef struct ls_launch_opts {
    int ranks;
    int threads;                       /* of a rank; 0: what its share of the cores gives */
    char *const *argv;                 /* of every rank, the program's name first */
    int restart;                       /* 0: the first attempt; what ls_launch_restart says in its ranks */
    const volatile sig_atomic_t *stop; /* nonzero: the ranks are to stop; may be NULL */
    /* each time this number changes: they are to save at the end of the step; may be NULL */
    const volatile sig_atomic_t *save;
    /* set when the kernel killed a rank for want of memory; may be NULL */
    bool *out_of_memory;
} ls_launch_opts;

/* Runs until all ranks have ended. LS_OK: all did their work; LS_E_STOPPED: they stopped on request, and rank
 * 0 has said so (the message is empty); else the status and message of the rank that failed first, with its
 * number (LS_E_PEER: killed, crashed, stalled, or gone without a word; LS_E_IO: the program could not be
 * executed). Nothing is left behind, also when this process is killed. Local. */
ls_status ls_launch(const ls_launch_opts *o);
