/* resnet_golden.h - golden tensors of residual networks. */
#pragma once
#include "device/cpu/isa.h"
#include "golden/values.h"
#include "lockstep/models.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "support/levels.h"

extern const ls_resnet_config TUTORIAL;
extern ls_weights *resnet_values;

int open_golden(void **state);

int close_golden(void **state);

/* A planned graph with its memory. */
typedef struct machine {
    ls_plan *plan;
    ls_session *session;
    char what[48];
} machine;

/* Takes the graph. */
machine start_machine(ls_graph *g, const char *device, int isa, int threads);

void stop_machine(machine *m);

void feed_golden(const machine *m, const char *input, const char *name);
