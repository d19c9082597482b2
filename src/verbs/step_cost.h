/* step_cost.h - the memory, collectives and time of an optimizer step on one rank, as `plan` prints and
 * compares them. */
#pragma once
#include "setup/compiled_recipe.h"
#include "step/memory.h"

typedef struct ls_step_cost {
    ls_step_memory memory;
    size_t messages; /* not in memory.total: buffers of messages to other hosts */
    size_t loader;   /* not in memory.total: host memory of the loader's ring of steps */
    /* samples of a run of `micro`; number of these runs in a step of this rank */
    int64_t micro_batch, runs;
    ls_traffic traffic[LS_TRAFFIC_ROWS]; /* of the step, without evaluation */
    int n_traffic;
    ls_transfers transfers; /* of the step, without evaluation */
    int64_t collectives;
    ls_message_count sent; /* by this rank to other hosts in a step */
    double bytes;          /* that collectives bring to this rank */
    double flops;
    /* Of a step; of its collectives; of its copies to and from a device whose memory is its own, without what
     * is offloaded. 0 without a calibration. */
    double seconds, communication, copying;
    double idle;            /* of a pipeline: the share of the seconds for which a rank waits for others */
    int kernels, measured;  /* kernel calls of the two programs; how many were measured as they are */
    bool same_bits;         /* every layout of the same micro-batches computes the same bits */
    char why[LS_WHY_BYTES]; /* if not: the reason */
} ls_step_cost;

void ls_step_cost_of(ls_step_cost *out, const ls_compiled_recipe *c);
void ls_step_cost_json(ls_json *j, const char *key, const ls_step_cost *s);
