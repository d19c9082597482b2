/* gradients.c - gradients in the arena (LS_MEM_GRADIENT). A backward pass writes a unit's gradient part by
 * part, beginning with the last layer, and frees activations as it goes. So a part of the gradient needs its
 * memory only from the step that first writes it, and until then activations may lie there.
 *
 * The gradients are at the start of the arena, in the order of their units, so each has the same place in
 * every program. Their parts become allocations of the arena with a given place, and the rest of the arena
 * is packed around them. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* the bytes of a gradient that belong to a value, and the step that first reads or writes the value */
typedef struct range {
    size_t begin, end;
    int first;
} range;

static int by_first(const void *pa, const void *pb)
{
    const range *a = pa, *b = pb;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->begin > b->begin) - (a->begin < b->begin);
}

static int by_size_t(const void *pa, const void *pb)
{
    const size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
    return (a > b) - (a < b);
}

static int position(const size_t *cuts, int n, size_t at)
{
    const size_t *found = bsearch(&at, cuts, (size_t)n, sizeof at, by_size_t);
    return (int)(found - cuts);
}

/* Appends the parts of `whole`, in the order of their offsets. Bytes that no step touches are live
 * throughout. */
static ls_status add_parts(ls_planner *p, const ls_alloc *whole, range *ranges, int n)
{
    ls_plan *plan = p->plan;
    size_t *cuts = LS_ARENA_ARRAY(&p->scratch, size_t, 2 * n + 2);
    LS_TRY(ls_arena_status(&p->scratch));
    int n_cuts = 0;
    cuts[n_cuts++] = 0;
    cuts[n_cuts++] = ls_align_up(whole->bytes);
    for (int i = 0; i < n; i++) {
        cuts[n_cuts++] = ranges[i].begin;
        cuts[n_cuts++] = ranges[i].end;
    }
    qsort(cuts, (size_t)n_cuts, sizeof *cuts, by_size_t);
    int kept = 0;
    for (int i = 0; i < n_cuts; i++)
        if (i == 0 || cuts[i] != cuts[kept - 1])
            cuts[kept++] = cuts[i];
    /* first[k]: the step that first needs the bytes from cuts[k] to cuts[k + 1]; next[k]: the first piece
     * from k on without such a step yet */
    int *first = LS_ARENA_ARRAY(&p->scratch, int, kept), *next = LS_ARENA_ARRAY(&p->scratch, int, kept);
    LS_TRY(ls_arena_status(&p->scratch));
    for (int k = 0; k < kept; k++)
        next[k] = k;
    qsort(ranges, (size_t)n, sizeof *ranges, by_first);
    for (int i = 0; i < n; i++) {
        const int end = position(cuts, kept, ranges[i].end);
        for (int k = position(cuts, kept, ranges[i].begin); k < end;) {
            if (next[k] == k) {
                first[k] = ranges[i].first;
                next[k] = k + 1;
            }
            const int to = next[k];
            next[k] = next[to]; /* (so later searches are short) */
            k = to;
        }
    }
    for (int k = 0; k + 1 < kept; k++) {
        ls_alloc *last = plan->n_allocs ? &plan->allocs[plan->n_allocs - 1] : NULL;
        if (k > 0 && last->first == first[k]) {
            last->bytes += cuts[k + 1] - cuts[k];
            continue;
        }
        ls_alloc *part = &plan->allocs[plan->n_allocs++];
        *part = *whole;
        part->memory = LS_MEM_ARENA;
        part->fixed = true;
        part->offset = whole->offset + cuts[k];
        part->bytes = cuts[k + 1] - cuts[k];
        part->first = first[k];
        part->last = plan->n_steps ? plan->n_steps - 1 : 0;
    }
    return LS_OK;
}

/* Lists the values inside the gradient. `first`: of each value, the step that first uses it. Returns how
 * many. */
static int list_ranges(const ls_planner *p, int base, const int *first, range *ranges)
{
    const ls_graph *g = p->plan->graph;
    int n = 0;
    for (int v = 1; v < g->n_vals; v++) {
        int64_t at;
        if (first[v] < 0 || ls_planner_base(p, v, &at) != base)
            continue;
        ls_tensor t = { .type = g->vals[v].type };
        memcpy(t.strides, p->home[v].strides, sizeof t.strides);
        const size_t bytes = (size_t)ls_strides_extent(&t) * ls_dtype_size(t.type.dtype);
        if (bytes)
            ranges[n++] = (range){ (size_t)at / LS_ALIGN * LS_ALIGN, ls_align_up((size_t)at + bytes),
                                   first[v] };
    }
    return n;
}

static int by_unit(const void *pa, const void *pb)
{
    const ls_alloc *a = *(ls_alloc *const *)pa, *b = *(ls_alloc *const *)pb;
    return (a->is.unit > b->is.unit) - (a->is.unit < b->is.unit);
}

ls_status ls_planner_place_gradients(ls_planner *p)
{
    ls_plan *plan = p->plan;
    const ls_graph *g = plan->graph;
    ls_alloc **wholes = LS_ARENA_ARRAY(&p->scratch, ls_alloc *, plan->n_allocs + 1);
    range *ranges = LS_ARENA_ARRAY(&p->scratch, range, g->n_vals + 1);
    int *first = LS_ARENA_ARRAY(&p->scratch, int, g->n_vals + 1), n = 0;
    LS_TRY(ls_arena_status(&p->scratch));
    for (int i = 0; i < plan->n_allocs; i++)
        if (plan->allocs[i].memory == LS_MEM_GRADIENT)
            wholes[n++] = &plan->allocs[i];
    if (!n)
        return LS_OK;
    qsort(wholes, (size_t)n, sizeof *wholes, by_unit);
    for (int v = 0; v < g->n_vals; v++)
        first[v] = -1;
    for (int i = plan->n_steps - 1; i >= 0; i--) {
        const ls_node *node = g->nodes[plan->steps[i].node];
        for (int j = 0; j < ls_operands(node); j++)
            first[ls_operand_value(node, j).id] = i;
    }
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const ls_node *source = g->nodes[g->vals[wholes[i]->value].node];
        wholes[i]->offset = at;
        at += ls_align_up(wholes[i]->bytes);
        /* a gradient that another program wrote is live from the first step on */
        const int found = ls_is_source(source) ? 0 : list_ranges(p, wholes[i]->value, first, ranges);
        LS_TRY(add_parts(p, wholes[i], ranges, found));
    }
    return LS_OK;
}
