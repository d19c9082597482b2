/* window.c - memory that the members of an axis on one machine share. One mapping holds all parts, one after
 * the other, then the common part, then a page that counts its users:
 *
 *   [part of member 0][part of member 1]...[shared][users]      every part begins on a page
 *
 * The first member on the machine reserves it, all members map it, and each allocates the pages of its own
 * part. The last member to unmap it releases it. */
#include "window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/str.h"
#include "base/sys.h"
#include "exchange.h"
#include "memory_room.h"

enum { PAGE = 4096 };
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct own {
    uint64_t handle;
    size_t total; /* of the mapping, with the page of users */
    char *base;
};

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static _Atomic int *users(const struct own *o) { return (_Atomic int *)(void *)(o->base + o->total - PAGE); }

/* ---- all members, or none */

struct result { /* of one member, for the others */
    int status;
    uint64_t handle;
    char text[512];
};

/* Every member learns the others' results. The first failure becomes the failure of all. */
static ls_status window_agree(ls_axis *a, ls_status mine, struct result *all)
{
    struct result result = { .status = (int)mine, .handle = all[a->position].handle };
    if (mine != LS_OK)
        snprintf(result.text, sizeof result.text, "%s", ls_error_message());
    LS_TRY(ls_axis_exchange(a, &result, sizeof result, all, &(ls_rank_call){ .kind = LS_CALL_WINDOW },
                            "making a window"));
    for (int i = 0; i < a->n; i++)
        if (all[i].status != LS_OK)
            return ls_fail((ls_status)all[i].status, "%s", all[i].text);
    return LS_OK;
}

static int local_members(const ls_axis *a, int *leader)
{
    int n = 0;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->counters[i]) {
            *leader = i;
            n++;
        }
    return n;
}

static ls_status reserve(ls_axis *a, size_t total, int n, uint64_t *handle)
{
    char what[128];
    snprintf(what, sizeof what, "windows of axis \"%s\" for %d ranks", a->name, n);
    LS_TRY(ls_check_room(total, what));
    return a->group->sharing->reserve(a->group, total, handle);
}

/* Allocates the pages now, on this rank's memory node, or fails when there are none. A kernel before
 * Linux 5.14 does not know the call and allocates them on first use. */
static ls_status populate(const ls_axis *a, char *part, size_t bytes)
{
    char text[32];
    if (bytes && madvise(part, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return ls_fail(LS_E_MEMORY, "window of axis \"%s\": no memory for %s of rank %d (%s)", a->name,
                       ls_format_bytes(text, bytes), a->group->rank, strerror(errno));
    return LS_OK;
}

static ls_status map(ls_window *w, struct own *o, int n, int leader)
{
    ls_axis *a = w->axis;
    size_t part = pages(w->bytes);
    LS_TRY(a->group->sharing->map(a->group, o->handle, o->total, &o->base));
    madvise(o->base, o->total, MADV_HUGEPAGE); /* where offered */
    int at = 0;
    for (int i = 0; i < a->n; i++)
        if (a->counters[i])
            w->peer[i] = o->base + part * (size_t)at++;
    w->mine = w->peer[a->position];
    w->shared = w->shared_bytes ? o->base + part * (size_t)n : NULL;
    if (a->position == leader)
        atomic_store(users(o), n);
    LS_TRY(populate(a, w->mine, part));
    return a->position == leader ? populate(a, w->shared, pages(w->shared_bytes)) : LS_OK;
}

ls_status ls_window_create(ls_window **out, ls_axis *a, size_t bytes, size_t shared_bytes)
{
    int leader = 0, n = local_members(a, &leader);
    *out = NULL;
    ls_window *w = ls_sys_calloc(1, sizeof *w);
    struct own *o = ls_sys_calloc(1, sizeof *o);
    char **peer = ls_sys_calloc((size_t)a->n, sizeof *peer);
    struct result *all = ls_sys_calloc((size_t)a->n, sizeof *all);
    ls_status s;
    if (!w || !o || !peer || !all) {
        free(w), free(o), free(peer), free(all);
        return ls_fail(LS_E_MEMORY, "no memory for a window of axis \"%s\"", a->name);
    }
    *w = (ls_window){ .bytes = bytes, .shared_bytes = shared_bytes, .axis = a, .peer = peer, .own = o };
    o->total = pages(bytes) * (size_t)n + pages(shared_bytes) + PAGE;
    s = a->position == leader ? reserve(a, o->total, n, &all[leader].handle) : LS_OK;
    s = window_agree(a, s, all);
    o->handle = all[leader].handle;
    if (s == LS_OK)
        s = window_agree(a, map(w, o, n, leader), all);
    free(all);
    if (s != LS_OK)
        ls_window_destroy(&w);
    *out = w;
    return s;
}

void ls_window_destroy(ls_window **w)
{
    if (!*w)
        return;
    struct own *o = (*w)->own;
    ls_group *g = (*w)->axis->group;
    if (o->base)
        g->sharing->unmap(g, o->handle, o->total, o->base, atomic_fetch_sub(users(o), 1) == 1);
    free((*w)->peer);
    free(o);
    free(*w);
    *w = NULL;
}
