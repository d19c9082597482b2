/* plan.c - makes a plan: runs the planner's parts in order. */
#include <stdlib.h>

#include "base/stop.h"
#include "base/sys.h"
#include "internal.h"

const char *ls_category_name(ls_category c)
{
    static const char *const NAMES[LS_CAT_COUNT] = { "parameters",  "gradients", "optimizer", "gathered",
                                                     "activations", "workspace", "data",      "staging" };
    return c >= 0 && c < LS_CAT_COUNT ? NAMES[c] : "?";
}

static ls_status stopped(const ls_planner *p)
{
    return ls_fail(LS_E_STOPPED, "stopped while the program %s of %d operations was planned", p->old->name,
                   p->old->n_nodes);
}

static ls_status look_for_stop(const ls_planner *p) { return ls_stop_asked() ? stopped(p) : LS_OK; }

static ls_status plan_make(ls_planner *p, const ls_plan_opts *o)
{
    LS_TRY(ls_graph_status(p->old));
    LS_TRY(ls_planner_schedule(p));
    LS_TRY(ls_planner_lower(p));
    LS_TRY(look_for_stop(p));
    LS_TRY(ls_planner_make_steps(p));
    LS_TRY(look_for_stop(p));
    LS_TRY(ls_planner_store(p));
    LS_TRY(ls_planner_place_gradients(p));
    LS_TRY(ls_planner_stage(p));
    const ls_status s = ls_planner_pack_arena(p->plan);
    if (s != LS_OK)
        return s == LS_E_STOPPED ? stopped(p) : s;
    LS_TRY(look_for_stop(p));
    return ls_plan_estimate(p->plan, o ? o->calibration : NULL, p->parallel);
}

ls_status ls_plan_create(ls_plan **out, const ls_graph *g, const ls_device *d, const ls_plan_opts *o)
{
    *out = NULL;
    ls_plan *plan = ls_sys_calloc(1, sizeof *plan);
    if (!plan)
        return ls_fail(LS_E_MEMORY, "planning graph \"%s\": out of memory", g->name);
    ls_arena_init(&plan->arena);
    plan->device = *d;
    plan->on_host = o && o->on_host;
    ls_planner p = { .plan = plan,
                     .old = g,
                     .parallel = o ? o->parallel : NULL,
                     .gradients_in_arena = o && o->gradients_in_arena };
    ls_arena_init(&p.scratch);
    const ls_status s = plan_make(&p, o);
    ls_arena_release(&p.scratch);
    if (s != LS_OK)
        ls_plan_destroy(&plan);
    *out = plan;
    return s;
}

void ls_plan_destroy(ls_plan **pp)
{
    ls_plan *p = *pp;
    if (!p)
        return;
    ls_graph *g = (ls_graph *)p->graph; /* const for all other code */
    ls_graph_destroy(&g);
    ls_arena_release(&p->arena);
    free(p);
    *pp = NULL;
}
