/* updates.h - arguments of updates.cu. An address is 0 where the op has no such operand. */
#pragma once
#include "types.h"

enum { UPDATE_THREADS = 256, UPDATE_EACH = 4096 }; /* numbers that a block updates */

/* vectors: p, moments, gradients and weights lie so that four numbers can be loaded at once */
typedef struct adam_args {
    gpu_address p, g, m, v, weights, step, lr, scale, apply;
    double beta1, beta2, eps, weight_decay;
    i64 n;
    i32 decoupled, vectors;
} adam_args;

typedef struct sgd_args {
    gpu_address p, g, buffer, step, lr, scale, apply;
    double momentum, dampening, weight_decay;
    i64 n;
    i32 nesterov, vectors;
} sgd_args;

typedef struct lion_args {
    gpu_address p, g, m, lr, scale, apply;
    double beta1, beta2, weight_decay;
    i64 n;
    i32 vectors;
} lion_args;

typedef struct ema_args {
    gpu_address average, p, step, apply;
    double decay;
    i64 n;
    i32 vectors;
} ema_args;

typedef struct muon_momentum_args {
    gpu_address g, buffer, u, scale, apply;
    double momentum;
    i64 n;
    i32 vectors;
} muon_momentum_args;

enum { SCALAR_THREADS = 32 };
typedef struct count_step_args {
    gpu_address from, to, apply;
} count_step_args;

typedef struct group_rate_args {
    gpu_address from, to;
    double factor;
} group_rate_args;

typedef struct loss_scale_args {
    gpu_address scale, good, apply, new_scale, new_good;
    double growth, backoff;
    i64 interval;
} loss_scale_args;
