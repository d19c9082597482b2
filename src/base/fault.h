/* fault.h - numbered points at which the system may refuse a request, so that tests can make each of them
 * fail in turn. Every call of sys.h and every start and wait of a collective passes a point. Only a test or
 * LOCKSTEP_FAIL switches the points on; otherwise a point costs a load and a branch that is never taken. */
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
    LS_POINT_MEMORY, /* malloc, calloc and realloc, if the caller reports the failure */
    LS_POINT_SPAWN,  /* fork, pthread_create */
    LS_POINT_CALL,   /* a collective */
    LS_POINTS
} ls_point;

#define LS_POINTS_ALL ((1u << LS_POINTS) - 1)
#define LS_POINTS_OF_FILES ((1u << LS_POINT_MAP) - 1) /* the seven of file systems */

typedef enum ls_failing {
    LS_FAIL_ONCE,
    LS_FAIL_ON,    /* the n-th point and all later ones fail, as on a full disk */
    LS_FAIL_SHORT, /* the n-th write stores half of its bytes, the next one none */
    LS_FAIL_KILL   /* the process kills itself with SIGKILL */
} ls_failing;

extern _Atomic bool ls_fault_armed;

/* What the caller has to do. 0: continue; 1: fail; 2: write half of the bytes. */
int ls_fault_pass(ls_point p);
#define LS_FAULT(p) \
    (__builtin_expect(atomic_load_explicit(&ls_fault_armed, memory_order_acquire), 0) ? ls_fault_pass(p) : 0)

/* Makes point number n of these kinds fail, counted from 0 over all threads. kinds: a bit 1 << ls_point for
 * each kind. n < 0: none fails, they are only counted. */
void ls_fault_arm(unsigned kinds, int64_t n, ls_failing how);
int64_t ls_fault_disarm(void); /* returns how many points were counted */

/* Arms what LOCKSTEP_FAIL says (fault.c has the syntax). `rank` is the rank of this process; -1: it was not
 * started as a rank. Does nothing if the variable is not set; LS_E_USAGE if it is malformed. */
ls_status ls_fault_from_environment(int rank);
