/* tags.c - see tags.h. */
#include "tags.h"

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { KINDS = LS_MEM_SYMMETRIC + 1 }; /* of memory that is simulated */
typedef struct memory {
    int *tags[KINDS];
    size_t bytes[KINDS];
} memory;

static memory memory_like(const ls_plan *p)
{
    return (memory){ .bytes = { [LS_MEM_ARENA] = p->arena_bytes,
                                [LS_MEM_STATE] = p->state_bytes,
                                [LS_MEM_IO] = p->io_bytes,
                                [LS_MEM_SYMMETRIC] = p->symmetric_bytes } };
}

static ls_memory memory_of(const ls_alloc *a)
{
    return a->memory == LS_MEM_GRADIENT ? LS_MEM_ARENA : a->memory;
}

/* Calls fn for every byte of a value's elements. */
typedef void (*byte_fn)(void *context, int *tag);
static void each_byte(const ls_plan *p, memory *m, int v, byte_fn fn, void *context)
{
    const ls_location *at = &p->locations[v];
    const ls_alloc *a = &p->allocs[at->alloc];
    const ls_type *t = &p->graph->vals[v].type;
    const size_t size = ls_dtype_size(t->dtype);
    const int64_t n = ls_type_count(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t left = i, element = 0;
        for (int d = t->ndim - 1; d >= 0; d--) {
            element += left % t->dims[d] * at->strides[d];
            left /= t->dims[d];
        }
        const size_t first = a->offset + at->offset + (size_t)element * size;
        assert_true(at->offset + (size_t)element * size + size <= a->bytes);
        assert_true(first + size <= m->bytes[memory_of(a)]);
        for (size_t b = 0; b < size; b++)
            fn(context, &m->tags[memory_of(a)][first + b]);
    }
}

/* The value whose memory v names: behind views, and behind updates in place (old names of updated bytes are
 * refused by the planner; that has its own test). */
static int content(const ls_graph *g, int v)
{
    for (;;) {
        const ls_node *n = g->nodes[g->vals[v].node];
        const int over = (n->op->flags & LS_OP_VIEW) ? 1 : n->op->alias[g->vals[v].out];
        if (!over)
            return v;
        v = n->in[over - 1].id;
    }
}

/* `part` is, through packs of packs, a part of `whole`. */
static bool is_part(const ls_graph *g, int part, int whole)
{
    const ls_node *n = g->nodes[g->vals[whole].node];
    if (part == whole)
        return true;
    if (strcmp(n->op->name, "pack"))
        return false;
    for (int j = 0; j < n->n_in; j++)
        if (is_part(g, part, content(g, n->in[j].id)))
            return true;
    return false;
}

typedef struct reading {
    const ls_plan *p;
    int value, step;
} reading;
static void read_byte(void *context, int *tag)
{
    const reading *r = context;
    const ls_graph *g = r->p->graph;
    const int want = content(g, r->value);
    if (*tag <= 0 || !(is_part(g, *tag, want) || is_part(g, want, *tag)))
        fail_msg("step %d reads value %d (%s) but finds value %d (%s)", r->step, r->value,
                 g->nodes[g->vals[r->value].node]->op->name, *tag,
                 *tag > 0 ? g->nodes[g->vals[*tag].node]->op->name : "garbage");
}

static void write_byte(void *context, int *tag) { *tag = *(const int *)context; }
static void mark_byte(void *context, int *tag)
{
    *(bool *)context |= *tag < 0;
    *tag = -1;
}

/* Do the bytes of a and b meet? Uses a fresh memory of marks. */
static bool meet(const ls_plan *p, int a, int b)
{
    if (p->locations[a].alloc < 0 || p->locations[b].alloc < 0 ||
        memory_of(&p->allocs[p->locations[a].alloc]) != memory_of(&p->allocs[p->locations[b].alloc]))
        return false;
    memory m = memory_like(p);
    const ls_memory kind = memory_of(&p->allocs[p->locations[a].alloc]);
    m.tags[kind] = calloc(m.bytes[kind] + 1, sizeof(int));
    bool ignored = false, met = false;
    each_byte(p, &m, a, mark_byte, &ignored);
    each_byte(p, &m, b, mark_byte, &met);
    free(m.tags[kind]);
    return met;
}

/* While a value is under way, its memory carries a tag that nobody may read or replace. */
static int under_way(int v) { return -1000 - v; }
typedef struct arriving {
    int value, step;
} arriving;
static void arrive_byte(void *context, int *tag)
{
    const arriving *a = context;
    if (*tag != under_way(a->value))
        fail_msg("step %d waits for value %d, but the memory of its result was used meanwhile", a->step,
                 a->value);
    *tag = a->value;
}

/* A half of a transfer, or of a collective. The operand must be there at the start and still at the wait. The
 * result of a reduction may take its place. */
static void check_half(const ls_plan *p, memory *m, int i)
{
    const ls_step *s = &p->steps[i];
    const ls_node *n = p->graph->nodes[s->node];
    reading r = { p, n->in[0].id, i };
    arriving a = { n->out[0].id, i };
    int tag = under_way(a.value);
    const bool in_place = meet(p, r.value, a.value);
    each_byte(p, m, r.value, read_byte, &r);
    assert_false(in_place && s->transfer >= 0);
    if (in_place && s->part == LS_PART_WAIT)
        each_byte(p, m, a.value, write_byte, &a.value);
    else if (!in_place && s->part == LS_PART_WAIT)
        each_byte(p, m, a.value, arrive_byte, &a);
    else if (!in_place)
        each_byte(p, m, a.value, write_byte, &tag);
}

static void check_step(const ls_plan *p, memory *m, int i)
{
    const ls_graph *g = p->graph;
    const ls_node *n = g->nodes[p->steps[i].node];
    if (p->steps[i].part != LS_PART_RUN) {
        check_half(p, m, i);
        return;
    }
    if (p->steps[i].workspace >= 0) {
        const ls_alloc *a = &p->allocs[p->steps[i].workspace];
        assert_true(a->memory == LS_MEM_ARENA && a->offset + a->bytes <= p->arena_bytes);
        for (size_t b = 0; b < a->bytes; b++)
            m->tags[LS_MEM_ARENA][a->offset + b] = -1;
    }
    for (int j = 0; j < n->n_in; j++) {
        reading r = { p, n->in[j].id, i };
        if (r.value > 0)
            each_byte(p, m, r.value, read_byte, &r);
    }
    const bool pack = !strcmp(n->op->name, "pack");
    for (int k = 0; k < n->n_out; k++) {
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j].id > 0 && !pack && n->op->alias[k] != j + 1 &&
                !(k == 0 && (n->op->inplace >> j & 1)))
                assert_false(meet(p, n->in[j].id, n->out[k].id));
        for (int l = 0; l < k; l++)
            assert_false(meet(p, n->out[l].id, n->out[k].id));
    }
    for (int k = 0; k < n->n_out; k++) {
        int tag = content(g, n->out[k].id);
        each_byte(p, m, n->out[k].id, write_byte, &tag);
    }
}

void check_tags(const ls_plan *p)
{
    const ls_graph *g = p->graph;
    memory m = memory_like(p);
    for (int k = 0; k < KINDS; k++)
        m.tags[k] = calloc(m.bytes[k] + 1, sizeof(int));
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op->flags & LS_OP_SOURCE)
            each_byte(p, &m, g->nodes[i]->out[0].id, write_byte, &g->nodes[i]->out[0].id);
    for (int i = 0; i < p->n_steps; i++)
        check_step(p, &m, i);
    for (int i = 0; i < g->n_outputs; i++) {
        reading r = { p, g->outputs[i].value.id, p->n_steps };
        each_byte(p, &m, r.value, read_byte, &r);
        assert_true(p->allocs[p->locations[r.value].alloc].memory != LS_MEM_ARENA);
    }
    for (int k = 0; k < KINDS; k++)
        free(m.tags[k]);
    assert_int_equal(ls_plan_check(p), LS_OK);
}
