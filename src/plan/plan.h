/* plan.h - a plan: schedule and memory of a graph. It says which node runs when, where every value lies, and
 * what it costs. `plan`, `explain` and the report print this object, and the executor runs exactly it.
 *
 * Kinds of memory:
 *   STATE      parameters, moments, counters; lives between steps, and is shared by all programs of a step
 *   IO         inputs that the caller fills, and outputs that the caller or the next program reads
 *   ARENA      everything else, packed by lifetime
 *   SYMMETRIC  the same for what other ranks read; it is in the window that they map
 *   NODE       gathered units: one copy for the ranks of an axis on this machine
 *   GRADIENT   gradients that the next program reads, if the caller wants them in the arena: at its start, in
 *              the order of the units. Each of their parts is live from the step that first writes it, as an
 *              allocation of the arena with a given place (`fixed`); before that step, other values lie there
 *   PINNED     of a device whose memory is its own: host memory through which results of collectives pass
 * State and IO that other ranks read are in the window too (`shared`).
 *
 * Lifetimes are positions in the schedule, both ends included. Two allocations of the arena overlap in memory
 * only if their lifetimes do not overlap; tests/plan checks this by brute force. */
#pragma once
#include "calibration.h"
#include "comm/comm.h"
#include "comm/remote_ways.h"
#include "device/device.h"
#include "graph/graph.h"
#include "lockstep/parallel.h"
#include "graph/op.h"

typedef enum ls_memory {
    LS_MEM_ARENA,
    LS_MEM_STATE,
    LS_MEM_IO,
    LS_MEM_SYMMETRIC,
    LS_MEM_NODE,
    LS_MEM_GRADIENT,
    LS_MEM_PINNED,
    LS_MEM_COUNT
} ls_memory;
/* PARAMETERS: what a rank stores of them, and copies of that in other types. GATHERED: results of all_gather,
 * and what is kept of them. STAGING: what collectives need (staging.c); and buffers for writing a checkpoint
 * while training continues, which are not in a plan. */
typedef enum ls_category {
    LS_CAT_PARAMETERS,
    LS_CAT_GRADIENTS,
    LS_CAT_OPTIMIZER,
    LS_CAT_GATHERED,
    LS_CAT_ACTIVATIONS,
    LS_CAT_WORKSPACE,
    LS_CAT_DATA,
    LS_CAT_STAGING,
    LS_CAT_COUNT
} ls_category;
const char *ls_category_name(ls_category c);

typedef struct ls_alloc {
    ls_memory memory;
    ls_category category;
    const char *name; /* STATE, IO, GRADIENT: the name of the source or output, also of `fixed`; else NULL */
    ls_identity is;   /* and its identity */
    int value;        /* the value that has this memory; -1: it is the workspace of node `first` */
    /* STATE of a mapped unit: the NODE allocation of which it is a slice; else NULL. */
    const struct ls_alloc *inside;
    size_t inside_at;
    bool shared;          /* STATE, IO: other ranks read it, so it is in the window */
    bool host;            /* offload: it is in host memory, and does not count for the device; all of a
                           * program that runs on the host is */
    bool fixed;           /* ARENA: a part of a gradient; it stays until another program has run */
    size_t offset, bytes; /* in its memory kind's region; 64-byte aligned */
    int first, last;      /* positions in the schedule */
} ls_alloc;
/* Whether this memory of the device is packed by lifetime, unlike state, IO and node memory. */
static inline bool ls_is_transient(const ls_alloc *a)
{
    return a->memory == LS_MEM_ARENA || a->memory == LS_MEM_SYMMETRIC;
}
/* Whether an allocation of its kind of memory has others above and below it at other times. */
static inline bool ls_is_packed(const ls_alloc *a)
{
    return ls_is_transient(a) || a->memory == LS_MEM_PINNED;
}
/* Whether it is this rank's as long as the session is. */
static inline bool ls_is_lasting(const ls_alloc *a)
{
    return a->memory == LS_MEM_STATE || a->memory == LS_MEM_IO;
}

typedef struct ls_location { /* where a value lies */
    /* An index into plan->allocs; -1 for the absent value. Sources always have memory, and dead nodes are not
     * in the graph. */
    int alloc;
    size_t offset; /* bytes from the start of the allocation */
    int64_t strides[LS_MAX_DIMS];
} ls_location;

/* A collective has two steps: start (this rank's operand is ready) and wait (the result is complete). So has
 * a transfer on a device whose memory is its own: the copy begins, and it is done. */
typedef enum ls_part { LS_PART_RUN, LS_PART_START, LS_PART_WAIT } ls_part;

typedef struct ls_step { /* a kernel call, or one half of a collective or of a transfer */
    int node;
    ls_part part;
    /* START and WAIT: index into plan->collectives, or into plan->transfers; -1 */
    int collective, transfer;
    const ls_kernel *kernel;
    int workspace; /* index of an allocation; -1: none */
    ls_cost cost;
    double seconds; /* estimate; 0 without a calibration */
} ls_step;

typedef struct ls_plan_collective { /* in the order of their starts, which all ranks share */
    int node, start, wait;          /* start, wait: indices of steps */
    ls_collective_kind kind;
    const char *group; /* name for ls_mesh_group: "dp", "dp/2" */
    int n;             /* ranks in the group */
    int64_t count;     /* see ls_collective_desc */
    ls_dtype from, to, via;
    bool settled; /* it gathers state, which is complete before the program: nothing to wait for */
    /* an all_gather that is a mapping of node memory; if types are equal, nothing is even written */
    bool map;
    /* Of a device whose memory is its own, and without links: the operand is in the window before the start,
     * since it is settled, or an earlier collective has sent it. Sending it again would write where others
     * may still read. */
    bool sent;
    int peer;                  /* of a send or a receive: the other rank's position in the group */
    size_t offset;             /* and the mailbox's offset in the sender's part of the mailboxes */
    int mailbox;               /* and its number among those of the sender */
    int64_t row, groups, room; /* all_to_all: see ls_collective_desc */
    bool back;
    int staging;      /* the allocation that the result passes through (staging.c); -1: none */
    const char *unit; /* for people: "unit root", ...; "" for scalars */
    ls_identity is;   /* what is gathered: the parameters of a unit */
    double bytes;     /* that this rank receives (0 for a mapping without conversion) */
    double seconds;   /* estimate of what it adds to the program; 0 without a calibration */
    /* Estimates, too: how long its bytes are under way while the program may compute; what its wait takes
     * when they have arrived (copies, sums). */
    double flight, own;
    ls_message_count outgoing; /* to other hosts */
} ls_plan_collective;

/* A copy between host memory and the memory of a device that has its own. Kernels run meanwhile. (On a device
 * that works in host memory it is one step, the kernel `copy`, and not in this list.) */
typedef struct ls_plan_transfer { /* in the order of their starts */
    int node, start, wait;        /* start, wait: indices of steps */
    bool to_host;
    const char *unit; /* for people: the name of the value in host memory */
    size_t bytes;
    double seconds; /* estimate of what it adds to the program; 0 without a calibration */
} ls_plan_transfer;

typedef struct ls_plan {
    const ls_graph *graph; /* the lowered graph, to which steps and locations refer; owned by the plan */
    ls_device device;
    ls_step *steps;
    int n_steps;
    ls_location *locations; /* [values of graph] */
    ls_alloc *allocs;
    int n_allocs;
    int *unpacked; /* the few that are not packed by lifetime: indices into allocs */
    int n_unpacked;
    ls_plan_collective *collectives;
    int n_collectives;
    ls_plan_transfer *transfers;
    int n_transfers;
    bool on_host;           /* see ls_plan_opts */
    size_t arena_bytes;     /* size of the packed arena of this rank */
    size_t symmetric_bytes; /* size of the packed arena in the window */
    size_t mailbox_bytes;   /* of this rank's part of the mailboxes, in memory that the ranks of a host map */
    size_t pinned_bytes;    /* size of the packed PINNED memory; 0 unless the device's memory is its own */
    size_t node_bytes;      /* one copy for each axis and machine */
    size_t host_bytes;      /* the part of state and IO that is in host memory (ls_alloc.host) */
    size_t live_peak_bytes; /* largest sum of live allocations: no packing can be smaller */
    int peak_step;          /* the step with that sum */
    /* By category, at peak_step, in all kinds of memory; the sum is state + IO + live_peak_bytes. */
    size_t peak_by_category[LS_CAT_COUNT];
    size_t state_bytes, io_bytes; /* both without what lies in node memory */
    double flops, bytes, seconds;
    int n_kernels,
        n_measured; /* steps that are kernel calls, and of them those that were measured as they are */
    ls_arena arena;
} ls_plan;

/* Makes a plan: lowers `g` for the device (adds copies where a kernel cannot take a strided operand),
 * schedules it, packs its memory and estimates its cost. A node without a kernel is an error with the op, the
 * model's file and line, and the reason. `g` is not changed. Local. */
typedef struct ls_plan_opts {
    const ls_calibration *calibration; /* NULL: no time estimates */
    const ls_parallel *parallel;       /* NULL: one rank */
    bool gradients_in_arena;           /* no other rank may read them: LS_MEM_GRADIENT */
    /* The program runs on the host, in a session whose device has memory of its own. So all its memory is
     * host memory, and `d` is a device that works there. */
    bool on_host;
} ls_plan_opts;
ls_status ls_plan_create(ls_plan **out, const ls_graph *g, const ls_device *d, const ls_plan_opts *o);
void ls_plan_destroy(ls_plan **p);
/* Sets cost and seconds of all steps again, after a measurement. NULL as in the options. */
ls_status ls_plan_estimate(ls_plan *p, const ls_calibration *c, const ls_parallel *parallel);

/* For the plans of one session: what a program on the host (on_host) names is in host memory in every
 * program. A program of a device that is apart may use numbers there (at most LS_NUMBER_BYTES); anything
 * larger it must transfer: else LS_E_UNSUPPORTED names the op and its line in the model. */
enum { LS_NUMBER_BYTES = 64 };
ls_status ls_plans_share_host(int n_plans, ls_plan *const *plans);

/* Live bytes at each position of the schedule, by category, with state and IO (n_steps entries), for the
 * picture of memory over time. It is allocated in p->arena; NULL: out of memory. */
typedef struct ls_timeline_point {
    size_t bytes[LS_CAT_COUNT];
} ls_timeline_point;
const ls_timeline_point *ls_plan_timeline(ls_plan *p);

/* Checks each pair of allocations of the arena: if their lifetimes overlap, their memory must not.
 * LS_E_INTERNAL names the first pair that breaks this. O(n^2). */
ls_status ls_plan_check(const ls_plan *p);
