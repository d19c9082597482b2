/* axis.h - axes: sub-groups of the ranks of a process group, and their fences. */
#pragma once
#include "lockstep/group.h"

typedef struct ls_axis ls_axis;
/* The sub-group of these ranks (ascending; this rank is one of them). Every rank of the group makes the same
 * number of axes in the same order, each with its own members: the k-th axis of rank a and of rank b are the
 * same group, or disjoint. `name` is for messages and the ledger: "dp". LS_E_ARG when the ranks disagree,
 * LS_E_UNSUPPORTED for more than 64 axes, LS_E_MEMORY. Collective over the whole group. */
ls_status ls_axis_create(ls_axis **out, ls_group *g, const char *name, int n, const int *members);
void ls_axis_destroy(ls_axis **a); /* local */
int ls_axis_size(const ls_axis *a);
int ls_axis_position(const ls_axis *a); /* this rank's */
bool ls_axis_one_machine(const ls_axis *a);

/* A barrier in two halves with work between them. Arrive: everything that this rank did before is finished
 * (it has run its program, it has read what it needs). Fence: waits until every member has arrived as often
 * as this rank. `what` is for the message of a failure. */
void ls_axis_arrive(ls_axis *a);
ls_status ls_axis_fence(ls_axis *a, const char *what);

/* What this rank's collectives moved since the axis was made. */
typedef struct ls_ledger {
    int64_t calls, bytes;
    double waited; /* seconds in waits */
} ls_ledger;
const ls_ledger *ls_axis_ledger(const ls_axis *a);
