/* origin.c - where the bytes of a text come from, and where tokens go. */
#include <stdlib.h>

#include "base/sys.h"
#include "specials.h"
#include "text.h"

static bool origin_grow(ls_origin *t, size_t n)
{
    if (!t->on || t->no_memory)
        return false;
    if (t->n + n > t->room) {
        const size_t room = 2 * t->room > t->n + n ? 2 * t->room : t->n + n + 64;
        ls_text_range *at = ls_sys_realloc(t->at, sizeof *at * room);
        if (!at) {
            t->no_memory = true;
            return false;
        }
        t->at = at;
        t->room = room;
    }
    return true;
}

void ls_origin_copy(ls_origin *t, const ls_text_range *from, size_t n)
{
    if (origin_grow(t, n))
        for (size_t i = 0; i < n; i++)
            t->at[t->n++] = from[i];
}

void ls_origin_fill(ls_origin *t, ls_text_range from, size_t n)
{
    if (origin_grow(t, n))
        for (size_t i = 0; i < n; i++)
            t->at[t->n++] = from;
}

void ls_origin_release(ls_origin *t)
{
    free(t->at);
    *t = (ls_origin){ 0 };
}

/* ---- tokens */

ls_status ls_tokens_add(ls_tokens *t, int32_t id)
{
    if (t->n == t->room) {
        const int64_t room = t->room ? 2 * t->room : 64;
        int32_t *ids = ls_sys_realloc(t->ids, sizeof *ids * (size_t)room);
        if (!ids)
            return ls_fail(LS_E_MEMORY, "no memory for %lld ids of a text", (long long)room);
        t->ids = ids;
        t->room = room;
    }
    t->ids[t->n++] = id;
    return LS_OK;
}

static ls_status more_ranges(ls_text_ranges *r)
{
    const int64_t room = r->room ? 2 * r->room : 64;
    ls_text_range *at = ls_sys_realloc(r->at, sizeof *at * (size_t)room);
    if (!at)
        return ls_fail(LS_E_MEMORY, "no memory for %lld ids of a text", (long long)room);
    r->at = at;
    r->room = room;
    return LS_OK;
}

ls_status ls_encoding_add(ls_encoding *e, int32_t id, ls_text_range range)
{
    LS_TRY(ls_tokens_add(e->ids, id));
    if (e->ranges && e->ranges->n == e->ranges->room)
        LS_TRY(more_ranges(e->ranges));
    if (e->ranges)
        e->ranges->at[e->ranges->n++] = range;
    return LS_OK;
}

bool ls_encoding_may(const ls_encoding *e, int32_t id, ls_text_range range)
{
    if (!e->n_plain || id < 0 || !e->special[id])
        return true;
    int64_t low = 0, high = e->n_plain; /* the first plain range that ends behind range.begin */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (e->plain[middle].end > range.begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low == e->n_plain || e->plain[low].begin >= range.end;
}
