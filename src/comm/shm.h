/* shm.h - how processes of one machine become a group: they inherit, or are sent, the descriptor of a control
 * block. Used by the launcher and by rendezvous.c. */
#pragma once
#include "lockstep/group.h"
#include "control.h"

/* The control block of `ranks` ranks in an anonymous file: *fd is inherited or passed on. LS_E_ARG for more
 * ranks than a machine can have, LS_E_MEMORY. Local. */
ls_status ls_shm_create(int ranks, int *fd);
/* This process becomes rank `rank` of it. `fd` stays the caller's. LS_E_FORMAT: no control block; LS_E_ARG:
 * no such rank, or it has joined already; LS_E_MEMORY. Local. */
ls_status ls_shm_join(ls_group **out, int fd, int rank);

/* From now on the control block of one rank in file `fd` gets what this process does, and how its group
 * fails (ls_control_report_to). `fd` is closed. Local. */
ls_status ls_shm_report_to(int fd);
void ls_shm_report_joined(void); /* and the fact that it has a group */

/* The launcher's view of a control block. All of it is local. */
typedef struct ls_shm_watch ls_shm_watch;
ls_status ls_shm_watch_open(ls_shm_watch **out, int fd);
void ls_shm_watch_close(ls_shm_watch **w);
/* Tells the ranks that `rank` is gone, so that their waits end. */
void ls_shm_watch_gone(ls_shm_watch *w, int rank, const char *message);
/* The rank's latest text of ls_group_doing. */
void ls_shm_watch_doing(const ls_shm_watch *w, int rank, char text[128]);
/* The rank has joined the group; it may have left it since. */
bool ls_shm_watch_joined(const ls_shm_watch *w, int rank);
/* errno of a process that was to become `rank` and could not execute the program; 0: it could. The first
 * function is safe between fork and exec. */
void ls_shm_watch_not_executed(ls_shm_watch *w, int rank, int error);
int ls_shm_watch_exec_error(const ls_shm_watch *w, int rank);
/* Bytes (ls_group_planned); 0: the rank has not said so yet. */
uint64_t ls_shm_watch_planned(const ls_shm_watch *w, int rank);
/* The run directory that a user's program has open (ls_group_names_run); "": none. */
void ls_shm_watch_run(const ls_shm_watch *w, char path[LS_RUN_PATH_BYTES]);
/* The rank that failed first, with its error; false: none. */
typedef struct ls_heard {
    int rank;
    ls_status code;
    ls_missed missed; /* how the others missed it, if it did not report the failure itself */
    char text[LS_FAILURE_BYTES];
} ls_heard;
bool ls_shm_watch_failure(const ls_shm_watch *w, ls_heard *out);
/* Takes over the report of a process that watches a rank on its host. */
void ls_shm_watch_hear(ls_shm_watch *w, const ls_heard *h);
void ls_shm_watch_hear_run(ls_shm_watch *w, const char *path);
void ls_shm_watch_hear_joined(ls_shm_watch *w, int rank);
void ls_shm_watch_hear_doing(ls_shm_watch *w, int rank, const char *doing, uint64_t planned, int exec_error);
