/* compile.h - compiles a model to the programs of a step, in the order of ARCHITECTURE.md: build, slices,
 * units, backward, recompute, clean, fuse, plan. It needs no data and no session, so `plan` and `explain` use
 * it for any machine. */
#pragma once
#include "device/queue.h"
#include "lockstep/trainer.h"
#include "passes/objective.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "spares.h"

enum { LS_GROUPS_MOST = 64 };
enum { LS_MICRO, LS_UPDATE, LS_EVAL, LS_PROGRAMS };
extern const char *const ls_program_names[LS_PROGRAMS]; /* "micro" "update" "eval" */

typedef struct ls_compiled {
    ls_device device;
    /* The device that runs `update`: the device of the other programs. With offload: cpu and a device whose
     * memory is its own it is the host (update_program.c says why). */
    ls_device updater;
    ls_plan *plans[LS_PROGRAMS]; /* NULL: the program was not asked for */
    ls_units units;
    /* the reason why an evaluation must not pad (a metric or a loss depends on other samples); NULL: it
     * may */
    char *mixing;
    ls_graph *model; /* as `build` made it for evaluation, before all passes; for predictors */
    ls_precision precision;
    char *modules; /* the text of precision.modules; NULL: none */
    ls_parallel parallel;
    ls_objective objective;
    ls_share share; /* which of the step's micro-batches this rank runs */
    int64_t
        unrolled; /* micro-batches that a run of `micro` computes: all of this rank in a pipeline, else one */
    double
        idle; /* of a pipeline: the share of a step in which a rank waits, if all stages take equally long */
    int64_t micro_batch, micro_batches, classes;
    int64_t eval_batch; /* samples of a run of `eval`, or of a predictor */
    bool loss_scaling, clipping, averaging, mean_of_means, padding;
    /* `micro` writes the gradients of units with weights (ls_unit) to the memory of the weights, part by
     * part after their last read. `update` replaces them by new weights. */
    bool gradients_in_weights;
    bool gradients_in_arena; /* LS_MEM_GRADIENT (plan/plan.h) */
    bool only_trained;       /* checkpoints leave out frozen parameters, which model.init has */
    size_t staging_bytes;    /* bytes of the copy of this rank's part of a save; 0: saves are not staged */
    ls_spares spares;
    ls_nonfinite nonfinite;
    int64_t max_skips;
    /* as the caller gave them, without the words that name the groups' parameters (ls_slot.group) */
    ls_optimizer optimizer;
    int n_groups;
    ls_optimizer_group groups[LS_GROUPS_MOST];
    ls_accumulation accumulation;
    int tree_buffers;                   /* gradient buffers besides the one that `micro` writes */
    double graph_seconds, plan_seconds; /* time that compiling took */
} ls_compiled;

/* How often a step runs `micro`. */
static inline int64_t ls_compiled_runs(const ls_compiled *c) { return c->share.count / c->unrolled; }

ls_precision ls_trainer_precision(const ls_trainer_opts *o);
/* `words`: room for the words of the groups. LS_E_USAGE if a group has wrong numbers, or if there are too
 * many groups. */
ls_status ls_trainer_trained(ls_trained *out, const char *words[LS_GROUPS_MOST], const ls_trainer_opts *o);

/* update_program.c: the program `update` of units that are laid out. It notes their moments. */
ls_status ls_update_program(ls_graph **g, ls_compiled *c, const ls_trainer_opts *o);
ls_status ls_update_device(ls_compiled *c, const ls_device_opts *o); /* sets c->updater */
static inline bool ls_updates_on_host(const ls_compiled *c)
{
    return ls_device_apart(&c->device) && !ls_device_apart(&c->updater);
}

ls_status ls_compile(ls_compiled *out, ls_build_fn build, const void *config, const ls_trainer_opts *o,
                     const ls_calibration *calibration);
void ls_compiled_release(ls_compiled *c);
/* LS_E_UNSUPPORTED if the device cannot compute in this type. */
ls_status ls_compile_check_type(ls_dtype param, const ls_device *d);

/* Compiles a model for inference, as one program without its losses. The output "logits"
 * is rounded to p->output and stored as f32; other outputs are of type p->param. `size` is passed to `build`
 * as its batch. parallel: its axis of role tensor splits the layers; NULL: one rank. The caller owns the
 * plan. */
ls_status ls_compile_inference(ls_plan **out, const char *name, ls_build_fn build, const void *config,
                               int64_t size, const ls_precision *p, const ls_device *d,
                               const ls_parallel *parallel);

/* Compiles the program of a predictor, as plan LS_EVAL. `outputs`: names of the model's outputs, separated
 * by spaces; NULL: all of them. `batch`: the number of samples that `model` was built for. A model with
 * `logits` [rows, classes] also has `predicted`, i32 [rows], and `probability`, of the shape of its logits.
 * NULL includes `probability` only if each sample has one target. Nodes that the outputs do not need are
 * removed. Output i has the identity { LS_IS_ROWS, i } and its own name. 16-bit floats become f32. `p` is
 * copied. Local. */
ls_status ls_compile_predictions(ls_compiled *out, const ls_graph *model, int64_t batch, const char *outputs,
                                 const ls_precision *p, const ls_device *d);

/* FLOPs of a step on this rank: its runs of `micro` and one of `update`. */
double ls_compiled_flops(const ls_compiled *c);
double ls_compiled_model_flops(
    const ls_compiled *c);                        /* without what activation checkpointing computes again */
double ls_compiled_seconds(const ls_compiled *c); /* 0 without a calibration */
