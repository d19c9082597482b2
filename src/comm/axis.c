/* axis.c - sub-groups of ranks: making them, their fences, and the exchange of small things among them. */
#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/sys.h"

static ls_axis *make(ls_group *g, const char *name, int slot, int n, const int *members)
{
    ls_axis *a = ls_sys_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (ls_axis){ .group = g,
                    .slot = slot,
                    .n = n,
                    .one_host = true,
                    .members = ls_sys_calloc((size_t)n, sizeof *a->members),
                    .lines = ls_sys_calloc((size_t)n, sizeof(ls_line *)) };
    if (!a->members || !a->lines) {
        ls_axis_destroy(&a);
        return NULL;
    }
    snprintf(a->name, sizeof a->name, "%s", name);
    for (int i = 0; i < n; i++) {
        int seat = members[i] - g->first;
        a->members[i] = members[i];
        if (members[i] == g->rank)
            a->position = i;
        if (seat >= 0 && seat < g->here)
            a->lines[i] = ls_block_line(g->block, slot, seat);
        else
            a->one_host = false;
    }
    g->slots |= (uint64_t)1 << slot;
    if (!a->one_host && !(a->route = ls_route_create(a)))
        ls_axis_destroy(&a);
    return a;
}

void ls_axis_destroy(ls_axis **a)
{
    if (!*a)
        return;
    ls_route_destroy(&(*a)->route);
    (*a)->group->slots &= ~((uint64_t)1 << (*a)->slot);
    free((*a)->members);
    free((*a)->lines);
    free(*a);
    *a = NULL;
}

ls_status ls_axis_create_world(ls_group *g)
{
    int *all = ls_sys_calloc((size_t)g->size, sizeof *all);
    for (int i = 0; all && i < g->size; i++)
        all[i] = i;
    g->world = all ? make(g, "world", 0, g->size, all) : NULL;
    free(all);
    return g->world ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for a group of %d ranks", g->size);
}

/* What the ranks tell each other about an axis: the same place in the block, and the same members where they
 * share it. */
struct proposal {
    int slot;
    uint64_t members;
};

static ls_status agree(ls_group *g, const ls_axis *a)
{
    struct proposal mine = { a->slot, ls_hash64(a->members, sizeof *a->members * (size_t)a->n) };
    struct proposal *all = ls_sys_calloc((size_t)g->size, sizeof *all);
    if (!all)
        return ls_fail(LS_E_MEMORY, "axis \"%s\": no memory for %d ranks", a->name, g->size);
    ls_status s = ls_group_all_gather(g, &mine, sizeof mine, all);
    for (int r = 0; s == LS_OK && r < g->size; r++)
        if (all[r].slot != mine.slot)
            s = ls_fail(LS_E_ARG,
                        "axis \"%s\": rank %d has made other axes before than rank %d; all ranks make the "
                        "same ones in the same order",
                        a->name, r, g->rank);
    for (int i = 0; s == LS_OK && i < a->n; i++)
        if (all[a->members[i]].members != mine.members)
            s = ls_fail(LS_E_ARG, "axis \"%s\": rank %d makes it with other members than rank %d", a->name,
                        a->members[i], g->rank);
    free(all);
    return s;
}

ls_status ls_axis_create(ls_axis **out, ls_group *g, const char *name, int n, const int *members)
{
    int slot = 0;
    bool mine = false;
    *out = NULL;
    for (int i = 0; i < n; i++) {
        if (members[i] < 0 || members[i] >= g->size || (i && members[i] <= members[i - 1]))
            return ls_fail(LS_E_ARG, "axis \"%s\": member %d is rank %d of %d; members ascend", name, i,
                           members[i], g->size);
        mine |= members[i] == g->rank;
    }
    if (!mine)
        return ls_fail(LS_E_ARG, "axis \"%s\": rank %d is not one of its %d members", name, g->rank, n);
    while (slot < LS_BLOCK_AXES && g->slots >> slot & 1)
        slot++;
    if (slot == LS_BLOCK_AXES)
        return ls_fail(LS_E_UNSUPPORTED, "axis \"%s\": a group has at most %d axes", name, LS_BLOCK_AXES);
    ls_axis *a = make(g, name, slot, n, members);
    if (!a)
        return ls_fail(LS_E_MEMORY, "no memory for axis \"%s\"", name);
    ls_seat_publish_cpus(ls_block_seat(g->block, ls_group_seat(g)));
    ls_status s = agree(g, a); /* after this nobody waits any more on an earlier axis of this slot */
    for (int i = 0; i < 2; i++)
        atomic_store(&a->lines[a->position]->count[i], 0);
    if (s == LS_OK)
        s = ls_group_barrier(g);
    if (s != LS_OK)
        ls_axis_destroy(&a);
    ls_group_tune(g);
    *out = a;
    return s;
}

int ls_axis_size(const ls_axis *a) { return a->n; }
int ls_axis_position(const ls_axis *a) { return a->position; }
bool ls_axis_one_host(const ls_axis *a) { return a->one_host; }
const ls_ledger *ls_axis_ledger(const ls_axis *a) { return &a->ledger; }

void ls_axis_arrive(ls_axis *a)
{
    (void)ls_fault_point(a->group); /* what it broke, the fence tells */
    if (a->route)
        ls_remote_arrive(a);
    else
        ls_axis_raise(a, LS_ARRIVALS);
}

ls_status ls_axis_fence(ls_axis *a, const char *what)
{
    LS_TRY(ls_fault_point(a->group));
    LS_TRY(ls_call_point(a->group));
    if (a->route)
        return ls_remote_fence(a);
    return ls_axis_await_all(a, LS_ARRIVALS, atomic_load(&a->lines[a->position]->count[LS_ARRIVALS]), what);
}

/* ---- exchanges */

static const char *const CALLS[] = { [LS_CALL_BARRIER] = "ls_group_barrier",
                                     [LS_CALL_ALL_GATHER] = "ls_group_all_gather",
                                     [LS_CALL_ALL_REDUCE] = "ls_group_all_reduce",
                                     [LS_CALL_BROADCAST] = "ls_group_broadcast",
                                     [LS_CALL_WINDOW] = "the start of a session" };

static ls_status differ(const char *argument, const ls_call *c, int64_t theirs, int rank, int64_t first,
                        int other)
{
    return ls_fail(LS_E_ARG,
                   "%s: %s is %lld on rank %d and %lld on rank %d; it must be the same on all ranks",
                   CALLS[c->kind], argument, (long long)theirs, rank, (long long)first, other);
}

/* Every member sees all calls, so all return the same. */
static ls_status compare(const ls_axis *a, int position, const ls_call *first, const ls_call *c)
{
    const int rank = a->members[position], other = a->members[0];
    if (first->count == LS_CALL_REFUSED || c->count == LS_CALL_REFUSED) {
        const bool mine = first->count == LS_CALL_REFUSED;
        return ls_fail(LS_E_ARG, "%s: rank %d cannot make the call; its own error says why",
                       CALLS[mine ? first->kind : c->kind], mine ? other : rank);
    }
    if (c->kind != first->kind)
        return ls_fail(
            LS_E_ARG,
            "rank %d calls %s where rank %d calls %s; all ranks must make the same calls in the same order",
            rank, CALLS[c->kind], other, CALLS[first->kind]);
    if (c->dtype != first->dtype)
        return ls_fail(LS_E_ARG,
                       "%s: dtype is %s on rank %d and %s on rank %d; it must be the same on all ranks",
                       CALLS[c->kind], ls_dtype_name((ls_dtype)c->dtype), rank,
                       ls_dtype_name((ls_dtype)first->dtype), other);
    if (c->how != first->how)
        return differ("how", c, c->how, rank, first->how, other);
    if (c->root != first->root)
        return differ("root", c, c->root, rank, first->root, other);
    return differ(c->kind == LS_CALL_ALL_REDUCE ? "count" : "bytes", c, c->count, rank, first->count, other);
}

static bool same_call(const ls_call *a, const ls_call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->how == b->how && a->root == b->root &&
           a->count == b->count && a->count != LS_CALL_REFUSED;
}

static ls_status compare_here(const ls_axis *a)
{
    ls_call first, c;
    for (int i = 0; i < a->n; i++) {
        uint64_t words[LS_CALL_WORDS];
        const ls_seat *s = ls_block_seat(a->group->block, a->members[i] - a->group->first);
        for (int w = 0; w < LS_CALL_WORDS; w++)
            words[w] = atomic_load_explicit(
                &s->call[w], memory_order_relaxed); /* the tick that was waited for orders it */
        memcpy(&c, words, sizeof c);
        if (i == 0)
            first = c;
        if (!same_call(&first, &c))
            return compare(a, i, &first, &c);
    }
    return LS_OK;
}

/* Between hosts a message of its own goes first: data of another size than the receiver's would be cut, or
 * end the transport. A barrier has no data behind it. */
static ls_status exchange_far(ls_axis *a, const void *mine, size_t bytes, void *all, const ls_call *call,
                              const char *what)
{
    if (call) {
        ls_call calls[a->n];
        LS_TRY(ls_remote_exchange(a, call, sizeof *call, calls, what));
        for (int i = 0; i < a->n; i++)
            if (!same_call(&calls[0], &calls[i]))
                return compare(a, i, &calls[0], &calls[i]);
    }
    return bytes || !call ? ls_remote_exchange(a, mine, bytes, all, what) : LS_OK;
}

ls_status ls_axis_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const ls_call *call,
                           const char *what)
{
    ls_group *g = a->group;
    ls_seat *seat = ls_block_seat(g->block, ls_group_seat(g));
    ls_status s = LS_OK;
    LS_CHECK(bytes <= LS_STAGE_BYTES, "an exchange of %zu bytes", bytes);
    LS_TRY(ls_call_point(g));
    if (a->route)
        return exchange_far(a, mine, bytes, all, call, what);
    if (bytes)
        memcpy(ls_block_stage(g->block, ls_group_seat(g)), mine, bytes);
    if (call) {
        uint64_t words[LS_CALL_WORDS];
        memcpy(words, call, sizeof words);
        for (int w = 0; w < LS_CALL_WORDS; w++)
            atomic_store_explicit(&seat->call[w], words[w], memory_order_relaxed);
    }
    LS_TRY(ls_axis_await_all(a, LS_TICKS, ls_axis_raise(a, LS_TICKS), what));
    if (call)
        s = compare_here(a);
    for (int i = 0; s == LS_OK && bytes && i < a->n; i++)
        if (a->lines[i])
            memcpy((char *)all + (size_t)i * bytes, ls_block_stage(g->block, a->members[i] - g->first),
                   bytes);
    LS_TRY(ls_axis_await_all(a, LS_TICKS, ls_axis_raise(a, LS_TICKS), what)); /* all have read */
    return s;
}
