/* plan.h - from graph to schedule and memory: which node runs when, where every value lives, what it costs.
 * Everything that `plan`, `explain` and the report print comes from this object, and the executor runs
 * exactly it.
 *
 * Memory kinds. STATE: parameters, moments, counters; lives between steps, shared by the programs of a step
 * by name. IO: inputs that the caller fills and outputs that it (or the next program) reads. ARENA:
 * everything else, packed by lifetime. SYMMETRIC: the same for what other ranks read, in the window that they
 * map. NODE: gathered units, one copy for the ranks of an axis that share a host. State and io that others
 * read lie in the window too (`shared`). Lifetimes are in schedule positions, both ends inclusive. Two
 * allocations of the arena overlap in memory only if their lifetimes do not meet; tests/plan checks that by
 * brute force. */
#pragma once
#include "comm/comm.h"
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
    LS_MEM_COUNT
} ls_memory;
/* PARAMETERS: what a rank stores of them, and copies of it in another type. GATHERED: what came out of
 * all_gather, and what is kept of that. STAGING: what a checkpoint is written from while training goes on; no
 * allocation of a plan's. */
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
    const char *name; /* STATE and IO: the source's or output's name; ARENA: NULL */
    ls_identity is;   /* and what it is */
    int value;        /* the value whose storage this is; -1: workspace of node `first` */
    /* STATE: of a unit that is mapped: the NODE allocation that it is a slice of, NULL otherwise */
    const struct ls_alloc *inside;
    size_t inside_at;
    bool shared;          /* STATE, IO: others read it, so it lies in the window */
    bool host;            /* parallel.offload: rests in host memory, does not count for the device */
    size_t offset, bytes; /* in its memory kind's region; 64-byte aligned */
    int first, last;      /* schedule positions */
} ls_alloc;

typedef struct ls_place { /* where a value lies */
    /* -1: the absent value; sources always have memory, dead nodes are not in the graph */
    int alloc;
    size_t offset; /* bytes from the start of the allocation */
    int64_t strides[LS_MAX_DIMS];
} ls_place;

/* A collective is two steps: start (my operand is ready) and wait (the result is complete). */
typedef enum ls_part { LS_PART_RUN, LS_PART_START, LS_PART_WAIT } ls_part;

typedef struct ls_step { /* one kernel call, or half a collective */
    int node;
    ls_part part;
    int collective; /* START and WAIT: index into plan->collectives; -1 */
    const ls_kernel *kernel;
    int workspace; /* allocation, -1 none */
    ls_cost cost;
    double seconds; /* estimate; 0 without a calibration */
} ls_step;

typedef struct ls_plan_collective { /* in order of their starts, which is the same on every rank */
    int node, start, wait;          /* steps */
    ls_collective_kind kind;
    const char *group; /* name for ls_mesh_group: "dp", "dp/2" */
    int n;             /* ranks in it */
    int64_t count;     /* as in ls_collective_desc */
    ls_dtype from, to, via;
    bool settled;     /* gathers state: nothing to wait for */
    bool map;         /* all_gather: a mapping of node memory; with equal types not even a write */
    const char *unit; /* "unit root", ...; "" for scalars: for people */
    ls_identity is;   /* a gather's: of whose parameters, where they are a unit's */
    double bytes;     /* that this rank takes in (0 for a mapping without conversion) */
    double seconds;   /* estimate, 0 without a calibration */
} ls_plan_collective;

typedef struct ls_plan {
    const ls_graph *graph; /* the lowered graph that steps and places refer to; owned by the plan */
    ls_device device;
    ls_step *steps;
    int n_steps;
    ls_place *places; /* per value of graph */
    ls_alloc *allocs;
    int n_allocs;
    ls_plan_collective *collectives;
    int n_collectives;
    size_t arena_bytes;     /* size of the packed private arena */
    size_t symmetric_bytes; /* size of the packed arena in the window */
    size_t node_bytes;      /* one copy per axis and host */
    size_t host_bytes;      /* of state and io: what offload keeps off the device */
    size_t live_peak_bytes; /* largest sum of live allocations: the packing's lower bound */
    int peak_step;          /* where that is */
    /* at peak_step, all memory kinds: sums to state + io + live_peak_bytes */
    size_t peak_by_category[LS_CAT_COUNT];
    size_t state_bytes, io_bytes; /* both without what lies in node memory */
    double flops, bytes, seconds;
    ls_arena arena;
} ls_plan;

/* Lowers `g` for the device (inserts copies where a kernel cannot take a strided operand), schedules, packs
 * and costs it. Refuses with the op, the model's file and line and the reason when a kernel is missing. `g`
 * is not changed. Local. */
typedef struct ls_plan_opts {
    const struct ls_calibration *calibration; /* NULL: no time estimates */
    const ls_parallel *parallel;              /* NULL: one rank */
} ls_plan_opts;
ls_status ls_plan_create(ls_plan **out, const ls_graph *g, const ls_device *d, const ls_plan_opts *o);
void ls_plan_destroy(ls_plan **p);

/* Bytes live at each schedule position by category, state and io included (n_steps entries), for the timeline
 * picture; arena-allocated in p->arena. */
typedef struct ls_timeline_point {
    size_t bytes[LS_CAT_COUNT];
} ls_timeline_point;
const ls_timeline_point *ls_plan_timeline(ls_plan *p);

/* Every pair of arena allocations that meet in time must be apart in memory: LS_E_INTERNAL names the first
 * pair that is not. O(n^2). */
ls_status ls_plan_check(const ls_plan *p);

/* What a machine can do, from a short measurement that `doctor` keeps in the user's cache. */
typedef struct ls_calibration {
    char cpu[64];
    ls_isa isa;
    int threads;
    double flops;                     /* FMA peak, FLOP/s over `threads` */
    double gemm_efficiency;           /* fraction of it that a typical product reaches */
    double bytes_cache, bytes_memory; /* B/s for working sets inside and outside the cache */
    double op_overhead;               /* seconds per kernel call */
} ls_calibration;
ls_status ls_calibration_measure(ls_calibration *out, const ls_device *d); /* about half a second */
/* LS_E_IO if there is none for this CPU, isa, threads */
ls_status ls_calibration_load(ls_calibration *out, const ls_device *d);
ls_status ls_calibration_save(const ls_calibration *c);
