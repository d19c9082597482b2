/* axis.c - makes axes, which are sub-groups of ranks, and their fences. */
#include "axis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sys.h"
#include "cores.h"
#include "exchange.h"
#include "fault.h"
#include "remote_jobs.h"
#include "wait.h"

static ls_axis *axis_make(ls_group *g, const char *name, int number, int n, const int *members)
{
    ls_axis *a = ls_sys_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (ls_axis){ .group = g,
                    .number = number,
                    .n = n,
                    .one_machine = true,
                    .members = ls_sys_calloc((size_t)n, sizeof *a->members),
                    .counters = ls_sys_calloc((size_t)n, sizeof(ls_counters *)) };
    if (!a->members || !a->counters) {
        ls_axis_destroy(&a);
        return NULL;
    }
    snprintf(a->name, sizeof a->name, "%s", name);
    for (int i = 0; i < n; i++) {
        int local = members[i] - g->first;
        a->members[i] = members[i];
        if (members[i] == g->rank)
            a->position = i;
        if (local >= 0 && local < g->here)
            a->counters[i] = ls_control_counters(g->control, number, local);
        else
            a->one_machine = false;
    }
    g->axes |= (uint64_t)1 << number;
    if (!a->one_machine)
        a->calls = ls_sys_calloc((size_t)n, sizeof *a->calls);
    if (!a->one_machine && (!a->calls || !(a->route = ls_route_create(a))))
        ls_axis_destroy(&a);
    return a;
}

void ls_axis_destroy(ls_axis **a)
{
    if (!*a)
        return;
    ls_route_destroy(&(*a)->route);
    (*a)->group->axes &= ~((uint64_t)1 << (*a)->number);
    free((*a)->members);
    free((*a)->counters);
    free((*a)->calls);
    free(*a);
    *a = NULL;
}

ls_status ls_axis_create_world(ls_group *g)
{
    int *all = ls_sys_calloc((size_t)g->size, sizeof *all);
    for (int i = 0; all && i < g->size; i++)
        all[i] = i;
    g->world = all ? axis_make(g, "world", 0, g->size, all) : NULL;
    free(all);
    return g->world ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for a group of %d ranks", g->size);
}

/* The data that ranks compare when they make an axis: all must use the same number, and the members of an
 * axis must list the same members. */
struct proposal {
    int number;
    uint64_t members;
};

static ls_status axis_agree(ls_group *g, const ls_axis *a)
{
    struct proposal mine = { a->number, ls_hash64(a->members, sizeof *a->members * (size_t)a->n) };
    struct proposal *all = ls_sys_calloc((size_t)g->size, sizeof *all);
    if (!all)
        return ls_fail(LS_E_MEMORY, "axis \"%s\": no memory for %d ranks", a->name, g->size);
    ls_status s = ls_axis_exchange(g->world, &mine, sizeof mine, all,
                                   &(ls_rank_call){ .kind = LS_CALL_ALL_GATHER, .count = sizeof mine },
                                   "an all_gather");
    for (int r = 0; s == LS_OK && r < g->size; r++)
        if (all[r].number != mine.number)
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
    int number = 0;
    bool mine = false;
    *out = NULL;
    for (int i = 0; i < n; i++) {
        if (members[i] < 0 || members[i] >= g->size || (i && members[i] <= members[i - 1]))
            return ls_fail(LS_E_ARG,
                           "axis \"%s\": member %d is rank %d of %d: list existing ranks in ascending order",
                           name, i, members[i], g->size);
        mine |= members[i] == g->rank;
    }
    if (!mine)
        return ls_fail(LS_E_ARG, "axis \"%s\": rank %d is not one of its %d members", name, g->rank, n);
    while (number < LS_CONTROL_AXES && g->axes >> number & 1)
        number++;
    if (number == LS_CONTROL_AXES)
        return ls_fail(LS_E_UNSUPPORTED, "axis \"%s\": a group has at most %d axes", name, LS_CONTROL_AXES);
    ls_axis *a = axis_make(g, name, number, n, members);
    if (!a)
        return ls_fail(LS_E_MEMORY, "no memory for axis \"%s\"", name);
    ls_rank_publish_cpus(ls_group_record(g));
    ls_status s = axis_agree(g, a); /* after this no rank waits on an earlier axis with this number */
    for (int i = 0; i < 2; i++)
        atomic_store(&a->counters[a->position]->count[i], 0);
    if (s == LS_OK)
        s = ls_axis_exchange(g->world, NULL, 0, NULL, &(ls_rank_call){ .kind = LS_CALL_BARRIER },
                             "a barrier");
    if (s != LS_OK)
        ls_axis_destroy(&a);
    ls_group_tune(g);
    *out = a;
    return s;
}

int ls_axis_position(const ls_axis *a) { return a->position; }
bool ls_axis_one_machine(const ls_axis *a) { return a->one_machine; }
void ls_axis_count(ls_axis *a, int64_t calls, int64_t bytes)
{
    a->ledger.calls += calls;
    a->ledger.bytes += bytes;
}

const ls_ledger *ls_axis_ledger(const ls_axis *a) { return &a->ledger; }

void ls_axis_arrive(ls_axis *a)
{
    (void)ls_fault_point(a->group); /* (the fence reports what failed here) */
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
    return ls_axis_await_all(a, LS_ARRIVALS, atomic_load(&a->counters[a->position]->count[LS_ARRIVALS]),
                             what);
}
