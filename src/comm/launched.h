/* launched.h - reads the environment of a process that the launcher started as a rank (launch/launch.h). All
 * functions are local. */
#pragma once
#include <stdbool.h>

/* Environment variables of a rank, besides LOCKSTEP_RANK, LOCKSTEP_RANKS and LOCKSTEP_CONTROL_FD
 * (environment.h). The rank starts with SIGINT, SIGHUP and SIGUSR2 ignored. SIGTERM (stop) and SIGUSR1 (save)
 * are blocked until it can handle them. */
#define LS_LAUNCH_STARTED \
    "LOCKSTEP_STARTED" /* monotonic seconds at which the user's command, or this restart, began */
#define LS_LAUNCH_COMMAND "LOCKSTEP_COMMAND" /* monotonic seconds at which the command began */
#define LS_LAUNCH_RESTART "LOCKSTEP_RESTART" /* how many times the ranks were started again */
#define LS_LAUNCH_STALL "LOCKSTEP_STALL"     /* seconds that a rank is waited for; 0: not said */

/* A rank that mpirun or srun started for our command has instead the descriptor of a control block of one
 * rank, which the process that watches it on its host reads. */
#define LS_LAUNCH_JOB "LOCKSTEP_JOB" /* the facts that this process needs (launch/supervise.c) */
#define LS_LAUNCH_REPORT "LOCKSTEP_REPORT_FD"

/* Whether a process of lockstep watches this one. It reports the failures of ranks and starts ranks again. */
bool ls_launch_watched(void);
/* This process's rank on this host, if ls_launch started it; -1: it did not. */
int ls_launch_rank(void);
/* Which restart this rank belongs to; 0: the first attempt, or nobody watches it. */
int ls_launch_restart(void);
/* Seconds from the start of the user's command, or of this restart, to the start of this process; 0 in the
 * command itself. */
double ls_launch_lead(void);
/* Seconds that a rank is waited for, if the command says so; else 0. */
double ls_launch_stall(void);
/* Seconds since the user's command began, whatever happened since. */
double ls_launch_age(void);
