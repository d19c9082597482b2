/* plan_search.c - plans the step under every layout and micro-batch that the ranks and the global batch
 * allow, and ranks those that fit into a memory by estimated time. What the user set stays as it is. Each key
 * of the winner is then compared with its other values, all else equal: those are the reasons. */
#include "plan_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/shown.h"
#include "base/sys.h"
#include "lockstep/recipe.h"
#include "plan_search_own.h"
#include "plan_stages.h"
#include "step_cost.h"

/* ---- what there is to try */

static ls_status add(search *s, const candidate *like)
{
    candidate c = *like;
    for (int k = 0; k < KEYS; k++)
        if (s->fixed[k])
            c.value[k][0] = 0;
    for (int i = 0; i < s->n; i++)
        if (!memcmp(s->c[i].value, c.value, sizeof c.value))
            return LS_OK;
    s->more = s->more || s->n == MOST;
    if (s->n == MOST)
        return LS_OK;
    candidate *more = ls_sys_grow(s->c, s->n, &s->room, sizeof *more);
    LS_TRY(ls_sys_have(more));
    s->c = more;
    s->c[s->n++] = c;
    return LS_OK;
}

/* The recipe with a candidate's settings. */
typedef struct settings {
    ls_recipe_arg recipe;
    char text[KEYS][VALUE + 48];
    const char **sets;
} settings;

static ls_status settings_make(settings *out, const search *s, const candidate *c)
{
    const ls_recipe_arg *r = &s->o->recipe;
    LS_TRY(ls_sys_have(out->sets = ls_sys_calloc((size_t)r->n_sets + KEYS, sizeof *out->sets)));
    int n = 0;
    for (int k = 0; k < KEYS; k++)
        if (c->value[k][0]) {
            snprintf(out->text[k], sizeof out->text[k], "%s=%s", ls_plan_search_keys[k], c->value[k]);
            out->sets[n++] = out->text[k];
        }
    for (int i = 0; i < r->n_sets; i++)
        out->sets[n++] = r->sets[i];
    out->recipe = (ls_recipe_arg){ .name = r->name, .n_sets = n, .sets = out->sets };
    return LS_OK;
}

static ls_status compile(ls_compiled_recipe *step, const search *s, const candidate *c)
{
    settings with;
    LS_TRY(settings_make(&with, s, c));
    const ls_status status = ls_compiled_recipe_make(step, &with.recipe, 0, &s->o->where);
    free(with.sets);
    return status;
}

/* Bytes of memory that a rank needs, of its own. */
static size_t memory_needed(const ls_step_cost *cost, const ls_compiled_recipe *step)
{
    const int64_t given = step->ranks_per_host, host = given > 0 && given < step->ranks ? given : step->ranks;
    const ls_step_memory *m = &cost->memory;
    return m->apart ? m->device : m->total + cost->messages + m->plans.node / (size_t)host;
}

static bool too_large(const search *s, const ls_step_cost *cost, const ls_compiled_recipe *step)
{
    return s->memory && memory_needed(cost, step) > (size_t)s->memory;
}

/* The cost of a step, whose ranks may have different stages, and the memory of the rank that needs most.
 * Where the first one needs too much already, the others are not compiled. */
static ls_status cost_of(ls_step_cost *cost, const ls_compiled_recipe *step, const search *s,
                         const candidate *c, bool measure, bool play)
{
    settings with;
    ls_plan_stages stages;
    ls_step_cost_of(cost, step);
    if (!play || too_large(s, cost, step))
        return LS_OK;
    LS_TRY(settings_make(&with, s, c));
    const ls_status status = ls_plan_stages_make(&stages, cost, step, &with.recipe, &s->o->where, measure);
    cost->memory = stages.memory;
    ls_plan_stages_release(&stages);
    free(with.sets);
    return status;
}

/* The axes of a mesh besides dp. */
typedef struct axes {
    int64_t pipeline, context, tensor, expert;
} axes;

static void mesh_text(char text[VALUE], int64_t data, const axes *a)
{
    const struct {
        const char *name;
        int64_t size;
    } all[] = { { "pp", a->pipeline }, { "cp", a->context }, { "tp", a->tensor }, { "ep", a->expert } };
    int n = snprintf(text, VALUE, "{dp: %lld", (long long)data);
    for (int i = 0; i < 4; i++)
        if (all[i].size > 1)
            n += snprintf(text + n, (size_t)(VALUE - n), ", %s: %lld", all[i].name, (long long)all[i].size);
    snprintf(text + n, (size_t)(VALUE - n), "}");
}

/* Of one layout with a micro-batch: the schedules of its pipeline. That of gpipe takes as long as 1f1b, in
 * more memory. With fewer micro-batches than ranks most of the time is lost; with ENOUGH times as many hardly
 * any is. */
static ls_status add_schedules(search *s, candidate *c, int64_t data, const axes *a, int64_t micro)
{
    static const char *const SCHEDULES[] = { "1f1b", "zero_bubble", "interleaved" };
    const int64_t runs = s->global_batch / (data * micro);
    if (a->pipeline < 2)
        return add(s, c);
    for (int k = 0; k < 3 && runs >= a->pipeline && runs <= ENOUGH * a->pipeline; k++) {
        snprintf(c->value[SCHEDULE], VALUE, "%s", SCHEDULES[k]);
        if (k < 2 || runs % a->pipeline == 0)
            LS_TRY(add(s, c));
    }
    return LS_OK;
}

/* Of one mesh with `data` data ranks: how parameters lie over the ranks that sum gradients, and the halves of
 * the largest micro-batch. */
static ls_status add_mesh(search *s, const candidate *mesh, int64_t data, const axes *a, bool hybrid)
{
    static const char *const WAYS[][2] = { { "fsdp", "true" }, { "fsdp", "false" }, { "ddp", "" } };
    static const char *const BLOCKS[][2] = { { "hybrid", "true" }, { "hybrid", "false" } };
    const int64_t sums = data * a->context;
    for (int way = 0; way < (hybrid ? 2 : sums > 1 ? 3 : 1); way++)
        for (int sequence = 0; sequence < (a->tensor > 1 ? 2 : 1); sequence++)
            for (int recompute = 0; recompute < 2; recompute++)
                for (int64_t micro = s->global_batch / data, k = 0; micro >= 1 && k < 8; micro /= 2, k++) {
                    candidate c = *mesh;
                    if (sums > 1) {
                        snprintf(c.value[DATA], VALUE, "%s", hybrid ? BLOCKS[way][0] : WAYS[way][0]);
                        snprintf(c.value[RESHARD], VALUE, "%s", hybrid ? BLOCKS[way][1] : WAYS[way][1]);
                    }
                    if (a->tensor > 1)
                        snprintf(c.value[SEQUENCE], VALUE, "%s", sequence ? "true" : "false");
                    snprintf(c.value[RECOMPUTE], VALUE, "%s", recompute ? "units" : "none");
                    snprintf(c.value[MICRO], VALUE, "%lld", (long long)micro);
                    LS_TRY(add_schedules(s, &c, data, a, micro));
                    if (micro % 2)
                        break;
                }
    return LS_OK;
}

/* The largest size of one axis, beside dp, that is not refused: not every model has tokens, layers to cut
 * between, or experts. */
static ls_status most_of(int64_t *most, const search *s, axes *a, int64_t *size)
{
    *most = 1;
    for (*size = 2; *size <= s->ranks; *size *= 2) {
        ls_compiled_recipe step;
        candidate c = { 0 };
        if (s->ranks % *size || s->global_batch % (s->ranks / *size))
            continue;
        mesh_text(c.value[MESH], s->ranks / *size, a);
        const ls_status status = compile(&step, s, &c);
        if (status == LS_E_MEMORY || status == LS_E_STOPPED)
            return status;
        if (status != LS_OK)
            return LS_OK;
        ls_compiled_recipe_release(&step);
        *most = *size;
    }
    return LS_OK;
}

/* What there is to try with the user's mesh. */
static ls_status list_fixed(search *s)
{
    const ls_mesh *m = &s->mesh;
    const axes a = { ls_mesh_group_size(m, ls_mesh_axis(m, LS_ROLE_PIPELINE)),
                     ls_mesh_group_size(m, ls_mesh_axis(m, LS_ROLE_CONTEXT)),
                     ls_mesh_group_size(m, ls_mesh_axis(m, LS_ROLE_TENSOR)),
                     ls_mesh_group_size(m, ls_mesh_axis(m, LS_ROLE_EXPERT)) };
    const int64_t data = ls_mesh_data_ranks(m);
    return s->global_batch % data ? LS_OK : add_mesh(s, &(candidate){ 0 }, data, &a, false);
}

static ls_status list(search *s)
{
    const int64_t given = ls_elsewhere_ranks(&s->o->where, s->ranks), host = given ? given : s->ranks;
    axes most = { 1, 1, host < s->ranks ? host : s->ranks, 1 }, a = { 1, 1, 1, 1 };
    LS_TRY(most_of(&most.context, s, &a, &a.context));
    a = (axes){ 1, 1, 1, 1 };
    LS_TRY(most_of(&most.pipeline, s, &a, &a.pipeline));
    a = (axes){ 1, 1, 1, 1 };
    LS_TRY(most_of(&most.expert, s, &a, &a.expert));
    for (a.tensor = 1; a.tensor <= most.tensor; a.tensor *= 2)
        for (a.context = 1; a.context <= most.context; a.context *= 2)
            for (a.pipeline = 1; a.pipeline <= most.pipeline; a.pipeline *= 2)
                for (a.expert = 1; a.expert <= most.expert; a.expert *= 2) {
                    const int64_t parts = a.tensor * a.context * a.pipeline, data = s->ranks / parts;
                    candidate c = { 0 };
                    if (!data || s->ranks % parts || s->global_batch % data || data % a.expert)
                        continue;
                    if (s->ranks > 1)
                        mesh_text(c.value[MESH], data / a.expert, &a);
                    LS_TRY(add_mesh(s, &c, data, &a, false));
                }
    if (host > 1 && host < s->ranks && s->global_batch % s->ranks == 0) {
        candidate c = { 0 };
        snprintf(c.value[MESH], VALUE, "{dp: %lld, shard: %lld}", (long long)(s->ranks / host),
                 (long long)host);
        LS_TRY(add_mesh(s, &c, s->ranks, &(axes){ 1, 1, 1, 1 }, true));
    }
    return LS_OK;
}

/* ---- trying */

static ls_status try(search *s, candidate *c, bool measure, bool play)
{
    ls_compiled_recipe step;
    ls_step_cost cost;
    ls_status status = compile(&step, s, c);
    if (status == LS_E_MEMORY || status == LS_E_STOPPED)
        return status;
    if (status != LS_OK) {
        c->outcome = REFUSED;
        c->why = ls_sys_strdup(ls_error_message());
        return ls_sys_have(c->why);
    }
    status = measure ? ls_compiled_recipe_measure(&step) : LS_OK;
    if (status == LS_OK && !step.calibration)
        status = ls_fail(LS_E_USAGE,
                         "--search ranks by time, and nothing was measured with %d thread%s: run "
                         "`lockstep doctor` first, or add --measure",
                         step.step.device.threads, step.step.device.threads == 1 ? "" : "s");
    if (status == LS_OK)
        status = cost_of(&cost, &step, s, c, measure, play);
    if (status == LS_OK) {
        c->memory = memory_needed(&cost, &step);
        c->seconds = cost.seconds;
        c->communication = cost.communication;
        c->update = step.step.plans[LS_UPDATE]->seconds;
        c->exact = cost.measured == cost.kernels;
        c->played = play || step.step.units.sharding.stages < 2;
        c->outcome = too_large(s, &cost, &step) ? TOO_LARGE : FITS;
    }
    ls_compiled_recipe_release(&step);
    return status;
}

static int faster(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->outcome != b->outcome)
        return a->outcome < b->outcome ? -1 : 1;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return a->memory < b->memory ? -1 : a->memory > b->memory;
}

/* i NULL: all is done. */
static void search_progress(const search *s, const ls_ui *ui, const int *i, double began)
{
    const double seconds = ls_now() - began;
    if (ui->progress)
        ui->progress(ui->context, i ? &(ls_progress){ .what = "planning",
                                                      .done = *i,
                                                      .total = s->n,
                                                      .unit = "layouts",
                                                      .rate = seconds > 0 ? *i / seconds : 0 }
                                    : NULL);
}

/* Whether a smaller micro-batch with the same settings, which was tried before, needs too much memory. */
static bool is_hopeless(const search *s, candidate *c)
{
    const long micro = atol(c->value[MICRO]);
    for (const candidate *x = c + 1; x < s->c + s->n && !strcmp(x->value[MESH], c->value[MESH]); x++)
        if (x->outcome == TOO_LARGE && atol(x->value[MICRO]) < micro &&
            !memcmp(x->value, c->value, sizeof(c->value) - VALUE)) {
            c->outcome = TOO_LARGE;
            c->memory = x->memory;
            return true;
        }
    return false;
}

/* Of few layouts the stages of each pipeline are played; of many only those of the leaders, and what cannot
 * fit is not planned. From the last one on: small micro-batches are behind larger ones. */
static ls_status try_each(search *s, const ls_ui *ui)
{
    const double began = ls_now();
    const bool many = s->n > MANY;
    bool measure = s->o->measure;
    for (int i = s->n - 1, done = 0; i >= 0; i--, done++) {
        if (ls_stop_asked())
            return ls_fail(LS_E_STOPPED, "stopped after %d of %d layouts", done, s->n);
        search_progress(s, ui, &done, began);
        if (!(many && is_hopeless(s, &s->c[i])))
            LS_TRY(try(s, &s->c[i], measure, !many));
        measure = measure && s->c[i].outcome == REFUSED;
    }
    qsort(s->c, (size_t)s->n, sizeof *s->c, faster);
    for (int i = 0; i < SHOWN && i < s->n && s->c[i].outcome == FITS; i++) {
        if (s->c[i].played)
            continue;
        search_progress(s, ui, &s->n, began);
        LS_TRY(try(s, &s->c[i], false, true));
        qsort(s->c, (size_t)s->n, sizeof *s->c, faster);
        i = -1;
    }
    return LS_OK;
}

static ls_status try_all(search *s, const ls_ui *ui)
{
    const ls_status tried = try_each(s, ui);
    search_progress(s, ui, NULL, 0);
    LS_TRY(tried);
    qsort(s->c, (size_t)s->n, sizeof *s->c, faster);
    /* The leader is measured, until the leader is one that was. */
    for (int k = 0; s->o->measure && k < MEASURED && s->c[0].outcome == FITS && !s->c[0].exact; k++) {
        LS_TRY(try(s, &s->c[0], true, true));
        qsort(s->c, (size_t)s->n, sizeof *s->c, faster);
    }
    for (int i = 0; i < s->n; i++)
        s->count[s->c[i].outcome]++;
    return LS_OK;
}

/* --memory, or what a rank has on the machine: its GPU, or its part of the host. */
static int64_t memory_of(const ls_plan_command_opts *o, int ranks)
{
    const ls_machine *m = o->where.machine;
    if (o->memory || !m)
        return o->memory;
    const int64_t given = ls_elsewhere_ranks(&o->where, ranks);
    return m->device.memory ? m->device.memory : m->host.memory / (given ? given : ranks);
}

static ls_status plan_search_run(search *s, const ls_ui *ui)
{
    ls_recipe *r;
    LS_TRY(ls_recipe_load(&r, s->o->recipe.name, s->o->recipe.n_sets, s->o->recipe.sets));
    s->ranks = (int)r->workers.max;
    s->global_batch = r->train.global_batch;
    s->memory = memory_of(s->o, s->ranks);
    for (int i = 0; i < s->o->recipe.n_sets; i++)
        for (int k = 0; k < KEYS; k++) {
            const size_t n = strlen(ls_plan_search_keys[k]);
            s->fixed[k] = s->fixed[k] || (!strncmp(s->o->recipe.sets[i], ls_plan_search_keys[k], n) &&
                                          s->o->recipe.sets[i][n] == '=');
        }
    const ls_status resolved = s->fixed[MESH] ? ls_mesh_resolve(&s->mesh, &r->parallel.mesh, s->ranks)
                                              : LS_OK;
    ls_recipe_destroy(&r);
    LS_TRY(resolved);
    LS_TRY(s->fixed[MESH] ? list_fixed(s) : list(s));
    if (!s->n)
        return ls_fail(LS_E_USAGE, "--search: no layout of %d ranks divides train.global_batch %lld",
                       s->ranks, (long long)s->global_batch);
    LS_TRY(try_all(s, ui));
    if (s->count[REFUSED] == s->n)
        return ls_fail(LS_E_USAGE, "--search: every layout was refused: %s", s->c[0].why);
    return (s->o->json ? ls_plan_search_json : ls_plan_search_text)(s, ui);
}

ls_status ls_plan_search(const ls_plan_command_opts *o, const ls_ui *ui)
{
    search s = { .o = o };
    const ls_status status = plan_search_run(&s, ui);
    for (int i = 0; i < s.n; i++)
        free(s.c[i].why);
    free(s.c);
    return status;
}
