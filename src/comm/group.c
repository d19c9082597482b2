/* group.c - one rank's end of a process group: its rank and members, and the group's failure. */
#include "group.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/argument.h"
#include "base/clock.h"
#include "group_own.h"

int ls_group_rank(const ls_group *g)
{
    LS_ARG_OR(g, 0);
    return g->rank;
}

int ls_group_size(const ls_group *g)
{
    LS_ARG_OR(g, 0);
    return g->size;
}

int ls_group_hosts(const ls_group *g)
{
    LS_ARG_OR(g, 0);
    return g->machines;
}

int ls_group_local_rank(const ls_group *g)
{
    LS_ARG_OR(g, 0);
    return g->rank - g->first;
}

int ls_group_local_size(const ls_group *g)
{
    LS_ARG_OR(g, 0);
    return g->here;
}

const char *ls_group_kind(const ls_group *g)
{
    LS_ARG_OR(g, NULL);
    return g->remote ? "mpi" : g->sharing->kind;
}

void ls_group_set_deadline(ls_group *g, double seconds)
{
    LS_ARG_VOID(g);
    g->deadline = seconds;
}

ls_rank_record *ls_group_record(const ls_group *g)
{
    return ls_control_record(g->control, g->rank - g->first);
}

/* ---- what this rank does */

void ls_group_doing(ls_group *g, const char *what)
{
    ls_control_set_doing(ls_group_record(g), what);
    if (ls_control_report())
        ls_control_set_doing(ls_control_record(ls_control_report(), 0), what);
}

void ls_group_planned(ls_group *g, uint64_t bytes)
{
    atomic_store(&ls_group_record(g)->planned, bytes);
    if (ls_control_report())
        atomic_store(&ls_control_record(ls_control_report(), 0)->planned, bytes);
}

void ls_group_names_run(ls_group *g, const char *path)
{
    ls_control_set_run(g->control, path);
    if (ls_control_report())
        ls_control_set_run(ls_control_report(), path);
}

void ls_group_on_lag(ls_group *g, ls_lag_fn on_lag, void *context)
{
    g->on_lag = on_lag;
    g->on_lag_context = context;
}

/* ---- failure */

void ls_group_fail(ls_group *g, ls_status code, const char *message)
{
    LS_ARG_VOID(g);
    ls_control_fail(g->control, g->rank, g->rank, code, message ? message : "it failed and gave no reason");
}

ls_status ls_group_failure(const ls_group *g)
{
    const ls_failure *f = &g->control->failure;
    if (!ls_control_failure_ready(g->control))
        return ls_fail(LS_E_PEER, "a rank failed, and was killed while it said why");
    ls_control_report_failure(f);
    return ls_fail(LS_E_PEER, "rank %d: %s", f->rank, f->text);
}

int ls_group_reporter(const ls_group *g)
{
    return ls_control_failed(g->control) ? g->control->failure.reporter : 0;
}

bool ls_group_await_end(const ls_group *g, int rank, double seconds)
{
    const bool here = rank >= g->first && rank < g->first + g->here;
    for (const double until = ls_now() + seconds;;) {
        if (here && ls_rank_gone(ls_control_record(g->control, rank - g->first)))
            return true;
        if (ls_now() >= until)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
}
