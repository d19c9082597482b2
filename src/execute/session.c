/* session.c - the memory of several programs and the named values in it. One mapping holds states, IO and
 * arena (in dev builds with unreadable pages around each). All addresses of all calls are computed here,
 * once.
 *
 * A named value has one memory in all programs: an output of one program is the input of that name of
 * another. An output that lies inside another named value (a view of a parameter, a gradient in its flat
 * buffer) stays there, and another program reads it there. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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

/* What any program does with a named value: it is its input, its output, or shared with other ranks. */
static void mark(ls_session *s, const ls_plan *p)
{
    const ls_graph *g = p->graph;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_input)
            s->names[ls_session_lookup(s, ls_source_is(g->nodes[i]), ls_source_name(g->nodes[i]))].input =
                true;
    for (int i = 0; i < g->n_outputs; i++)
        s->names[ls_session_lookup(s, g->outputs[i].is, g->outputs[i].name)].output = true;
    for (int i = 0; i < p->n_allocs; i++)
        if (p->allocs[i].shared)
            s->names[find_alloc(s, &p->allocs[i])].shared = true;
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
    for (int k = 0; k < s->n_names; k++)
        if (s->names[k].owner >= 0)
            s->names[k].owner = find_alloc(s, owners[k]);
    for (int i = 0; i < n_plans; i++)
        mark(s, plans[i]);
    return LS_OK;
}

/* Gradients in the arena have their place there from the planner. */
static ls_status place_gradients(ls_session *s, const ls_plan *p, bool check)
{
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        if (a->memory != LS_MEM_GRADIENT)
            continue;
        ls_named *e = &s->names[find_alloc(s, a)];
        if (check && (e->memory != LS_MEM_GRADIENT || e->shared || e->offset != a->offset))
            return ls_fail(LS_E_INTERNAL, "session: \"%s\" lies elsewhere in program \"%s\" than in another",
                           a->name, p->graph->name);
        e->offset = a->offset;
    }
    return LS_OK;
}

static size_t page_up(size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) / page * page;
}

/* A thread takes page faults ahead while the process continues with initial weights, run directory and
 * loader. They cost 30 ms for a hundred megabytes, which would double the time of the first step. The thread
 * does not change contents. Pages that it has not reached fault in as usual, as do all pages before Linux
 * 5.14, which lacks the call. */
static void *prefault_memory(void *context)
{
    ls_session *s = context;
#ifdef MADV_POPULATE_WRITE
    const size_t chunk = 4u << 20;
    bool possible = true;
    for (int k = 0; k < 3; k++)
        for (size_t at = 0, n = page_up(s->region_bytes[k]); at < n && possible && !atomic_load(&s->closing);
             at += chunk) {
            possible = madvise(s->region[k] + at, n - at < chunk ? n - at : chunk, MADV_POPULATE_WRITE) == 0;
            /* The call holds the lock of the address space. Without a pause this thread would have it again
             * before another that waits for it, to map memory or start a thread, is awake: for 4 ms each
             * time, until Linux hands it over. */
            nanosleep(&(struct timespec){ .tv_nsec = 1000 }, NULL);
        }
#endif
    atomic_store(&s->touched, true);
    return NULL;
}

/* Whether it is a number of IN or OUT (numbers.c). */
static bool is_number(const ls_named *e)
{
    return e->memory == LS_MEM_IO && !e->shared && e->owner < 0 && e->bytes <= LS_NUMBER_BYTES &&
           (e->input || e->output);
}

static void place_name(ls_session *s, ls_named *e)
{
    size_t *bytes = e->memory == LS_MEM_NODE ? &s->ranks->axes[e->axis].node_bytes
                    : e->shared              ? &s->ranks->shared_bytes
                                             : &s->region_bytes[e->memory];
    e->offset = *bytes;
    *bytes += ls_align_up(e->bytes);
}

/* IN and OUT come first in IO memory. */
static void place_names(ls_session *s)
{
    ls_numbers *x = &s->numbers;
    for (int out = 0; out < 2; out++) {
        for (int k = 0; k < s->n_names; k++)
            if (is_number(&s->names[k]) && s->names[k].output == out)
                place_name(s, &s->names[k]);
        (out ? &x->out_bytes : &x->in_bytes)[0] = s->region_bytes[LS_MEM_IO] - x->in_bytes;
    }
    for (int k = 0; k < s->n_names; k++)
        if (s->names[k].owner < 0 && s->names[k].memory != LS_MEM_GRADIENT && !is_number(&s->names[k]))
            place_name(s, &s->names[k]);
}

static ls_status lay_out(ls_session *s, int n_plans, ls_plan *const *plans)
{
    place_names(s);
    for (int i = 0; i < n_plans; i++)
        LS_TRY(place_gradients(s, plans[i], false));
    for (int i = 0; i < n_plans; i++)
        LS_TRY(place_gradients(s, plans[i], true));
    for (int i = 0; i < n_plans; i++) {
        if (plans[i]->arena_bytes > s->region_bytes[LS_MEM_ARENA])
            s->region_bytes[LS_MEM_ARENA] = plans[i]->arena_bytes;
        if (plans[i]->symmetric_bytes > s->region_bytes[LS_MEM_SYMMETRIC])
            s->region_bytes[LS_MEM_SYMMETRIC] = plans[i]->symmetric_bytes;
    }
    return s->ranks ? ls_ranks_map(s, n_plans, plans) : LS_OK;
}

/* A room of the device, with a mirror of the window. Sources are zero in fresh memory, as the host's is. */
static ls_status map_apart(ls_session *s, const ls_device *d)
{
    static const int ORDER[] = { LS_MEM_STATE, LS_MEM_IO,        LS_REGION_SPARE,
                                 LS_MEM_ARENA, LS_REGION_SHARED, LS_MEM_SYMMETRIC };
    enum { REGIONS = sizeof ORDER / sizeof *ORDER };
    size_t at[REGIONS];
    char text[32];
    if (s->ranks)
        s->region_bytes[LS_REGION_SHARED] = s->ranks->shared_bytes;
    for (int k = 0; k < REGIONS; k++) {
        at[k] = s->bytes;
        s->bytes += ORDER[k] == LS_REGION_SHARED ? s->region_bytes[ORDER[k]]
                                                 : page_up(s->region_bytes[ORDER[k]]);
    }
    if (!s->bytes)
        return LS_OK;
    if (s->ops->room((void **)&s->memory, d, s->bytes) != LS_OK)
        return ls_fail(LS_E_MEMORY,
                       "session: device %s has no room of %s for state, inputs and the arena; a smaller "
                       "micro-batch or recompute needs less",
                       d->ops->name, ls_format_bytes(text, s->bytes));
    for (int k = 0; k < REGIONS; k++) {
        s->region[ORDER[k]] = s->memory + at[k];
        if (ORDER[k] != LS_MEM_ARENA && s->region_bytes[ORDER[k]])
            s->ops->fill(s->queue, s->memory + at[k], 0, s->region_bytes[ORDER[k]]);
    }
    s->region[LS_MEM_GRADIENT] = s->region[LS_MEM_ARENA];
    return LS_OK;
}

static ls_status map_memory(ls_session *s)
{
#ifdef LS_DEV
    const size_t guard = page_up(1);
#else
    const size_t guard = 0;
#endif
    static const int ORDER[] = { LS_MEM_STATE, LS_MEM_IO, LS_MEM_ARENA, LS_REGION_SPARE };
    enum { REGIONS = sizeof ORDER / sizeof *ORDER };
    size_t at[REGIONS], total = guard;
    for (int k = 0; k < REGIONS; k++) {
        at[k] = total;
        total += page_up(s->region_bytes[ORDER[k]]) + guard;
    }
    s->bytes = total;
    if (!total)
        return LS_OK;
    s->memory = ls_sys_mmap(total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED) {
        char bytes[32];
        s->memory = NULL;
        return ls_fail(LS_E_MEMORY,
                       "session: the system refuses %s for state, inputs and the arena; a smaller "
                       "micro-batch or recompute needs less",
                       ls_format_bytes(bytes, total));
    }
    for (int k = 0; k < REGIONS; k++) {
        s->region[ORDER[k]] = s->memory + at[k];
        if (guard)
            mprotect(s->memory + at[k] - guard, guard, PROT_NONE);
    }
    s->region[LS_MEM_GRADIENT] = s->region[LS_MEM_ARENA];
    if (guard)
        mprotect(s->memory + total - guard, guard, PROT_NONE);
#ifdef MADV_HUGEPAGE
    /* (a step walks through all of it: with 4 KB pages, misses of address translation cost 2 %) */
    madvise(s->memory, total, MADV_HUGEPAGE);
#endif
    s->prefaulting = ls_sys_thread(&s->prefault, prefault_memory, s) == 0;
    return LS_OK;
}

char *ls_session_region(const ls_session *s, int region)
{
    return region >= LS_REGION_NODE ? s->ranks->axes[region - LS_REGION_NODE].node->shared
                                    : s->region[region];
}

static void locate_names(ls_session *s)
{
    for (int k = 0; k < s->n_names; k++) {
        const ls_named *e = &s->names[k];
        size_t offset = 0;
        for (int hops = 0; e->owner >= 0 && hops < s->n_names; hops++) { /* parts of parts */
            offset += e->offset;
            e = &s->names[e->owner];
        }
        s->names[k].region = e->memory == LS_MEM_NODE ? LS_REGION_NODE + e->axis
                             : e->shared              ? LS_REGION_SHARED
                                                      : (int)e->memory;
        s->names[k].at = offset + e->offset;
        s->names[k].tensor.data = ls_session_region(s, s->names[k].region) + s->names[k].at;
    }
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

static ls_status resolve(ls_session *s, ls_program *g)
{
    const ls_plan *p = g->plan;
    g->where = LS_ARENA_ARRAY(&s->arena, char *, p->n_allocs);
    LS_TRY(ls_arena_status(&s->arena));
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        const bool transient = a->memory == LS_MEM_ARENA || a->memory == LS_MEM_SYMMETRIC;
        g->where[i] = transient ? s->region[a->memory] + a->offset : s->names[find_alloc(s, a)].tensor.data;
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
                                           .queue = s->queue } };
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
        s->spares[i] = (ls_spare){ o->spares[i], s->region_bytes[LS_REGION_SPARE] };
        s->region_bytes[LS_REGION_SPARE] += ls_align_up(ls_type_bytes(&o->spares[i]));
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
    LS_TRY(s->ops->open(&s->queue, &plans[0]->device));
    LS_TRY(ls_ranks_create(s, n_plans, plans, o->group, o->parallel));
    LS_TRY(list_spares(s, o));
    LS_TRY(name_everything(s, n_plans, plans));
    LS_TRY(lay_out(s, n_plans, plans));
    LS_TRY(s->ops->apart ? map_apart(s, &plans[0]->device) : map_memory(s));
    locate_names(s);
    s->programs = LS_ARENA_ARRAY(&s->arena, ls_program, n_plans);
    LS_TRY(ls_arena_status(&s->arena));
    s->n_programs = n_plans;
    for (int i = 0; i < n_plans; i++) {
        s->programs[i].session = s;
        s->programs[i].plan = plans[i];
        LS_TRY(resolve(s, &s->programs[i]));
        if (s->ranks)
            LS_TRY(ls_ranks_prepare(s, &s->programs[i]));
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
    if (s->prefaulting) {
        atomic_store(&s->closing, true);
        pthread_join(s->prefault, NULL);
    }
    if (s->memory && s->ops->apart) {
        s->ops->release(s->memory, s->bytes);
    } else if (s->memory) {
        ls_watch_end(s->region[LS_MEM_ARENA], s->region_bytes[LS_MEM_ARENA]);
        munmap(s->memory, s->bytes);
    }
    release_tasks(s);
    ls_numbers_destroy(s);
    ls_ranks_destroy(s);
    if (s->pinned)
        s->ops->unpin(s->pinned, s->pinned_bytes);
    ls_arena_release(&s->arena);
    free(s);
    *sp = NULL;
}

size_t ls_session_bytes(const ls_session *s) { return s->bytes + (s->ranks ? s->ranks->window->bytes : 0); }

size_t ls_session_node_bytes(const ls_session *s)
{
    size_t bytes = 0;
    for (int i = 0; s->ranks && i < s->ranks->n_axes; i++)
        bytes += s->ranks->axes[i].node_bytes;
    return bytes;
}
