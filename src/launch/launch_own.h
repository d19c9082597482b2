/* launch_own.h - an attempt of several ranks, as its files see it. */
#pragma once
#include <sys/types.h>
#include "base/affinity.h"
#include "comm/shm.h"
#include "launch.h"
#include "oom.h"

/* killed: by us, so that its status says nothing */
typedef struct child {
    pid_t pid;
    bool ended, killed;
    int status;
} child;

typedef struct launch {
    const ls_launch_opts *o;
    int control;
    ls_shm_watch *watch;
    ls_oom oom;
    child *children;
    int started, alive;
    ls_cpu_set *cpus; /* of each rank; NULL: not bound */
    double began;     /* the command, or this restart */
    double started_at;
    sigset_t mask_before;
    double failed_at; /* 0: all is well */
    int failed_rank;
    ls_missed missed; /* how */
    bool stop_passed_on, killed, told_that_nobody_joined;
    sig_atomic_t saves_passed_on;
    ls_status code; /* of the failure, with its message: */
    char text[4400];
} launch;

/* start.c */
ls_status ls_launch_divide_cores(launch *l);
ls_status ls_launch_start(launch *l, int rank);

/* blame.c: what a failure is called. */
/* From here on the ranks are ending; the first reason is the one that is told. */
void ls_launch_note(launch *l, int rank, ls_status code);
/* A rank has said why it, or another that it waited for, cannot go on. */
bool ls_launch_hear(launch *l);
/* Rank r has ended, by itself; its status may say more than another rank could see. */
void ls_launch_explain(launch *l, int r);
/* Ranks that ended well without having joined the group that others have joined. */
void ls_launch_look_for_strangers(launch *l);
/* Rank r of somebody's own program was ended by the request to stop. */
bool ls_launch_ended_by_request(const launch *l, int r);
