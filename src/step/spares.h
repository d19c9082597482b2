/* spares.h - what a trainer's session has besides the values of its programs (ls_session_opts.spares):
 *
 *   levels   of the tree that sums the gradients of micro-batches (accumulate.h)
 *   undo     copies of what a step with a bad loss or gradient changes, and puts back (undo.c)
 *   scratch  room to exchange parameters with their averages (ema.c) */
#pragma once
#include "base/arena.h"
#include "plan/plan.h"

struct ls_compiled;

typedef struct ls_spares {
    int n;
    ls_type *types; /* [n] */
    /* [n]: it is in host memory, because `update` runs there with parameters and gradients */
    bool *on_host;
    /* Level k of trained unit i is spare i * levels + k. The copy of the source changed[k] is spare undo +
     * k. The scratch is spare `scratch`; -1: there is none. */
    int levels, undo, n_undo, n_undo_micro, scratch;
    /* [n_undo]: n_undo_micro sources of `micro`, in the order of its steps, then those of `update` */
    const ls_node **changed;
    size_t level_bytes, undo_bytes, scratch_bytes; /* of all levels, of all copies */
} ls_spares;

/* Lists the spares of a compiled step, in memory of the arena; the nodes belong to the plan. */
ls_status ls_spares_list(ls_spares *out, ls_arena *a, const struct ls_compiled *c);
