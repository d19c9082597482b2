/* optim.h - optimizers as graph builders, schedules as functions of the step. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_optimizer_kind {
    LS_ADAM,
    LS_ADAMW,
    LS_SGD,
    LS_LION,
    LS_MUON,
    LS_ADAFACTOR
} ls_optimizer_kind;
/* PyTorch's Adam, AdamW and SGD with their defaults, Lion (Chen et al. 2023), PyTorch's Muon for matrices
 * with AdamW for all else, and Adafactor as transformers has it; the learning rate is data of each step, not
 * part of the program. */
typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    double beta1, beta2;        /* adam, adamw, lion */
    double eps;                 /* adam, adamw */
    double weight_decay;        /* adam, sgd: added to the gradient; adamw, lion: decoupled */
    double momentum, dampening; /* sgd */
    bool nesterov;
    double muon_momentum; /* muon */
    bool match_rms;       /* muon: adjust_lr_fn match_rms_adamw, else original */
    /* adafactor: the update's root mean square is at most clip_threshold; step^decay_rate is what a step adds
     * to the second moment; scale_parameter: the rate is times the parameter's root mean square, at least
     * min_scale; relative_step: min(1e-2, 1 / sqrt(step)) in place of the learning rate, with warmup_init
     * min(1e-6 step, 1 / sqrt(step)) */
    double clip_threshold, decay_rate, min_scale;
    bool scale_parameter, relative_step, warmup_init;
} ls_optimizer;
#define LS_OPTIMIZER_DEFAULTS                                                                          \
    .kind = LS_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0, .momentum = 0,      \
    .dampening = 0, .nesterov = false, .muon_momentum = 0.95, .match_rms = false, .clip_threshold = 1, \
    .decay_rate = -0.8, .min_scale = 1e-3, .scale_parameter = true, .relative_step = true,             \
    .warmup_init = false
LS_API ls_optimizer ls_optimizer_default(void);

/* Parameters that an optimizer updates with settings of their own, as PyTorch's param_groups. `match` names
 * them: words "class:NAME" (all parameters inside modules of this class) and "pattern:GLOB" (of a parameter's
 * whole name; `*` matches dots too, so that *bias is every bias), separated by spaces. */
typedef struct ls_optimizer_group {
    const char *match;
    double lr_factor;    /* their learning rate is that of the step times this */
    double weight_decay; /* below 0: the optimizer's */
    bool adamw;          /* muon: AdamW updates them, matrices or not; a head, for example */
} ls_optimizer_group;
#define LS_OPTIMIZER_GROUP_DEFAULTS .match = NULL, .lr_factor = 1, .weight_decay = -1, .adamw = false
LS_API ls_optimizer_group ls_optimizer_group_default(void);

/* The scale by which an f16 step's loss is multiplied, as torch.amp.GradScaler counts it: `init` at first,
 * times `growth` after `interval` good steps in a row, times `backoff` after one with a gradient that is not
 * finite. */
typedef struct ls_scaler {
    double init, growth, backoff;
    int64_t interval;
} ls_scaler;
#define LS_SCALER_DEFAULTS .init = 65536, .growth = 2, .backoff = 0.5, .interval = 2000
LS_API ls_scaler ls_scaler_default(void);

/* What a step does whose loss or gradient norm is not finite. It changes nothing. */
typedef enum ls_nonfinite {
    LS_NONFINITE_STOP, /* it fails with LS_E_NUMERIC */
    LS_NONFINITE_SKIP  /* it is skipped, and fails only if it is one of too many in a row */
} ls_nonfinite;

typedef struct ls_update_opts {
    ls_optimizer optimizer;
    /* 0: no clipping. Else gradients are scaled by min(1, clip_norm / (norm + 1e-6)), as clip_grad_norm_
     * does; the norm is that of all gradients together. */
    double clip_norm;
    /* Above 0: keeps an exponential moving average of the parameters, the state "ema.<unit>": the parameters
     * after the first step, then in each step average += (1 - ema_decay) (parameter - average), as
     * torch.optim.swa_utils.get_ema_multi_avg_fn. */
    double ema_decay;
    /* f16: gradients are multiplied by the state "loss_scale". A step with a gradient or a loss that is not
     * finite lowers the scale. */
    bool loss_scaling;
    ls_scaler scaler;
    /* The rest is for several ranks (docs/ranks.md). */
    const char *shard, *replicate; /* groups over which gradients are sharded and replicated */
    int shards, replicas;          /* sizes of these groups; 1: there is no such group */
    bool reduce;                   /* the inputs are gradients of this rank alone: the program reduces them */
    bool offload;                  /* units are in host memory, and gradients on the device */
    const char *model;             /* group of ranks that have different parameters */
    int models;                    /* ranks of that group; 1: there is no such group */
} ls_update_opts;
#define LS_UPDATE_DEFAULTS                                                                         \
    .optimizer = { LS_OPTIMIZER_DEFAULTS }, .clip_norm = 0, .ema_decay = 0, .loss_scaling = false, \
    .scaler = { LS_SCALER_DEFAULTS }, .shard = "", .replicate = "", .shards = 1, .replicas = 1,    \
    .reduce = false, .offload = false, .model = "", .models = 1
LS_API ls_update_opts ls_update_opts_default(void);

/* How the gradients of a step's micro-batches are added. */
typedef enum ls_accumulation {
    LS_SUM_TREE,   /* in a balanced tree: the same bits on 1, 2, 4, ... ranks */
    LS_SUM_RUNNING /* one after the other: less memory */
} ls_accumulation;

/* A parameter in its unit: all of it, where the unit is whole. */
typedef struct ls_update_tensor {
    const char *name;
    ls_type type;
    int64_t offset; /* its first element in the unit */
} ls_update_tensor;

/* One flat buffer of parameters. */
typedef struct ls_update_unit {
    const char *name; /* of its state */
    ls_type type;     /* of this rank's part: [elements] */
    bool elsewhere;   /* only other ranks of `model` have it: this one updates nothing */
    bool copy;        /* another rank of `model` has the same, and counts it in the norm */
    const char *shard,
        *replicate;       /* groups over which it is sharded and replicated; NULL: those of the options */
    int shards, replicas; /* and their sizes */
    ls_dtype via;         /* type that sums of its gradient over ranks are rounded to */
    /* The update also writes the parameters in type `weight_type`, to the state "weights.<unit>", whether or
     * not it applies. gradient_there: the gradient is the content of that state, and there is no input. */
    bool weights, gradient_there;
    ls_dtype weight_type;
    const ls_optimizer_group *group; /* the settings of its own; NULL: none */
    /* For optimizers that look at whole parameters (muon, adafactor): those of the unit, and the element of
     * the unit at which this rank's part begins. muon: none for a unit that AdamW updates. */
    int n_tensors;
    const ls_update_tensor *tensors;
    int64_t first;
} ls_update_unit;

/* Builds the update program of n units. Local.
 * Inputs: "grad.<unit>" (f32 or f64; as long as the state, or with `reduce` `shards` times as long), "lr"
 * f64 [], "largest_loss" (f64 [] if the units are f64, else f32 []), the largest absolute loss of this
 * rank's micro-batches; where nobody puts it, it is 0. States: "<unit>", "<moment>.<unit>", "step" i64 [].
 * Outputs: with clipping "grad_norm", over all units and ranks; "applied" i32 [], the same on all ranks: 0
 * if a loss of any rank, the norm, or without clipping the square of an element, is not finite, and then all
 * states keep their values but those of the loss scale. */
LS_API ls_status ls_update_build(ls_graph *g, int n, const ls_update_unit *units, const ls_update_opts *o);

typedef enum ls_schedule_kind {
    LS_SCHED_CONSTANT,
    LS_SCHED_STEP,
    LS_SCHED_COSINE,
    LS_SCHED_LINEAR,
    LS_SCHED_POLYNOMIAL,
    LS_SCHED_WSD,
    LS_SCHED_ONE_CYCLE,
    LS_SCHED_RESTARTS,
    LS_SCHED_PLATEAU
} ls_schedule_kind;
/* The learning rate of an optimizer step. In the first W = warmup_steps steps, counted from 0, it is
 * base * (step + 1) / W. After them, with s = step - W and T = total_steps - W:
 *   constant  base
 *   step      base * gamma^floor((s + step_offset) / step_size)
 *   cosine    min_lr + (base - min_lr) * (1 + cos(pi * s / T)) / 2, and min_lr from T on
 *   linear    base + (min_lr - base) * s / T, and min_lr from T on
 *   polynomial  min_lr + (base - min_lr) * (1 - s / T)^power, PyTorch's PolynomialLR, and min_lr from T on
 *   wsd       base; in the last D = decay_steps steps (0: a tenth of T) before total_steps a line to min_lr
 *   one_cycle PyTorch's OneCycleLR(max_lr=base) with cosines, without a cycle of the momentum: from base /
 *             div_factor up to base in pct_start of total_steps, then down to base / div_factor /
 *             final_div_factor; warmup_steps must be 0
 *   restarts  PyTorch's CosineAnnealingWarmRestarts: cosines from base to min_lr of `period` steps, each
 *             period_factor times as long as the one before
 *   plateau   base * gamma^cuts, at least min_lr: `cuts` is the caller's count (ReduceLROnPlateau) */
typedef struct ls_schedule {
    ls_schedule_kind kind;
    int64_t warmup_steps, step_size, total_steps;
    double gamma, min_lr;
    int64_t step_offset; /* 0, unless cuts follow epochs and earlier epochs had another number of steps */
    double power;        /* polynomial */
    int64_t decay_steps; /* wsd */
    double pct_start, div_factor, final_div_factor; /* one_cycle */
    int64_t period, period_factor;                  /* restarts */
    int64_t cuts;                                   /* plateau */
} ls_schedule;
LS_API double ls_schedule_rate(const ls_schedule *s, double base, int64_t step);

#ifdef __cplusplus
}
#endif
