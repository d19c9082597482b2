/* fault.h - numbered points where the system may say no, so that a test can make it say so at each of them in
 * turn. Every call of sys.h and every start and wait of a collective passes one. Off, a point is a load and a
 * branch that is never taken; only a test or LOCKSTEP_FAIL switches it on. */
#pragma once
#include <stdatomic.h>
#include "lockstep/status.h"

typedef enum ls_point {
    LS_POINT_OPEN,   /* open, memfd_create */
    LS_POINT_WRITE,  /* write, pwrite */
    LS_POINT_SYNC,   /* fsync */
    LS_POINT_SIZE,   /* ftruncate, fallocate */
    LS_POINT_NAME,   /* rename, symlink */
    LS_POINT_FOLDER, /* mkdir */
    LS_POINT_REMOVE, /* unlink, remove */
    LS_POINT_MAP,    /* mmap */
    LS_POINT_MEMORY, /* malloc and its kin, where its caller reports the failure */
    LS_POINT_SPAWN,  /* fork, pthread_create */
    LS_POINT_CALL,   /* a collective */
    LS_POINTS
} ls_point;

#define LS_POINTS_ALL ((1u << LS_POINTS) - 1)
#define LS_POINTS_OF_FILES ((1u << LS_POINT_MAP) - 1) /* the seven of file systems */

typedef enum ls_failing {
    LS_FAIL_ONCE,
    LS_FAIL_ON,    /* all from the n-th on: a disk that stays full */
    LS_FAIL_SHORT, /* the n-th writes half of its bytes, the next one none */
    LS_FAIL_KILL   /* SIGKILL for this process */
} ls_failing;

extern _Atomic bool ls_fault_armed;

/* 0: go on; 1: fail; 2: write half. */
int ls_fault_pass(ls_point p);
#define LS_FAULT(p) \
    (__builtin_expect(atomic_load_explicit(&ls_fault_armed, memory_order_acquire), 0) ? ls_fault_pass(p) : 0)

/* Counts from 0, over all threads, the points of these kinds (a bit each); the n-th fails as `how` says, n <
 * 0: none. */
void ls_fault_arm(unsigned kinds, int64_t n, ls_failing how);
int64_t ls_fault_disarm(void); /* how many there were */

/* From LOCKSTEP_FAIL, in tests of the command (fault.c has the syntax); `rank` is this process's, -1 of one
 * that is not started as a rank. Does nothing when it is not set; LS_E_USAGE when it is malformed. */
ls_status ls_fault_from_environment(int rank);
