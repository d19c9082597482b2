/* internal.h - what the planner's parts hand to each other. ls_plan_create runs them in this order:
 *
 *   schedule.c  which nodes run at all, and in which order
 *   births.c    which kernel outputs are born inside a `pack` or inside the memory of a source
 *   lower.c     the lowered graph: kernels chosen, views resolved to strides, copies where a kernel cannot
 *               follow them
 *   steps.c     the steps: kernels, and the two halves of each collective
 *   storage.c   lifetimes, in-place reuse, one allocation per set of values that share memory, categories
 *   arena.c     offsets of the allocations: packing, the brute-force check, the timeline
 *   cost.c      FLOPs, bytes and seconds per step
 *
 * Words: an "old" id is of the caller's graph, a "new" one of the lowered graph. A value's home says in whose
 * memory it lies. */
#pragma once
#include "base/str.h"
#include "graph/identity.h"
#include "node.h"
#include "plan.h"
#include "strides.h"

/* Bit of operand j in a kernel's mask; operands from 31 on share the last bit (pack and the norms take any
 * number). */
static inline bool ls_mask_has(uint32_t mask, int j) { return mask >> (j < 31 ? j : 31) & 1; }

/* Where a value lies before allocations exist: in `base`'s memory, at an offset; base == itself: memory of
 * its own. */
typedef struct ls_home {
    int base;
    int64_t offset; /* bytes */
    int64_t strides[LS_MAX_DIMS];
} ls_home;

/* births.c: per old value. */
typedef struct ls_birth {
    int host;       /* old value (a pack's output, or a source) whose memory this value is born in; 0: none */
    int part;       /* of the pack: which */
    int64_t offset; /* bytes in it */
    int64_t strides[LS_MAX_DIMS];
} ls_birth;

typedef struct ls_planner {
    ls_plan *plan;
    const ls_graph *old;
    ls_graph *graph;             /* the lowered one, becomes plan->graph */
    ls_arena scratch;            /* dies with the planner */
    int *order, n_order;         /* old node ids in execution order, dead ones left out */
    int *when;                   /* old node -> position in `order`, -1 dead */
    int *root;                   /* old value -> value whose memory its views and mandatory aliases name */
    bool *named;                 /* old value: as a whole it is a root that a graph output names */
    ls_birth *placed;            /* old value */
    const ls_kernel **kernel;    /* old node; NULL: source, view or collective */
    int *replaces;               /* old output -> the source (old value) whose content it replaces, 0: none */
    ls_value *map;               /* old value -> new value */
    ls_home *home;               /* new value */
    const ls_kernel **chosen;    /* new node -> kernel; NULL: no step, or a collective's two */
    const ls_parallel *parallel; /* NULL: one rank */
} ls_planner;

ls_status ls_planner_schedule(ls_planner *p);
ls_status ls_planner_place(ls_planner *p);
/* The (old) value that is computed in the place of part j of an old pack; 0 if that part must be moved there.
 */
int ls_born_in_place(const ls_planner *p, const ls_node *pack, int j);
ls_status ls_planner_lower(ls_planner *p);
void ls_planner_make_steps(ls_planner *p);
/* The value in whose memory v lies, and (unless NULL) where, in bytes. */
int ls_planner_base(const ls_planner *p, int v, int64_t *offset);
void ls_planner_store(ls_planner *p);
bool ls_planner_pack_arena(ls_plan *p); /* false: stopped on request before anything was packed */
void ls_planner_cost(ls_plan *p, const ls_calibration *c);

/* Types (and, without data, strides) of a node's operands; `operands` holds ls_slots(n). Absent inputs: ndim
 * -1. */
ls_kernel_args ls_planner_args(const ls_graph *g, const ls_node *n, const ls_device *d, ls_tensor *operands);
