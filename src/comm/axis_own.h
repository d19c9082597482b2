/* axis_own.h - an axis, as the files of this folder see it. */
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
    struct ls_call *calls; /* [n] those of the members, when they are compared between machines; else NULL */
    ls_ledger ledger;
};

ls_status ls_axis_create_world(ls_group *g); /* axis 0: all ranks. Local. */
