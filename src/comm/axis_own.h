/* axis_own.h - the struct of an axis. Private to src/comm. */
#pragma once
#include "axis.h"
#include "group_own.h"

struct ls_route;

struct ls_axis {
    ls_group *group;
    char name[48];
    int number;             /* number of its counters in the control block, the same on all members */
    int n;                  /* members */
    int position;           /* this rank's */
    int *members;           /* [n] ranks, ascending */
    ls_counters **counters; /* [n] by position; NULL: on another machine */
    bool one_machine;
    /* how members on several machines work together (remote_types.h); NULL: one machine */
    struct ls_route *route;
    /* what a thread that sleeps for a counter does meanwhile; the result: seconds until it is due again.
     * NULL: nothing */
    double (*idle)(const struct ls_axis *a);
    /* [n]: the members' calls, compared between machines; NULL: they are not compared */
    struct ls_rank_call *calls;
    ls_ledger ledger;
};

ls_status ls_axis_create_world(ls_group *g); /* axis 0: all ranks. Local. */
