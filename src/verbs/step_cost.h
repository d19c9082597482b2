/* step_cost.h - the memory, collectives and time of an optimizer step on one rank, as `plan` prints and
 * compares them. */
#pragma once
#include "setup/compiled_recipe.h"

typedef struct ls_step_cost {
    ls_footprint memory;
    size_t tree;                      /* buffers for sums over micro-batches: gradients */
    size_t staging;                   /* for a copy of what this rank saves */
    size_t by_category[LS_CAT_COUNT]; /* of the memory, at the worst moment, both of these included */
    size_t total;                     /* of this rank */
    size_t messages;                  /* beside it: what messages to other hosts pass through */
    /* samples of a run of `micro`; how many of them this rank has in a step */
    int64_t micro_batch, runs;
    ls_traffic traffic[LS_TRAFFIC_ROWS]; /* of the step, without evaluation */
    int n_traffic;
    int64_t collectives;
    double bytes; /* that they bring to this rank */
    double flops;
    double seconds, communication; /* of a step, and the collectives' part of it; 0 without a calibration */
    bool same_bits;                /* what any other layout of the same micro-batches computes */
    char why[200];                 /* if not, why not */
} ls_step_cost;

void ls_step_cost_of(ls_step_cost *out, const ls_compiled_recipe *c);
void ls_step_cost_json(ls_json *j, const char *key, const ls_step_cost *s);
