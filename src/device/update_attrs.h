/* update_attrs.h - attributes of the ops of optimizers that attrs.h does not have (ops/optimizers.c). */
#pragma once

/* clang-format off */
/* group_rate: the rate of a group of parameters is the step's times this */
typedef struct ls_rate_attrs { double factor; } ls_rate_attrs;
typedef struct ls_lion_attrs { double beta1, beta2, weight_decay; } ls_lion_attrs;
/* ema: what is left of the average in a step */
typedef struct ls_ema_attrs { double decay; } ls_ema_attrs;
/* clang-format on */
