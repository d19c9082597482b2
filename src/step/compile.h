/* compile.h - from a model to the programs of a step, in the order of ARCHITECTURE.md: build, slices, units,
 * backward, recompute, clean, fuse, plan. Needs no data and no session, so `plan` and `explain` use it on any
 * machine. */
#pragma once
#include "lockstep/trainer.h"
#include "passes/passes.h"
#include "plan/plan.h"

enum { LS_MICRO, LS_UPDATE, LS_EVAL, LS_PROGRAMS };
extern const char *const ls_program_names[LS_PROGRAMS]; /* "micro" "update" "eval" */

typedef struct ls_compiled {
    ls_device device;
    ls_plan *plans[LS_PROGRAMS]; /* NULL where not asked for */
    ls_units units;
    ls_parallel parallel;
    ls_share share; /* of the step's micro-batches: this rank's */
    int64_t micro_batch, micro_batches, classes;
    bool loss_scaling, clipping, mean_of_means;
    size_t staging_bytes; /* for a copy of what this rank saves; 0: saves are not staged */
    ls_accumulation accumulation;
    int tree_buffers;                   /* gradient buffers beside the one that micro writes */
    double graph_seconds, plan_seconds; /* what compiling took */
} ls_compiled;

ls_status ls_compile(ls_compiled *out, ls_build_fn build, const void *config, const ls_trainer_opts *o,
                     const ls_calibration *calibration);
void ls_compiled_release(ls_compiled *c);

/* One program of a model with an output "logits", which it rounds to `output` and gives in f32; `build` gets
 * `size`, whatever that is to it. The plan is the caller's. */
ls_status ls_compile_use(ls_plan **out, const char *name, ls_build_fn build, const void *config, int64_t size,
                         ls_dtype param, ls_dtype output, const ls_device *d);

size_t ls_compiled_tree_bytes(const ls_compiled *c);
/* of the device's memory: all but what parallel.offload keeps on the host */
size_t ls_compiled_device_bytes(const ls_compiled *c);
/* A step of this rank: its micro runs and one update. */
double ls_compiled_flops(const ls_compiled *c);
double ls_compiled_seconds(const ls_compiled *c); /* 0 without a calibration */
