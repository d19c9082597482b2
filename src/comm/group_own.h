/* group_own.h - the struct of one rank's end of a process group. Private to src/comm. */
#pragma once
#include "control.h"
#include "group.h"

struct ls_fault_plan;
struct ls_remote_group;

/* How the ranks of a machine share memory. One rank reserves a range, each user maps and unmaps it, and the
 * last one to unmap releases it. `bytes` are whole pages. */
typedef struct ls_sharing {
    const char *kind; /* "self" "thread" "shm" */
    ls_status (*reserve)(ls_group *g, size_t bytes, uint64_t *handle);
    ls_status (*map)(ls_group *g, uint64_t handle, size_t bytes, char **base);
    void (*unmap)(ls_group *g, uint64_t handle, size_t bytes, char *base, bool last);
    void (*leave)(ls_group *g); /* this rank no longer needs the control block */
} ls_sharing;

struct ls_group {
    int rank, size, machines;
    int first, here; /* the ranks of this machine: first .. first + here - 1 */
    ls_control_block *control;
    const ls_sharing *sharing;
    int fd; /* shm.c: the file of control block and windows; else -1 */
    double deadline;
    _Atomic double lag_threshold; /* seconds: longer waits are reported (lag.c) */
    double lag_first;             /* the same of ranks that are stopped, or whose host does not answer */
    ls_lag_fn on_lag;             /* NULL: lags are not reported */
    void *on_lag_context;
    double spin;                    /* seconds of looking at a counter before the core is yielded */
    uint64_t axes;                  /* axis numbers in use, a bit each */
    struct ls_axis *world;          /* axis 0: barriers and exchanges of the whole group */
    struct ls_fault_plan *fault;    /* fault.c; NULL: none */
    struct ls_remote_group *remote; /* the other machines (remote_types.h); NULL: there are none */
};

ls_rank_record *ls_group_record(const ls_group *g); /* this rank's */
/* The failure of the group as this rank's error: LS_E_PEER, "rank 2: ...". */
ls_status ls_group_failure(const ls_group *g);
