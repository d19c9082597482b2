/* plan_stages.c - see plan_stages.h. */
#include "plan_stages.h"

#include <math.h>
#include <stdlib.h>

#include "base/shown.h"
#include "base/sys.h"
#include "passes/stages.h"
#include "plan/message_times.h"

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

typedef struct maker {
    ls_plan_stages *out;
    ls_message_times *lines;
    ls_arena arena;
    double update; /* the longest */
    bool known;    /* all times are */
} maker;

static ls_status add_stage(maker *m, int i, const ls_compiled_recipe *c)
{
    const ls_plan *micro = c->step.plans[LS_MICRO], *update = c->step.plans[LS_UPDATE];
    ls_step_cost cost;
    ls_step_cost_of(&cost, c);
    LS_TRY(ls_message_times_of(&m->lines[i], &m->arena, micro));
    m->known = m->known && cost.seconds > 0;
    m->update = update->seconds > m->update ? update->seconds : m->update;
    if (cost.memory.total > m->out->memory.total)
        m->out->memory = cost.memory;
    m->out->stages[i] = (ls_plan_stage){ .rank = c->step.parallel.rank,
                                         .parameters = stored(&c->step.units),
                                         .flops = cost.flops,
                                         .seconds = cost.seconds > 0 ? micro->seconds + update->seconds : 0,
                                         .memory = cost.memory.total };
    return LS_OK;
}

/* All ranks of the pipeline compute for `busy` seconds together. */
static ls_status play(maker *m, int n, ls_step_cost *cost)
{
    double seconds, busy = 0;
    LS_TRY(ls_message_times_play(&seconds, n, m->lines));
    if (!m->known || !(seconds > 0))
        return LS_OK;
    for (int i = 0; i < n; i++)
        busy += m->lines[i].busy;
    cost->idle = 1 - busy / (n * seconds);
    m->out->played = true;
    cost->seconds = seconds + m->update;
    return LS_OK;
}

static ls_status make(maker *m, int n, ls_step_cost *cost, const ls_compiled_recipe *c,
                      const ls_recipe_arg *recipe, const ls_elsewhere *where, bool measure)
{
    LS_TRY(ls_sys_have(m->out->stages = ls_sys_calloc((size_t)n, sizeof *m->out->stages)));
    m->lines = LS_ARENA_ARRAY(&m->arena, ls_message_times, n);
    LS_TRY(ls_arena_status(&m->arena));
    for (int i = 0; i < n; i++) {
        ls_compiled_recipe other;
        LS_TRY(ls_compiled_recipe_make(&other, recipe, first_rank(&c->step.parallel.mesh, i), where));
        ls_status s = measure ? ls_compiled_recipe_measure(&other) : LS_OK;
        if (s == LS_OK)
            s = add_stage(m, i, &other);
        ls_compiled_recipe_release(&other);
        LS_TRY(s);
    }
    return play(m, n, cost);
}

ls_status ls_plan_stages_make(ls_plan_stages *out, ls_step_cost *cost, const ls_compiled_recipe *c,
                              const ls_recipe_arg *recipe, const ls_elsewhere *where, bool measure)
{
    const int n = c->step.units.sharding.stages;
    *out = (ls_plan_stages){ .memory = cost->memory };
    if (n < 2)
        return LS_OK;
    maker m = { .out = out, .known = true };
    ls_arena_init(&m.arena);
    const ls_status s = make(&m, n, cost, c, recipe, where, measure);
    ls_arena_release(&m.arena);
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
        ls_json_f64(j, "flops", x->flops);
        ls_json_f64(j, "seconds", x->seconds > 0 ? x->seconds : NAN);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}
