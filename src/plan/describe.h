/* describe.h - plans in words: what `lockstep plan` and `lockstep explain` print, as text for people and JSON
 * for programs. */
#pragma once
#include "base/box.h"
#include "base/json.h"
#include "plan.h"

/* Memory of a session over these plans: names are shared, the arenas are as large as the neediest program
 * wants. Without guard pages. */
typedef struct ls_footprint {
    size_t state, io, arena, symmetric, total; /* of one rank; total is the sum of the four */
    /* of that, what the other ranks of the host read: shared names and the symmetric arena */
    size_t window;
    size_t host; /* of that, what offload keeps off the device */
    /* beside it: what the ranks of a host have once. The slices of mapped units lie there and are not counted
     * again */
    size_t node;
    /* of state and io; and of these, what rests on the host */
    size_t fixed[LS_CAT_COUNT], on_host[LS_CAT_COUNT];
    /* at the worst moment of any program; sums to total minus what packing loses and alignment */
    size_t by_category[LS_CAT_COUNT];
    int peak_plan; /* the program with that moment */
} ls_footprint;
void ls_plans_footprint(ls_footprint *out, int n_plans, ls_plan *const *plans);

/* Collectives of one kind over one group. */
typedef struct ls_traffic {
    ls_collective_kind kind;
    char group[64];
    int ranks;
    bool map; /* mappings of memory that a host has once */
    int64_t calls;
    double bytes, seconds; /* that a rank takes in; estimate, 0 without a calibration */
} ls_traffic;
enum { LS_TRAFFIC_ROWS = 32 };
/* Adds the collectives of `runs` runs of p to `rows`, which has n of them and room for LS_TRAFFIC_ROWS;
 * returns how many it has now. */
int ls_plan_traffic(ls_traffic *rows, int n, const ls_plan *p, int64_t runs);
void ls_traffic_text(ls_str *out, const ls_traffic *t); /* "all_gather over dp, mapped" */

/* Packed by lifetime, as against state, io and what a host has once. */
static inline bool ls_is_transient(const ls_alloc *a)
{
    return a->memory == LS_MEM_ARENA || a->memory == LS_MEM_SYMMETRIC;
}
/* Allocations of this rank that are alive at a step, the largest first; returns how many. `out` has room for
 * p->n_allocs. */
int ls_plan_alive(const ls_plan *p, int step, const ls_alloc **out);
/* What an allocation holds: a name, or the op that makes the value and where in the model. */
void ls_alloc_text(ls_str *out, const ls_plan *p, const ls_alloc *a);

/* Member "placement" of an open object: {"tp": "Shard(1)"}; of NULL none. */
void ls_placed_json(ls_json *j, const ls_placed *p);

/* "linear_dx  encoder.layers.encoder_layer_3.mlp" */
void ls_step_label(ls_str *out, const ls_plan *p, int step);

/* A program in short: steps, FLOPs, bytes, time; memory by category at the peak; the peak's moment; the
 * largest things alive there. */
void ls_plan_text(ls_str *out, ls_plan *p, int top);
void ls_plan_json(ls_json *j, const char *key, ls_plan *p, int top);

/* The schedule line by line: phase, scope, op, operands with types, where each output lies, what is in place,
 * a view or a copy; collectives with both their halves. Blocks that repeat are shown once unless `full`. */
void ls_explain_text(ls_str *out, const ls_plan *p, bool full);
void ls_explain_legend(ls_str *out);
void ls_explain_json(ls_json *j, const char *key, const ls_plan *p);

/* Where a parameter is stored: elements [offset, offset + count of type) of its unit's flat buffer, of which
 * each rank of the sharding group stores one slice as source `state`: the rank at position p the elements
 * from p * slice. */
typedef struct ls_stored_at {
    const char *name, *state;
    int unit; /* whose parameters the source is */
    int64_t offset;
    ls_type type;
    ls_box box;                    /* `type` is of this block of the parameter; ndim 0: of all of it */
    const char *axes[LS_MAX_DIMS]; /* that split each of its dimensions */
    int64_t slice;                 /* 0: the source is the whole buffer, or the parameter itself */
    int shards;
} ls_stored_at;
/* Its life through the programs: the chain of ops from storage to use, every step that reads it, its
 * gradient's birth, its update. */
void ls_explain_param_text(ls_str *out, const ls_stored_at *at, int n_plans, ls_plan *const *plans);
/* Members of an open object. */
void ls_explain_param_json(ls_json *j, const ls_stored_at *at, int n_plans, ls_plan *const *plans);

/* What a step of a plan does, for a reader: "linear_dx (backward) in encoder.ln", "wait for
 * all_gather of unit root". */
const char *ls_plan_step_text(ls_arena *a, const ls_plan *p, int step);
