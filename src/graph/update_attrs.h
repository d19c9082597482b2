/* update_attrs.h - attributes of the ops of optimizers that attrs.h does not have (ops/optimizers.c). */
#pragma once
#include <stdint.h>

/* clang-format off */
/* group_rate: the rate of a group of parameters is the step's times this */
typedef struct ls_rate_attrs { double factor; } ls_rate_attrs;
typedef struct ls_lion_attrs { double beta1, beta2, weight_decay; } ls_lion_attrs;
/* ema: the factor of the old average in a step */
typedef struct ls_ema_attrs { double decay; } ls_ema_attrs;
typedef struct ls_muon_momentum_attrs { double momentum; } ls_muon_momentum_attrs;
/* muon, adafactor: a parameter at element `offset` of its whole unit, of which p begins with element `first`.
 * ratio: the learning rate is times this */
typedef struct ls_muon_attrs { int64_t offset, rows, cols, first; double weight_decay, ratio; } ls_muon_attrs;
/* matrices [batch, rows, cols]; cols 0: a vector of `rows` elements */
typedef struct ls_adafactor_attrs { int64_t offset, batch, rows, cols, first, scale_parameter, relative_step,
    warmup_init; double clip_threshold, decay_rate, min_scale, weight_decay; } ls_adafactor_attrs;
/* clang-format on */

/* muon: PyTorch's iteration and its coefficients */
enum { LS_MUON_STEPS = 5 };
static const double LS_MUON_A = 3.4445, LS_MUON_B = -4.7750, LS_MUON_C = 2.0315, LS_MUON_EPS = 1e-7;
/* adafactor: added to squares of gradients */
static const double LS_ADAFACTOR_EPS = 1e-30;
