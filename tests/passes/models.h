/* models.h - the models that the tests of passes compile. */
#pragma once
#include "device/device.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "plan/plan.h"

extern const ls_vit_config VIT;
extern const ls_vit_config TUTORIAL;
extern const ls_mlp_config MLP;

ls_graph *vit(const ls_vit_config *c, int64_t batch);

ls_graph *mlp(void);

/* after = pass(before): the same bits everywhere. Both may be used afterwards. */
void expect_unchanged(const ls_graph *before, const ls_graph *after, const ls_units *units, bool f64,
                      const char *what);

void only_loss(ls_graph *g);

ls_value grad_of_unit(ls_graph *g, const ls_units *u);

/* As the trainer does: forward, units, backward, dce. Output "grad" is the flat gradient. */
ls_graph *training(ls_graph *g, ls_dtype param, ls_dtype output, ls_units *u);
