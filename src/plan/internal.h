/* internal.h - what the planner's parts hand to each other. ls_plan_create runs them in this order:
 *
 *   schedule.c      which nodes run at all, and in which order
 *   avoid_copies.c  which kernel outputs are computed inside a `pack` or inside the memory of a source
 *   lower.c         the lowered graph: kernels chosen, views resolved to strides, copies where a kernel
 *                   cannot follow them
 *   steps.c         the steps: kernels, and the two halves of each collective and transfer
 *   storage.c       lifetimes, in-place reuse, one allocation per set of values that share memory,
 *                   categories
 *   gradients.c     from which step on each part of a gradient in the arena is needed
 *   staging.c       memory through which results of collectives reach a device's own memory; linked.c how
 *                   much of it collectives over a link need
 *   arena.c         offsets of the allocations: packing, the brute-force check, the timeline
 *   cost.c          FLOPs, bytes and seconds per step
 *
 * Beside them: calibration.c, calibrate.c and replay.c measure and keep what this machine can do.
 *
 * Words: an "old" id is of the caller's graph, a "new" one of the lowered graph. A value's home says in whose
 * memory it lies. */
#pragma once
#include "base/str.h"
#include "device/queue.h"
#include "graph/identity.h"
#include "node.h"
#include "plan.h"
#include "strides.h"

/* The bit of operand j in a kernel's mask. Operands from 31 on share the last bit, because pack and the norms
 * take any number of them. */
static inline bool ls_mask_has(uint32_t mask, int j) { return mask >> (j < 31 ? j : 31) & 1; }

/* The home of a value of the new graph, before allocations exist: `offset` bytes into the memory of value
 * `base`. If base is the value itself, it has memory of its own. */
typedef struct ls_home {
    int base;
    int64_t offset; /* bytes */
    int64_t strides[LS_MAX_DIMS];
} ls_home;

/* Where a value of the old graph is computed (avoid_copies.c). */
typedef struct ls_computed_in {
    int inside; /* the old value (a pack's output or a source) inside whose memory it is computed; 0: none */
    int part;   /* if that is a pack: the number of the part */
    int64_t offset; /* bytes into that memory */
    int64_t strides[LS_MAX_DIMS];
} ls_computed_in;

typedef struct ls_planner {
    ls_plan *plan;
    const ls_graph *old;
    ls_graph *graph;     /* the new graph, which becomes plan->graph */
    ls_arena scratch;    /* freed with the planner */
    int *order, n_order; /* ids of live old nodes, in order of execution */
    int *when;           /* [old nodes]: position in `order`; -1: dead */
    int *root;           /* [old values]: the value in whose memory its views and mandatory aliases put it */
    bool *named;         /* [old values]: it is a root, and a graph output is the whole of it */
    ls_computed_in *computed_in; /* [old values] */
    const ls_kernel *
        *kernel; /* [old nodes]; NULL: a source, a view, or a collective or transfer without a kernel */
    /* [outputs of the old graph]: the source (an old value) whose content it replaces; 0: none */
    int *replaces;
    ls_value *map;               /* [old values]: the new value */
    ls_home *home;               /* [new values] */
    const ls_kernel **chosen;    /* [new nodes]; NULL: it has no step, or two */
    const ls_parallel *parallel; /* NULL: one rank */
    bool gradients_in_arena;
} ls_planner;

/* Whether a node is a transfer without a kernel, which the queue copies. */
static inline bool ls_planner_transfers(const ls_planner *p, const ls_node *n)
{
    return (n->op->flags & LS_OP_TRANSFER) && ls_device_apart(&p->plan->device);
}

ls_status ls_planner_schedule(ls_planner *p);
ls_status ls_planner_avoid_copies(ls_planner *p);
/* The (old) value that is computed in the place of part j of an old pack; 0: that part must be copied
 * there. */
int ls_computed_in_place(const ls_planner *p, const ls_node *pack, int j);
ls_status ls_planner_lower(ls_planner *p);
ls_status ls_planner_make_steps(ls_planner *p);
/* The value in whose memory v lies, and (unless NULL) where, in bytes. */
int ls_planner_base(const ls_planner *p, int v, int64_t *offset);
/* What the plan says of a node that communicates. */
ls_plan_collective ls_planner_collective(ls_planner *p, const ls_node *n);
ls_status ls_planner_store(ls_planner *p);
ls_status ls_planner_place_gradients(ls_planner *p);
ls_status ls_planner_stage(ls_planner *p);
ls_status ls_plan_check_staging(const ls_plan *p); /* part of ls_plan_check */
ls_status ls_planner_pack_arena(ls_plan *p);       /* LS_E_STOPPED: before anything was packed */

/* The types, and without data also the strides, of a node's operands. `operands` has room for ls_operands(n).
 * Absent inputs have ndim -1. */
ls_kernel_args ls_planner_args(const ls_graph *g, const ls_node *n, const ls_device *d, ls_tensor *operands);
