/* plan_stages.c - see plan_stages.h. */
#include "plan_stages.h"

#include <math.h>

#include "base/shown.h"
#include "base/sys.h"

static int64_t stored(const ls_units *u)
{
    int64_t n = 0;
    for (int i = 0; i < u->n; i++)
        n += ls_unit_is_here(u, i) ? u->units[i].slice : 0;
    return n;
}

static int first_rank(const ls_mesh *m, int stage)
{
    int r = 0;
    while (ls_mesh_position(m, r, ls_mesh_axis(m, LS_ROLE_PIPELINE)) != stage)
        r++;
    return r;
}

ls_status ls_plan_stages_make(ls_plan_stage **out, ls_step_cost *cost, const ls_compiled_recipe *c,
                              const ls_plan_command_opts *o)
{
    const int n = c->step.units.sharding.stages;
    *out = NULL;
    if (n < 2)
        return LS_OK;
    LS_TRY(ls_sys_have(*out = ls_sys_calloc((size_t)n, sizeof **out)));
    for (int i = 0; i < n; i++) {
        ls_compiled_recipe other;
        ls_step_cost its;
        const int rank = first_rank(&c->step.parallel.mesh, i);
        LS_TRY(ls_compiled_recipe_make(&other, &o->recipe, rank, &o->where));
        ls_step_cost_of(&its, &other);
        (*out)[i] = (ls_plan_stage){ .rank = rank,
                                     .parameters = stored(&other.step.units),
                                     .flops = its.flops,
                                     .seconds = its.seconds,
                                     .memory = its.memory.total };
        cost->seconds = its.seconds > cost->seconds ? its.seconds : cost->seconds;
        ls_compiled_recipe_release(&other);
    }
    return LS_OK;
}

void ls_plan_stages_text(ls_str *out, const ls_plan_stage *stages, const ls_compiled_recipe *c)
{
    const ls_compiled *s = &c->step;
    const int n = s->units.sharding.stages;
    char memory[32], time[32];
    for (int i = 0; stages && i < n; i++) {
        const ls_plan_stage *x = &stages[i];
        ls_str_printf(out, "%sstage %d (rank %d): %s a rank, %lld parameters, %.3f GFLOP",
                      i ? "        " : "stages  ", i, x->rank, ls_format_bytes(memory, x->memory),
                      (long long)x->parameters, 1e-9 * x->flops);
        if (x->seconds > 0)
            ls_str_printf(out, ", %s", ls_format_duration(time, x->seconds));
        ls_str_add(out, "\n");
    }
    if (stages)
        ls_str_printf(
            out,
            "        a rank is idle for %.0f %% of a step, (p - 1) / (m + p - 1) of p = %d stages and "
            "m = %lld micro-batches%s\n",
            100 * ls_pipeline_idle(s), n, (long long)s->share.count,
            s->share.count < n ? ": a smaller train.micro_batch makes it less" : "");
}

void ls_plan_stages_json(ls_json *j, const ls_plan_stage *stages, const ls_compiled_recipe *c)
{
    if (!stages)
        return;
    ls_json_f64(j, "idle", ls_pipeline_idle(&c->step));
    ls_json_array(j, "stages");
    for (int i = 0; i < c->step.units.sharding.stages; i++) {
        ls_json_object(j, NULL);
        ls_json_int(j, "rank", stages[i].rank);
        ls_json_int(j, "parameters", stages[i].parameters);
        ls_json_int(j, "memory", (int64_t)stages[i].memory);
        ls_json_f64(j, "flops", stages[i].flops);
        ls_json_f64(j, "seconds", stages[i].seconds > 0 ? stages[i].seconds : NAN);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}
