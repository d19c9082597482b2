/* plan_stages.h - what `lockstep plan` says of the stages of a pipeline: each has a program and memory of its
 * own. */
#pragma once
#include "commands.h"
#include "step_cost.h"

typedef struct ls_plan_stage {
    int rank;           /* the first rank that has it */
    int64_t parameters; /* that a rank of it stores */
    double flops, seconds;
    size_t memory;
} ls_plan_stage;
/* Compiles the step for a rank of each stage; *out NULL: there is one stage. `cost` is that of rank 0, and
 * gets the seconds of the slowest stage. The caller frees *out. */
ls_status ls_plan_stages_make(ls_plan_stage **out, ls_step_cost *cost, const ls_compiled_recipe *c,
                              const ls_plan_command_opts *o);
void ls_plan_stages_text(ls_str *out, const ls_plan_stage *stages, const ls_compiled_recipe *c);
void ls_plan_stages_json(ls_json *j, const ls_plan_stage *stages, const ls_compiled_recipe *c);
