/* names.c - the named values of a session's programs. A named value has one memory in all programs: an output
 * of one program is the input of that name of another. An output that lies inside another named value (a view
 * of a parameter, a gradient in its flat buffer) stays there, and another program reads it there. */
#include <string.h>

#include "base/hash.h"
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

/* Marks how the programs use each named value: as an input, as an output, shared with other ranks, in host
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

ls_status ls_names_create(ls_session *s, int n_plans, ls_plan *const *plans)
{
    int most = 1;
    for (int i = 0; i < n_plans; i++) {
        most += plans[i]->graph->n_outputs + plans[i]->n_collectives;
        for (int k = 0; k < plans[i]->graph->n_nodes; k++)
            most += ls_is_source(plans[i]->graph->nodes[k]);
    }
    uint32_t size = 16;
    while (size < 2 * (uint32_t)most)
        size *= 2;
    s->names = LS_ARENA_ARRAY(&s->arena, ls_named, most);
    s->table = LS_ARENA_ARRAY(&s->arena, int, size);
    s->table_mask = size - 1;
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
