/* arena.c - offsets of allocations. Allocations whose lifetimes overlap must not overlap in memory, and the
 * arena should be hardly larger than the most bytes that are live at once.
 *
 * The allocations are placed one after the other. Each goes to the lowest gap that it fits, among those
 * already placed whose lifetimes overlap its own (occupied.c). (The smallest gap that fits gave no smaller
 * arenas.)
 * Largest-first is nearly always best for training steps. Other orders are tried only if it is not perfect:
 * where values lie in the memory of gradients (gradients.c) until these begin, those that end last have the
 * least room and come first. Orders and ties are fixed, so a plan is a function of graph and device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/sys.h"
#include "internal.h"
#include "occupied.h"

typedef enum packing_order { BY_SIZE, BY_AREA, BY_TIME, BY_END, ORDERS } packing_order;
typedef struct item {
    const ls_alloc *alloc;
    size_t size;
    double key;
    int index;
} item;

static int by_key(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->index - b->index;
}

/* Sets offsets[allocation], and *total to the arena's size. It gives up when *total is at least `most`.
 * LS_E_STOPPED: a stop is requested. */
static ls_status pack(size_t *total, size_t most, const ls_plan *p, ls_memory memory, packing_order order,
                      item *items, int n, size_t *offsets, ls_occupied *occupied)
{
    for (int i = 0; i < n; i++) {
        const ls_alloc *a = items[i].alloc;
        const double size = (double)items[i].size, span = a->last - a->first + 1;
        items[i].key = order == BY_SIZE   ? size
                       : order == BY_AREA ? size * span
                       : order == BY_TIME ? -(double)a->first
                                          : (double)a->last;
    }
    qsort(items, (size_t)n, sizeof *items, by_key);
    *total = 0;
    ls_occupied_clear(occupied);
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        if (!a->fixed || a->memory != memory)
            continue;
        offsets[i] = a->offset;
        *total = a->offset + ls_align_up(a->bytes); /* (they are in the order of their offsets) */
        LS_TRY(ls_occupied_add(occupied, a->first, a->last, a->offset, *total));
    }
    for (int i = 0; i < n && *total < most; i++) {
        if (i % 256 == 0 && ls_stop_asked())
            return LS_E_STOPPED;
        const ls_alloc *a = items[i].alloc;
        const size_t at = ls_occupied_lowest(occupied, a->first, a->last, items[i].size),
                     end = at + items[i].size;
        offsets[items[i].index] = at;
        *total = end > *total ? end : *total;
        LS_TRY(ls_occupied_add(occupied, a->first, a->last, at, end));
    }
    return LS_OK;
}

static ls_status find_peak(ls_plan *p)
{
    const ls_timeline_point *t = ls_plan_timeline(p);
    LS_TRY(ls_sys_have(t));
    size_t fixed = 0, most = 0;
    for (int i = 0; i < p->n_allocs; i++)
        if (ls_is_lasting(&p->allocs[i]))
            fixed += ls_align_up(p->allocs[i].bytes);
    for (int k = 0; k < p->n_steps; k++) {
        size_t sum = 0;
        for (int c = 0; c < LS_CAT_COUNT; c++)
            sum += t[k].bytes[c];
        if (sum > most || k == 0) {
            most = sum;
            p->peak_step = k;
            memcpy(p->peak_by_category, t[k].bytes, sizeof p->peak_by_category);
        }
    }
    p->live_peak_bytes = p->n_steps ? most - fixed : 0;
    return LS_OK;
}

/* The most bytes of one kind of memory that are live at once. No packing can be smaller. */
static size_t live_peak(const ls_plan *p, ls_memory memory, size_t *live)
{
    size_t most = 0;
    memset(live, 0, sizeof *live * (size_t)(p->n_steps + 2));
    for (int i = 0; i < p->n_allocs; i++)
        if (p->allocs[i].memory == memory) {
            live[p->allocs[i].first] += ls_align_up(p->allocs[i].bytes);
            /* (the sum is right although differences wrap around) */
            live[p->allocs[i].last + 1] -= ls_align_up(p->allocs[i].bytes);
        }
    for (int k = 0; k <= p->n_steps; k++) {
        live[k] += k ? live[k - 1] : 0;
        most = live[k] > most ? live[k] : most;
    }
    return most;
}

/* Tries the orders until one is perfect. */
static ls_status try_orders(size_t *out, ls_plan *p, ls_memory memory, ls_arena *scratch,
                            ls_occupied *occupied)
{
    int n = 0;
    for (int i = 0; i < p->n_allocs; i++)
        n += p->allocs[i].memory == memory && !p->allocs[i].fixed;
    item *items = LS_ARENA_ARRAY(scratch, item, n + 1);
    size_t *offsets = LS_ARENA_ARRAY(scratch, size_t, p->n_allocs + 1);
    size_t *live = LS_ARENA_ARRAY(scratch, size_t, p->n_steps + 2);
    LS_TRY(ls_arena_status(scratch));
    const size_t least = live_peak(p, memory, live);
    size_t best = SIZE_MAX;
    for (packing_order order = 0; order < ORDERS && best > least; order++) {
        size_t bytes;
        for (int i = 0, k = 0; i < p->n_allocs; i++)
            if (p->allocs[i].memory == memory && !p->allocs[i].fixed)
                items[k++] = (item){ .alloc = &p->allocs[i],
                                     .size = ls_align_up(p->allocs[i].bytes),
                                     .index = i };
        LS_TRY(pack(&bytes, best, p, memory, order, items, n, offsets, occupied));
        if (bytes >= best)
            continue;
        best = bytes;
        for (int k = 0; k < n; k++)
            p->allocs[items[k].index].offset = offsets[items[k].index];
    }
    *out = best;
    return LS_OK;
}

static ls_status pack_region(size_t *bytes, ls_plan *p, ls_memory memory)
{
    bool any = false;
    for (int i = 0; i < p->n_allocs && !any; i++)
        any = p->allocs[i].memory == memory;
    *bytes = 0;
    if (!any)
        return LS_OK;
    ls_arena scratch;
    ls_occupied occupied;
    ls_arena_init(&scratch);
    ls_status s = ls_occupied_init(&occupied, p->n_steps);
    s = s == LS_OK ? try_orders(bytes, p, memory, &scratch, &occupied) : s;
    ls_occupied_release(&occupied);
    ls_arena_release(&scratch);
    return s;
}

static ls_status list_unpacked(ls_plan *p)
{
    for (int i = 0; i < p->n_allocs; i++)
        p->n_unpacked += !ls_is_packed(&p->allocs[i]);
    p->unpacked = LS_ARENA_ARRAY(&p->arena, int, p->n_unpacked + 1);
    LS_TRY(ls_arena_status(&p->arena));
    for (int i = 0, k = 0; i < p->n_allocs; i++)
        if (!ls_is_packed(&p->allocs[i]))
            p->unpacked[k++] = i;
    return LS_OK;
}

ls_status ls_planner_pack_arena(ls_plan *p)
{
    LS_TRY(list_unpacked(p));
    for (int i = 0; i < p->n_unpacked; i++) {
        ls_alloc *a = &p->allocs[p->unpacked[i]];
        if (a->memory == LS_MEM_GRADIENT)
            continue;
        size_t *region = a->memory == LS_MEM_STATE  ? &p->state_bytes
                         : a->memory == LS_MEM_NODE ? &p->node_bytes
                                                    : &p->io_bytes;
        a->offset = *region;
        *region += ls_align_up(a->bytes);
        p->host_bytes += a->host ? ls_align_up(a->bytes) : 0;
    }
    LS_TRY(find_peak(p));
    LS_TRY(pack_region(&p->arena_bytes, p, LS_MEM_ARENA));
    LS_TRY(pack_region(&p->symmetric_bytes, p, LS_MEM_SYMMETRIC));
    return pack_region(&p->pinned_bytes, p, LS_MEM_PINNED);
}

const ls_timeline_point *ls_plan_timeline(ls_plan *p)
{
    ls_timeline_point *t = LS_ARENA_ARRAY(&p->arena, ls_timeline_point, p->n_steps + 1);
    if (!t)
        return NULL;
    for (int i = 0; i < p->n_allocs; i++) /* the bytes that begin and end at each step, as differences */
        /* (NODE memory belongs to the machine, not to this rank; PINNED memory is the host's) */
        if (p->n_steps && (ls_is_lasting(&p->allocs[i]) || ls_is_transient(&p->allocs[i]))) {
            const ls_alloc *a = &p->allocs[i];
            t[a->first].bytes[a->category] += ls_align_up(a->bytes);
            /* (the sum is right although differences wrap around) */
            t[a->last + 1].bytes[a->category] -= ls_align_up(a->bytes);
        }
    for (int k = 1; k < p->n_steps; k++)
        for (int c = 0; c < LS_CAT_COUNT; c++)
            t[k].bytes[c] += t[k - 1].bytes[c];
    return t;
}

static bool meet(const ls_alloc *a, const ls_alloc *b) { return a->first <= b->last && b->first <= a->last; }

static const char *owner(const ls_plan *p, const ls_alloc *a, char text[64])
{
    const int node = a->value < 0 ? p->steps[a->first].node : p->graph->vals[a->value].node;
    snprintf(text, 64, "%s of node %d (%s)", a->value < 0 ? "workspace" : "value", node,
             p->graph->nodes[node]->op->name);
    return text;
}

ls_status ls_plan_check(const ls_plan *p)
{
    char x[64], y[64];
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        const size_t region = a->memory == LS_MEM_SYMMETRIC ? p->symmetric_bytes
                              : a->memory == LS_MEM_PINNED  ? p->pinned_bytes
                                                            : p->arena_bytes;
        if (ls_is_packed(a) && (a->offset % LS_ALIGN || a->offset + a->bytes > region))
            return ls_fail(
                LS_E_INTERNAL,
                "plan: %s lies at byte %zu, which is not aligned or not inside the region of %zu bytes",
                owner(p, a, x), a->offset, region);
        for (int k = 0; k < i; k++) {
            const ls_alloc *b = &p->allocs[k];
            if (a->memory == b->memory && (!ls_is_packed(a) || meet(a, b)) &&
                a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return ls_fail(
                    LS_E_INTERNAL,
                    "plan: %s at [%zu, %zu) live over steps %d-%d overlaps %s at [%zu, %zu) live over %d-%d",
                    owner(p, a, x), a->offset, a->offset + a->bytes, a->first, a->last, owner(p, b, y),
                    b->offset, b->offset + b->bytes, b->first, b->last);
        }
    }
    for (int v = 1; v < p->graph->n_vals; v++) {
        const ls_location *at = &p->locations[v];
        if (at->alloc < 0)
            continue;
        ls_tensor t = { .type = p->graph->vals[v].type };
        memcpy(t.strides, at->strides, sizeof t.strides);
        const size_t end = at->offset + (size_t)ls_strides_extent(&t) * ls_dtype_size(t.type.dtype);
        if (end > p->allocs[at->alloc].bytes)
            return ls_fail(LS_E_INTERNAL, "plan: value %d reaches byte %zu of an allocation of %zu", v, end,
                           p->allocs[at->alloc].bytes);
    }
    return ls_plan_check_staging(p);
}
