/* session.c - makes and ends a session. The addresses of all calls of its programs are computed here, once:
 * names.c has listed the named values, memory.c has laid them out. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "internal.h"

/* Lists the arena allocations by `step_of`, their first or last step: those of step i are list[at[i]] ..
 * list[at[i + 1] - 1]. */
static ls_status by_step(ls_arena *arena, const ls_plan *p, bool last, int **list, int **at)
{
    *at = LS_ARENA_ARRAY(arena, int, p->n_steps + 2);
    *list = LS_ARENA_ARRAY(arena, int, p->n_allocs);
    LS_TRY(ls_arena_status(arena));
    for (int pass = 0; pass < 2; pass++) {
        /* counts go to at[step + 2]; filling the list then moves at[step + 1] to its end */
        for (int i = 0; i < p->n_allocs; i++) {
            const ls_alloc *a = &p->allocs[i];
            if (a->memory != LS_MEM_ARENA || (last && a->fixed)) /* (another program reads `fixed`) */
                continue;
            const int step = last ? a->last : a->first;
            if (pass == 0 && step + 2 < p->n_steps + 2)
                (*at)[step + 2]++;
            else if (pass == 1)
                (*list)[(*at)[step + 1]++] = i;
        }
        for (int k = 2; pass == 0 && k < p->n_steps + 2; k++)
            (*at)[k] += (*at)[k - 1];
    }
    return LS_OK;
}

static ls_tensor operand(const ls_program *g, ls_value v)
{
    const ls_plan *p = g->plan;
    ls_tensor t = { .type = *ls_type_of(p->graph, v) };
    const ls_location *at = &p->locations[v.id];
    if (ls_present(v)) {
        memcpy(t.strides, at->strides, sizeof t.strides);
        t.data = g->where[at->alloc] + at->offset;
    }
    return t;
}

static char *transient_region(const ls_session *s, const ls_plan *p, ls_memory memory)
{
    return !p->on_host              ? s->region[memory]
           : memory == LS_MEM_ARENA ? s->region[LS_REGION_HOST_ARENA]
                                    : s->ranks->window->mine + s->ranks->shared_bytes;
}

static ls_status resolve(ls_session *s, ls_program *g)
{
    const ls_plan *p = g->plan;
    g->where = LS_ARENA_ARRAY(&s->arena, char *, p->n_allocs);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        const bool transient = ls_is_transient(a) || a->memory == LS_MEM_PINNED;
        g->where[i] = transient ? transient_region(s, p, a->memory) + a->offset
                                : s->names[ls_session_lookup(s, a->is, a->name)].tensor.data;
    }
    int n_operands = 0;
    for (int i = 0; i < p->n_steps; i++)
        n_operands += ls_operands(p->graph->nodes[p->steps[i].node]);
    g->calls = LS_ARENA_ARRAY(&s->arena, ls_call, p->n_steps);
    g->operands = LS_ARENA_ARRAY(&s->arena, ls_tensor, n_operands);
    g->times = LS_ARENA_ARRAY(&s->arena, double, 2 * (p->n_steps + p->n_transfers + p->n_collectives));
    LS_TRY(ls_arena_status(&s->arena));
    ls_tensor *next = g->operands;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_step *step = &p->steps[i];
        const ls_node *n = p->graph->nodes[step->node];
        ls_tensor *in = next, *out = next + ls_operands_in(n);
        for (int j = 0; j < ls_operands(n); j++)
            *next++ = operand(g, ls_operand_value(n, j));
        g->calls[i] = (ls_call){ .kernel = step->kernel,
                                 .session = s,
                                 .part = step->part,
                                 .on_host = p->on_host,
                                 .args = { .n_in = n->n_in,
                                           .n_out = n->n_out,
                                           .in = in,
                                           .out = out,
                                           .attrs = n->attrs,
                                           .at = n->at,
                                           .workspace = step->workspace < 0 ? NULL
                                                                            : g->where[step->workspace],
                                           .threads = p->device.threads,
                                           .arch = p->device.arch,
                                           .queue = p->on_host ? NULL : s->queue } };
    }
#ifdef LS_POISON_ARENA
    LS_TRY(by_step(&s->arena, p, false, &g->born, &g->born_at));
    LS_TRY(by_step(&s->arena, p, true, &g->dead, &g->dead_at));
#else
    (void)by_step;
#endif
    return LS_OK;
}

static ls_status list_spares(ls_session *s, const ls_session_opts *o)
{
    s->n_spares = o->n_spares;
    s->spares = LS_ARENA_ARRAY(&s->arena, ls_spare, o->n_spares + 1);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < o->n_spares; i++) {
        const int region = o->on_host && o->on_host[i] && s->ops->apart ? LS_REGION_HOST_SPARE
                                                                        : LS_REGION_SPARE;
        s->spares[i] = (ls_spare){ o->spares[i], region, s->region_bytes[region] };
        s->region_bytes[region] += ls_align_up(ls_type_bytes(&o->spares[i]));
    }
    return LS_OK;
}

static ls_status session_fill(ls_session *s, int n_plans, ls_plan *const *plans, const ls_session_opts *o)
{
    for (int i = 0; i < n_plans; i++)
        if (!plans[i]->device.here)
            return ls_fail(LS_E_UNSUPPORTED,
                           "session: program \"%s\" was planned for %s, which this machine does not have",
                           plans[i]->graph->name, plans[i]->device.arch->name);
    s->ops = plans[0]->device.ops->queue;
    for (int i = 0; i < n_plans; i++)
        if (plans[i]->device.ops->queue->apart != (s->ops->apart && !plans[i]->on_host))
            return ls_fail(LS_E_INTERNAL, "session: program \"%s\" was planned for %s beside one for %s",
                           plans[i]->graph->name, plans[i]->device.ops->name, plans[0]->device.ops->name);
    LS_TRY(s->ops->open(&s->queue, &plans[0]->device));
    s->ops->number(s->queue, -1); /* tasks do not belong to a program until a program numbers them */
    LS_TRY(ls_ranks_create(s, n_plans, plans, o->group, o->parallel));
    LS_TRY(ls_links_create(s, n_plans, plans));
    LS_TRY(list_spares(s, o));
    LS_TRY(ls_names_create(s, n_plans, plans));
    LS_TRY(ls_memory_lay_out(s, n_plans, plans));
    LS_TRY(ls_memory_map(s, &plans[0]->device));
    s->programs = LS_ARENA_ARRAY(&s->arena, ls_program, n_plans);
    LS_TRY(ls_arena_status(&s->arena));
    s->n_programs = n_plans;
    for (int i = 0; i < n_plans; i++) {
        s->programs[i].session = s;
        s->programs[i].plan = plans[i];
        LS_TRY(resolve(s, &s->programs[i]));
        if (s->ranks)
            LS_TRY(ls_ranks_prepare(s, &s->programs[i]));
        if (s->links && plans[i]->device.linked)
            LS_TRY(ls_links_prepare(s, &s->programs[i]));
        LS_TRY(ls_transfers_prepare(s, &s->programs[i]));
    }
    LS_TRY(ls_arena_status(&s->arena));
    LS_TRY(ls_numbers_create(s, o->runs));
#ifdef LS_POISON_ARENA
    if (s->ops->apart)
        s->ops->fill(s->queue, s->region[LS_MEM_ARENA], 0xff, s->region_bytes[LS_MEM_ARENA]);
    else
        ls_poison(s->region[LS_MEM_ARENA], s->region_bytes[LS_MEM_ARENA]);
#endif
    return ls_session_wait(s);
}

ls_status ls_session_create(ls_session **out, int n_plans, ls_plan *const *plans, const ls_session_opts *o)
{
    *out = NULL;
    ls_session *s = ls_sys_calloc(1, sizeof *s);
    if (!s)
        return ls_fail(LS_E_MEMORY, "session: out of memory");
    ls_arena_init(&s->arena);
    const ls_status status = session_fill(s, n_plans, plans, o ? o : &(ls_session_opts){ 0 });
    if (status != LS_OK)
        ls_session_destroy(&s);
    *out = s;
    return status;
}

static void release_tasks(ls_session *s)
{
    for (int i = 0; i < s->n_programs; i++) {
        ls_program *g = &s->programs[i];
        if (g->recording)
            s->ops->discard(&g->recording);
        for (int k = 0; g->events && k <= g->plan->n_steps; k++)
            if (g->events[k])
                s->ops->forget(&g->events[k]);
    }
}

void ls_session_destroy(ls_session **sp)
{
    ls_session *s = *sp;
    if (!s)
        return;
    ls_links_wait(s, true); /* (a lost rank does not keep the queues) */
    if (s->queue)
        s->ops->close(&s->queue);
    if (s->moving)
        s->ops->close(&s->moving);
    ls_links_close(s);
    ls_memory_release(s);
    release_tasks(s);
    ls_transfers_destroy(s);
    ls_numbers_destroy(s);
    ls_links_destroy(s);
    ls_ranks_destroy(s);
    if (s->region[LS_MEM_PINNED])
        s->ops->unpin(s->region[LS_MEM_PINNED], s->region_bytes[LS_MEM_PINNED]);
    ls_arena_release(&s->arena);
    free(s);
    *sp = NULL;
}

size_t ls_session_bytes(const ls_session *s)
{
    return s->bytes + s->host_bytes + (s->ranks ? s->ranks->window->bytes + s->ranks->mailbox_bytes : 0);
}
