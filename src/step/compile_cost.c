/* compile_cost.c - what a compiled step costs: FLOPs and seconds. */
#include "compile.h"

double ls_compiled_flops(const ls_compiled *c)
{
    return (double)ls_compiled_runs(c) * c->plans[LS_MICRO]->flops + c->plans[LS_UPDATE]->flops;
}

double ls_compiled_model_flops(const ls_compiled *c)
{
    double again = 0;
    const ls_plan *p = c->plans[LS_MICRO];
    for (int k = 0; k < p->n_steps; k++)
        again += p->graph->nodes[p->steps[k].node]->clone_of >= 0 ? p->steps[k].cost.flops : 0;
    return ls_compiled_flops(c) - (double)ls_compiled_runs(c) * again;
}

double ls_compiled_seconds(const ls_compiled *c)
{
    double micro = c->plans[LS_MICRO]->seconds, update = c->plans[LS_UPDATE]->seconds;
    const bool known = micro > 0 && (update > 0 || !c->plans[LS_UPDATE]->n_kernels);
    /* a stage of a pipeline waits for the first micro-batch, or after its last one */
    return known ? (double)ls_compiled_runs(c) * micro / (1 - c->idle) + update : 0;
}
