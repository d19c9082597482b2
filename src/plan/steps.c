/* steps.c - the program as steps: one for each kernel, two (start and wait) for each collective.
 *
 * A reduction starts when its operand is complete. Its wait comes as late as possible: before its first
 * reader, before the start of the next reduction (so at most one operand is kept), or at the end of the
 * program.
 *
 * The wait of a gather is where the gather stands in the graph. It starts early: when the k-th gather before
 * it, in the same pass and of the same sort (units, or activations), has been waited for, but not before its
 * operand exists. So k gathers are under way while a unit computes. k is the option prefetch; if it is
 * given as an amount of memory, k is as large as the results fit into it.
 *
 * All this follows from the graph alone, so the order is the same on every rank. */
#include <string.h>

#include "base/sys.h"
#include "internal.h"
#include "lockstep/mesh.h"
#include "ops/rules.h"

typedef struct entry {    /* a kernel or a collective, in the order of the graph */
    int node, collective; /* collective -1: a kernel */
} entry;

typedef struct maker {
    ls_planner *p;
    const ls_graph *g;
    entry *entries;
    int n;
    int *start, *wait; /* [collectives]: the entry before which it starts or is waited for; n: at the end */
} maker;

int ls_planner_base(const ls_planner *p, int v, int64_t *offset)
{
    int64_t at = 0;
    while (p->home[v].base != v) {
        at += p->home[v].offset;
        v = p->home[v].base;
    }
    if (offset)
        *offset = at;
    return v;
}

/* Whether a pack has nothing left to do: all parts were computed in place, and no gap needs zeros. */
static bool pack_is_covered(const ls_planner *p, const ls_graph *g, const ls_node *n)
{
    const ls_pack_attrs *a = n->attrs;
    const ls_type *out = ls_type_of(g, n->out[0]);
    const ls_home *home = &p->home[n->out[0].id];
    int64_t at, covered = 0, part_at;
    const int base = ls_planner_base(p, n->out[0].id, &at);
    for (int j = 0; j < n->n_in; j++) {
        const ls_type *part = ls_type_of(g, n->in[j]);
        ls_tensor want = { .type = *part };
        memcpy(want.strides, home->strides, sizeof want.strides);
        ls_strides_canonical(&want);
        const int64_t there = at +
                              a->starts.v[j] * home->strides[a->dim] * (int64_t)ls_dtype_size(out->dtype);
        if (ls_planner_base(p, n->in[j].id, &part_at) != base || part_at != there ||
            memcmp(want.strides, p->home[n->in[j].id].strides, sizeof(int64_t) * (size_t)part->ndim))
            return false;
        covered += part->dims[a->dim];
    }
    return covered == a->extent; /* (the shape rule forbids overlapping parts) */
}

bool ls_is_alias_gather(const ls_graph *g, const ls_node *n)
{
    return n->op == &ls_op_all_gather && ((const ls_gather_attrs *)n->attrs)->map &&
           ls_type_of(g, n->in[0])->dtype == ls_type_of(g, n->out[0])->dtype;
}

static bool is_gather(const ls_plan_collective *c) { return c->kind == LS_ALL_GATHER; }

static ls_plan_collective describe(const maker *m, const ls_node *n)
{
    const ls_type *in = ls_type_of(m->g, n->in[0]), *out = ls_type_of(m->g, n->out[0]);
    const bool gather = n->op == &ls_op_all_gather, scatter = n->op == &ls_op_reduce_scatter;
    ls_plan_collective c = { .node = n->id, .from = in->dtype, .to = out->dtype };
    if (gather) {
        const ls_gather_attrs *a = n->attrs;
        c.kind = LS_ALL_GATHER;
        c.group = a->group;
        c.unit = a->unit;
        c.is = a->is;
        c.n = (int)a->ranks;
        c.map = a->map;
        c.count = ls_type_count(in);
        c.via = out->dtype;
        /* (not an input: gradients change between two programs, when those of micro-batches are added) */
        const ls_node *from = ls_node_of(m->g, (ls_value){ .id = ls_planner_base(m->p, n->in[0].id, NULL) });
        c.settled = ls_is_source(from) && from->op != &ls_op_input;
    } else {
        const ls_reduce_attrs *a = n->attrs;
        c.kind = scatter                 ? LS_REDUCE_SCATTER
                 : a->how == LS_HOW_MAX  ? LS_ALL_REDUCE_MAX
                 : a->how == LS_HOW_WIDE ? LS_ALL_REDUCE_WIDE
                                         : LS_ALL_REDUCE;
        c.group = a->group;
        c.unit = a->unit;
        c.n = (int)a->ranks;
        c.count = ls_type_count(out);
        c.via = (ls_dtype)a->via;
    }
    /* comm.h says which type travels */
    const bool sums = c.kind == LS_REDUCE_SCATTER || c.kind == LS_ALL_REDUCE;
    const ls_dtype travels = sums                                                             ? c.via
                             : gather && ls_dtype_size(out->dtype) < ls_dtype_size(in->dtype) ? out->dtype
                                                                                              : in->dtype;
    c.bytes = ls_is_alias_gather(m->g, n) ? 0 : ls_collective_bytes(c.kind, c.n, c.count, travels);
    return c;
}

static ls_status list_entries(maker *m)
{
    ls_plan *plan = m->p->plan;
    m->entries = LS_ARENA_ARRAY(&m->p->scratch, entry, m->g->n_nodes + 1);
    int collectives = 0;
    for (int i = 0; i < m->g->n_nodes; i++)
        collectives += ls_is_collective(m->g->nodes[i]);
    plan->collectives = LS_ARENA_ARRAY(&plan->arena, ls_plan_collective, collectives + 1);
    LS_TRY(ls_sys_have(m->entries ? plan->collectives : NULL));
    for (int i = 0; i < m->g->n_nodes; i++) {
        const ls_node *n = m->g->nodes[i];
        if (ls_is_collective(n)) {
            m->entries[m->n++] = (entry){ i, plan->n_collectives };
            plan->collectives[plan->n_collectives++] = describe(m, n);
        } else if (m->p->chosen[i] && !(n->op == &ls_op_pack && pack_is_covered(m->p, m->g, n))) {
            m->entries[m->n++] = (entry){ i, -1 };
        }
    }
    return LS_OK;
}

static bool reads(const maker *m, const ls_node *n, int base)
{
    for (int j = 0; j < n->n_in; j++)
        if (ls_present(n->in[j]) && ls_planner_base(m->p, n->in[j].id, NULL) == base)
            return true;
    return false;
}

static int first_reader(const maker *m, int from, int base)
{
    int e = from;
    while (e < m->n && !reads(m, m->g->nodes[m->entries[e].node], base))
        e++;
    return e;
}

/* The entry after the last one, before entry `e`, that writes this value's memory. */
static int ready(const maker *m, int e, int base)
{
    for (int i = e - 1; i >= 0; i--) {
        const ls_node *n = m->g->nodes[m->entries[i].node];
        for (int k = 0; k < n->n_out; k++)
            if (ls_planner_base(m->p, n->out[k].id, NULL) == base)
                return i + 1;
    }
    return 0;
}

static int first_of_phase(const maker *m, ls_phase phase)
{
    int e = 0;
    while (e < m->n && m->g->nodes[m->entries[e].node]->phase != phase)
        e++;
    return e;
}

/* Bytes of a gather's result. A mapping takes none, because it is always there. */
static int64_t memory_of(const maker *m, const ls_node *gather)
{
    return ((const ls_gather_attrs *)gather->attrs)->map
               ? 0
               : (int64_t)ls_type_bytes(ls_type_of(m->g, gather->out[0]));
}

/* How many gathers of this pass may be under way together with this one, itself counted. `waited`: the
 * entries of the `before` gathers that precede it. */
static int64_t gathers_ahead(const maker *m, const ls_node *n, const int *waited, int before)
{
    const ls_parallel *p = m->p->parallel;
    if (!p)
        return 0;
    if (!p->prefetch_memory)
        return n->phase == LS_PHASE_BACKWARD ? p->prefetch_backward : p->prefetch_forward;
    int64_t room = p->prefetch_memory - memory_of(m, n), k = 0;
    while (room >= 0 && k++ < before)
        room -= memory_of(m, m->g->nodes[m->entries[waited[before - k]].node]);
    return k;
}

static void place_gather(maker *m, int e, int c, const int *waited, int before)
{
    const ls_node *n = m->g->nodes[m->entries[e].node];
    const int64_t ahead = gathers_ahead(m, n, waited, before);
    int at = e;
    if (ahead > 0)
        at = before >= ahead ? waited[before - ahead] + 1 : first_of_phase(m, n->phase);
    const int operand = ls_planner_base(m->p, n->in[0].id, NULL);
    const int exists = m->p->plan->collectives[c].settled ? 0 : ready(m, e, operand);
    at = at > exists ? at : exists;
    m->start[c] = at < e ? at : e;
    m->wait[c] = e;
}

static bool of_unit(const ls_plan_collective *c) { return c->is.what == LS_IS_UNIT; }

static ls_status place_halves(maker *m)
{
    const ls_plan *plan = m->p->plan;
    int *waited[4], n_waited[4] = { 0 }, outstanding = -1;
    for (int k = 0; k < 4; k++)
        waited[k] = LS_ARENA_ARRAY(&m->p->scratch, int, plan->n_collectives + 1);
    LS_TRY(ls_arena_status(&m->p->scratch));
    for (int e = 0; e < m->n; e++) {
        const int c = m->entries[e].collective;
        if (c < 0)
            continue;
        const ls_node *n = m->g->nodes[m->entries[e].node];
        if (is_gather(&plan->collectives[c])) {
            const int line = 2 * of_unit(&plan->collectives[c]) + (n->phase == LS_PHASE_BACKWARD);
            place_gather(m, e, c, waited[line], n_waited[line]);
            waited[line][n_waited[line]++] = e;
            continue;
        }
        m->start[c] = e;
        m->wait[c] = first_reader(m, e + 1, ls_planner_base(m->p, n->out[0].id, NULL));
        if (outstanding >= 0 && m->wait[outstanding] > e)
            m->wait[outstanding] = e;
        outstanding = c;
    }
    return LS_OK;
}

static void emit(maker *m, int node, ls_part part, int c)
{
    ls_plan *plan = m->p->plan;
    if (part == LS_PART_START)
        plan->collectives[c].start = plan->n_steps;
    if (part == LS_PART_WAIT)
        plan->collectives[c].wait = plan->n_steps;
    plan->steps[plan->n_steps++] = (ls_step){ .node = node,
                                              .part = part,
                                              .collective = c,
                                              .workspace = -1,
                                              .kernel = part == LS_PART_RUN ? m->p->chosen[node] : NULL };
}

/* Collectives are listed in the order of their starts. */
static ls_status order_by_start(ls_planner *p)
{
    ls_plan *plan = p->plan;
    ls_plan_collective *sorted = LS_ARENA_ARRAY(&plan->arena, ls_plan_collective, plan->n_collectives + 1);
    LS_TRY(ls_arena_status(&plan->arena));
    int n = 0;
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].part == LS_PART_START) {
            ls_plan_collective *c = &plan->collectives[plan->steps[i].collective];
            plan->steps[c->start].collective = plan->steps[c->wait].collective = n;
            sorted[n++] = *c;
        }
    plan->collectives = sorted;
    return LS_OK;
}

ls_status ls_planner_make_steps(ls_planner *p)
{
    ls_plan *plan = p->plan;
    maker m = { .p = p, .g = plan->graph };
    LS_TRY(list_entries(&m));
    m.start = LS_ARENA_ARRAY(&p->scratch, int, plan->n_collectives + 1);
    m.wait = LS_ARENA_ARRAY(&p->scratch, int, plan->n_collectives + 1);
    LS_TRY(ls_arena_status(&p->scratch));
    LS_TRY(place_halves(&m));
    plan->steps = LS_ARENA_ARRAY(&plan->arena, ls_step, m.n + plan->n_collectives + 1);
    LS_TRY(ls_arena_status(&plan->arena));
    for (int e = 0; e <= m.n; e++) {
        for (int c = 0; c < plan->n_collectives; c++) /* reductions whose wait comes before this entry */
            if (!is_gather(&plan->collectives[c]) && m.wait[c] == e)
                emit(&m, plan->collectives[c].node, LS_PART_WAIT, c);
        for (int c = 0; c < plan->n_collectives; c++)
            if (m.start[c] == e)
                emit(&m, plan->collectives[c].node, LS_PART_START, c);
        for (int c = 0; c < plan->n_collectives; c++)
            if (is_gather(&plan->collectives[c]) && m.wait[c] == e)
                emit(&m, plan->collectives[c].node, LS_PART_WAIT, c);
        if (e < m.n && m.entries[e].collective < 0)
            emit(&m, m.entries[e].node, LS_PART_RUN, -1);
    }
    return order_by_start(p);
}
