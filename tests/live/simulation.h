/* simulation.h - a small model and samples that a program makes while it runs. */
#pragma once
#include "lockstep/live.h"
#include "lockstep/nn.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { IN = 3, OUT = 2, MICRO = 4 };

/* Its inputs are x f32 [batch, IN], y f32 [batch, OUT] and id i32 [batch], of which the weights follow. */
ls_status simulation_model(ls_graph *g, const void *config, int64_t batch);
/* A trainer with initial weights: a micro-batch of MICRO samples for each rank. */
ls_status simulation_trainer(ls_trainer **out, ls_group *g);
/* The fields of sample `id`. */
void simulation_sample(int64_t id, float x[IN], float y[OUT]);
/* Puts, and pushes, the samples [first, first + m); x has the strides of a larger array. */
ls_status simulation_put(ls_live *q, int64_t first, int64_t m);
ls_status simulation_push(ls_live *q, int64_t first, int64_t m);
/* Hash of all weights of a rank's trainer. Collective. */
uint64_t simulation_weights(ls_trainer *t);
