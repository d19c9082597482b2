/* memory.c - see memory.h. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/field.h"
#include "base/str.h"
#include "device/queue.h"

enum { NAMED = 4 }; /* a message names this many of the largest values */

static int plans_of(const ls_compiled *c, ls_plan *out[LS_PROGRAMS])
{
    int n = 0;
    for (int i = 0; i < LS_PROGRAMS; i++)
        if (c->plans[i])
            out[n++] = c->plans[i];
    return n;
}

/* Adds memory of one category that exists all the time. */
static void memory_add(ls_step_memory *m, ls_category c, size_t bytes)
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
    const bool offload = c->parallel.offload == LS_OFFLOAD_CPU, scratch_there = ls_updates_on_host(c);
    /* levels are sums of gradients, which are in host memory then */
    m.offloaded = f->host + (offload ? s->level_bytes : 0) + (scratch_there ? s->scratch_bytes : 0);
    for (int k = 0; k < LS_CAT_COUNT; k++) {
        m.fixed[k] = f->fixed[k] - f->on_host[k];
        m.by_category[k] = f->by_category[k] - (m.apart ? f->on_host[k] : 0);
    }
    if (!offload)
        m.fixed[LS_CAT_GRADIENTS] += s->level_bytes;
    if (!offload || !m.apart)
        m.by_category[LS_CAT_GRADIENTS] += s->level_bytes;
    memory_add(&m, LS_CAT_PARAMETERS, s->undo_bytes);
    if (!scratch_there)
        memory_add(&m, LS_CAT_WORKSPACE, s->scratch_bytes);
    if (!m.apart)
        memory_add(&m, LS_CAT_STAGING, m.saves);
    const size_t mailboxes = m.apart ? f->mailboxes : 0; /* in host memory, and counted there */
    m.fixed[LS_CAT_STAGING] -= mailboxes;
    m.by_category[LS_CAT_STAGING] -= mailboxes;
    const size_t all = f->total - mailboxes + s->level_bytes + s->undo_bytes + s->scratch_bytes;
    m.device = all - m.offloaded + (m.apart ? 0 : m.saves);
    /* (memory that is offloaded and in the window is counted once) */
    m.host = m.offloaded + (m.apart ? f->window - f->host_window + m.pinned + m.saves : 0);
    m.total = m.device + m.host;
    return m;
}

/* ---- whether it fits */

/* Values that are alive together and are alike: the same op of the model's blocks, or parts of one gradient.
 */
typedef struct group {
    const ls_alloc *first;
    const ls_plan *plan;
    int n;
    size_t bytes;
} group;

static const char *op_of(const ls_plan *p, const ls_alloc *a)
{
    return p->graph->nodes[a->value < 0 ? p->steps[a->first].node : p->graph->vals[a->value].node]->op->name;
}

static bool alike(const group *g, const ls_alive *x)
{
    const ls_alloc *a = g->first, *b = x->alloc;
    if (a->name || b->name)
        return a->name && b->name && !strcmp(a->name, b->name);
    return a->bytes == b->bytes && (a->value < 0) == (b->value < 0) &&
           !strcmp(op_of(g->plan, a), op_of(x->plan, b)) &&
           (a->value < 0 ||
            ls_type_equal(&g->plan->graph->vals[a->value].type, &x->plan->graph->vals[b->value].type));
}

static int by_bytes(const void *pa, const void *pb)
{
    const group *a = pa, *b = pb;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : (a > b) - (a < b);
}

/* "9 linear in encoder.0 and others (f32 [64, 17], 1.2 MiB each)" */
static void group_text(ls_str *out, const group *g)
{
    char bytes[32], type[128];
    const ls_alloc *a = g->first;
    const ls_graph *graph = g->plan->graph;
    const ls_type *t = a->value < 0 ? NULL : &graph->vals[a->value].type;
    const ls_node *n = graph->nodes[t ? graph->vals[a->value].node : g->plan->steps[a->first].node];
    const bool each = g->n > 1 && !a->name;
    if (a->name) {
        ls_str_printf(out, "%s (", a->name);
    } else {
        if (each)
            ls_str_printf(out, "%d ", g->n);
        ls_str_printf(out, "%s%s%s%s%s (", t ? "" : "workspace of ", n->op->name,
                      n->scope->path[0] ? " in " : "", n->scope->path, each ? " and others" : "");
    }
    if (t && ls_type_bytes(t) == a->bytes)
        ls_str_printf(out, "%s, ", ls_type_text(type, t));
    ls_str_printf(out, "%s%s)", ls_format_bytes(bytes, each ? a->bytes : g->bytes), each ? " each" : "");
}

/* Appends the largest values of the device that are alive at the peak. */
static void name_largest(ls_str *out, ls_arena *arena, int n_plans, ls_plan *const *plans, int peak)
{
    ls_alive *all;
    const int n = ls_plans_alive(arena, n_plans, plans, peak, plans[peak]->peak_step, &all);
    group *groups = LS_ARENA_ARRAY(arena, group, n + 1);
    ls_str_add(out, groups ? "" : NULL);
    int k = 0;
    for (int i = 0; i < n && groups; i++) {
        int at = 0;
        while (at < k && !alike(&groups[at], &all[i]))
            at++;
        if (all[i].alloc->host)
            continue;
        if (at == k)
            groups[k++] = (group){ .first = all[i].alloc, .plan = all[i].plan };
        groups[at].n++;
        groups[at].bytes += all[i].alloc->bytes;
    }
    if (k)
        qsort(groups, (size_t)k, sizeof *groups, by_bytes);
    for (int i = 0; i < k && i < NAMED; i++) {
        ls_str_add(out, i ? ", " : "");
        group_text(out, &groups[i]);
    }
}

static ls_status memory_refuse(const ls_compiled *c, const ls_step_memory *m, const char *option, size_t have,
                               const char *whose)
{
    ls_plan *plans[LS_PROGRAMS];
    char a[32], b[32], spare[32];
    ls_str largest = { 0 }, at = { 0 }, more = { 0 };
    ls_arena scratch;
    ls_arena_init(&scratch);
    const int n = plans_of(c, plans);
    const ls_plan *p = plans[m->plans.peak_plan];
    name_largest(&largest, &scratch, n, plans, m->plans.peak_plan);
    if (p->n_steps)
        ls_str_add(&at, ls_plan_step_text(&scratch, p, p->peak_step));
    if (m->spares.level_bytes && c->parallel.offload != LS_OFFLOAD_CPU)
        ls_str_printf(&more, ", and all the time %s of sums of micro-batches",
                      ls_format_bytes(spare, m->spares.level_bytes));
    ls_str_inherit(&largest, &at);
    ls_str_inherit(&largest, &more);
    ls_status s = ls_str_status(&largest);
    if (s == LS_OK)
        s = ls_fail_field(
            LS_E_UNSUPPORTED, option,
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

/* How many ranks share a device: all ranks of a host. */
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
        return memory_refuse(c, &m, "device_memory", cap, "");
    if (!m.apart || !c->device.here || !c->device.ops->queue->memory)
        return LS_OK;
    const size_t has = c->device.ops->queue->memory(&c->device),
                 ranks = c->device.ops->queue->shared ? sharing(&c->parallel) : 1;
    char whose[160], all[32];
    if (need <= has / ranks)
        return LS_OK;
    if (ranks == 1)
        snprintf(whose, sizeof whose, ": device %s has no more", c->device.ops->name);
    else
        snprintf(whose, sizeof whose, ": device %s has %s, which the %zu ranks of a host share",
                 c->device.ops->name, ls_format_bytes(all, has), ranks);
    return memory_refuse(c, &m, "device", has / ranks, whose);
}
