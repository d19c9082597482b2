/* arena.c - offsets of allocations. Allocations whose lifetimes overlap must not overlap in memory, and the
 * arena should be hardly larger than the most bytes that are live at once.
 *
 * The allocations are placed one after the other. Each goes to the lowest gap that it fits, among those
 * already placed whose lifetimes overlap its own. (The smallest gap that fits gave no smaller arenas.)
 * Largest-first is nearly always best for training steps. Other orders are tried only if it is not perfect:
 * where values lie in the memory of gradients (gradients.c) until these begin, those that end last have the
 * least room and come first. Orders and ties are fixed, so a plan is a function of graph and device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/sys.h"
#include "internal.h"

static bool meet(const ls_alloc *a, const ls_alloc *b) { return a->first <= b->last && b->first <= a->last; }

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

/* Sets offsets[allocation]. Returns the arena's size, or SIZE_MAX if a stop is requested. `placed` is scratch
 * memory: indices sorted by offset. */
static size_t pack(const ls_plan *p, ls_memory memory, packing_order order, item *items, int n,
                   size_t *offsets, int *placed)
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
    size_t total = 0;
    int n_placed = 0;
    for (int i = 0; i < p->n_allocs; i++)
        if (p->allocs[i].fixed &&
            p->allocs[i].memory == memory) { /* (they are in the order of their offsets) */
            offsets[i] = p->allocs[i].offset;
            total = offsets[i] + ls_align_up(p->allocs[i].bytes);
            placed[n_placed++] = i;
        }
    for (int i = 0; i < n; i++) {
        if (i % 256 == 0 && ls_stop_asked())
            return SIZE_MAX;
        const ls_alloc *a = items[i].alloc;
        const size_t size = items[i].size;
        size_t end = 0, best = SIZE_MAX;
        for (int k = 0; k < n_placed; k++) {
            const ls_alloc *b = &p->allocs[placed[k]];
            if (!meet(a, b))
                continue;
            const size_t at = offsets[placed[k]];
            if (at > end && at - end >= size) {
                best = end;
                break;
            }
            const size_t b_end = at + ls_align_up(b->bytes);
            end = b_end > end ? b_end : end;
        }
        if (best == SIZE_MAX)
            best = end;
        offsets[items[i].index] = best;
        total = best + size > total ? best + size : total;
        int low = 0, high = n_placed; /* keeps `placed` sorted */
        while (low < high) {
            const int mid = (low + high) / 2;
            if (offsets[placed[mid]] <= best)
                low = mid + 1;
            else
                high = mid;
        }
        memmove(placed + low + 1, placed + low, sizeof *placed * (size_t)(n_placed - low));
        placed[low] = items[i].index;
        n_placed++;
    }
    return total;
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

/* Tries the orders until one is perfect. Returns the region's size, or SIZE_MAX if a stop was requested
 * before any order was complete. */
static size_t pack_region(ls_plan *p, ls_memory memory, ls_arena *scratch)
{
    int n = 0;
    for (int i = 0; i < p->n_allocs; i++)
        n += p->allocs[i].memory == memory && !p->allocs[i].fixed;
    item *items = LS_ARENA_ARRAY(scratch, item, n + 1);
    size_t *offsets = LS_ARENA_ARRAY(scratch, size_t, p->n_allocs + 1), best = SIZE_MAX;
    int *placed = LS_ARENA_ARRAY(scratch, int, p->n_allocs + 1);
    size_t *live = LS_ARENA_ARRAY(scratch, size_t, p->n_steps + 2);
    if (scratch->no_memory)
        return SIZE_MAX;
    const size_t least = live_peak(p, memory, live);
    for (packing_order order = 0; order < ORDERS && best > least; order++) {
        for (int i = 0, k = 0; i < p->n_allocs; i++)
            if (p->allocs[i].memory == memory && !p->allocs[i].fixed)
                items[k++] = (item){ .alloc = &p->allocs[i],
                                     .size = ls_align_up(p->allocs[i].bytes),
                                     .index = i };
        const size_t bytes = pack(p, memory, order, items, n, offsets, placed);
        if (bytes >= best)
            continue;
        best = bytes;
        for (int k = 0; k < n; k++)
            p->allocs[items[k].index].offset = offsets[items[k].index];
    }
    return best;
}

ls_status ls_planner_pack_arena(ls_plan *p)
{
    for (int i = 0; i < p->n_allocs; i++) {
        ls_alloc *a = &p->allocs[i];
        if (ls_is_packed(a) || a->memory == LS_MEM_GRADIENT)
            continue;
        size_t *region = a->memory == LS_MEM_STATE  ? &p->state_bytes
                         : a->memory == LS_MEM_NODE ? &p->node_bytes
                                                    : &p->io_bytes;
        a->offset = *region;
        *region += ls_align_up(a->bytes);
        p->host_bytes += a->host ? ls_align_up(a->bytes) : 0;
    }
    LS_TRY(find_peak(p));
    ls_arena scratch;
    ls_arena_init(&scratch);
    p->arena_bytes = pack_region(p, LS_MEM_ARENA, &scratch);
    p->symmetric_bytes = pack_region(p, LS_MEM_SYMMETRIC, &scratch);
    p->pinned_bytes = pack_region(p, LS_MEM_PINNED, &scratch);
    const ls_status s = ls_arena_status(&scratch);
    ls_arena_release(&scratch);
    LS_TRY(s);
    return p->arena_bytes != SIZE_MAX && p->symmetric_bytes != SIZE_MAX && p->pinned_bytes != SIZE_MAX
               ? LS_OK
               : LS_E_STOPPED;
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
