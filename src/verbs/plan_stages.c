/* plan_stages.c - see plan_stages.h. */
#include "plan_stages.h"

#include <math.h>
#include <stdlib.h>

#include "base/shown.h"
#include "base/sys.h"
#include "passes/stages.h"
#include "stage_players.h"

static int64_t stored(const ls_units *u)
{
    int64_t n = 0;
    for (int i = 0; i < u->n; i++)
        n += ls_unit_is_here(u, i) ? u->units[i].slice : 0;
    return n;
}

/* What each stage needs, whether all times are known, and the seconds that all ranks together would take if
 * none waited for another stage. */
static bool add_stages(ls_plan_stages *out, double *busy, const ls_stage_players *p)
{
    bool known = true;
    *busy = 0;
    for (int i = 0; i < p->n; i++) {
        const ls_compiled *c = &p->compiled[i]->step;
        ls_step_cost cost;
        ls_step_cost_of(&cost, p->compiled[i]);
        known = known && cost.seconds > 0;
        if (cost.memory.total > out->memory.total)
            out->memory = cost.memory;
        out->stages[i] = (ls_plan_stage){ .rank = c->parallel.rank,
                                          .parameters = stored(&c->units),
                                          .flops = cost.flops,
                                          .memory = cost.memory.total,
                                          .device = cost.memory.device };
        if (cost.seconds > 0)
            out->stages[i].seconds = c->plans[LS_MICRO]->seconds + c->plans[LS_UPDATE]->seconds;
        *busy += out->stages[i].seconds;
    }
    return known;
}

static ls_status make(ls_plan_stages *out, ls_step_cost *cost, ls_stage_players *p)
{
    double seconds, busy;
    LS_TRY(ls_sys_have(out->stages = ls_sys_calloc((size_t)p->n, sizeof *out->stages)));
    if (!add_stages(out, &busy, p))
        return LS_OK;
    LS_TRY(ls_stage_players_play(&seconds, p));
    cost->seconds = seconds;
    cost->idle = 1 - busy / (p->n * seconds);
    out->played = true;
    return LS_OK;
}

ls_status ls_plan_stages_make(ls_plan_stages *out, ls_step_cost *cost, const ls_compiled_recipe *c,
                              const ls_recipe_arg *recipe, const ls_elsewhere *where, bool measure)
{
    *out = (ls_plan_stages){ .memory = cost->memory };
    if (c->step.units.sharding.stages < 2)
        return LS_OK;
    ls_stage_players p;
    ls_status s = ls_stage_players_make(&p, c, recipe, where, measure);
    if (s == LS_OK)
        s = make(out, cost, &p);
    ls_stage_players_release(&p);
    if (s != LS_OK)
        ls_plan_stages_release(out);
    return s;
}

void ls_plan_stages_release(ls_plan_stages *s)
{
    free(s->stages);
    s->stages = NULL;
}

/* "stage 1", or with the schedule interleaved "stages 1, 3, 5" */
static void name_text(ls_str *out, int position, const ls_compiled *c)
{
    const int ranks = c->units.sharding.stages, chunks = ls_parallel_chunks(&c->parallel);
    ls_str_printf(out, "stage%s %d", chunks > 1 ? "s" : "", position);
    for (int k = 1; k < chunks; k++)
        ls_str_printf(out, ", %d", k * ranks + position);
}

/* Bytes that reshard_after_forward: false would keep on the rank of `c`: its gathered units besides the root.
 * 0: nothing is freed. */
static double freed(const ls_compiled *c)
{
    const ls_units *u = &c->units;
    double bytes = 0;
    for (int i = 0; i < u->n && ls_parallel_reshards(&c->parallel) < 0 && !u->sharding.map; i++)
        if (u->sharding.shards > 1 && !u->units[i].root && ls_unit_is_here(u, i))
            bytes += (double)u->units[i].elements * (double)ls_dtype_size(u->units[i].param);
    return bytes;
}

void ls_plan_stages_text(ls_str *out, const ls_plan_stages *s, const ls_compiled_recipe *c,
                         const ls_step_cost *cost)
{
    const ls_compiled *step = &c->step;
    const int n = step->units.sharding.stages;
    char memory[32], time[32], *schedule = ls_recipe_value(c->recipe, "parallel.schedule");
    for (int i = 0; s->stages && i < n; i++) {
        const ls_plan_stage *x = &s->stages[i];
        ls_str_add(out, i ? "        " : "stages  ");
        name_text(out, i, step);
        ls_str_printf(out, " (rank %d): %s a rank, %lld parameters, %.3f GFLOP", x->rank,
                      ls_format_bytes(memory, x->memory), (long long)x->parameters, 1e-9 * x->flops);
        if (x->seconds > 0)
            ls_str_printf(out, ", busy for %s of a step", ls_format_duration(time, x->seconds));
        ls_str_add(out, "\n");
    }
    if (s->stages)
        ls_str_printf(out,
                      "        a rank is idle for %.0f %% of a step with %s, p = %d ranks and m = %lld "
                      "micro-batches%s%s\n",
                      100 * cost->idle, schedule ? schedule : "this schedule", n,
                      (long long)step->share.count,
                      s->played ? ": their programs' times, played beside each other"
                                : ", if all stages take equally long",
                      step->share.count < n ? "; a smaller train.micro_batch makes it less" : "");
    if (s->stages && freed(step) > 0)
        ls_str_printf(out,
                      "        units are gathered for each of m micro-batches, forward and backward; "
                      "parallel.reshard_after_forward: false gathers them once a step and keeps %s\n",
                      ls_format_bytes(memory, (uint64_t)freed(step)));
    free(schedule);
}

void ls_plan_stages_json(ls_json *j, const ls_plan_stages *s, const ls_compiled_recipe *c,
                         const ls_step_cost *cost)
{
    if (!s->stages)
        return;
    ls_json_f64(j, "idle", cost->idle);
    ls_json_bool(j, "played", s->played);
    ls_json_array(j, "stages");
    for (int i = 0; i < c->step.units.sharding.stages; i++) {
        const ls_plan_stage *x = &s->stages[i];
        ls_json_object(j, NULL);
        ls_json_int(j, "rank", x->rank);
        ls_json_int(j, "parameters", x->parameters);
        ls_json_int(j, "memory", (int64_t)x->memory);
        ls_json_int(j, "of_it_device", (int64_t)x->device);
        ls_json_f64(j, "flops", x->flops);
        ls_json_f64(j, "seconds", x->seconds > 0 ? x->seconds : NAN);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}
