/* join_watch.h - while ranks wait in MPI_Init, names those that have not come. It is for ranks that the user
 * started with mpirun or srun, which no process of ours watches. On each host the lowest rank that waits
 * writes the messages. */
#pragma once
#include "lockstep/status.h"

typedef struct ls_join_watch ls_join_watch;

/* Starts a thread that looks after 6 s, and from then on every 2 s. size 0: not known. Local. */
ls_status ls_join_watch_begin(ls_join_watch **out, int rank, int size);
/* Frees it; it says that all have come, if it said before who has not. Does not wait for the thread, which
 * may read a record in /proc that the kernel holds back. Local. */
void ls_join_watch_end(ls_join_watch **w, bool joined);
