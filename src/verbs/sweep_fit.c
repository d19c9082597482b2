/* sweep_fit.c - what the runs of a sweep need, and how many of them fit beside each other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_limits.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/comm.h"
#include "comm/memory_room.h"
#include "record/run_list.h"
#include "recipe/recipe_use.h"
#include "step/memory.h"
#include "sweep.h"
#include "workers.h"

/* ---- runs */

static bool same_value(const ls_recipe *a, const ls_recipe *b, const char *key)
{
    char *x = ls_recipe_value(a, key), *y = ls_recipe_value(b, key);
    const bool same = x && y && !strcmp(x, y);
    free(x);
    free(y);
    return same;
}

/* Whether `lockstep train` would say that there is nothing to do: not if it would train longer now, and not
 * if it would refuse another recipe. */
static bool is_finished(ls_sweep *s, const ls_sweep_run *run, ls_recipe *r)
{
    static const char *const LENGTH[] = { "train.epochs", "train.steps", "train.early_stopping.patience" };
    ls_run_info info;
    ls_recipe *there = NULL;
    if (!ls_run_is(run->dir) || ls_run_info_read(&info, run->dir) != LS_OK)
        return false;
    bool done = info.state == LS_RUN_FINISHED && ls_workers_micro_batch(r, NULL) == LS_OK &&
                ls_recipe_load_run(&there, run->dir, 0, NULL) == LS_OK;
    ls_run_info_release(&info);
    char *difference = done ? ls_recipe_difference(r, there) : NULL;
    done = difference && !*difference;
    for (size_t i = 0; i < sizeof LENGTH / sizeof LENGTH[0]; i++)
        done = done && same_value(r, there, LENGTH[i]);
    if (done)
        s->highest = there->checkpoint.best.mode == LS_MODE_MAX;
    free(difference);
    ls_recipe_destroy(&there);
    return done;
}

/* Whether the step of a run has the shapes, and so the memory, of every other run of the sweep. */
static bool is_same_step(const ls_sweep *s)
{
    static const char *const NUMBERS[] = { "run.*",           "schedule.*",          "optimizer.lr",
                                           "optimizer.betas", "optimizer.eps",       "optimizer.weight_decay",
                                           "train.epochs",    "optimizer.momentum*", "train.steps" };
    for (int k = 0; k < s->n_keys; k++) {
        bool number = false;
        for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++)
            number = number || ls_glob_match(NUMBERS[i], s->keys[k].key);
        if (!number)
            return false;
    }
    return true;
}

/* Memory and cores of a run, for the first one also what all have in common. */
static ls_status plan_run(ls_sweep *s, ls_sweep_run *run, bool first)
{
    ls_compiled_recipe c;
    LS_TRY(ls_compiled_recipe_make(&c,
                                   &(ls_recipe_arg){ .name = s->o->recipe.name,
                                                     .n_sets = s->n_fixed + s->n_keys + 2,
                                                     .sets = run->sets },
                                   0, NULL));
    const ls_step_memory m = ls_compiled_memory(&c.step);
    const ls_status st = ls_setup_best(c.recipe, &c.step);
    run->bytes = (int64_t)(m.total - (m.apart ? m.device : 0)) * c.ranks + (int64_t)m.plans.node;
    if (first) {
        const int64_t cores = c.recipe->cores_per_worker ? c.recipe->cores_per_worker : c.recipe->threads;
        s->ranks = (int)c.recipe->workers.min;
        s->cores = s->ranks * (cores > 1 ? (int)cores : 1);
        s->apart = m.apart;
        s->highest = c.recipe->checkpoint.best.mode == LS_MODE_MAX;
    }
    ls_compiled_recipe_release(&c);
    return st;
}

static ls_status look_at_run(ls_sweep *s, ls_sweep_run *run, bool *planned, bool same_step)
{
    ls_recipe *r = NULL;
    ls_status st = ls_recipe_load_to_continue(&r, s->o->recipe.name, s->n_fixed + s->n_keys + 2, run->sets);
    if (st == LS_OK) {
        run->finished = is_finished(s, run, r);
        snprintf(s->metric, sizeof s->metric, "%s", r->checkpoint.best.metric);
    }
    ls_recipe_destroy(&r);
    if (st == LS_OK && !run->finished && !(*planned && same_step)) {
        st = plan_run(s, run, !*planned);
        *planned = *planned || st == LS_OK;
    }
    if (st == LS_OK || st == LS_E_STOPPED || st == LS_E_MEMORY)
        return st;
    run->refused = ls_arena_strdup(&s->arena, ls_error_message());
    return LS_OK;
}

/* ---- beside each other */

static int64_t most_bytes(const ls_sweep *s)
{
    int64_t most = 1;
    for (int i = 0; i < s->n; i++)
        most = s->runs[i].bytes > most ? s->runs[i].bytes : most;
    return most;
}

static int cores_here(ls_cpu_set *all)
{
    const double quota = ls_cpu_quota_here().cores;
    int cores = ls_cpu_set_read(all) ? ls_cpu_set_count(all) : 1;
    if (quota > 0 && ls_quota_threads(quota) < cores)
        cores = ls_quota_threads(quota);
    return cores;
}

/* Gives each of the runs beside each other cores of its own. A run that starts several ranks divides its
 * part among them. */
static ls_status divide(ls_sweep *s, const ls_cpu_set *all, int cores)
{
    const char *bind = getenv("LOCKSTEP_BIND");
    if (s->parallel < 2 || (bind && !strcmp(bind, "none")))
        return LS_OK;
    s->parts = LS_ARENA_ARRAY(&s->arena, ls_cpu_set, s->parallel);
    LS_TRY(ls_arena_status(&s->arena));
    if (!ls_cpu_set_divide(s->parts, all, s->parallel, s->cores, LS_SYS)) {
        s->parts = NULL;
        return LS_OK;
    }
    for (int i = 0; i < s->parallel; i++)
        ls_cpu_set_keep(&s->parts[i], cores / s->parallel);
    return LS_OK;
}

static ls_status lower(ls_sweep *s)
{
    ls_cpu_set all;
    char need[32], have[32];
    const int cores = cores_here(&all), wanted = s->parallel;
    const int64_t bytes = most_bytes(s), room = (int64_t)(ls_memory_room() >> 1) * 2;
    const int by_cores = s->cores > 0 && cores / s->cores > 0 ? cores / s->cores : 1;
    const int64_t by_memory = room / bytes > 0 ? room / bytes : 1;
    if (s->apart && s->parallel > 1) {
        s->parallel = 1;
        ls_log_warn("--parallel %d: runs on a GPU come one after the other: a run plans for all of the GPU's "
                    "memory",
                    wanted);
    }
    if (s->parallel > by_cores) {
        s->parallel = by_cores;
        ls_log_warn("--parallel %d: a run needs %d core%s (%d rank%s), and %d are available: %d at a time",
                    wanted, s->cores, s->cores == 1 ? "" : "s", s->ranks, s->ranks == 1 ? "" : "s", cores,
                    s->parallel);
    }
    if (s->parallel > by_memory) {
        s->parallel = (int)by_memory;
        ls_log_warn("--parallel %d: a run plans %s of memory, and %s are available: %d at a time", wanted,
                    ls_format_bytes(need, (uint64_t)bytes), ls_format_bytes(have, (uint64_t)room),
                    s->parallel);
    }
    return divide(s, &all, cores);
}

ls_status ls_sweep_fit(ls_sweep *s)
{
    bool planned = false;
    int refused = 0, finished = 0;
    const bool same_step = is_same_step(s);
    for (int i = 0; i < s->n; i++) {
        LS_TRY(ls_stop_check("planning the runs"));
        LS_TRY(look_at_run(s, &s->runs[i], &planned, same_step));
        refused += s->runs[i].refused != NULL;
        finished += s->runs[i].finished;
    }
    if (refused == s->n)
        return ls_fail(LS_E_USAGE, "every combination was refused: %s", s->runs[0].refused);
    for (int i = 0; i < s->n; i++)
        if (s->runs[i].refused)
            ls_log_warn("%s is refused: %s", s->runs[i].name, s->runs[i].refused);
    s->parallel = (int)(s->o->parallel < s->n ? s->o->parallel : s->n);
    return finished + refused < s->n && !s->o->slurm ? lower(s) : LS_OK;
}
