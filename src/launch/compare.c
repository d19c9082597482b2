/* compare.c - see compare.h. */
#include "compare.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/affinity.h"
#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/agree.h"
#include "recipe/recipe_fields.h"

/* ---- the same program, the same recipe */

/* Keys that may differ between hosts: paths, downloads, and numbers of cores. */
static bool may_differ(const char *key)
{
    static const char *const LOCAL[] = { "threads",     "workers",       "cores_per_worker",
                                         "run.storage", "data.path",     "workers_per_host",
                                         "data.mirror", "data.download", "data.fallback" };
    for (size_t i = 0; i < sizeof LOCAL / sizeof LOCAL[0]; i++)
        if (!strcmp(key, LOCAL[i]))
            return true;
    return false;
}

/* Lines "key: value" of all keys that must be equal on all ranks. */
static char *identity(const ls_recipe *r)
{
    ls_str s = { 0 };
    for (int i = 0; i < ls_key_count(); i++) {
        if (may_differ(ls_key_at(i)->key))
            continue;
        char *value = ls_recipe_value(r, ls_key_at(i)->key);
        ls_str_printf(&s, "%s: ", ls_key_at(i)->key);
        ls_str_add(&s, value);
        ls_str_add(&s, "\n");
        free(value);
    }
    return ls_str_take(&s);
}

/* Hash of the program's file. */
static ls_status program(uint64_t *hash)
{
    ls_mapping m;
    LS_TRY(ls_file_map(&m, "/proc/self/exe"));
    *hash = ls_hash64(m.data, m.size);
    ls_file_unmap(&m);
    return LS_OK;
}

/* ---- threads */

typedef struct hello {
    uint64_t program, host;
    ls_cpu_set cpus;
    ls_cpu_quota quota;
    int told; /* by the variables of the launcher */
    ls_cpu_limit told_by;
} hello;

static uint64_t this_host(void)
{
    char text[256] = "", *boot = NULL;
    size_t n = 0;
    gethostname(text, sizeof text - 1);
    uint64_t h = ls_hash_text(text);
    if (ls_file_read(&boot, &n, "/proc/sys/kernel/random/boot_id") == LS_OK)
        h = ls_hash64_more(h, boot, n);
    free(boot);
    return h;
}

/* Threads of rank r: its cores and its quota, each divided by the number of ranks that share it, and at most
 * the number that it was given. */
static int threads_of(const hello *all, int n, int r, ls_cpu_limit *limit)
{
    const hello *me = &all[r];
    int sharers = 0, group = 0;
    for (int k = 0; k < n; k++) {
        const bool here = all[k].host == me->host;
        sharers += here && (k == r || ls_cpu_set_meet(&all[k].cpus, &me->cpus));
        group += here && all[k].quota.group == me->quota.group;
    }
    *limit = LS_CPU_AFFINITY;
    int threads = ls_threads_within(me->quota.cores, group, ls_cpu_set_count(&me->cpus) / sharers, limit);
    if (me->told < threads) {
        threads = me->told;
        *limit = me->told_by;
    }
    return threads > 0 ? threads : 1;
}

/* The number of the rank that may have the fewest. */
static int threads_of_all(const hello *all, int n, ls_cpu_limit *limit)
{
    int least = threads_of(all, n, 0, limit);
    for (int r = 1; r < n; r++) {
        ls_cpu_limit by;
        const int threads = threads_of(all, n, r, &by);
        if (threads < least) {
            least = threads;
            *limit = by;
        }
    }
    return least;
}

static ls_status meet(int *threads, ls_cpu_limit *limit, ls_group *g, const char *mine, hello *all)
{
    int n = ls_group_size(g), rank = ls_group_rank(g);
    hello me = { .host = this_host(), .quota = ls_cpu_quota_here() };
    me.told = ls_threads_told(INT_MAX, &me.told_by);
    LS_TRY(ls_ranks_agree(g, program(&me.program)));
    ls_cpu_set_read(&me.cpus);
    LS_TRY(ls_group_all_gather(g, &me, sizeof me, all));
    ls_status s = LS_OK;
    if (all[rank].program != all[0].program)
        s = ls_fail(LS_E_USAGE,
                    "rank %d runs another build of lockstep than rank 0 (%016llx and %016llx): the same "
                    "program must be installed on all hosts",
                    rank, (unsigned long long)all[rank].program, (unsigned long long)all[0].program);
    LS_TRY(ls_ranks_agree(g, s));
    *threads = threads_of_all(all, n, limit);
    return ls_ranks_same(g, mine, "the ranks were given different recipes");
}

ls_status ls_ranks_compare(int *threads, ls_cpu_limit *limit, ls_group *g, const ls_recipe *r)
{
    ls_cpu_limit unused;
    char *mine = identity(r);
    hello *all = ls_sys_malloc(sizeof *all * (size_t)ls_group_size(g));
    ls_status s = ls_ranks_agree(g, ls_sys_have(all));
    if (s == LS_OK)
        s = meet(threads, limit ? limit : &unused, g, mine, all);
    free(mine);
    free(all);
    return s;
}
