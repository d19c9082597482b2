/* message_times.h - programs that send to each other: how long the stages of a pipeline take together. */
#pragma once
#include "base/arena.h"
#include "plan.h"

typedef struct ls_message_time { /* a message of a program, and what the program does before it */
    double before, seconds;
    bool sends;
    int peer;      /* position of the other program */
    size_t offset; /* of the mailbox in the sender's memory */
} ls_message_time;
/* What of a plan the other programs' times depend on. It stays valid when the plan is gone. */
typedef struct ls_message_times {
    ls_message_time *events;
    int n;
    double after, busy; /* seconds behind the last event; all that the program computes and copies */
} ls_message_times;
ls_status ls_message_times_of(ls_message_times *out, ls_arena *arena, const ls_plan *p);

/* Plays the programs beside each other: *seconds until the last is done. A send waits until its mailbox is
 * empty, a receive until it is full. */
ls_status ls_message_times_play(double *seconds, int n, const ls_message_times *lines);
