/* internal.h - what the files of this folder share.
 *
 * The ranks of one host meet in a *block* of shared memory: malloc'ed for ranks that are threads, the first
 * pages of an anonymous file for processes. It holds a seat per rank (who it is, what it does), a line of
 * counters per (axis, rank) that only its rank raises, a small stage per rank for numbers that everybody
 * needs, and the first failure. A rank waits by looking at the others' counters. All else (windows) is memory
 * that one rank reserves and all map; thread.c and shm.c say how (ls_sharing). */
#pragma once
#include <stdatomic.h>
#include "comm/comm.h"

enum {
    LS_BLOCK_AXES = 64,     /* axes that a group can have at once */
    LS_BLOCK_RANKS = 1024,  /* on one host */
    LS_STAGE_BYTES = 65536, /* pages that nobody writes cost nothing */
    LS_DOING_WORDS = 16,    /* of 8 bytes */
    LS_FAILURE_BYTES = 4096,
};

/* ---- the block */

typedef enum ls_seat_state { LS_SEAT_EMPTY, LS_SEAT_TAKEN, LS_SEAT_LEFT } ls_seat_state;

/* What a rank calls. Ranks compare their calls before they touch each other's data. */
typedef enum ls_call_kind {
    LS_CALL_BARRIER,
    LS_CALL_ALL_GATHER,
    LS_CALL_ALL_REDUCE,
    LS_CALL_BROADCAST,
    LS_CALL_WINDOW
} ls_call_kind;
enum { LS_CALL_REFUSED = -1, LS_CALL_WORDS = 2 };
typedef struct ls_call {
    uint16_t kind, dtype, how; /* dtype, how: of an all_reduce */
    uint16_t root;             /* of a broadcast */
    /* elements of an all_reduce, bytes of the others; LS_CALL_REFUSED: this rank cannot make the call */
    int64_t count;
} ls_call;

typedef struct ls_seat { /* written by its rank */
    _Alignas(64) _Atomic int state;
    _Atomic int process;   /* pid; 0: a thread of this process */
    _Atomic uint64_t born; /* its start time as the kernel tells it: a pid can be given again */
    _Atomic int awaits;    /* 1 + seat that it sleeps for; 0: none */
    /* 1 + rank of another host that it waits for, and will say so itself when nobody comes; 0: none */
    _Atomic int abroad;
    _Atomic int exec_error;               /* of the process that was to take it */
    _Atomic uint64_t planned;             /* bytes of its plans */
    _Atomic uint64_t call[LS_CALL_WORDS]; /* ls_call of its exchange: valid between the two ticks of that */
    _Atomic uint64_t doing[LS_DOING_WORDS];
    _Atomic uint64_t cpus[16]; /* cores that it may use */
} ls_seat;

typedef enum ls_counter { LS_ARRIVALS, LS_TICKS } ls_counter; /* program fences; collectives and exchanges */

typedef struct ls_line { /* counters wrap: compare differences */
    _Alignas(64) _Atomic uint32_t count[2];
    _Atomic uint32_t sleepers[2]; /* who must be woken when that count is raised */
} ls_line;

enum { LS_TOLD = -1 };
typedef struct ls_failure {
    _Atomic int state; /* 0 none, LS_TOLD to be read; else the process that is writing it */
    int rank, code;    /* who failed; for a rank that did not come, that rank */
    int teller;        /* rank that found it out, and is to tell; -1: none of this host */
    char text[LS_FAILURE_BYTES];
} ls_failure;

typedef struct ls_block {
    uint64_t magic;
    int ranks;
    _Atomic int users;    /* groups of a thread block; the last one frees it */
    _Atomic uint64_t end; /* shm: bytes of the file that are given away */
    ls_failure failure;
    /* ls_seat [ranks], ls_line [LS_BLOCK_AXES][ranks], stage [ranks][LS_STAGE_BYTES] */
    _Alignas(64) char rest[];
} ls_block;

size_t ls_block_bytes(int ranks);
bool ls_block_valid(const ls_block *b, size_t bytes); /* a block of this version lies in these bytes */
void ls_block_init(ls_block *b, int ranks);           /* of zeroed memory */
ls_seat *ls_block_seat(ls_block *b, int seat);
ls_line *ls_block_line(ls_block *b, int axis, int seat);
char *ls_block_stage(ls_block *b, int seat);

/* The first failure is kept, later ones are not heard. `rank` and `teller` are ranks of the group. */
void ls_block_fail(ls_block *b, int rank, int teller, ls_status code, const char *text);
bool ls_block_failed(ls_block *b);
bool ls_block_hear(ls_block *b); /* the same, and waits while somebody is saying why */
void ls_block_doing(ls_block *b, int seat, char text[128]);
enum { LS_DESCRIPTION_BYTES = 256 };
/* "it last did: step 12, micro"; "; it is stopped (state T)" */
void ls_block_describe(ls_block *b, int seat, char text[LS_DESCRIPTION_BYTES]);
/* Who a rank really waits for: a waits for b, which waits for c. */
int ls_block_culprit(ls_block *b, int seat);

/* ---- how ranks share memory */

typedef struct ls_sharing {
    const char *kind; /* "self" "thread" "shm" */
    /* One rank reserves, every user maps, unmaps, and the last one releases. `bytes` are whole pages. */
    ls_status (*reserve)(ls_group *g, size_t bytes, uint64_t *handle);
    ls_status (*map)(ls_group *g, uint64_t handle, size_t bytes, char **base);
    void (*unmap)(ls_group *g, uint64_t handle, size_t bytes, char *base, bool last);
    void (*leave)(ls_group *g); /* the block is no longer needed here */
} ls_sharing;

/* ---- groups and axes */

struct ls_fault_plan;
struct ls_remote;
struct ls_route;

struct ls_group {
    int rank, size, hosts;
    int first, here; /* this host's ranks: first .. first + here - 1; seat = rank - first */
    ls_block *block;
    const ls_sharing *sharing;
    int fd; /* shm: the file of block and windows; else -1 */
    double deadline;
    _Atomic double notice; /* seconds of waiting that are worth telling (lag.c) */
    ls_lag_fn tell;        /* NULL: nobody wants to know */
    void *tell_context;
    double spin;    /* seconds to look at a counter before yielding the core */
    uint64_t slots; /* axes in use, a bit each */
    ls_axis *world; /* slot 0: barriers and exchanges of the whole group */
    struct ls_fault_plan *fault;
    struct ls_remote *remote; /* the other hosts (remote.c); NULL: there are none */
};

struct ls_axis {
    ls_group *group;
    char name[48];
    int slot, n, position;
    int *members;    /* ranks, ascending */
    ls_line **lines; /* by position; NULL: on another host */
    bool one_host;
    /* how its members on several hosts work together (remote.c); NULL: one host */
    struct ls_route *route;
    ls_ledger ledger;
};

/* A group over a block; takes its seat and makes the world axis. `first`, `size`: where this host's ranks lie
 * among all. */
ls_status ls_group_open(ls_group **out, ls_block *b, const ls_sharing *sharing, int fd, int seat, int first,
                        int size);
ls_status ls_axis_create_world(ls_group *g); /* slot 0; local */
int ls_group_seat(const ls_group *g);
/* The failure of the group as this rank's error: LS_E_PEER, "rank 2: ...". */
ls_status ls_group_failure(const ls_group *g);

/* ---- waiting (wait.c) */

/* Raises my counter (release: what I did before is seen by whoever sees the count) and returns it. */
uint32_t ls_axis_raise(ls_axis *a, ls_counter which);
/* Until the member at `position` on this host has raised its counter to `target`. `what`: for the message. */
ls_status ls_axis_await(ls_axis *a, ls_counter which, int position, uint32_t target, const char *what);
/* All members on this host. */
ls_status ls_axis_await_all(ls_axis *a, ls_counter which, uint32_t target, const char *what);
/* Cores that the ranks of this host may use together decide whether waiting may spin. Call when all have
 * taken their seats. */
void ls_group_tune(ls_group *g);
void ls_seat_publish_cpus(ls_seat *s);

/* What of a pause counts against a deadline. A long one means that this process had no core, or was stopped
 * (Ctrl-Z), and so may the others have been. */
double ls_patience_spent(double seconds);

/* Every member's `bytes` (at most LS_STAGE_BYTES), by position. Also a barrier, before and after. With `call`
 * the members first compare what they call: when that differs nothing moves and every member gets the same
 * LS_E_ARG, which says what differs. NULL: a further piece of a call that was compared. */
ls_status ls_axis_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const ls_call *call,
                           const char *what);

/* ---- waits that last (lag.c) */

/* one wait; zeroed when it begins */
typedef struct ls_lagging {
    double waited, next;
    int rank;
    bool told;
} ls_lagging;
/* seconds, from the environment or as it is */
double ls_lag_notice(void);
/* so many seconds more were waited; true: it is time to tell */
bool ls_lag_due(ls_group *g, ls_lagging *l, double seconds);
void ls_lag_tell(ls_group *g, ls_lagging *l, int rank, const char *what, const char *doing);
void ls_lag_end(ls_group *g, ls_lagging *l); /* what was waited for has come */

/* ---- watching (watch.c) */

/* Start time of a process, 0: there is no such process (or only its corpse). *stopped: it was stopped by a
 * signal. */
/* there is one, and nobody can say since when: the first tick after boot had no ranks */
enum { LS_BORN_UNKNOWN = 1 };
uint64_t ls_process_born(int pid, bool *stopped);
/* What has become of the rank in a seat. NULL: it lives, as far as one can know from here. Else why it will
 * not come. */
const char *ls_seat_gone(ls_seat *s);

/* ---- windows */

/* LS_E_MEMORY when `bytes` more are not to be had on this machine. */
ls_status ls_check_room(size_t bytes, const char *what);

/* ---- sums (reduce.c) */

/* The balanced tree over operands: (0+1)+(2+3). Operands are rounded to `via`, and so is each sum; the result
 * is stored as `to`. */
typedef struct ls_reduce {
    enum { LS_BY_SUM, LS_BY_MAX, LS_BY_WIDE_SUM } by;
    ls_dtype from, via, to; /* of f32, f64, bf16, f16; or all three i32 or all three i64 (wide: i64 pairs) */
    int n;
    const char *const *in; /* n operands; the result may be one of them */
    char *out;
    int64_t count; /* elements; wide: an even number of i64 */
    /* a result that is much larger than the caches, and no operand: write it past them */
    bool stream;
    int threads;
} ls_reduce;
void ls_reduce_run(const ls_reduce *r);
/* Copies, converting between float types. Same place: nothing. */
void ls_convert(char *out, ls_dtype to, const char *in, ls_dtype from, int64_t count, bool stream,
                int threads);

/* ---- collectives */

struct ls_collective {
    ls_collective_desc d;
    ls_axis *axis;
    const char **operand; /* by position, as mapped here; NULL: on another host */
    const char **pieces;  /* by position: scratch */
    uint32_t target;      /* ticks that every member has when its operand is ready */
    bool in_place;
    bool stream;           /* the result is large */
    int64_t bytes;         /* for the ledger */
    struct ls_job *remote; /* its turn in the communication thread (remote.c); NULL: one host */
};

ls_dtype ls_collective_travels(const ls_collective_desc *d); /* what a slice is sent as */

/* ---- faults (fault.c) */

/* Every start and wait passes here. */
ls_status ls_fault_point(ls_group *g);
ls_status ls_call_point(const ls_group *g); /* the same for base/fault.h; exchanges too */
void ls_fault_release(ls_group *g);
