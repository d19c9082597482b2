/* trainer.h - a model, compiled into a training step and the memory to run it: build, differentiate, plan,
 * run, without a recipe.
 *
 *     ls_trainer *t;
 *     LS_TRY(ls_trainer_create(&t, build, &config, .micro_batch = 64,
 *                              .optimizer = { LS_OPTIMIZER_DEFAULTS }));
 *     LS_TRY(ls_trainer_init(t, seed));
 *     for (...) LS_TRY(ls_trainer_step_from(t, &batch, lr, &result));
 *     LS_TRY(ls_trainer_save(t, "model.safetensors"));
 *
 * A step is M = micro_batches runs of the program `micro` (forward and backward), whose gradients are added
 * in one balanced tree over the micro-batch number, and one run of `update`. After ls_trainer_create no call
 * below allocates memory except where it says so. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "graph.h"
#include "group.h"
#include "optim.h"
#include "parallel.h"
#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Builds a model for `batch` samples into g, and finishes it. Its inputs are [batch, ..] each and take the
 * fields of their names; it declares what is minimised, ls_loss. An output "logits" [rows, classes] makes it
 * a classifier or a language model, with predictions and probabilities. */
typedef ls_status (*ls_build_fn)(ls_graph *g, const void *config, int64_t batch);

typedef struct ls_trainer_opts {
    /* "cpu", "cuda" (a GPU of NVIDIA, which this process keeps), "ref", "null" (computes nothing) or, for
     * tests, "emulated" (docs/environment.md). NULL: what LOCKSTEP_DEVICE names, else "cuda" where there is
     * a GPU, else "cpu" */
    const char *device;
    /* of device cpu: an ISA level, "generic", "avx2", "avx512", "avx512bf16" or "amx"; NULL: LOCKSTEP_ISA,
     * else the best here. Of device cuda: NULL, the GPU's; with `elsewhere` "sm_80", "sm_90", .. */
    const char *isa;
    int threads;           /* 0: the default of docs/environment.md */
    const char *kernels;   /* "own" | "tf32", "cublaslt" (device cuda) */
    bool elsewhere;        /* plan only, for a machine that may have another ISA: no session is made */
    int64_t micro_batch;   /* samples per run of `micro` */
    int64_t micro_batches; /* M, runs per step over all ranks */
    int64_t eval_batch;    /* samples per run of `eval` on a rank; 0: micro_batch */
    ls_accumulation accumulation;
    /* micro-batches may have fewer samples than micro_batch (ls_order.drop_last false) and are then padded. A
     * model whose losses depend on other samples of the micro-batch (batch norm, a sum over the batch) is
     * refused: it would count the padding */
    bool padding;
    /* a step's loss is the mean of its micro-batches' means (0 where one has no targets), not one mean over
     * all targets */
    bool mean_of_means;
    ls_optimizer optimizer;
    /* parameters with settings of their own; each is in the first group that names it, and all others have
     * the optimizer's. A word that names none, and a group that is left without any, is refused */
    int n_groups;
    const ls_optimizer_group *groups;
    double clip_norm; /* 0: none */
    ls_nonfinite nonfinite;
    int64_t max_skips; /* LS_NONFINITE_SKIP: steps in a row, at least 1 */
    double ema_decay;  /* above 0: keeps a moving average of the parameters (ls_update_opts); 0: none */
    /* parameters that keep their values: names of parameters or of modules around them, separated by spaces;
     * `*`, `?` and [...] match inside one part of a name, and `!` in front of a word takes names out again.
     * They are stored in the type `param` of their module. NULL: none */
    const char *freeze;
    /* more metrics of an evaluation, beside each accuracy that the model measures: words "f1", "auc" (of two
     * classes), "perplexity"; ls_measure_against says what they are. NULL: none */
    const char *metrics;
    /* compute type of parameters and activations; type that wider logits are rounded to for the loss and for
     * predictions, which compute in f32. Masters are f32 (f64: all of it) */
    ls_dtype param, output;
    /* what enters a module is cast to the type that it computes in; false: a model whose operations would
     * then get operands of two types is refused */
    bool cast_forward_inputs;
    /* types of some modules and what is inside them: words class:NAME=TYPE and pattern:GLOB=TYPE, each of
     * which may go on with ",output=TYPE" (of what leaves them), ",reduce=TYPE" and
     * ",cast_forward_inputs=false", as in "class:LayerNorm=f32,output=bf16". Of two around an operation the
     * inner counts. NULL: none */
    const char *modules;
    ls_scaler scaler; /* where anything computes in f16 */
    /* modules to recompute in the backward pass: words "class:NAME", "pattern:GLOB"; of these what words
     * "save:OP" and "save:OP/N" (the first and each N-th of the module) keep; NULL: none */
    const char *recompute;
    bool eval_only; /* only the evaluation program */
    /* memory for a copy of what this rank saves, so that it can be written while training goes on */
    bool stage_saves;
    ls_parallel parallel; /* how the step is laid over ranks */
    /* the ranks; NULL: one. Must outlive the trainer. With more than one, create, init, load, save, step,
     * eval, get and set are collective */
    ls_group *group;
} ls_trainer_opts;
#define LS_TRAINER_DEFAULTS                                                                             \
    .device = NULL, .isa = NULL, .threads = 0, .kernels = "own", .elsewhere = false, .micro_batch = 64, \
    .micro_batches = 1, .eval_batch = 0, .accumulation = LS_SUM_TREE, .padding = false,                 \
    .mean_of_means = false, .optimizer = { LS_OPTIMIZER_DEFAULTS }, .n_groups = 0, .groups = NULL,      \
    .clip_norm = 0, .nonfinite = LS_NONFINITE_STOP, .max_skips = 10, .ema_decay = 0, .freeze = NULL,    \
    .metrics = NULL, .param = LS_F32, .output = LS_F32, .cast_forward_inputs = true, .modules = NULL,   \
    .scaler = { LS_SCALER_DEFAULTS }, .recompute = NULL, .eval_only = false, .stage_saves = false,      \
    .parallel = { LS_PARALLEL_DEFAULTS }, .group = NULL
LS_API ls_trainer_opts ls_trainer_opts_default(void);

/* One thread at a time uses a trainer, any thread: a call that comes while another thread is in one is
 * refused with LS_E_ARG. Different trainers are independent. */
typedef struct ls_trainer ls_trainer;
LS_API ls_status ls_trainer_create_with(ls_trainer **out, ls_build_fn build, const void *config,
                                        const ls_trainer_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_trainer_create(...) ls_trainer_create_with(__VA_ARGS__)
#else
#define ls_trainer_create(out, build, config, ...)                         \
    LS_QUIETLY(ls_status, ls_trainer_create_with((out), (build), (config), \
                                                 &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, ##__VA_ARGS__ }))
#endif
LS_API void ls_trainer_destroy(ls_trainer **t);

/* Initial parameters from (seed, parameter name, element); optimizer state and step counter to zero.
 * Dropout's masks follow from the same seed. */
LS_API ls_status ls_trainer_init(ls_trainer *t, uint64_t seed);
/* Parameters and buffers from weights, by name; every one must be there with its shape; float types may
 * differ. Only they are touched. Without ls_trainer_init before it, the other state (loss scale, counters)
 * gets its first values, and dropout the seed 0. LS_E_NUMERIC names a tensor that has a NaN, or a parameter
 * that has an infinity, unless the trainer only evaluates. A failure of one rank is the group's: the others
 * return LS_E_PEER, and the group can only be destroyed. Collective. */
LS_API ls_status ls_trainer_load(ls_trainer *t, const ls_weights *w);
/* The same, as load_state_dict(strict=False): tensors that only the file or only the model has are passed
 * over, but not all of the model's, which keep their values: after ls_trainer_init, or another load. */
LS_API ls_status ls_trainer_load_partly(ls_trainer *t, const ls_weights *w);
/* Exchanges the parameters and their moving averages (ema_decay), so that an evaluation, ls_trainer_save or
 * ls_trainer_get has the averages; a second call exchanges them back, without which no step is
 * possible. Before the first step both are the same. Collective. */
LS_API ls_status ls_trainer_exchange_ema(ls_trainer *t);
/* One .safetensors file with the master weights and the buffers under the model's names. Allocates; with
 * several ranks, rank 0 has the whole model in memory meanwhile. Collective. */
LS_API ls_status ls_trainer_save(ls_trainer *t, const char *path);

/* All that the trainer keeps, as checkpoint `dir` (docs/checkpoint.md), a new folder to which every rank
 * writes what it has; and back, on any number of ranks, however the step is laid over them. LS_E_NUMERIC
 * names a tensor that has a NaN, or, of the parameters and the optimizer's state, an infinity: no checkpoint
 * is made. Initial values are not needed before. `dir` may also be what torch.distributed.checkpoint.save
 * wrote of a model and its optimizer (docs/weights.md): parameters, moments and steps are taken. Collective.
 */
LS_API ls_status ls_trainer_save_checkpoint(ls_trainer *t, const char *dir);
LS_API ls_status ls_trainer_load_checkpoint(ls_trainer *t, const char *dir);

/* Why a step was skipped. The weights, the state of the optimizer, averages and the model's buffers are then
 * as before the step. */
typedef enum ls_skip {
    LS_SKIP_NONE,    /* it was not */
    LS_SKIP_NOTHING, /* nothing of it counts: all targets are ignored, all weights 0 */
    /* f16: the scaled gradient overflowed. The loss scale has become smaller, and, as with PyTorch's
     * GradScaler, running statistics have moved. */
    LS_SKIP_OVERFLOW,
    LS_SKIP_LOSS,    /* the loss of a micro-batch is not finite */
    LS_SKIP_GRADIENT /* the gradient's norm is not finite, or an element's square */
} ls_skip;

typedef struct ls_step_result {
    double loss;       /* what is minimised: of one loss its mean, or as mean_of_means says; NaN: none */
    int64_t count;     /* what `loss` is a mean of: valid targets, where these divide it, else samples */
    double grad_norm;  /* before clipping; -1 when not clipping, and where a step has none */
    double loss_scale; /* of the next step; 0 without loss scaling */
    bool skipped;      /* no weight was changed; `skip` says why */
    double seconds;
    /* of several losses each by itself, undivided by its factor; NaN: nothing counted for it. The trainer's
     * memory, until its next step */
    int n_losses;
    const ls_metric *losses;
    ls_skip skip;
} ls_step_result;

/* One optimizer step of what a loader gave for it: `batch` has this rank's share of the step. Every input of
 * the model takes the field of its name; float fields may be f32 or f64, of which they become the other. The
 * divisors of the losses are those of the whole step, over all ranks; to dropout, sample r of micro-batch m
 * of M is number m + r M of the step. A step of which nothing counts changes nothing (`skipped`),
 * and its loss is NaN. LS_E_NUMERIC when a loss or the gradient's norm is not finite (ls_nonfinite), on all
 * ranks alike: nothing was changed, *r has the step's numbers, and the next step is possible. The message
 * names the first op that made a bad number, with its layer; for it every rank runs a micro-batch again. In
 * f16 also when gradients overflow although the loss scale has come down to 1. LS_E_ARG before there are
 * weights, and for an lr that is negative or not finite; LS_E_SHAPE as ls_trainer_check_data. */
struct ls_dataset;
struct ls_loader_step;
LS_API ls_status ls_trainer_step_from(ls_trainer *t, const struct ls_loader_step *batch, double lr,
                                      ls_step_result *r);
/* The same for a classifier or a language model: one loss, by the valid entries of a field of i32, beside
 * which there is one more field. This rank's micro-batches are contiguous in memory and whole: inputs and
 * targets (LS_IGNORE_LABEL: padding) as the graph takes them, images u8 [micro_batch, C, H, W] and labels i32
 * [micro_batch], or ids and targets i32 [micro_batch, tokens]. `count`: the targets of the whole step, over
 * all ranks, that are not padding. */
LS_API ls_status ls_trainer_step(ls_trainer *t, const void *inputs, const int32_t *targets, int64_t count,
                                 double lr, ls_step_result *r);

/* The same of samples that the caller has in memory, as a simulation does. ls_trainer_put copies `values` [n,
 * sample] of a field as samples first .. first + n - 1 of this rank's share of the next step, which has
 * micro_batch samples for each of its micro-batches; any strides, f32 or f64 for a float field. The first put
 * of a field allocates memory for a share. Local. ls_trainer_run trains on the first `samples` of them; every
 * field must have been put for these. A rank may have fewer than its share, or none once it had one (.padding
 * = true). Ranks of a tensor axis put the same samples. Collective: a mistake of one rank is an error on all
 * ranks, and nothing is changed. */
LS_API ls_status ls_trainer_put(ls_trainer *t, const char *field, const ls_tensor *values, int64_t first);
LS_API ls_status ls_trainer_run(ls_trainer *t, int64_t samples, double lr, ls_step_result *r);

/* The losses and metrics of a whole split: "loss", what is minimised, then, of several, each loss, and the
 * metrics of the model. Every sample counts once; sums are exact, so the ranks change no bit. NaN: it is
 * undefined, because nothing counted, or because an AUC had one class only. Up to `max` of them into `out`,
 * whose names are the trainer's; *n: how many there are. LS_E_NUMERIC names the first sample of which a row
 * is not finite. Allocates. Collective. */
LS_API ls_status ls_trainer_evaluate(ls_trainer *t, const struct ls_dataset *set, ls_metric *out, int max,
                                     int *n);

/* Finds the scaling of each field that has one (ls_scaling_of): mean and deviation (of the whole set, so
 * divided by n) of its channels over all samples of `set`, the training split. After ls_trainer_init or
 * ls_trainer_load, of which the first sets means to 0 and deviations to 1. A channel with one value gets the
 * deviation 1, and a warning names it; numbers that FIELD.valid says are missing do not count. Sums are
 * exact: the ranks, each of which reads a part of the set, change no bit. LS_E_ARG before there are weights;
 * LS_E_SHAPE as ls_trainer_check_data. Allocates. Collective. */
LS_API ls_status ls_trainer_fit(ls_trainer *t, const struct ls_dataset *set);

/* LS_E_SHAPE unless the samples of `set` have all fields that the model takes, of their types. Local. */
LS_API ls_status ls_trainer_check_data(const ls_trainer *t, const struct ls_dataset *set);

/* Evaluates one batch of eval_batch samples of a classifier or a language model with an output "logits". Any
 * of loss and predicted, of the shape of targets, and probability [eval_batch, classes], which a classifier
 * alone has, may be NULL. Targets of LS_IGNORE_LABEL have loss 0. */
LS_API ls_status ls_trainer_eval(ls_trainer *t, const void *inputs, const int32_t *targets, float *loss,
                                 int32_t *predicted, float *probability);

LS_API int64_t ls_trainer_parameter_count(const ls_trainer *t); /* elements */
/* Names and types of the parameters, whole, and of the model's state that is not trained: running statistics
 * and counters of batch norm, scalings. `data` is NULL. Up to `max` of them into `out`; returns how many
 * there are. Local. */
LS_API int ls_trainer_parameters(const ls_trainer *t, ls_named_tensor *out, int max);
LS_API int ls_trainer_buffers(const ls_trainer *t, ls_named_tensor *out, int max);
/* Copies a parameter or a buffer, whole, to `values` of its shape, with any strides; f32 or f64 for a float
 * one. Parameters are the masters; buffers are as micro-batch 0 of the last step left them. LS_E_ARG: no such
 * name, or no weights yet; LS_E_SHAPE: another type or shape. Allocates. Collective: a mistake of one rank is
 * an error on all ranks. */
LS_API ls_status ls_trainer_get(ls_trainer *t, const char *name, const ls_tensor *values);
/* The same the other way. All ranks give the same values; the state of the optimizer stays as it is. */
LS_API ls_status ls_trainer_set(ls_trainer *t, const char *name, const ls_tensor *values);
LS_API int64_t ls_trainer_classes(const ls_trainer *t);
/* all memory of the session, the accumulation, and the samples that were put */
LS_API size_t ls_trainer_bytes(const ls_trainer *t);

#ifdef __cplusplus
}
#endif
