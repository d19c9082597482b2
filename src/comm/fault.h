/* fault.h - makes a rank slow, lost or dead on purpose, for tests of what the other ranks then do. The first
 * two functions are for tests, ls_fault_flips is for step, the others for this folder. */
#pragma once
#include "group.h"

/* drop: this rank never arrives; kill, stop: this process gets SIGKILL or SIGSTOP; flip: a bit of a weight */
typedef enum ls_fault_kind {
    LS_FAULT_DELAY,
    LS_FAULT_DROP,
    LS_FAULT_KILL,
    LS_FAULT_STOP,
    LS_FAULT_FLIP,
    LS_FAULT_KINDS
} ls_fault_kind;
/* What happens at call number `at` of this rank (from 0; -1: at random calls, drawn from seed). Calls are the
 * starts and waits of collectives and the halves of fences; those of a flip are steps, from 1. */
typedef struct ls_fault {
    ls_fault_kind kind;
    int64_t at;
    double seconds; /* of a delay */
    uint64_t seed;
} ls_fault;
/* LS_E_MEMORY. Local. */
ls_status ls_group_inject(ls_group *g, const ls_fault *f);
/* Reads LOCKSTEP_FAULT="kill@12:rank=1" (fault.c has the syntax); does nothing if it is not set. LS_E_USAGE
 * if it is malformed. Local. */
ls_status ls_group_inject_from_environment(ls_group *g);
/* The same for a process that trains without a group: LS_E_USAGE for what needs other ranks. */
ls_status ls_fault_alone(void);
/* LOCKSTEP_FAULT=stop@join:rank=R stops this process, in the first attempt. Local. */
void ls_fault_before_join(int rank);

/* Called once after each step. True: flip a bit of the weight that `which` chooses. g NULL: as
 * ls_fault_alone found. Local. */
bool ls_fault_flips(ls_group *g, uint64_t *which);
ls_status ls_fault_point(ls_group *g);      /* every start and wait passes here */
ls_status ls_call_point(const ls_group *g); /* the same for the fault points of base/fault.h; exchanges too */
void ls_fault_release(ls_group *g);
