/* internal.h - the parts of a session, shared by the files of this folder. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "device/queue.h"
#include "plan/node.h"
#include "plan/strides.h"
#include "session.h"

#if defined(__SANITIZE_ADDRESS__)
#define LS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LS_ASAN 1
#endif
#endif
#if defined(LS_DEV) || defined(LS_ASAN)
#define LS_POISON_ARENA 1 /* arena memory outside of lifetimes is made unusable while a program runs */
#endif

/* A collective on an apart device: the window and `result` are host memory, operand and `to` the device's. */
typedef struct ls_staged {
    char *operand, *window;
    size_t operand_bytes; /* 0: the operand is in the window already, or nothing is sent */
    const char *begins;   /* of an all_to_all: row offsets, which the host reads at host_begins */
    char *host_begins;
    size_t begins_bytes;
    char *to, *result;
    size_t result_bytes; /* 0: nothing is received */
} ls_staged;

typedef struct ls_crossing ls_crossing; /* links.c: a collective over a link */
typedef struct ls_links ls_links;

/* A copy between host and device memory, on the queue for transfers. */
typedef struct ls_move {
    /* ready: the compute queue has completed the operand; done: the transfer queue has copied it */
    ls_event *ready, *done;
    ls_event *began; /* the transfer queue begins the copy; recorded while it is timed */
    char *to;
    const char *from;
    size_t bytes;
} ls_move;

typedef struct ls_call { /* a kernel call or a half of a collective or of a transfer, with all addresses */
    const ls_kernel *kernel; /* NULL: a half */
    ls_kernel_args args;
    ls_session *session;
    ls_part part;
    bool on_host;                /* a kernel that the host runs, though the device is apart */
    const ls_move *move;         /* half of a transfer */
    const ls_crossing *crossing; /* half of a collective over a link */
    ls_staged *staged;           /* NULL: the collective works where its operands are */
    ls_collective *collective;   /* NULL: a kernel, or a gather that is a mapping, where nothing moves */
    const char *doing;           /* for messages of other ranks; NULL with one rank */
} ls_call;

/* The memory of a named value: a range of a region, or a part of another named value's memory (an output that
 * is a view of a parameter). */
typedef struct ls_named {
    const char *name;
    ls_identity is;
    ls_tensor tensor; /* its data is set when all memory is laid out */
    ls_memory memory;
    int owner;            /* index in `names` of the value that contains this one; -1: none */
    bool shared;          /* in the window */
    bool host;            /* in host memory, though the device is apart */
    bool input, output;   /* of a program */
    int axis;             /* NODE: the axis whose ranks share it */
    size_t offset, bytes; /* offset in the region, or in the owner */
    int region;           /* with `at`, its place; set when all memory is laid out */
    size_t at;
} ls_named;

/* The regions of places: each ls_memory, the spares, the names that ranks share, and NODE memory of axis 0,
 * 1, .. Beside an apart device the host has names, arena and spares of its own, also names in the window. */
enum {
    LS_REGION_SPARE = LS_MEM_COUNT,
    LS_REGION_SHARED,
    LS_REGION_HOST,
    LS_REGION_HOST_ARENA,
    LS_REGION_HOST_SPARE,
    LS_REGION_HOST_SHARED,
    LS_REGION_NODE
};
enum { LS_REGIONS = LS_REGION_NODE }; /* those that a rank has once */

typedef struct ls_spare {
    ls_type type;
    int region;
    size_t offset;
} ls_spare;

/* A range of the names that ranks share. */
typedef struct ls_shared_range {
    size_t offset, bytes;
} ls_shared_range;

typedef struct ls_program {
    ls_session *session;
    ls_plan *plan;
    ls_call *calls;
    ls_tensor *operands; /* the operands of all calls, in order */
    /* Of the latest profiled run: ls_session_times, and ls_now() at its beginning. */
    double *times, began;
    ls_event **events;       /* [n_steps + 1], of profiled runs on an apart device; NULL: none yet */
    char **where;            /* [allocations]: their addresses */
    ls_recording *recording; /* the recorded tasks; NULL: not captured yet */
    bool known;              /* the device knows its kernels (execute.c) */
    int n_written;
    ls_shared_range *written;    /* shared states that the program changes */
    ls_collective **collectives; /* [plan->collectives] */
    ls_staged *staged;           /* the same, on an apart device */
    ls_crossing *crossings;      /* [plan->collectives], over links; NULL: there are none */
    ls_move *moves;              /* [plan->transfers] */
    /* Arena allocations by their first step: born[born_at[i]] to born[born_at[i + 1] - 1] begin with step i;
     * by their last step in the same way. */
    int *born, *born_at, *dead, *dead_at;
} ls_program;

typedef struct ls_bound {
    ls_tensor *operand;
    size_t offset; /* bytes from the start of the input */
} ls_bound;

struct ls_binding {
    ls_place place; /* the session's own memory for the input */
    char *own;
    size_t bytes;
    bool copies;
    int n;
    ls_bound *list; /* of all programs */
};

/* Numbers on an apart device: inputs of at most LS_NUMBER_BYTES, and outputs, lie side by side in IO memory,
 * so that each of the two blocks travels in one copy for each run (numbers.c). */
typedef struct ls_numbers {
    size_t in_bytes, out_bytes; /* IN begins at offset 0 of IO memory, OUT behind it */
    int runs;                   /* how many of each block `pinned` has */
    char *pinned;
    size_t bytes;
    char *in, *out;    /* [runs] blocks */
    char *now;         /* the IN block for the next run */
    bool dirty;        /* `now` differs from the device's */
    bool out_is_there; /* the latest OUT block is of the latest run */
    int n_in, n_out;   /* blocks used since the last wait */
    int n_fetched, most_fetched;
    struct ls_fetched { /* what a wait copies to the callers */
        void *to;
        const char *from;
        size_t bytes;
    } * fetched;
} ls_numbers;

typedef struct ls_host_call ls_host_call; /* host_calls.c */

struct ls_session {
    ls_arena arena;          /* of the session's records; tensors are in `memory` */
    const ls_queue_ops *ops; /* of the plans' device */
    ls_queue *queue;
    ls_queue *moving; /* of transfers; NULL: no program has any */
    ls_links *links;  /* NULL: collectives do not go over links */
    int64_t waits;
    ls_host_call *calls, *called; /* free calls; calls since the last wait */
    bool call_lost;               /* a call was dropped since the last wait, because memory ran out */
    int n_programs;
    ls_program *programs;
    int n_spares;
    ls_spare *spares;
    ls_named *names;
    int n_names;
    int *table;
    uint32_t table_mask; /* mask of a hash table with open addressing: index in `names` + 1 */
    /* region: where each ls_memory begins; SYMMETRIC is in the window, after the shared names */
    char *memory, *region[LS_REGIONS];
    size_t bytes, region_bytes[LS_REGIONS];
    char *host; /* beside an apart device: names, arena and spares of the host */
    size_t host_bytes;
    ls_numbers numbers;
    struct ls_ranks *ranks; /* NULL: one rank */
    bool profile;
    int bad_step;       /* the first step of the latest run with a number that is not finite; -1: none */
    pthread_t prefault; /* a thread that takes page faults ahead (memory.c) */
    bool prefaulting;
    _Atomic bool closing, touched; /* touched: the thread has finished */
};

/* memory.c: gives every value its place; gets the memory; releases it. */
ls_status ls_memory_lay_out(ls_session *s, int n_plans, ls_plan *const *plans);
ls_status ls_memory_map(ls_session *s, const ls_device *d);
void ls_memory_release(ls_session *s);

/* names.c: lists the named values of all programs. The index in `names` of the value with this identity and
 * name; -1: none. */
ls_status ls_names_create(ls_session *s, int n_plans, ls_plan *const *plans);
int ls_session_lookup(const ls_session *s, ls_identity is, const char *name);
char *ls_session_region(const ls_session *s, int region); /* memory.c: where a region begins */

/* A task's number in the queue is program * LS_STEPS_MOST + step. */
enum { LS_STEPS_MOST = 1 << 24 };
enum { LS_BAD_TEXT = 1024 }; /* room for the message about a bad number or task */

char *ls_place_address(const ls_place *p); /* places.c */
/* host_calls.c: puts a kernel of the host into the queue. LS_E_MEMORY: since the wait before, one could not
 * be put there. */
void ls_host_call_put(ls_session *s, const ls_kernel *k, const ls_kernel_args *a);
ls_status ls_host_calls_wait(ls_session *s);
/* numbers.c: makes the blocks, after memory is laid out. put and fetch return whether they handled the
 * value; other values are copied by themselves. */
ls_status ls_numbers_create(ls_session *s, int runs);
void ls_numbers_destroy(ls_session *s);
bool ls_numbers_put(ls_session *s, const ls_place *p, const void *from);
bool ls_numbers_fetch(ls_session *s, const ls_place *p, void *to);
void ls_numbers_run(ls_session *s);                      /* before a run */
void ls_numbers_touch(ls_session *s, const ls_place *p); /* the value is changed between two runs */
void ls_numbers_wait(ls_session *s, bool done);          /* after a wait */

/* The part of a session that concerns its group (ranks.c). */
typedef struct ls_ranks {
    ls_group *group;
    ls_parallel parallel;
    ls_axis *world; /* for the fence between programs */
    /* Holds shared names, then the symmetric arena. An apart device has a mirror of it: operands are copied
     * there when a collective starts, states when they were changed. */
    ls_window *window;
    ls_window *mailboxes; /* of the messages between stages of a pipeline; NULL: none */
    size_t mailbox_bytes;
    const char *pipeline; /* the axis of that role; "": none */
    bool differ;          /* its ranks have different programs */
    size_t shared_bytes;  /* bytes of the shared names */
    size_t host_bytes;    /* bytes of shared names without a mirror, after the symmetric arena */
    bool reached;         /* the device reaches the window (ls_queue_ops.reach) */
    int n_axes;
    /* Groups that the plans name, in order of appearance. */
    struct {
        char name[64];
        ls_axis *axis;
        ls_window *node;
        size_t node_bytes;
    } * axes;
    char doing[128];
    size_t prefix; /* length of the part of `doing` that ls_session_label set */
} ls_ranks;
ls_status ls_ranks_create(ls_session *s, int n_plans, ls_plan *const *plans, ls_group *group,
                          const ls_parallel *parallel);
/* makes the windows, when sizes are known */
ls_status ls_ranks_map(ls_session *s, const ls_device *d);
/* Makes the collectives of a program, when addresses are known. */
ls_status ls_ranks_prepare(ls_session *s, ls_program *g);
void ls_ranks_destroy(ls_session *s);
static inline int ls_ranks_axis(const ls_ranks *r, const char *name)
{
    for (int i = 0; i < r->n_axes; i++)
        if (!strcmp(r->axes[i].name, name))
            return i;
    return -1;
}
void ls_ranks_doing(ls_ranks *r, const char *what);
/* transfers.c: makes the transfers of a program, when addresses are known; puts a half of one into the
 * queues. */
ls_status ls_transfers_prepare(ls_session *s, ls_program *g);
void ls_transfers_destroy(ls_session *s);
void ls_transfer_half(ls_session *s, const ls_call *c);
/* links.c: joins the links that the plans need, collectively; makes the collectives of a program, when
 * addresses are known; says that a program begins; puts a half of a collective into the queues. */
ls_status ls_links_create(ls_session *s, int n_plans, ls_plan *const *plans);
void ls_links_close(ls_session *s); /* the queue */
void ls_links_destroy(ls_session *s);
ls_status ls_links_prepare(ls_session *s, ls_program *g);
void ls_links_begin(ls_program *g);
void ls_link_half(ls_session *s, const ls_call *c);
void ls_links_times(const ls_program *g, double *out); /* of a profiled run: ls_session_times */
ls_queue *ls_links_queue(const ls_session *s);         /* NULL: there are none */
/* This rank begins, or ends, to wait for its device. */
void ls_links_wait(ls_session *s, bool begins);
ls_status ls_links_status(const ls_session *s); /* the group's failure, if links were severed for it */
/* Puts a half of a collective into the queue. */
void ls_ranks_half(ls_session *s, ls_call *c);
/* Puts the fence before a program into the queue; and the notice after its end. */
void ls_ranks_begin(ls_session *s, ls_program *g);
void ls_ranks_end(ls_session *s, ls_program *g);
/* If the group spans hosts, its messages must have the same order on all ranks: messages that tasks of the
 * queue send come before those that the host sends afterwards. So the host waits for an apart device's
 * queue. */
ls_status ls_ranks_settle(ls_session *s);

/* execute.c: marks arena memory as dead, and memory that is returned to the system as usable. */
void ls_poison(char *at, size_t bytes);
void ls_unpoison(char *at, size_t bytes);
