/* axis.h - axes: sub-groups of the ranks of a process group, and their fences. */
#pragma once
#include "lockstep/group.h"

typedef struct ls_axis ls_axis;
/* Makes an axis of these ranks, listed in ascending order, this rank among them. All ranks of the group make
 * the same number of axes in the same order, each with its own members: the k-th axes of two ranks are the
 * same sub-group, or have no rank in common. `name` ("dp") appears in messages and the ledger. LS_E_ARG if
 * the ranks disagree, LS_E_UNSUPPORTED for more than 64 axes, LS_E_MEMORY. Collective over the whole
 * group. */
ls_status ls_axis_create(ls_axis **out, ls_group *g, const char *name, int n, const int *members);
void ls_axis_destroy(ls_axis **a);      /* local */
int ls_axis_position(const ls_axis *a); /* position of this rank among the members */
bool ls_axis_one_machine(const ls_axis *a);

/* A barrier in two halves, with work in between. Arrive: this rank has finished what it did before (it has
 * run its program, it has read what it needs). Fence: waits until each member has arrived as often as this
 * rank. `what` appears in the message of a failure. */
void ls_axis_arrive(ls_axis *a);
ls_status ls_axis_fence(ls_axis *a, const char *what);

/* The data that this rank's collectives have moved since the axis was made. */
typedef struct ls_ledger {
    int64_t calls, bytes;
    double waited; /* seconds spent waiting */
} ls_ledger;
const ls_ledger *ls_axis_ledger(const ls_axis *a);
/* Counts collectives that devices run by themselves (device/link.h), with the bytes that this rank receives.
 * Local. */
void ls_axis_count(ls_axis *a, int64_t calls, int64_t bytes);
