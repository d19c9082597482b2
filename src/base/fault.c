/* fault.c - counts fault points, and makes one of them fail.
 *
 *   LOCKSTEP_FAIL = POINT@NUMBER[:HOW][:rank=R]
 *
 *   POINT   one of NAMES below, `file` (all calls of file systems) or `any`
 *   NUMBER  which one fails; each process counts from 0
 *   HOW     fail (the default)
 *           on: this one and all later ones
 *           short: it writes half of its bytes
 *           kill: SIGKILL
 *   R       only this rank counts; -1 is a process that is not a rank: the parent of the ranks, or the only
 *           process
 *
 * Examples: "write@7", "file@30:on", "any@112:kill:rank=1". */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic bool ls_fault_armed;

static struct {
    unsigned kinds;
    int64_t at;
    ls_failing how;
    _Atomic int64_t passed;
} fault;

int ls_fault_pass(ls_point p)
{
    if (!(fault.kinds >> p & 1))
        return 0;
    const int64_t number = atomic_fetch_add(&fault.passed, 1);
    if (fault.at < 0 || number < fault.at)
        return 0;
    if (fault.how == LS_FAIL_ON)
        return 1;
    if (fault.how == LS_FAIL_SHORT)
        return number == fault.at && p == LS_POINT_WRITE ? 2 : number <= fault.at + 1;
    if (number > fault.at)
        return 0;
    while (fault.how == LS_FAIL_KILL)
        kill(getpid(), SIGKILL);
    return 1;
}

void ls_fault_arm(unsigned kinds, int64_t n, ls_failing how)
{
    fault.kinds = kinds;
    fault.at = n;
    fault.how = how;
    fault.passed = 0;
    atomic_store(&ls_fault_armed, true);
}

int64_t ls_fault_disarm(void)
{
    atomic_store(&ls_fault_armed, false);
    return fault.passed;
}

/* ---- LOCKSTEP_FAIL */

static bool same(const char *text, size_t n, const char *name)
{
    return strlen(name) == n && !strncmp(text, name, n);
}

static unsigned parse_point(const char *text, size_t n)
{
    static const char *const NAMES[LS_POINTS] = { "open",   "write", "sync",   "size",  "name", "folder",
                                                  "remove", "map",   "memory", "spawn", "call" };
    for (int p = 0; p < LS_POINTS; p++)
        if (same(text, n, NAMES[p]))
            return 1u << p;
    return same(text, n, "file") ? LS_POINTS_OF_FILES : same(text, n, "any") ? LS_POINTS_ALL : 0;
}

static bool parse_how(const char *text, size_t n, ls_failing *how)
{
    static const char *const NAMES[] = {
        [LS_FAIL_ONCE] = "fail", [LS_FAIL_ON] = "on", [LS_FAIL_SHORT] = "short", [LS_FAIL_KILL] = "kill"
    };
    for (int h = 0; h < 4; h++)
        if (same(text, n, NAMES[h])) {
            *how = (ls_failing)h;
            return true;
        }
    return false;
}

/* Reads ":HOW" and ":rank=R" in any order. If one is given twice, the last one counts. */
static bool parse_rest(const char *text, ls_failing *how, long *rank)
{
    while (*text == ':') {
        const size_t n = strcspn(++text, ":");
        int used = 0;
        if (!parse_how(text, n, how) && (sscanf(text, "rank=%ld%n", rank, &used) != 1 || (size_t)used != n))
            return false;
        text += n;
    }
    return !*text;
}

ls_status ls_fault_from_environment(int rank)
{
    const char *text = getenv("LOCKSTEP_FAIL"), *at = text ? strchr(text, '@') : NULL;
    if (!text || !*text)
        return LS_OK;
    const unsigned kinds = at ? parse_point(text, (size_t)(at - text)) : 0;
    char *rest = NULL;
    const long long n = at ? strtoll(at + 1, &rest, 10) : -1;
    ls_failing how = LS_FAIL_ONCE;
    long only = rank;
    if (!kinds || n < 0 || rest == at + 1 || !parse_rest(rest, &how, &only))
        return ls_fail(
            LS_E_USAGE,
            "LOCKSTEP_FAIL=%s: expected POINT@NUMBER[:HOW][:rank=R], POINT being open, write, sync, size, "
            "name, folder, remove, "
            "map, memory, spawn, call, file or any, HOW fail, on, short or kill (it is for tests: unset it)",
            text);
    if (only == rank)
        ls_fault_arm(kinds, n, how);
    return LS_OK;
}
