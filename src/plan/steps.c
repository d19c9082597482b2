/* steps.c - the program as steps: one for each kernel, two (start and wait) for each collective, and for each
 * transfer on a device whose memory is its own.
 *
 * A reduction starts when its operand is complete. Its wait comes as late as possible: before its first
 * reader, before the start of the next reduction (so at most one operand is kept), or at the end of the
 * program.
 *
 * The wait of a gather is where the gather stands in the graph. It starts early: when the k-th gather before
 * it, in the same pass and of the same sort (units, or activations), has been waited for, but not before its
 * operand exists. So k gathers are under way while a unit computes. k is the option prefetch; if it is
 * given as an amount of memory, k is as large as the results fit into it. With LS_BACKWARD_POST the gather
 * starts when the last reader of the one before it is done, so that its result can take the same memory.
 *
 * Transfers to the device are like gathers, one sort more. A gather of what a transfer brings starts as if
 * the transfer's operand were its own, and the transfer is waited for there: so k units are on their way to
 * the device while k others are gathered. Transfers to the host are like reductions.
 *
 * All this follows from the graph alone, so the order is the same on every rank. */
#include <string.h>

#include "base/sys.h"
#include "internal.h"
#include "linked.h"
#include "lockstep/mesh.h"
#include "ops/rules.h"

/* A kernel, a collective or a transfer, in the order of the graph. */
typedef struct entry {
    int node, collective, transfer; /* both -1: a kernel */
} entry;

/* Where each collective, or transfer, begins and ends: before which entry; n: at the end. And, for each
 * entry, which ones do so: the first one, and behind each the next one. -1: none. */
typedef struct halves {
    int *start, *wait;
    int *first_start, *next_start, *first_wait, *next_wait;
} halves;

typedef struct maker {
    ls_planner *p;
    const ls_graph *g;
    entry *entries;
    int n;
    halves collectives, transfers;
    int *written; /* [values that are bases]: the entry behind the last one so far that writes it */
} maker;

static int base_of(const maker *m, ls_value v) { return ls_planner_base(m->p, v.id, NULL); }

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

static bool is_gather(const ls_plan_collective *c) { return c->kind == LS_ALL_GATHER; }
/* Whether it is waited for where it stands in the graph. */
static bool is_prompt(const ls_plan_collective *c) { return is_gather(c) || ls_is_message(c); }

static ls_plan_transfer describe_transfer(const maker *m, const ls_node *n)
{
    const ls_node *source = ls_node_of(m->g, (ls_value){ .id = base_of(m, n->in[0]) });
    ls_plan_transfer t = { .node = n->id,
                           .to_host = n->op == &ls_op_to_host,
                           .unit = ls_is_source(source) ? ls_source_name(source) : "",
                           .bytes = ls_type_bytes(ls_type_of(m->g, n->out[0])) };
    for (int i = 0; i < m->g->n_outputs && t.to_host; i++)
        if (m->g->outputs[i].value.id == n->out[0].id)
            t.unit = m->g->outputs[i].name;
    return t;
}

static ls_status list_entries(maker *m)
{
    ls_plan *plan = m->p->plan;
    m->entries = LS_ARENA_ARRAY(&m->p->scratch, entry, m->g->n_nodes + 1);
    int collectives = 0, transfers = 0;
    for (int i = 0; i < m->g->n_nodes; i++) {
        collectives += ls_is_collective(m->g->nodes[i]);
        transfers += ls_planner_transfers(m->p, m->g->nodes[i]);
    }
    plan->collectives = LS_ARENA_ARRAY(&plan->arena, ls_plan_collective, collectives + 1);
    plan->transfers = LS_ARENA_ARRAY(&plan->arena, ls_plan_transfer, transfers + 1);
    LS_TRY(ls_arena_status(&plan->arena));
    LS_TRY(ls_arena_status(&m->p->scratch));
    for (int i = 0; i < m->g->n_nodes; i++) {
        const ls_node *n = m->g->nodes[i];
        if (ls_is_collective(n)) {
            m->entries[m->n++] = (entry){ i, plan->n_collectives, -1 };
            plan->collectives[plan->n_collectives++] = ls_planner_collective(m->p, n);
        } else if (ls_planner_transfers(m->p, n)) {
            m->entries[m->n++] = (entry){ i, -1, plan->n_transfers };
            plan->transfers[plan->n_transfers++] = describe_transfer(m, n);
        } else if (m->p->chosen[i] && !(n->op == &ls_op_pack && pack_is_covered(m->p, m->g, n))) {
            m->entries[m->n++] = (entry){ i, -1, -1 };
        }
    }
    return LS_OK;
}

static ls_status make_halves(halves *h, ls_arena *scratch, int n)
{
    h->start = LS_ARENA_ARRAY(scratch, int, n + 1);
    h->wait = LS_ARENA_ARRAY(scratch, int, n + 1);
    return ls_arena_status(scratch);
}

static ls_status list_by_entry(int **first, int **next, ls_arena *scratch, const int *at, int n, int entries)
{
    *first = LS_ARENA_ARRAY(scratch, int, entries + 1);
    *next = LS_ARENA_ARRAY(scratch, int, n + 1);
    LS_TRY(ls_arena_status(scratch));
    memset(*first, 0xff, sizeof **first * (size_t)(entries + 1));
    for (int i = n - 1; i >= 0; i--) {
        (*next)[i] = (*first)[at[i]];
        (*first)[at[i]] = i;
    }
    return LS_OK;
}

static ls_status list_halves(halves *h, ls_arena *scratch, int n, int entries)
{
    LS_TRY(list_by_entry(&h->first_start, &h->next_start, scratch, h->start, n, entries));
    return list_by_entry(&h->first_wait, &h->next_wait, scratch, h->wait, n, entries);
}

static bool reads(const maker *m, const ls_node *n, int base)
{
    for (int j = 0; j < n->n_in; j++)
        if (ls_present(n->in[j]) && base_of(m, n->in[j]) == base)
            return true;
    return false;
}

static bool writes(const maker *m, const ls_node *n, int base)
{
    for (int k = 0; k < n->n_out; k++)
        if (base_of(m, n->out[k]) == base)
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

/* Whether an entry is waited for only where its result is read. */
static bool is_late(const maker *m, const entry *e)
{
    return (e->collective >= 0 && !is_prompt(&m->p->plan->collectives[e->collective])) ||
           (e->transfer >= 0 && m->p->plan->transfers[e->transfer].to_host);
}

static void note_writes(maker *m, int e)
{
    const ls_node *n = m->g->nodes[m->entries[e].node];
    for (int k = 0; k < n->n_out; k++)
        m->written[base_of(m, n->out[k])] = e + 1;
}

/* The entry from which on the value that entry `reader` reads is complete: after the last one that writes
 * its memory. All entries before `reader` have been noted. */
static int ready(const maker *m, int reader, int base)
{
    const int e = m->written[base];
    return e > 0 && is_late(m, &m->entries[e - 1]) ? reader : e;
}

/* The first entry behind all those before e that read or write it. */
static int unused(const maker *m, int e, int base)
{
    while (e > 0 && !reads(m, m->g->nodes[m->entries[e - 1].node], base) &&
           !writes(m, m->g->nodes[m->entries[e - 1].node], base))
        e--;
    return e;
}

static int first_of_phase(const maker *m, ls_phase phase)
{
    int e = 0;
    while (e < m->n && m->g->nodes[m->entries[e].node]->phase != phase)
        e++;
    return e;
}

/* Gathers of one sort, or transfers to the device, in one phase: their nodes, and the entries that wait for
 * them. */
typedef struct line {
    const ls_node **node;
    int *wait, n;
} line;

enum { LINES = 6 };
static line *line_of(line *lines, int sort, const ls_node *n)
{
    return &lines[2 * sort + (n->phase == LS_PHASE_BACKWARD)];
}

/* Bytes of the result. A mapping takes none, because it is always there. */
static int64_t memory_of(const maker *m, const ls_node *n)
{
    return n->op == &ls_op_all_gather && ((const ls_gather_attrs *)n->attrs)->map
               ? 0
               : (int64_t)ls_type_bytes(ls_type_of(m->g, n->out[0]));
}

/* How many of this line may be under way at once, including n. */
static int64_t how_many_ahead(const maker *m, const ls_node *n, const line *l)
{
    const ls_parallel *p = m->p->parallel;
    if (!p)
        return 0;
    if (!p->prefetch_memory)
        return n->phase == LS_PHASE_BACKWARD ? p->prefetch_backward : p->prefetch_forward;
    int64_t room = p->prefetch_memory - memory_of(m, n), k = 0;
    while (room >= 0 && k++ < l->n)
        room -= memory_of(m, l->node[l->n - k]);
    return k;
}

/* Adds n to its line. Its wait is before entry `wait`, and its operand is complete before entry `exists`.
 * Returns the entry at which it starts. */
static int start_ahead(const maker *m, line *l, const ls_node *n, int exists, int wait)
{
    const int64_t ahead = how_many_ahead(m, n, l);
    int at = wait;
    if (ahead > 0)
        at = l->n >= ahead ? l->wait[l->n - ahead] + 1 : first_of_phase(m, n->phase);
    else if (ahead == LS_BACKWARD_POST && l->n)
        at = unused(m, wait, base_of(m, l->node[l->n - 1]->out[0]));
    at = at > exists ? at : exists;
    l->node[l->n] = n;
    l->wait[l->n++] = wait;
    return at < wait ? at : wait;
}

/* The entry from which on a gather's operand is complete. If a transfer brings the operand, this is where
 * the transfer's operand is complete. */
static int gather_ready(const maker *m, int e, const ls_plan_collective *c, const ls_node *n)
{
    const ls_node *from = ls_node_of(m->g, (ls_value){ .id = base_of(m, n->in[0]) });
    return c->settled ? 0
                      : ready(m, e, base_of(m, ls_planner_transfers(m->p, from) ? from->in[0] : n->in[0]));
}

static void place_collectives(maker *m, line *lines)
{
    const ls_plan *plan = m->p->plan;
    int *start = m->collectives.start, *wait = m->collectives.wait, outstanding = -1;
    for (int e = 0; e < m->n; e++) {
        const int c = m->entries[e].collective;
        if (e)
            note_writes(m, e - 1);
        if (c < 0)
            continue;
        const ls_node *n = m->g->nodes[m->entries[e].node];
        if (is_gather(&plan->collectives[c])) {
            wait[c] = e;
            start[c] = start_ahead(m, line_of(lines, plan->collectives[c].is.what == LS_IS_UNIT, n), n,
                                   gather_ready(m, e, &plan->collectives[c], n), e);
            continue;
        }
        start[c] = wait[c] = e;
        if (ls_is_message(&plan->collectives[c]))
            continue;
        wait[c] = first_reader(m, e + 1, base_of(m, n->out[0]));
        if (outstanding >= 0 && wait[outstanding] > e)
            wait[outstanding] = e;
        outstanding = c;
    }
}

/* The first entry from `from` on that needs the result of a transfer, or its operand's memory. */
static int first_need(const maker *m, int from, const ls_node *n)
{
    const int operand = base_of(m, n->in[0]), result = base_of(m, n->out[0]);
    int e = from;
    for (; e < m->n; e++) {
        const ls_node *other = m->g->nodes[m->entries[e].node];
        if (writes(m, other, operand) || reads(m, other, result) || writes(m, other, result))
            break;
    }
    return e;
}

/* The entry at which a transfer to the device must be done: e, or the start of a gather that reads it. */
static int needed(const maker *m, int e, const ls_node *n)
{
    int at = e;
    for (int c = 0; c < m->p->plan->n_collectives; c++) {
        const ls_node *gather = m->g->nodes[m->p->plan->collectives[c].node];
        if (base_of(m, gather->in[0]) == n->out[0].id && m->collectives.start[c] < at)
            at = m->collectives.start[c];
    }
    return at;
}

/* Runs after place_collectives, because the places of transfers depend on the collectives. */
static void place_transfers(maker *m, line *lines)
{
    int *start = m->transfers.start, *wait = m->transfers.wait, outstanding = -1;
    memset(m->written, 0, sizeof *m->written * (size_t)m->g->n_vals);
    for (int e = 0; e < m->n; e++) {
        const int t = m->entries[e].transfer;
        if (e)
            note_writes(m, e - 1);
        if (t < 0)
            continue;
        const ls_node *n = m->g->nodes[m->entries[e].node];
        if (m->p->plan->transfers[t].to_host) {
            start[t] = e;
            wait[t] = first_need(m, e + 1, n);
            if (outstanding >= 0 && wait[outstanding] > e)
                wait[outstanding] = e;
            outstanding = t;
            continue;
        }
        const int operand = ready(m, e, base_of(m, n->in[0])), room = unused(m, e, base_of(m, n->out[0]));
        wait[t] = needed(m, e, n);
        start[t] = start_ahead(m, line_of(lines, 2, n), n, operand > room ? operand : room, wait[t]);
    }
}

static ls_status place_halves(maker *m)
{
    const ls_plan *plan = m->p->plan;
    const int most = plan->n_collectives + plan->n_transfers + 1;
    line lines[LINES] = { 0 };
    for (int k = 0; k < LINES; k++) {
        lines[k].node = LS_ARENA_ARRAY(&m->p->scratch, const ls_node *, most);
        lines[k].wait = LS_ARENA_ARRAY(&m->p->scratch, int, most);
    }
    m->written = LS_ARENA_ARRAY(&m->p->scratch, int, m->g->n_vals);
    LS_TRY(ls_arena_status(&m->p->scratch));
    LS_TRY(make_halves(&m->collectives, &m->p->scratch, plan->n_collectives));
    LS_TRY(make_halves(&m->transfers, &m->p->scratch, plan->n_transfers));
    place_collectives(m, lines);
    place_transfers(m, lines);
    LS_TRY(list_halves(&m->collectives, &m->p->scratch, plan->n_collectives, m->n));
    return list_halves(&m->transfers, &m->p->scratch, plan->n_transfers, m->n);
}

static void emit(maker *m, ls_part part, entry e)
{
    ls_plan *plan = m->p->plan;
    if (part != LS_PART_RUN)
        *(e.collective >= 0 ? (part == LS_PART_START ? &plan->collectives[e.collective].start
                                                     : &plan->collectives[e.collective].wait)
                            : (part == LS_PART_START ? &plan->transfers[e.transfer].start
                                                     : &plan->transfers[e.transfer].wait)) = plan->n_steps;
    plan->steps[plan->n_steps++] = (ls_step){ .node = e.node,
                                              .part = part,
                                              .collective = e.collective,
                                              .transfer = e.transfer,
                                              .workspace = -1,
                                              .kernel = part == LS_PART_RUN ? m->p->chosen[e.node] : NULL };
}

static void emit_collectives(maker *m, int e, ls_part part, bool gathers, bool reductions)
{
    const ls_plan *plan = m->p->plan;
    const halves *h = &m->collectives;
    const bool starts = part == LS_PART_START;
    for (int c = (starts ? h->first_start : h->first_wait)[e]; c >= 0;
         c = (starts ? h->next_start : h->next_wait)[c])
        if (is_prompt(&plan->collectives[c]) ? gathers : reductions)
            emit(m, part, (entry){ plan->collectives[c].node, c, -1 });
}

static void emit_transfers(maker *m, int e, ls_part part, bool to_device, bool to_host)
{
    const ls_plan *plan = m->p->plan;
    const halves *h = &m->transfers;
    const bool starts = part == LS_PART_START;
    for (int t = (starts ? h->first_start : h->first_wait)[e]; t >= 0;
         t = (starts ? h->next_start : h->next_wait)[t])
        if (plan->transfers[t].to_host ? to_host : to_device)
            emit(m, part, (entry){ plan->transfers[t].node, -1, t });
}

/* Collectives, and transfers, are listed in the order of their starts. */
static ls_status order_by_start(ls_planner *p)
{
    ls_plan *plan = p->plan;
    ls_plan_collective *collectives = LS_ARENA_ARRAY(&plan->arena, ls_plan_collective,
                                                     plan->n_collectives + 1);
    ls_plan_transfer *transfers = LS_ARENA_ARRAY(&plan->arena, ls_plan_transfer, plan->n_transfers + 1);
    LS_TRY(ls_arena_status(&plan->arena));
    int n = 0, n_transfers = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const ls_step *s = &plan->steps[i];
        if (s->part == LS_PART_START && s->collective >= 0) {
            const ls_plan_collective c = plan->collectives[s->collective];
            plan->steps[c.start].collective = plan->steps[c.wait].collective = n;
            collectives[n++] = c;
        } else if (s->part == LS_PART_START) {
            const ls_plan_transfer t = plan->transfers[s->transfer];
            plan->steps[t.start].transfer = plan->steps[t.wait].transfer = n_transfers;
            transfers[n_transfers++] = t;
        }
    }
    plan->collectives = collectives;
    plan->transfers = transfers;
    return LS_OK;
}

ls_status ls_planner_make_steps(ls_planner *p)
{
    ls_plan *plan = p->plan;
    maker m = { .p = p, .g = plan->graph };
    LS_TRY(list_entries(&m));
    LS_TRY(place_halves(&m));
    plan->steps = LS_ARENA_ARRAY(&plan->arena, ls_step, m.n + plan->n_collectives + plan->n_transfers + 1);
    LS_TRY(ls_arena_status(&plan->arena));
    for (int e = 0; e <= m.n; e++) {
        emit_collectives(&m, e, LS_PART_WAIT, false, true);
        emit_transfers(&m, e, LS_PART_WAIT, false, true);
        emit_transfers(&m, e, LS_PART_START, true, true);
        emit_transfers(&m, e, LS_PART_WAIT, true, false); /* operands of the gathers that start here */
        emit_collectives(&m, e, LS_PART_START, true, true);
        emit_collectives(&m, e, LS_PART_WAIT, true, false);
        if (e < m.n && m.entries[e].collective < 0 && m.entries[e].transfer < 0)
            emit(&m, LS_PART_RUN, m.entries[e]);
    }
    return order_by_start(p);
}
