/* pipeline_order.h - the order in which a rank of a pipeline runs the passes of its stages. */
#pragma once
#include "lockstep/parallel.h"

typedef enum ls_stage_work {
    LS_WORK_FORWARD,
    LS_WORK_BACKWARD, /* all gradients of a stage */
    /* the two parts of a backward pass with the schedule zero_bubble: gradients that other stages need, and
     * all others */
    LS_WORK_INPUTS,
    LS_WORK_WEIGHTS
} ls_stage_work;
typedef struct ls_stage_pass { /* of a stage over a micro-batch */
    ls_stage_work work;
    int stage;
    int64_t micro;
} ls_stage_pass;

/* Rank r of a pipeline has `chunks` stages: r, r + ranks, r + 2 ranks, ... */
typedef struct ls_pipeline_shape {
    ls_pipeline_schedule schedule;
    int ranks, chunks;
    int64_t micro_batches;
} ls_pipeline_shape;
ls_pipeline_shape ls_parallel_pipeline(const ls_parallel *p, int64_t micro_batches);

/* Refuses a number of micro-batches that the schedule cannot have. */
ls_status ls_pipeline_check(const ls_pipeline_shape *s);

int64_t ls_pipeline_passes(const ls_pipeline_shape *s);                           /* of a rank */
void ls_pipeline_order(ls_stage_pass *out, const ls_pipeline_shape *s, int rank); /* [ls_pipeline_passes] */

/* The share of a step for which a rank waits for others: of a step in which forward passes take equally long,
 * and backward passes twice that. The ranks' orders are played beside each other. 0 for one rank. */
ls_status ls_pipeline_idle(double *idle, const ls_pipeline_shape *s);
