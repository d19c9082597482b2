/* session.c - the named values of several programs, and their calls. All addresses of all calls are computed
 * here, once; memory.c has laid out the memory.
 *
 * A named value has one memory in all programs: an output of one program is the input of that name of
 * another. An output that lies inside another named value (a view of a parameter, a gradient in its flat
 * buffer) stays there, and another program reads it there. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sys.h"
#include "graph/identity.h"
#include "internal.h"
#include "ops/rules.h"

static bool is_same(const ls_named *e, ls_identity is, const char *name)
{
    return !ls_identity_order(e->is, e->name, is, name);
}

int ls_session_lookup(const ls_session *s, ls_identity is, const char *name)
{
    for (uint32_t h = (uint32_t)ls_hash_text(name);; h++) {
        const int k = s->table[h & s->table_mask];
        if (!k || is_same(&s->names[k - 1], is, name))
            return k - 1;
    }
}

static int find_alloc(const ls_session *s, const ls_alloc *a) { return ls_session_lookup(s, a->is, a->name); }

static ls_named *add_name(ls_session *s, ls_identity is, const char *name, const ls_type *type)
{
    uint32_t h = (uint32_t)ls_hash_text(name);
    while (s->table[h & s->table_mask])
        h++;
    ls_named *e = &s->names[s->n_names++];
    s->table[h & s->table_mask] = s->n_names;
    *e = (ls_named){ .name = ls_arena_strdup(&s->arena, name),
                     .is = is,
                     .tensor = ls_tensor_of(NULL, type),
                     .owner = -1,
                     .bytes = ls_type_bytes(type) };
    return e;
}

/* The memory of a program's named value: new, or that of another program. */
static ls_status claim(ls_session *s, const ls_plan *p, const ls_alloc *const *owners, ls_identity is,
                       const char *name, const ls_type *type, ls_memory memory, bool reads_only)
{
    char a[128], b[128];
    const int k = ls_session_lookup(s, is, name);
    if (k < 0) {
        add_name(s, is, name, type)->memory = memory;
        return LS_OK;
    }
    ls_named *e = &s->names[k];
    if (memory == LS_MEM_STATE && e->memory == LS_MEM_NODE)
        return LS_OK; /* a slice of mapped memory */
    if (e->tensor.type.dtype != type->dtype || ls_type_count(&e->tensor.type) != ls_type_count(type))
        return ls_fail(LS_E_SHAPE, "session: \"%s\" is %s in program \"%s\" but %s in another", name,
                       ls_type_text(a, type), p->graph->name, ls_type_text(b, &e->tensor.type));
    if (e->owner >= 0 && !(reads_only && ls_tensor_is_contiguous(&e->tensor)))
        return ls_fail(
            LS_E_UNSUPPORTED,
            "session: \"%s\" is part of \"%s\" in one program; program \"%s\" can only have it as an input%s",
            name, owners[k]->name, p->graph->name, reads_only ? ", and only contiguous" : "");
    if (memory == LS_MEM_STATE && e->owner < 0)
        e->memory = memory; /* a state in one program, an input or output in another: a state */
    return LS_OK;
}

/* Mapped units, and the states that are slices of them. */
static void add_mapped(ls_session *s, const ls_plan *p, const ls_alloc **owners)
{
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        const ls_type *type = a->value < 0 ? NULL : &p->graph->vals[a->value].type;
        if (a->memory == LS_MEM_NODE && find_alloc(s, a) < 0) {
            ls_named *e = add_name(s, a->is, a->name, type);
            e->memory = LS_MEM_NODE;
            for (int c = 0; c < p->n_collectives; c++)
                if (p->locations[p->graph->nodes[p->collectives[c].node]->out[0].id].alloc == i)
                    e->axis = ls_ranks_axis(s->ranks, p->collectives[c].group);
        }
        if (a->inside && find_alloc(s, a) < 0) {
            ls_named *e = add_name(s, a->is, a->name, type);
            e->memory = LS_MEM_NODE;
            e->owner = 0; /* marks a part until name_everything ends */
            e->offset = a->inside_at;
            owners[s->n_names - 1] = a->inside;
        }
    }
}

/* What any program does with a named value: it is its input, its output, shared with other ranks, or in host
 * memory. */
static void mark(ls_session *s, const ls_plan *p)
{
    const ls_graph *g = p->graph;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_input)
            s->names[ls_session_lookup(s, ls_source_is(g->nodes[i]), ls_source_name(g->nodes[i]))].input =
                true;
    for (int i = 0; i < g->n_outputs; i++)
        s->names[ls_session_lookup(s, g->outputs[i].is, g->outputs[i].name)].output = true;
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        if (a->shared)
            s->names[find_alloc(s, a)].shared = true;
        if (a->name && a->host && s->ops->apart)
            s->names[find_alloc(s, a)].host = true;
    }
}

/* Outputs that lie inside other named values. Those may belong to any program, so they are looked up at the
 * end. */
static ls_status add_parts(ls_session *s, const ls_plan *p, const ls_alloc **owners)
{
    for (int i = 0; i < p->graph->n_outputs; i++) {
        const ls_output_entry *o = &p->graph->outputs[i];
        const ls_location *at = &p->locations[o->value.id];
        const ls_alloc *owner = &p->allocs[at->alloc];
        if (!ls_identity_order(owner->is, owner->name, o->is, o->name))
            continue;
        const int k = ls_session_lookup(s, o->is, o->name);
        if (k >= 0) {
            if (s->names[k].offset != at->offset ||
                ls_identity_order(owners[k]->is, owners[k]->name, owner->is, owner->name))
                return ls_fail(
                    LS_E_UNSUPPORTED,
                    "session: output \"%s\" lies inside \"%s\" in program \"%s\" but elsewhere in another",
                    o->name, owner->name, p->graph->name);
            continue;
        }
        ls_named *e = add_name(s, o->is, o->name, ls_type_of(p->graph, o->value));
        memcpy(e->tensor.strides, at->strides, sizeof e->tensor.strides);
        e->offset = at->offset;
        e->owner = 0; /* marks a part until resolve_parts ends */
        owners[s->n_names - 1] = owner;
    }
    return LS_OK;
}

static ls_status add_owned(ls_session *s, const ls_plan *p, const ls_alloc *const *owners)
{
    const ls_graph *g = p->graph;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (ls_is_source(n))
            LS_TRY(claim(s, p, owners, ls_source_is(n), ls_source_name(n), ls_type_of(g, n->out[0]),
                         p->allocs[p->locations[n->out[0].id].alloc].memory, n->op == &ls_op_input));
    }
    for (int i = 0; i < g->n_outputs; i++) {
        const ls_output_entry *o = &g->outputs[i];
        const ls_alloc *a = &p->allocs[p->locations[o->value.id].alloc];
        if (!ls_identity_order(a->is, a->name, o->is, o->name))
            LS_TRY(claim(s, p, owners, o->is, o->name, ls_type_of(g, o->value), a->memory, false));
    }
    return LS_OK;
}

static ls_status name_everything(ls_session *s, int n_plans, ls_plan *const *plans)
{
    int most = 1;
    for (int i = 0; i < n_plans; i++) {
        most += plans[i]->graph->n_outputs + plans[i]->n_collectives;
        for (int k = 0; k < plans[i]->graph->n_nodes; k++)
            most += ls_is_source(plans[i]->graph->nodes[k]);
    }
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)most)
        slots *= 2;
    s->names = LS_ARENA_ARRAY(&s->arena, ls_named, most);
    s->table = LS_ARENA_ARRAY(&s->arena, int, slots);
    s->table_mask = slots - 1;
    const ls_alloc **owners = LS_ARENA_ARRAY(&s->arena, const ls_alloc *, most);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < n_plans; i++)
        add_mapped(s, plans[i], owners);
    for (int i = 0; i < n_plans; i++)
        LS_TRY(add_parts(s, plans[i], owners));
    for (int i = 0; i < n_plans; i++)
        LS_TRY(add_owned(s, plans[i], owners));
    LS_TRY(ls_arena_status(&s->arena));
    for (int k = 0; k < s->n_names; k++)
        if (s->names[k].owner >= 0)
            s->names[k].owner = find_alloc(s, owners[k]);
    for (int i = 0; i < n_plans; i++)
        mark(s, plans[i]);
    return LS_OK;
}

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
                                : s->names[find_alloc(s, a)].tensor.data;
    }
    int n_operands = 0;
    for (int i = 0; i < p->n_steps; i++)
        n_operands += ls_slots(p->graph->nodes[p->steps[i].node]);
    g->calls = LS_ARENA_ARRAY(&s->arena, ls_call, p->n_steps);
    g->operands = LS_ARENA_ARRAY(&s->arena, ls_tensor, n_operands);
    g->times = LS_ARENA_ARRAY(&s->arena, double, 2 * p->n_steps);
    LS_TRY(ls_arena_status(&s->arena));
    ls_tensor *next = g->operands;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_step *step = &p->steps[i];
        const ls_node *n = p->graph->nodes[step->node];
        ls_tensor *in = next, *out = next + ls_slots_in(n);
        for (int j = 0; j < ls_slots(n); j++)
            *next++ = operand(g, ls_slot_value(n, j));
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
#ifdef LS_WATCH_ARENA
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

static ls_status fill(ls_session *s, int n_plans, ls_plan *const *plans, const ls_session_opts *o)
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
    LS_TRY(ls_ranks_create(s, n_plans, plans, o->group, o->parallel));
    LS_TRY(list_spares(s, o));
    LS_TRY(name_everything(s, n_plans, plans));
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
        LS_TRY(ls_transfers_prepare(s, &s->programs[i]));
    }
    LS_TRY(ls_arena_status(&s->arena));
    LS_TRY(ls_numbers_create(s, o->runs));
#ifdef LS_WATCH_ARENA
    if (s->ops->apart)
        s->ops->fill(s->queue, s->region[LS_MEM_ARENA], 0xff, s->region_bytes[LS_MEM_ARENA]);
    else
        ls_watch_dead(s->region[LS_MEM_ARENA], s->region_bytes[LS_MEM_ARENA]);
#endif
    return ls_session_wait(s);
}

ls_status ls_session_create(ls_session **out, int n_plans, ls_plan *const *plans)
{
    return ls_session_create_with(out, n_plans, plans, &(ls_session_opts){ 0 });
}

ls_status ls_session_create_with(ls_session **out, int n_plans, ls_plan *const *plans,
                                 const ls_session_opts *o)
{
    *out = NULL;
    ls_session *s = ls_sys_calloc(1, sizeof *s);
    if (!s)
        return ls_fail(LS_E_MEMORY, "session: out of memory");
    ls_arena_init(&s->arena);
    const ls_status status = fill(s, n_plans, plans, o);
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
    if (s->queue)
        s->ops->close(&s->queue);
    if (s->moving)
        s->ops->close(&s->moving);
    ls_memory_release(s);
    release_tasks(s);
    ls_transfers_destroy(s);
    ls_numbers_destroy(s);
    ls_ranks_destroy(s);
    if (s->region[LS_MEM_PINNED])
        s->ops->unpin(s->region[LS_MEM_PINNED], s->region_bytes[LS_MEM_PINNED]);
    ls_arena_release(&s->arena);
    free(s);
    *sp = NULL;
}

size_t ls_session_bytes(const ls_session *s)
{
    return s->bytes + s->host_bytes + (s->ranks ? s->ranks->window->bytes : 0);
}

size_t ls_session_node_bytes(const ls_session *s)
{
    size_t bytes = 0;
    for (int i = 0; s->ranks && i < s->ranks->n_axes; i++)
        bytes += s->ranks->axes[i].node_bytes;
    return bytes;
}
