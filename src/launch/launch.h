/* launch.h - the process that the user started, when several ranks work on this host: it starts one process
 * a rank (fork and exec, no shell), passes requests to stop on, ends all ranks when one fails, and says once
 * what happened. The ranks are this very program again, with the same words, or any program that joins the
 * group (ls_group_from_environment). It computes nothing. */
#pragma once
#include <signal.h>
#include "lockstep/status.h"

/* Exit statuses of the command, and of every rank: part of the command's contract. */
enum { LS_EXIT_DONE = 0, LS_EXIT_FAILED = 1, LS_EXIT_USAGE = 2, LS_EXIT_STOPPED = 75 };

typedef struct ls_launch_opts {
    int ranks;
    int threads;                       /* of a rank; 0: what its share of the cores gives */
    const char *program;               /* path of a program of somebody's own; NULL: this very program */
    char *const *argv;                 /* of every rank, the program's name first */
    double stall;                      /* seconds that a rank of such a program is waited for; 0: 300 */
    int restart;                       /* 0: the first attempt; what ls_launch_restart says in its ranks */
    const volatile sig_atomic_t *stop; /* nonzero: the ranks are to stop; may be NULL */
    /* each time this number changes: they are to save at the end of the step; may be NULL */
    const volatile sig_atomic_t *save;
    /* set when the kernel killed a rank for want of memory; may be NULL */
    bool *out_of_memory;
} ls_launch_opts;

/* Runs until all ranks have ended. LS_OK: all did their work; LS_E_STOPPED: they stopped on request, and rank
 * 0 has said so (the message is empty, or says that a program did not handle the request); else the status
 * and message of the rank that failed first, with its number (LS_E_PEER: killed, crashed, stalled, or gone
 * without a word; LS_E_IO: the program could not be executed; LS_E_USAGE: the ranks of the program never
 * joined the group). Nothing is left behind, also when this process is killed. Local. */
ls_status ls_launch(const ls_launch_opts *o);

/* The path of the program that a shell would execute for `name`; the caller frees. LS_E_USAGE when there is
 * none that this user may execute. Local. */
ls_status ls_launch_find(char **path, const char *name);
