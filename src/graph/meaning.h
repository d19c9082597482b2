/* meaning.h - the meaning of a source or an output for the programs of a step: a type and a number.
 * graph/identity.h compares and names these identities. */
#pragma once
#include <stdint.h>

/* clang-format off */
/* NAMED: only the name identifies it, as a model or a caller declares it. UNIT: the parameters of unit
 * number `unit`; WEIGHTS: the same in the type of computation; MOMENT, GRADIENT: a moment of them, their
 * gradient; GATHERED: the whole unit where it is a mapping. LOSS, DIVISOR, ROWS, TARGETS: of the loss (in an
 * evaluation also the metric) number `unit`. LARGEST_LOSS: the largest |loss 0| of the micro-batches that a
 * step has run so far. PREDICTED, PROBABILITY: computed from the model's logits. REAL: the number of samples
 * of the micro-batch that are not padding. TRACK: whether it is micro-batch 0. PLACES: the numbers of its
 * samples in the step. SEED: of random masks. EVAL_INPUT: input number `unit` of an evaluation whose batch is
 * not the micro-batch. The others are single numbers of a step. */
typedef enum ls_what { LS_IS_NAMED, LS_IS_UNIT, LS_IS_WEIGHTS, LS_IS_MOMENT, LS_IS_GRADIENT, LS_IS_GATHERED,
    LS_IS_STEP, LS_IS_RATE, LS_IS_LOSS_SCALE, LS_IS_GOOD_STEPS, LS_IS_GRAD_NORM, LS_IS_APPLIED, LS_IS_LOSS,
    LS_IS_LARGEST_LOSS, LS_IS_DIVISOR, LS_IS_ROWS, LS_IS_TARGETS, LS_IS_PREDICTED, LS_IS_PROBABILITY,
    LS_IS_REAL, LS_IS_TRACK, LS_IS_PLACES, LS_IS_SEED, LS_IS_EVAL_INPUT } ls_what;
/* in the order of their names */
typedef enum ls_moment { LS_EXP_AVG, LS_EXP_AVG_SQ, LS_MOMENTUM_BUFFER, LS_MOMENTS } ls_moment;
typedef struct ls_identity { int64_t what, unit, moment; } ls_identity;
/* clang-format on */
