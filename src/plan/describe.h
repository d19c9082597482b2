/* describe.h - plans described: what `lockstep plan` and `lockstep explain` print, as text for people and as
 * JSON for programs. */
#pragma once
#include "base/box.h"
#include "base/json.h"
#include "plan.h"

/* Memory of a session that runs these plans. Named allocations are shared, and the arenas are as large as the
 * largest that a program needs: that of the device, and that of programs on the host (ls_plan_opts.on_host).
 * Guard pages are not counted. */
typedef struct ls_footprint {
    size_t state, io, arena, symmetric, total; /* bytes of one rank; total is the sum of the four before */
    /* The part of the total that other ranks of the machine read: shared allocations and the symmetric
     * arena. */
    size_t window;
    size_t host;        /* the part of the total that is in host memory: offload */
    size_t host_window; /* the part of `host` that is in the window */
    /* Not in the total: memory that the ranks of a machine have once. The slices of mapped units are parts of
     * it and are not counted again. */
    size_t node;
    size_t mailboxes; /* of messages between stages of a pipeline; a part of `window` and `total` */
    /* Bytes of state and IO by category; and how many of them are in host memory. */
    size_t fixed[LS_CAT_COUNT], on_host[LS_CAT_COUNT];
    /* By category, at the peak. The sum is `total` without alignment, gaps of the packing, and the arena of
     * programs on the host. */
    size_t by_category[LS_CAT_COUNT];
    int peak_plan; /* the program with the largest peak */
} ls_footprint;
void ls_plans_footprint(ls_footprint *out, int n_plans, ls_plan *const *plans);

/* All collectives of one kind over one group. */
typedef struct ls_traffic {
    ls_collective_kind kind;
    char group[64];
    int ranks;
    bool map; /* they map memory that the machine has once */
    int64_t calls;
    double bytes, seconds; /* bytes that a rank receives; estimated seconds, 0 without a calibration */
} ls_traffic;
enum { LS_TRAFFIC_ROWS = 32 };
/* Adds the collectives of p, run `runs` times, to the n entries of `rows`, which has room for
 * LS_TRAFFIC_ROWS. Returns the new number of entries. */
int ls_plan_traffic(ls_traffic *rows, int n, const ls_plan *p, int64_t runs);
void ls_traffic_text(ls_str *out, const ls_traffic *t); /* "all_gather over dp, mapped" */

/* Bytes that move between host memory and a device whose memory is its own. */
typedef struct ls_transfers {
    double to_device; /* inputs, results of collectives, and what is offloaded */
    double inputs, results, fetched;
    double
        to_host; /* outputs, operands of collectives, states that other ranks read, and what is offloaded */
    double outputs, operands, states, rested;
} ls_transfers;
/* The transfers of one session's programs, where plan i runs runs[i] times; zeros for a device that works in
 * host memory. */
void ls_plans_transfers(ls_transfers *out, int n, ls_plan *const *plans, const int64_t *runs);

/* Allocations of this rank that are live at a step, the largest first: the values of the running program, and
 * those that the others keep between steps. Returns how many. *out is in memory of the arena, which has the
 * status LS_E_MEMORY if there was none. */
typedef struct ls_alive {
    const ls_alloc *alloc;
    const ls_plan *plan;
} ls_alive;
int ls_plans_alive(ls_arena *arena, int n_plans, ls_plan *const *plans, int running, int step,
                   ls_alive **out);
/* What an allocation contains: its name, or the op that makes the value and its place in the model. */
void ls_alloc_text(ls_str *out, const ls_plan *p, const ls_alloc *a);

/* Adds the member "placement" to an open object: {"tp": "Shard(1)"}; nothing if the value has none. */
void ls_placed_json(ls_json *j, const ls_placed *p);

/* A summary of a program: steps, FLOPs, bytes and time; memory by category at the peak; the step of the
 * peak; the largest allocations live then. */
void ls_plan_text(ls_str *out, ls_plan *p, int top);
void ls_plan_json(ls_json *j, const char *key, ls_plan *p, int top);

/* The schedule line by line: phase, scope, op, operands with types, where each output lies, and whether it is
 * in place, a view or a copy. A collective has a line for each of its halves. Blocks of the model that repeat
 * are shown once, unless `full`. */
void ls_explain_text(ls_str *out, const ls_plan *p, bool full);
void ls_explain_legend(ls_str *out);
void ls_explain_json(ls_json *j, const char *key, const ls_plan *p);

/* Where a parameter is stored: its first element is number `offset` of its unit's flat buffer. Rank p of the
 * sharding group stores the elements [p * slice, (p + 1) * slice) of that buffer as the source `state`. */
typedef struct ls_stored_at {
    const char *name, *state;
    int unit; /* number of the unit */
    int64_t offset;
    ls_type type;
    ls_box box; /* the block of the parameter that `type` describes; ndim 0: the whole parameter */
    const char *axes[LS_MAX_DIMS]; /* the axes that split each of its dimensions */
    int64_t slice;                 /* 0: the source is the whole buffer, or the parameter itself */
    int shards;
} ls_stored_at;
/* How the programs use a parameter: the chain of ops from storage to use, every step that reads it, where its
 * gradient is made, and its update. */
void ls_explain_param_text(ls_str *out, const ls_stored_at *at, int n_plans, ls_plan *const *plans);
/* The same as members of an open object. */
void ls_explain_param_json(ls_json *j, const ls_stored_at *at, int n_plans, ls_plan *const *plans);

/* A step of a plan in words: "linear_dx (backward) in encoder.ln", "wait for all_gather of unit root". */
const char *ls_plan_step_text(ls_arena *a, const ls_plan *p, int step);
