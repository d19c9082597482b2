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

typedef enum ls_optimizer_kind { LS_ADAM, LS_ADAMW, LS_SGD } ls_optimizer_kind;
/* PyTorch's Adam, AdamW and SGD with their defaults; the learning rate is data of each step, not part of the
 * program. */
typedef struct ls_optimizer {
    ls_optimizer_kind kind;
    double beta1, beta2, eps;   /* adam, adamw */
    double weight_decay;        /* adam, sgd: added to the gradient; adamw: decoupled */
    double momentum, dampening; /* sgd */
    bool nesterov;
} ls_optimizer;
#define LS_OPTIMIZER_DEFAULTS                                                                     \
    .kind = LS_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0, .momentum = 0, \
    .dampening = 0, .nesterov = false
LS_API ls_optimizer ls_optimizer_default(void);

typedef struct ls_update_opts {
    ls_optimizer optimizer;
    /* 0: none. Else gradients are scaled by min(1, clip_norm / (norm + 1e-6)), norm over all of them, as
     * clip_grad_norm_ */
    double clip_norm;
    /* f16: gradients carry the state "loss_scale"; a step with a non-finite one is skipped and the scale
     * backs off */
    bool loss_scaling;
    /* Over ranks (docs/ranks.md): groups that shard and replicate the units, their sizes (1: none), whether
     * gradients come unreduced, and the type their sums are rounded to; whether units rest in host memory
     * while such gradients are made on the device. */
    const char *shard, *replicate;
    int shards, replicas;
    bool reduce, offload;
    const char *tensor; /* the axis that splits layers, */
    /* its ranks, and which this is: units that are not split are theirs alike */
    int tensors, tensor_position;
    ls_dtype via;
} ls_update_opts;
#define LS_UPDATE_DEFAULTS                                                                        \
    .optimizer = { LS_OPTIMIZER_DEFAULTS }, .clip_norm = 0, .loss_scaling = false, .shard = "",   \
    .replicate = "", .shards = 1, .replicas = 1, .reduce = false, .offload = false, .tensor = "", \
    .tensors = 1, .tensor_position = 0, .via = LS_F32
LS_API ls_update_opts ls_update_opts_default(void);

/* How the gradients of a step's micro-batches are added. */
typedef enum ls_accumulation {
    LS_SUM_TREE,   /* in a balanced tree: the same bits on 1, 2, 4, ... ranks */
    LS_SUM_RUNNING /* one after the other: less memory */
} ls_accumulation;

/* One flat buffer of parameters. */
typedef struct ls_update_unit {
    const char *name; /* of its state */
    ls_type type;     /* of what this rank holds of it, flat */
    bool split;       /* over the axis of role tensor */
} ls_update_unit;

/* Builds the update program of n units: states, inputs "grad.<unit>" (f32 or f64; as the state, or `shards`
 * times as long where they come unreduced), "lr" f64 []; states "step" i64 and "<moment>.<unit>". Outputs
 * "grad_norm" (over all units and ranks) when clipping, "applied" i32 when scaling. Local. */
LS_API ls_status ls_update_build(ls_graph *g, int n, const ls_update_unit *units, const ls_update_opts *o);

typedef enum ls_schedule_kind {
    LS_SCHED_CONSTANT,
    LS_SCHED_STEP,
    LS_SCHED_COSINE,
    LS_SCHED_LINEAR
} ls_schedule_kind;
/* Rate of optimizer step s (from 0). With warmup_steps W the first W steps ramp linearly: base * (s+1)/W; the
 * schedule proper starts after them with its own step count s - W. step: base * gamma^floor((s +
 * step_offset)/step_size).
 * cosine: min + (base-min) * (1 + cos(pi * s/T)) / 2. linear: base + (min-base) * s/T, T = total_steps - W,
 * constant from there on. */
typedef struct ls_schedule {
    ls_schedule_kind kind;
    int64_t warmup_steps, step_size, total_steps;
    double gamma, min_lr;
    int64_t step_offset; /* step: cuts come so many steps sooner; 0 unless epochs that are over were longer */
} ls_schedule;
LS_API double ls_schedule_rate(const ls_schedule *s, double base, int64_t step);

#ifdef __cplusplus
}
#endif
