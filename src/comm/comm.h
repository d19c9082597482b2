/* comm.h - what sessions use of a process group: memory that the ranks of a host share, and collectives on
 * it, described once and then started and waited for without allocating. The public part is lockstep/group.h.
 *
 * Symmetric memory. All ranks run the same program, so what takes part in a collective lies at the same
 * offset of every rank's window. On one host every window is mapped by all: a collective is arithmetic on
 * memory at known places. Between hosts the transport (transport.h) moves pieces; sums are made here either
 * way, in the balanced tree over the axis's positions.
 *
 * Who may touch what, when. start() says "my operand is ready"; peers may read it from then on. wait()
 * returns when my result is complete; a peer may still be reading my operand. It is free again (1) once a
 * later collective on the same axis that is not settled, started after that wait, has been waited for, or (2)
 * when ls_axis_fence returns from an arrival after that wait. An operand that was reduced in place is free at
 * once. The planner (src/plan/storage.c) gives operands that lifetime; sessions fence between programs. */
#pragma once
#include "device/device.h"
#include "lockstep/group.h"

/* ---- axes: sub-groups of ranks */

typedef struct ls_axis ls_axis;
/* The sub-group of these ranks (ascending; this rank is one of them). Every rank of the group makes the same
 * number of axes in the same order, each with its own members (the k-th axis of rank a and of rank b are the
 * same group, or disjoint). `name` is for messages and the ledger. A message names it: "dp". Collective over
 * the whole group. */
ls_status ls_axis_create(ls_axis **out, ls_group *g, const char *name, int n, const int *members);
void ls_axis_destroy(ls_axis **a);
int ls_axis_size(const ls_axis *a);
int ls_axis_position(const ls_axis *a); /* this rank's */
bool ls_axis_one_host(const ls_axis *a);
/* Arrive: everything this rank did before is finished (its program run, its reads). Fence: waits until every
 * member has arrived as often as this rank. Together they are a barrier that lets work lie between its
 * halves. `what` stands in the message of a failure. */
void ls_axis_arrive(ls_axis *a);
ls_status ls_axis_fence(ls_axis *a, const char *what);

/* ---- windows: memory that the members of an axis on this host share */

typedef struct ls_window {
    char *mine;   /* this rank's part, 64-byte aligned, zero at first */
    size_t bytes; /* of each part */
    char **peer;  /* by position: that member's part as mapped here; NULL: on another host */
    char *shared; /* one copy for all members on this host; NULL when shared_bytes is 0 */
    size_t shared_bytes;
    ls_axis *axis;
    void *own; /* private */
} ls_window;
/* The room (bytes x members + shared) is checked first: LS_E_MEMORY says how much is needed and how much
 * there is. Collective over the axis. */
ls_status ls_window_create(ls_window **out, ls_axis *a, size_t bytes, size_t shared_bytes);
void ls_window_destroy(ls_window **w); /* local: others may still use their mappings */

/* Bytes of memory that this process may still take: of the machine, and of its control groups. */
uint64_t ls_memory_room(void);

/* ---- collectives */

typedef enum ls_collective_kind {
    /* my slice [count] of type `from` -> result [n * count] of type `to`, slice of position p at p * count */
    LS_ALL_GATHER,
    /* operand [n * count] of type `from` -> result [count] of type `to`: the sum over members of my slice */
    LS_REDUCE_SCATTER,
    /* operand [count] of type `from` -> result [count] of type `to`; in place allowed when the types agree */
    LS_ALL_REDUCE,
    LS_ALL_REDUCE_MAX,  /* f32 or f64, NaN wins */
    LS_ALL_REDUCE_WIDE, /* operand 128-bit integers as pairs of i64, low first: exact sum. count in i64 */
} ls_collective_kind;
const char *ls_collective_name(ls_collective_kind k); /* "all_gather" ... */

typedef struct ls_collective_desc {
    ls_collective_kind kind;
    ls_axis *axis;
    int64_t count; /* elements, as above */
    ls_dtype from, to;
    /* operands are rounded to this before they are added, and sums after every addition (f32, f64, bf16, f16)
     */
    ls_dtype via;
    /* where the operand lies, over an axis that contains `axis` (the world's, usually) */
    const ls_window *window;
    size_t offset; /* of the operand in every part of it */
    void *result;  /* anywhere of mine. all_gather: NULL with map_to */
    /* the operand is state that every member finished writing before an earlier fence: no waiting before
     * reading */
    bool settled;
    /* all_gather into memory that the members share: each writes its slice, converted; result is that memory.
     * NULL: none. */
    char *map_to;
    /* with map_to: my slice [count] of type `from`, in memory of this rank's own; `window` and `offset` are
     * not looked at then */
    const char *map_from;
    int threads;
    /* "all_gather of unit encoder.layers.encoder_layer_3": for messages; stays the caller's */
    const char *label;
} ls_collective_desc;

typedef struct ls_collective ls_collective;
/* Local; allocates what it will ever need (staging for a transport too). */
ls_status ls_collective_create(ls_collective **out, const ls_collective_desc *d);
void ls_collective_destroy(ls_collective **c);
/* Collectives of one axis are started, and waited for, in the same order by all members; each start is
 * followed by its wait before its next start. */
ls_status ls_collective_start(ls_collective *c);
ls_status ls_collective_wait(ls_collective *c);
/* Bytes that this rank takes in from others, by kind and size: all_gather and reduce_scatter (n-1) * slice,
 * all_reduce twice that. What plan and explain print and the ledger counts. `element` is the size that
 * travels (the smaller of from and to for gathers, via for sums). */
double ls_collective_bytes(ls_collective_kind k, int n, int64_t count, ls_dtype travels);

/* The ledger: what this rank's collectives moved since the group was made. */
typedef struct ls_ledger {
    int64_t calls, bytes;
    double waited; /* seconds in waits */
} ls_ledger;
const ls_ledger *ls_axis_ledger(const ls_axis *a);

/* What a rank of a group on several hosts keeps for messages to the others, in bytes. */
size_t ls_message_bytes(int ranks);

/* ---- blame */

/* What this rank is doing now, for messages of others ("step 12, micro, linear_dw of
 * encoder.layers.encoder_layer_3.mlp.0"). Cheap: copies at most 120 bytes. */
void ls_group_doing(ls_group *g, const char *what);
/* A rank that is waited for and does not come. It is told when the wait has lasted 7 s (LOCKSTEP_NOTICE),
 * each time it has lasted twice as long, and when it is over. Later waits are told of when they last half as
 * long again as the longest that ended well: a rank may just be slow. */
typedef struct ls_lag {
    int rank;          /* who does not come, as far as one can know from here */
    double seconds;    /* the wait so far */
    bool over;         /* it has come; `what` and `doing` are NULL then */
    const char *what;  /* is waited for: "reduce_scatter of unit root" */
    const char *doing; /* "it last did: step 12, micro; it is stopped (state T)" */
} ls_lag;
typedef void (*ls_lag_fn)(void *context, const ls_group *g, const ls_lag *lag);
/* Calls `tell` in a thread of the rank that waits. Set it before the group is used. Local. */
void ls_group_on_lag(ls_group *g, ls_lag_fn tell, void *context);
/* The memory that this rank's plans want, for whoever explains its end. */
void ls_group_planned(ls_group *g, uint64_t bytes);
/* ls_group_all_gather for calls that the program itself repeats in every step: what the ranks call is not
 * compared, which between hosts saves a message. Collective. */
ls_status ls_group_all_gather_same(ls_group *g, const void *mine, size_t bytes, void *all);
/* The rank that is to tell the user of the group's failure: the one that failed, if it could say so, else the
 * one that missed it first; 0 when none has failed, -1 when that is on another host. Local. */
int ls_group_teller(const ls_group *g);
/* Until `rank` has left the group or died, or so many seconds have gone (and these in any case when it is on
 * another host). Local. */
void ls_group_await_end(const ls_group *g, int rank, double seconds);

/* ---- how ranks of one host find each other (shm.c); used by the launcher and the modules */

/* The control block of `ranks` ranks in an anonymous file: *fd is inherited or passed on. */
ls_status ls_shm_create(int ranks, int *fd);
/* This process becomes rank `rank` of it. */
ls_status ls_shm_join(ls_group **out, int fd, int rank);
/* The launcher's view: tells the ranks that `rank` is gone, so that their waits end; what a rank did last;
 * who failed first and its message (-1: nobody). */
typedef struct ls_shm_watch ls_shm_watch;
ls_status ls_shm_watch_open(ls_shm_watch **out, int fd);
void ls_shm_watch_close(ls_shm_watch **w);
void ls_shm_watch_gone(ls_shm_watch *w, int rank, const char *message);
void ls_shm_watch_doing(const ls_shm_watch *w, int rank, char text[128]);
/* it has left, or its process is a corpse, which may not be there to be taken away yet */
bool ls_shm_watch_ending(const ls_shm_watch *w, int rank);
/* Of a process that was to become `rank` and could not execute the program: errno, 0: it could. The first is
 * safe between fork and exec. */
void ls_shm_watch_not_executed(ls_shm_watch *w, int rank, int error);
int ls_shm_watch_exec_error(const ls_shm_watch *w, int rank);
/* bytes (ls_group_planned); 0: it has not said so yet */
uint64_t ls_shm_watch_planned(const ls_shm_watch *w, int rank);
int ls_shm_watch_failure(const ls_shm_watch *w, ls_status *code, char text[4096]);

/* ---- fault: wraps a group for tests */

/* drop: this rank never arrives; kill, stop: SIGKILL, SIGSTOP of this process */
typedef enum ls_fault_kind { LS_FAULT_DELAY, LS_FAULT_DROP, LS_FAULT_KILL, LS_FAULT_STOP } ls_fault_kind;
/* At the n-th call of this rank (from 0; -1: at random ones, from seed): sleeps `seconds`, or as above. Calls
 * are starts and waits of collectives and the halves of fences. */
typedef struct ls_fault {
    ls_fault_kind kind;
    int64_t at;
    double seconds;
    uint64_t seed;
} ls_fault;
void ls_group_inject(ls_group *g, const ls_fault *f);
/* From LOCKSTEP_FAULT="kill@12:rank=1" (tests of the command; fault.c has the syntax); does nothing when it
 * is not set. LS_E_USAGE when malformed. */
ls_status ls_group_inject_from_environment(ls_group *g);
