/* launch.h - the process that the user started, when several ranks train on this host: it starts one process a rank (fork and exec of this very program
 * with the same words, no shell), passes requests to stop on, ends all ranks when one fails, and says once what happened. It computes nothing. */
#pragma once
#include <signal.h>
#include "lockstep/status.h"

/* What a rank finds in its environment, besides its place (LOCKSTEP_RANK, LOCKSTEP_RANKS, LOCKSTEP_CONTROL_FD). SIGINT is ignored; SIGTERM, which asks it to stop,
 * and SIGUSR1, which asks it to save, are blocked until it can take them. */
#define LS_LAUNCH_STARTED "LOCKSTEP_STARTED" /* monotonic seconds at which the user's command, or this restart, began */
#define LS_LAUNCH_COMMAND "LOCKSTEP_COMMAND" /* those at which the command began */
#define LS_LAUNCH_RESTART "LOCKSTEP_RESTART" /* how often the ranks were started again */

typedef struct ls_launch_opts {
    int ranks;
    int threads;                         /* of a rank; 0: what its share of the cores gives */
    char *const *argv;                   /* of every rank, the program's name first */
    int restart;                         /* 0: the first attempt; what ls_launch_restart says in its ranks */
    const volatile sig_atomic_t *stop;   /* nonzero: the ranks are to stop; may be NULL */
    const volatile sig_atomic_t *save;   /* each time this number changes: they are to save at the end of the step; may be NULL */
    bool *out_of_memory;                 /* set when the kernel killed a rank for want of memory; may be NULL */
} ls_launch_opts;

/* Runs until all ranks have ended. LS_OK: all did their work; LS_E_STOPPED: they stopped on request, and rank 0 has said so (the message is empty);
 * else the status and message of the rank that failed first, with its number (LS_E_PEER: killed, crashed, stalled, or gone without a word; LS_E_IO: the program
 * could not be executed). Nothing is left behind, also when this process is killed. Local. */
ls_status ls_launch(const ls_launch_opts *o);

/* The rank that ls_launch made of this process; -1: none. */
int ls_launch_rank(void);
/* Which restart this rank belongs to; 0: the first attempt, or no rank of ls_launch. */
int ls_launch_restart(void);
/* How long before this process the user's command, or this restart, began, in seconds; 0 when it is that command. */
double ls_launch_lead(void);
/* Seconds since the user's command began, whatever happened since. */
double ls_launch_age(void);
