/* storage.c - from homes to allocations: the lifetime of every set of values that share memory, reuse in
 * place, and the category of each allocation.
 *
 * Values whose homes lead to one base are a set. A set is live from the first step that writes any of it to
 * the last step that reads or writes any of it. An op's output takes over an operand's memory only if the
 * operand's whole set ends at that step. */
#include <limits.h>
#include <string.h>

#include "internal.h"
#include "linked.h"
#include "ops/rules.h"

typedef struct set { /* indexed by base value */
    int first, last; /* steps; last INT_MAX: the caller reads it */
    size_t bytes;
    const char *name; /* of sources and outputs */
    ls_identity is;
    bool source, used;
    bool symmetric; /* other ranks read it */
    bool node;      /* one copy for the ranks of an axis on this machine */
    int alloc;
} set;

typedef struct storage {
    ls_planner *p;
    ls_plan *plan;
    const ls_graph *g;
    set *sets;
    /* [values]. derived: computed from parameters alone; gradient: used by the update only; gathered:
     * received from other ranks. */
    bool *derived, *gradient, *gathered;
} storage;

static void touch(storage *s, int v, int step)
{
    set *t = &s->sets[ls_planner_base(s->p, v, NULL)];
    if (!t->used || step < t->first)
        t->first = step;
    if (!t->used || step > t->last)
        t->last = step;
    t->used = true;
}

static ls_status make_sets(storage *s)
{
    const ls_graph *g = s->g;
    s->sets = LS_ARENA_ARRAY(&s->p->scratch, set, g->n_vals);
    LS_TRY(ls_arena_status(&s->p->scratch));
    for (int i = 0; i < g->n_nodes; i++) {
        if (!ls_is_source(g->nodes[i]))
            continue;
        set *t = &s->sets[g->nodes[i]->out[0].id];
        t->source = t->used = true;
        t->name = ls_source_name(g->nodes[i]);
        t->is = ls_source_is(g->nodes[i]);
        t->last = INT_MAX;
    }
    for (int v = 1; v < g->n_vals; v++)
        s->sets[v].bytes = ls_type_bytes(&g->vals[v].type);
    for (int i = 0; i < s->plan->n_steps; i++) {
        const ls_node *n = g->nodes[s->plan->steps[i].node];
        for (int j = 0; j < n->n_in; j++)
            if (ls_present(n->in[j]))
                touch(s, n->in[j].id, i);
        for (int k = 0; k < n->n_out; k++)
            touch(s, n->out[k].id, i);
    }
    /* An output that covers the whole memory gives it its name; other outputs are found inside it. */
    for (int whole = 1; whole >= 0; whole--)
        for (int i = 0; i < g->n_outputs; i++) {
            const int v = g->outputs[i].value.id;
            set *t = &s->sets[ls_planner_base(s->p, v, NULL)];
            if (t->name || (whole && ls_type_bytes(&g->vals[v].type) != t->bytes))
                continue;
            t->name = g->outputs[i].name;
            t->is = g->outputs[i].is;
            t->last = INT_MAX;
        }
    return LS_OK;
}

/* Marks values that other ranks read: operands that are reduced, or gathered in place. (With a mapping each
 * rank writes its own slice instead.) By the access rules of comm.h they may be read until a later
 * collective of the group, started after this one's wait, has been waited for, or until the fence after the
 * program. So they live that long. */
static void share(storage *s)
{
    const ls_plan *plan = s->plan;
    if (plan->device.linked) /* the operand is sent between start and wait */
        return;
    for (int i = 0; i < plan->n_collectives; i++) {
        const ls_plan_collective *c = &plan->collectives[i];
        const ls_node *n = s->g->nodes[c->node];
        if (c->kind == LS_ALL_GATHER && c->map) {
            s->sets[ls_planner_base(s->p, n->out[0].id, NULL)].node = true;
            continue;
        }
        if (ls_is_message(c)) /* the mailbox is what the other rank reads */
            continue;
        set *t = &s->sets[ls_planner_base(s->p, n->in[0].id, NULL)];
        t->symmetric = true;
        int until = plan->n_steps - 1;
        for (int k = i + 1; k < plan->n_collectives; k++) {
            const ls_plan_collective *d = &plan->collectives[k];
            if (d->start > c->wait && !d->settled && !strcmp(c->group, d->group)) {
                until = d->wait;
                break;
            }
        }
        t->last = t->last > until ? t->last : until;
    }
}

/* Gives output 0 of step i the memory of an operand whose set ends here. */
static void reuse(storage *s, int i)
{
    ls_planner *p = s->p;
    const ls_node *n = s->g->nodes[s->plan->steps[i].node];
    if (!n->op->inplace || n->op->alias[0] || s->plan->steps[i].part == LS_PART_START)
        return;
    const int v = n->out[0].id;
    const size_t bytes = s->sets[v].bytes;
    if (p->home[v].base != v || s->sets[v].source)
        return;
    for (int j = 0; j < n->n_in && j < 32; j++) {
        if (!(n->op->inplace >> j & 1) || !ls_present(n->in[j]))
            continue;
        const int u = n->in[j].id, base = ls_planner_base(p, u, NULL);
        const set *t = &s->sets[base];
        const ls_tensor as = { .type = s->g->vals[u].type };
        ls_tensor seen = as;
        memcpy(seen.strides, p->home[u].strides, sizeof seen.strides);
        if (t->name || t->last > i || t->bytes != bytes || ls_type_bytes(&as.type) != bytes ||
            !ls_strides_are_contiguous(&seen))
            continue;
        bool mixed = false; /* whether another operand or output uses the same memory differently */
        for (int k = 0; k < n->n_in + n->n_out; k++) {
            const ls_value w = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
            if (k != j && ls_present(w) && w.id != v && ls_planner_base(p, w.id, NULL) == base)
                mixed = mixed || !(w.id == u && k < n->n_in && k < 32 && (n->op->inplace >> k & 1));
        }
        if (mixed)
            continue;
        p->home[v].base = base;
        p->home[v].offset = 0;
        s->sets[base].last = s->sets[v].last;
        s->sets[base].name = s->sets[v].name;
        s->sets[base].is = s->sets[v].is;
        s->sets[v].used = false;
        return;
    }
}

/* Whether each element of the results is an element of an operand, or a function of one element of each
 * operand. */
static bool moves_only(const ls_node *n)
{
    return (n->op->flags & (LS_OP_VIEW | LS_OP_ELEMENTWISE | LS_OP_COLLECTIVE | LS_OP_TRANSFER)) ||
           n->op == &ls_op_pack || n->op == &ls_op_copy || n->op == &ls_op_fused;
}

/* Whether it is a trained parameter: as the model declares it, or as a unit's flat state. */
static bool is_parameter(const ls_node *n)
{
    return n->op == &ls_op_param || (ls_is_source(n) && ls_is_parameters(ls_source_is(n)));
}

/* Whether it is state of the model that is not trained. It is never offloaded, because ops use it in
 * place. */
static bool is_buffer(const ls_node *n) { return n->op == &ls_op_buffer; }

static ls_status classify(storage *s)
{
    const ls_graph *g = s->g;
    s->derived = LS_ARENA_ARRAY(&s->p->scratch, bool, g->n_vals);
    s->gradient = LS_ARENA_ARRAY(&s->p->scratch, bool, g->n_vals);
    s->gathered = LS_ARENA_ARRAY(&s->p->scratch, bool, g->n_vals);
    LS_TRY(ls_arena_status(&s->p->scratch));
    s->derived[0] = true; /* (an absent operand) */
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        bool derived = n->n_in > 0 || is_parameter(n), gathered = n->op->flags & LS_OP_COLLECTIVE;
        for (int j = 0; j < n->n_in; j++) {
            derived = derived && s->derived[n->in[j].id];
            gathered = gathered || s->gathered[n->in[j].id];
        }
        for (int k = 0; k < n->n_out; k++) {
            s->derived[n->out[k].id] = derived;
            s->gathered[n->out[k].id] = gathered;
        }
    }
    /* Backwards: a value of the backward phase is a gradient if only the update reads it, possibly after it
     * was moved. */
    bool *elsewhere = LS_ARENA_ARRAY(&s->p->scratch, bool, g->n_vals),
         *read = LS_ARENA_ARRAY(&s->p->scratch, bool, g->n_vals);
    LS_TRY(ls_arena_status(&s->p->scratch));
    for (int i = 0; i < g->n_outputs; i++) {
        const int v = g->outputs[i].value.id;
        read[v] = true;
        elsewhere[v] = g->outputs[i].is.what != LS_IS_GRADIENT && g->outputs[i].is.what != LS_IS_WEIGHTS;
    }
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const ls_node *n = g->nodes[i];
        bool all = n->n_out > 0;
        for (int k = 0; k < n->n_out; k++) {
            const int v = n->out[k].id;
            s->gradient[v] = read[v] && !elsewhere[v] && n->phase == LS_PHASE_BACKWARD;
            all = all && s->gradient[v];
        }
        if (ls_is_source(n) && n->out[0].id)
            s->gradient[n->out[0].id] = ls_source_is(n).what == LS_IS_GRADIENT;
        for (int j = 0; j < n->n_in; j++) {
            read[n->in[j].id] = true;
            if (n->phase != LS_PHASE_UPDATE && !(all && moves_only(n)))
                elsewhere[n->in[j].id] = true;
        }
    }
    return LS_OK;
}

static ls_category category_of(const storage *s, int v)
{
    const ls_node *n = s->g->nodes[s->g->vals[v].node];
    if (s->gradient[v])
        return LS_CAT_GRADIENTS;
    if (s->derived[v])
        return s->gathered[v] ? LS_CAT_GATHERED : LS_CAT_PARAMETERS;
    if (is_buffer(n))
        return LS_CAT_PARAMETERS;
    if (ls_is_source(n))
        return n->op != &ls_op_state ? LS_CAT_DATA : LS_CAT_OPTIMIZER;
    return LS_CAT_ACTIVATIONS;
}

/* Mapped units get names, so that all programs use the same memory. A state of the same type is a slice of
 * it. */
static void name_mapped(storage *s)
{
    ls_plan *plan = s->plan;
    for (int i = 0; i < plan->n_collectives; i++) {
        const ls_plan_collective *c = &plan->collectives[i];
        if (c->kind != LS_ALL_GATHER || !c->map)
            continue;
        const ls_node *n = s->g->nodes[c->node];
        const int state = ls_planner_base(s->p, n->in[0].id, NULL);
        ls_alloc *whole = &plan->allocs[s->sets[ls_planner_base(s->p, n->out[0].id, NULL)].alloc];
        whole->is = (ls_identity){ .what = LS_IS_GATHERED, .unit = c->is.unit };
        whole->name = ls_identity_name(&plan->arena, whole->is, c->unit);
        if (!ls_is_alias_gather(s->g, n))
            continue;
        const int position = ls_mesh_position(&s->p->parallel->mesh, s->p->parallel->rank, c->group);
        ls_alloc *slice = &plan->allocs[s->sets[state].alloc];
        slice->inside = whole;
        slice->inside_at = (size_t)position * slice->bytes;
    }
}

/* Whether gradients lie in the arena: all of them or none, so that all programs decide the same. */
static bool gradients_in_arena(const storage *s)
{
    for (int v = 1; v < s->g->n_vals; v++)
        if (s->sets[v].name && s->sets[v].is.what == LS_IS_GRADIENT && s->sets[v].symmetric)
            return false;
    return s->p->gradients_in_arena;
}

static ls_status make_allocs(storage *s, ls_tensor *operands)
{
    ls_plan *plan = s->plan;
    const ls_graph *g = s->g;
    const int last_step = plan->n_steps ? plan->n_steps - 1 : 0;
    /* (the parts of gradients are fewer than values; half of a collective's steps may have staging memory) */
    plan->allocs = LS_ARENA_ARRAY(&plan->arena, ls_alloc, 2 * g->n_vals + plan->n_steps);
    plan->locations = LS_ARENA_ARRAY(&plan->arena, ls_location, g->n_vals);
    LS_TRY(ls_arena_status(&plan->arena));
    plan->locations[0].alloc = -1;
    const bool offload = s->p->parallel && s->p->parallel->offload == LS_OFFLOAD_CPU,
               in_arena = gradients_in_arena(s);
    for (int v = 1; v < g->n_vals; v++) {
        set *t = &s->sets[v];
        if (s->p->home[v].base != v || !(t->used || t->name))
            continue;
        t->alloc = plan->n_allocs;
        const ls_node *node = g->nodes[g->vals[v].node];
        const bool state = t->source && node->op != &ls_op_input;
        ls_alloc *a = &plan->allocs[plan->n_allocs++];
        *a = (ls_alloc){
            .memory = t->node                                               ? LS_MEM_NODE
                      : state                                               ? LS_MEM_STATE
                      : in_arena && t->name && t->is.what == LS_IS_GRADIENT ? LS_MEM_GRADIENT
                      : t->name                                             ? LS_MEM_IO
                      : t->symmetric                                        ? LS_MEM_SYMMETRIC
                                                                            : LS_MEM_ARENA,
            .category = category_of(s, v),
            .name = t->name ? ls_arena_strdup(&plan->arena, t->name) : NULL,
            .is = t->is,
            .value = v,
            .bytes = t->bytes,
            .first = t->name || t->node ? 0 : t->first,
            .last = t->name || t->node ? last_step : t->last,
            .shared = t->name && t->symmetric,
        };
        a->host = offload &&
                  (a->category == LS_CAT_OPTIMIZER ||
                   (a->memory == LS_MEM_STATE && a->category == LS_CAT_PARAMETERS && !is_buffer(node)) ||
                   (a->memory == LS_MEM_IO && a->category == LS_CAT_GRADIENTS && !t->symmetric));
    }
    name_mapped(s);
    for (int v = 1; v < g->n_vals; v++) {
        int64_t offset;
        const set *t = &s->sets[ls_planner_base(s->p, v, &offset)];
        ls_location *place = &plan->locations[v];
        place->alloc = t->used || t->name ? t->alloc : -1;
        place->offset = (size_t)offset;
        memcpy(place->strides, s->p->home[v].strides, sizeof place->strides);
    }
    for (int i = 0; i < plan->n_steps; i++) {
        ls_step *step = &plan->steps[i];
        const ls_node *n = g->nodes[step->node];
        if (!step->kernel || !step->kernel->workspace)
            continue;
        ls_kernel_args a = ls_planner_args(g, n, &plan->device, operands);
        for (int j = 0; j < ls_operands(n); j++)
            memcpy(operands[j].strides, plan->locations[ls_operand_value(n, j).id].strides,
                   sizeof operands[j].strides);
        const size_t bytes = step->kernel->workspace(&a);
        if (!bytes)
            continue;
        step->workspace = plan->n_allocs;
        plan->allocs[plan->n_allocs++] = (ls_alloc){ .memory = LS_MEM_ARENA,
                                                     .category = LS_CAT_WORKSPACE,
                                                     .value = -1,
                                                     .bytes = bytes,
                                                     .first = i,
                                                     .last = i };
    }
    for (int i = 0; plan->on_host && i < plan->n_allocs; i++)
        plan->allocs[i].host = true;
    return ls_arena_status(&plan->arena);
}

ls_status ls_planner_store(ls_planner *p)
{
    storage s = { .p = p, .plan = p->plan, .g = p->plan->graph };
    int most = 0;
    for (int i = 0; i < s.g->n_nodes; i++) {
        const int n = ls_operands(s.g->nodes[i]);
        most = n > most ? n : most;
    }
    LS_TRY(make_sets(&s));
    for (int i = 0; i < p->plan->n_steps; i++)
        reuse(&s, i);
    share(&s);
    LS_TRY(classify(&s));
    ls_tensor *operands = LS_ARENA_ARRAY(&p->scratch, ls_tensor, most + 1);
    LS_TRY(ls_arena_status(&p->scratch));
    return make_allocs(&s, operands);
}
