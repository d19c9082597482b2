/* exchange.c - the exchange of small data among the members of an axis. On one machine it goes through the
 * staging memory of the control block. */
#include "exchange.h"

#include <string.h>

#include "base/check.h"
#include "fault.h"
#include "remote_jobs.h"
#include "wait.h"

_Static_assert(sizeof(ls_rank_call) == LS_CALL_WORDS * sizeof(uint64_t), "a call fits into a rank's record");

static const char *const CALLS[] = { [LS_CALL_BARRIER] = "ls_group_barrier",
                                     [LS_CALL_ALL_GATHER] = "ls_group_all_gather",
                                     [LS_CALL_ALL_REDUCE] = "ls_group_all_reduce",
                                     [LS_CALL_BROADCAST] = "ls_group_broadcast",
                                     [LS_CALL_WINDOW] = "the start of a session" };

static ls_status differ(const char *argument, const ls_rank_call *c, int64_t theirs, int rank, int64_t first,
                        int other)
{
    return ls_fail(LS_E_ARG,
                   "%s: %s is %lld on rank %d and %lld on rank %d; it must be the same on all ranks",
                   CALLS[c->kind], argument, (long long)theirs, rank, (long long)first, other);
}

/* All members compare the same calls, so all return the same status. */
static ls_status exchange_compare(const ls_axis *a, int position, const ls_rank_call *first,
                                  const ls_rank_call *c)
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

static bool same_call(const ls_rank_call *a, const ls_rank_call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->how == b->how && a->root == b->root &&
           a->count == b->count && a->count != LS_CALL_REFUSED;
}

static ls_status compare_here(const ls_axis *a)
{
    ls_rank_call first, c;
    for (int i = 0; i < a->n; i++) {
        uint64_t words[LS_CALL_WORDS];
        const ls_rank_record *s = ls_control_record(a->group->control, a->members[i] - a->group->first);
        for (int w = 0; w < LS_CALL_WORDS; w++)
            words[w] = atomic_load_explicit(
                &s->call[w], memory_order_relaxed); /* the wait for the tick orders these loads */
        memcpy(&c, words, sizeof c);
        if (i == 0)
            first = c;
        if (!same_call(&first, &c))
            return exchange_compare(a, i, &first, &c);
    }
    return LS_OK;
}

/* Between machines a message of its own compares the calls first. Else data of an unexpected size would be
 * truncated, or break the transport. A barrier has no data, so it ends after the comparison. */
static ls_status exchange_remote(ls_axis *a, const void *mine, size_t bytes, void *all,
                                 const ls_rank_call *call, const char *what)
{
    if (call) {
        LS_TRY(ls_remote_exchange(a, call, sizeof *call, a->calls, what));
        for (int i = 0; i < a->n; i++)
            if (!same_call(&a->calls[0], &a->calls[i]))
                return exchange_compare(a, i, &a->calls[0], &a->calls[i]);
    }
    return bytes || !call ? ls_remote_exchange(a, mine, bytes, all, what) : LS_OK;
}

ls_status ls_axis_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const ls_rank_call *call,
                           const char *what)
{
    ls_group *g = a->group;
    ls_rank_record *record = ls_group_record(g);
    ls_status s = LS_OK;
    LS_CHECK(bytes <= LS_STAGING_BYTES, "an exchange of %zu bytes", bytes);
    LS_TRY(ls_call_point(g));
    if (a->route)
        return exchange_remote(a, mine, bytes, all, call, what);
    if (bytes)
        memcpy(ls_control_staging(g->control, g->rank - g->first), mine, bytes);
    if (call) {
        uint64_t words[LS_CALL_WORDS];
        memcpy(words, call, sizeof words);
        for (int w = 0; w < LS_CALL_WORDS; w++)
            atomic_store_explicit(&record->call[w], words[w], memory_order_relaxed);
    }
    LS_TRY(ls_axis_await_all(a, LS_TICKS, ls_axis_raise(a, LS_TICKS), what));
    if (call)
        s = compare_here(a);
    for (int i = 0; s == LS_OK && bytes && i < a->n; i++)
        if (a->counters[i])
            memcpy((char *)all + (size_t)i * bytes, ls_control_staging(g->control, a->members[i] - g->first),
                   bytes);
    LS_TRY(ls_axis_await_all(a, LS_TICKS, ls_axis_raise(a, LS_TICKS), what)); /* all members have read */
    return s;
}
