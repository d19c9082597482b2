/* fault.c - makes a rank slow, lost or dead on purpose. Tests use it to see what the other ranks then report,
 * and to check the access rules for operands. It counts the starts and waits of collectives and the halves of
 * fences (ls_axis_arrive, ls_axis_fence). Failing system calls are the business of base/fault.h. Or it makes
 * a rank's memory wrong: a bit of a weight flips, and no rank notices.
 *
 *   LOCKSTEP_FAULT = KIND@WHERE[:rank=R][:seconds=S][:seed=N]
 *
 * KIND is delay, drop, kill, stop or flip. WHERE is the number of the call, from 0, or `random`: one call in
 * eight, drawn from seed and rank; a random delay lasts up to S. Without rank= it happens on every rank.
 * stop@join happens before the rank joins the group, and needs rank=.
 * Of flip, WHERE is the number of a step of this attempt, from 1, and seed chooses the weight. It also
 * happens in a run of one process; there the others are refused. "kill@12:rank=1",
 * "delay@random:seconds=0.01:seed=3", "flip@5:rank=1". */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/c_locale.h"
#include "base/fault.h"
#include "base/rng.h"
#include "base/sys.h"
#include "group_own.h"
#include "launched.h"

struct ls_fault_plan {
    ls_fault fault;
    int64_t calls;
    ls_rng_key key;
};

static struct ls_fault_plan alone; /* of a process without a group: nothing, or a flip */

ls_status ls_group_inject(ls_group *g, const ls_fault *f)
{
    ls_fault_release(g);
    g->fault = ls_sys_calloc(1, sizeof *g->fault);
    if (!g->fault)
        return ls_fail(LS_E_MEMORY, "no memory for a planned fault");
    *g->fault = (struct ls_fault_plan){ .fault = *f, .key = ls_rng_key_of(f->seed, (uint64_t)g->rank) };
    return LS_OK;
}

void ls_fault_release(ls_group *g)
{
    free(g->fault);
    g->fault = NULL;
}

static void doze(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

/* Does nothing until the other ranks have given up waiting. */
static ls_status stay_away(ls_group *g)
{
    while (!ls_control_failed(g->control))
        doze(0.005);
    return ls_group_failure(g);
}

ls_status ls_fault_point(ls_group *g)
{
    struct ls_fault_plan *p = g->fault;
    if (!p || p->fault.kind == LS_FAULT_FLIP)
        return LS_OK;
    int64_t call = p->calls++;
    double part = 1;
    if (p->fault.at >= 0 ? call != p->fault.at : ls_rng_below(p->key, (uint64_t)call * 2, 8) != 0)
        return LS_OK;
    if (p->fault.at < 0)
        part = ls_rng_uniform(p->key, (uint64_t)call * 2 + 1);
    switch (p->fault.kind) {
    case LS_FAULT_DELAY: doze(part * p->fault.seconds); break;
    case LS_FAULT_DROP: return stay_away(g);
    case LS_FAULT_KILL: raise(SIGKILL); break;
    case LS_FAULT_STOP: raise(SIGSTOP); break;
    case LS_FAULT_FLIP:
    case LS_FAULT_KINDS: break;
    }
    return LS_OK;
}

bool ls_fault_flips(ls_group *g, uint64_t *which)
{
    struct ls_fault_plan *p = g ? g->fault : &alone;
    if (!p || p->fault.kind != LS_FAULT_FLIP || ++p->calls != p->fault.at)
        return false;
    *which = p->fault.seed;
    return true;
}

ls_status ls_call_point(const ls_group *g)
{
    return LS_FAULT(LS_POINT_CALL) ? ls_fail(LS_E_IO, "a collective of rank %d was made to fail", g->rank)
                                   : LS_OK;
}

/* ---- LOCKSTEP_FAULT */

static ls_status malformed(const char *text)
{
    return ls_fail(LS_E_USAGE,
                   "LOCKSTEP_FAULT=%s: expected KIND@WHERE[:rank=R][:seconds=S][:seed=N], KIND being delay, "
                   "drop, kill, stop or flip, WHERE a "
                   "number or, except for flip, random",
                   text);
}

static bool parse_kind(const char *text, size_t n, ls_fault_kind *kind)
{
    static const char *const names[] = { [LS_FAULT_DELAY] = "delay",
                                         [LS_FAULT_DROP] = "drop",
                                         [LS_FAULT_KILL] = "kill",
                                         [LS_FAULT_STOP] = "stop",
                                         [LS_FAULT_FLIP] = "flip" };
    for (int k = 0; k < LS_FAULT_KINDS; k++)
        if (strlen(names[k]) == n && !strncmp(text, names[k], n)) {
            *kind = (ls_fault_kind)k;
            return true;
        }
    return false;
}

/* "12" or "random"; *end: what follows. */
static bool parse_where(const char *text, int64_t *at, const char **end)
{
    if (!strncmp(text, "random", 6)) {
        *at = -1;
        *end = text + 6;
        return true;
    }
    *at = strtoll(text, (char **)end, 10);
    return *end != text && *at >= 0;
}

static bool parse_seconds(const char *text, double *out, int *used)
{
    char *end;
    if (strncmp(text, ":seconds=", 9))
        return false;
    *out = ls_strtod(text + 9, &end);
    *used = (int)(end - text);
    return *used > 9;
}

void ls_fault_before_join(int rank)
{
    const char *text = getenv("LOCKSTEP_FAULT");
    int at = -1;
    if (text && sscanf(text, "stop@join:rank=%d", &at) == 1 && at == rank && ls_launch_restart() == 0)
        raise(SIGSTOP);
}

/* Reads LOCKSTEP_FAULT for rank `rank`. *mine: it is set, and is that rank's. */
static ls_status read_fault(bool *mine, ls_fault *f, int rank)
{
    const char *text = getenv("LOCKSTEP_FAULT"), *rest = text ? strchr(text, '@') : NULL;
    long long of = rank;
    *f = (ls_fault){ .seconds = 1 };
    *mine = false;
    if (!text || !*text || !strncmp(text, "stop@join:rank=", 15))
        return LS_OK;
    if (!rest || !parse_kind(text, (size_t)(rest - text), &f->kind) || !parse_where(rest + 1, &f->at, &rest))
        return malformed(text);
    while (*rest) {
        int used = 0;
        if (sscanf(rest, ":rank=%lld%n", &of, &used) != 1 && !parse_seconds(rest, &f->seconds, &used) &&
            sscanf(rest, ":seed=%lu%n", &f->seed, &used) != 1)
            return malformed(text);
        rest += used;
    }
    if (f->kind == LS_FAULT_FLIP && f->at < 1) /* steps count from 1 */
        return malformed(text);
    *mine = of == rank;
    return LS_OK;
}

ls_status ls_group_inject_from_environment(ls_group *g)
{
    ls_fault f;
    bool mine;
    LS_TRY(read_fault(&mine, &f, g->rank));
    return mine ? ls_group_inject(g, &f) : LS_OK;
}

ls_status ls_fault_alone(void)
{
    ls_fault f;
    bool mine;
    LS_TRY(read_fault(&mine, &f, 0));
    if (mine && f.kind != LS_FAULT_FLIP)
        return ls_fail(
            LS_E_USAGE,
            "LOCKSTEP_FAULT=%s: it happens in a collective, and one process makes none: --workers 2, or flip",
            getenv("LOCKSTEP_FAULT"));
    if (mine)
        alone = (struct ls_fault_plan){ .fault = f };
    return LS_OK;
}
