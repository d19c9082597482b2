/* plan_machine.h - what `lockstep plan` says of the hosts that a plan is for: what they are, what does not
 * fit into them, and what their ranks share. */
#pragma once
#include "step_cost.h"

typedef struct ls_plan_host {
    int hosts, ranks, cores; /* ranks: of a host; cores: of it, 0: not known */
    bool here;               /* hosts like this one */
    int threads;             /* of a rank */
    double memory, window;   /* bytes that the ranks of a host need, and of it those that they map together */
    double room;             /* bytes of memory that a host has, or can still give; 0: not known */
    double device, gpu; /* bytes that a rank needs on its GPU, and that it has; gpu 0: not known, or none */
    double
        saved; /* bytes of activations at the worst moment that are whole on each rank of the tensor axis */
    int most;  /* ranks that a host can run */
} ls_plan_host;
/* Why the plan cannot be started there: "GPU", "host" (too little memory) or "ranks" (too many of a host);
 * NULL: it fits. */
const char *ls_plan_host_lacks(const ls_plan_host *h);
void ls_plan_host_of(ls_plan_host *out, const ls_compiled_recipe *c, const ls_step_cost *cost);
/* Lines "machine ...", "hosts   ...", "note    ..."; nothing where all is well and no machine was given. */
void ls_plan_host_text(ls_str *out, const ls_plan_host *h, const ls_compiled_recipe *c);
void ls_plan_host_json(ls_json *j, const ls_plan_host *h, const ls_compiled_recipe *c);
