/* memory.c - see memory.h. */
#include "memory.h"

#include <stdio.h>

#include "base/field.h"
#include "base/str.h"
#include "device/queue.h"

enum { NAMED = 4 }; /* so many of the largest values are in a message */

static int plans_of(const ls_compiled *c, ls_plan *out[LS_PROGRAMS])
{
    int n = 0;
    for (int i = 0; i < LS_PROGRAMS; i++)
        if (c->plans[i])
            out[n++] = c->plans[i];
    return n;
}

/* Adds what is always there, of one category. */
static void add(ls_step_memory *m, ls_category c, size_t bytes)
{
    m->fixed[c] += bytes;
    m->by_category[c] += bytes;
}

ls_step_memory ls_compiled_memory(const ls_compiled *c)
{
    ls_plan *plans[LS_PROGRAMS];
    const int n = plans_of(c, plans);
    ls_step_memory m = { .spares = c->spares, .saves = c->staging_bytes };
    const ls_footprint *f = &m.plans;
    const ls_spares *s = &m.spares;
    ls_plans_footprint(&m.plans, n, plans);
    m.apart = ls_device_apart(&c->device);
    for (int i = 0; i < n; i++)
        m.pinned = plans[i]->pinned_bytes > m.pinned ? plans[i]->pinned_bytes : m.pinned;
    const bool offload = c->parallel.offload == LS_OFFLOAD_CPU;
    /* levels are of gradients that rest on the host */
    m.offloaded = f->host + (offload ? s->level_bytes : 0);
    for (int k = 0; k < LS_CAT_COUNT; k++) {
        m.fixed[k] = f->fixed[k] - f->on_host[k];
        m.by_category[k] = f->by_category[k] - (m.apart ? f->on_host[k] : 0);
    }
    if (!offload)
        m.fixed[LS_CAT_GRADIENTS] += s->level_bytes;
    if (!offload || !m.apart)
        m.by_category[LS_CAT_GRADIENTS] += s->level_bytes;
    add(&m, LS_CAT_PARAMETERS, s->undo_bytes);
    add(&m, LS_CAT_WORKSPACE, s->scratch_bytes);
    if (!m.apart)
        add(&m, LS_CAT_STAGING, m.saves);
    const size_t all = f->total + s->level_bytes + s->undo_bytes + s->scratch_bytes;
    m.device = all - m.offloaded + (m.apart ? 0 : m.saves);
    /* (what is offloaded and in the window is counted once) */
    m.host = m.offloaded + (m.apart ? f->window - f->host_window + m.pinned + m.saves : 0);
    m.total = m.device + m.host;
    return m;
}

/* ---- whether it fits */

/* Appends the largest values of the device that are alive at the peak: "linear  encoder f32 [64, 17] 1.2
 * MiB". */
static void name_largest(ls_str *out, const ls_plan *p, ls_arena *a)
{
    char bytes[32], type[128];
    const ls_alloc **alive = LS_ARENA_ARRAY(a, const ls_alloc *, p->n_allocs + 1);
    const int n = alive ? ls_plan_alive(p, p->peak_step, alive) : 0;
    ls_str_add(out, alive ? "" : NULL);
    for (int i = 0, k = 0; i < n && k < NAMED; i++) {
        if (alive[i]->host)
            continue;
        ls_str_add(out, k++ ? ", " : "");
        ls_alloc_text(out, p, alive[i]);
        if (alive[i]->value >= 0)
            ls_str_printf(out, " %s", ls_type_text(type, &p->graph->vals[alive[i]->value].type));
        ls_str_printf(out, " %s", ls_format_bytes(bytes, alive[i]->bytes));
    }
}

static ls_status refuse(const ls_compiled *c, const ls_step_memory *m, ls_option field, size_t have,
                        const char *whose)
{
    ls_plan *plans[LS_PROGRAMS];
    char a[32], b[32], spare[32];
    ls_str largest = { 0 }, at = { 0 }, more = { 0 };
    ls_arena scratch;
    ls_arena_init(&scratch);
    plans_of(c, plans);
    const ls_plan *p = plans[m->plans.peak_plan];
    name_largest(&largest, p, &scratch);
    if (p->n_steps)
        ls_step_label(&at, p, p->peak_step);
    if (m->spares.level_bytes && c->parallel.offload != LS_OFFLOAD_CPU)
        ls_str_printf(&more, ", and all the time %s of sums of micro-batches",
                      ls_format_bytes(spare, m->spares.level_bytes));
    ls_str_inherit(&largest, &at);
    ls_str_inherit(&largest, &more);
    ls_status s = ls_str_status(&largest);
    if (s == LS_OK)
        s = ls_fail_field(
            LS_E_UNSUPPORTED, field,
            "a step needs %s of the device's memory and may use %s%s; most is alive at step %d "
            "of %s (%s): the largest values there are %s%s; a smaller micro_batch, recompute or "
            "more ranks need less%s",
            ls_format_bytes(a, m->device + m->plans.node), ls_format_bytes(b, have), whose, p->peak_step,
            p->graph->name, ls_str_text(&at), ls_str_text(&largest), ls_str_text(&more),
            c->parallel.offload == LS_OFFLOAD_CPU
                ? ""
                : "; offload: cpu keeps parameters, gradients and optimizer state off it");
    ls_str_release(&largest);
    ls_str_release(&at);
    ls_str_release(&more);
    ls_arena_release(&scratch);
    return s;
}

/* How many ranks share a device: those of a host have one. */
static size_t sharing(const ls_parallel *p)
{
    const int64_t ranks = ls_mesh_ranks(&p->mesh);
    return (size_t)(p->ranks_per_host && p->ranks_per_host < ranks ? p->ranks_per_host : ranks);
}

ls_status ls_compiled_fits(const ls_compiled *c)
{
    const ls_step_memory m = ls_compiled_memory(c);
    const size_t need = m.device + m.plans.node, cap = (size_t)c->parallel.device_memory;
    if (cap && need > cap)
        return refuse(c, &m, LS_FIELD_DEVICE_MEMORY, cap, "");
    if (!m.apart || !c->device.here || !c->device.ops->queue->memory)
        return LS_OK;
    const size_t has = c->device.ops->queue->memory(&c->device), ranks = sharing(&c->parallel);
    char whose[160], all[32];
    if (need <= has / ranks)
        return LS_OK;
    if (ranks == 1)
        snprintf(whose, sizeof whose, ": device %s has no more", c->device.ops->name);
    else
        snprintf(whose, sizeof whose, ": device %s has %s, which the %zu ranks of a host share",
                 c->device.ops->name, ls_format_bytes(all, has), ranks);
    return refuse(c, &m, LS_FIELD_DEVICE, has / ranks, whose);
}
