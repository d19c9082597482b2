/* plan_stages.h - what `lockstep plan` says of the stages of a pipeline: each rank of it has a program and
 * memory of its own. */
#pragma once
#include "commands.h"
#include "step_cost.h"

typedef struct ls_plan_stage { /* what a rank of the pipeline has */
    int rank;                  /* the first such rank */
    int64_t parameters;        /* that it stores */
    double flops, seconds;     /* of a step, without what it waits for */
    size_t memory, device; /* device: of it, in the device's memory */
} ls_plan_stage;
typedef struct ls_plan_stages {
    ls_plan_stage *stages; /* [ranks of the pipeline]; NULL: there is one stage */
    bool played;           /* ls_step_cost.idle follows from the planned times of all ranks */
    ls_step_memory memory; /* of the rank that needs most */
} ls_plan_stages;
/* Compiles the step `c` for each rank of a pipeline. `cost` is that of rank 0; it gets the time of a step in
 * which these ranks wait for each other's messages, and for how much of it they do. measure: kernels that
 * were not measured. */
ls_status ls_plan_stages_make(ls_plan_stages *out, ls_step_cost *cost, const ls_compiled_recipe *c,
                              const ls_recipe_arg *recipe, const ls_elsewhere *where, bool measure);
void ls_plan_stages_release(ls_plan_stages *s);
void ls_plan_stages_text(ls_str *out, const ls_plan_stages *s, const ls_compiled_recipe *c,
                         const ls_step_cost *cost);
void ls_plan_stages_json(ls_json *j, const ls_plan_stages *s, const ls_compiled_recipe *c,
                         const ls_step_cost *cost);
