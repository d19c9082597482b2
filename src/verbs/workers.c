/* workers.c - the choice of a number of ranks. */
#include "workers_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/slurm.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "comm/agree.h"
#include "comm/launched.h"
#include "launch/launch.h"
#include "recipe/recipe_use.h"
#include "record/rundir.h"

ls_status ls_workers_micro_batch(ls_recipe *r, ls_group *g)
{
    int64_t micro = r->train.micro_batch || (g && ls_group_rank(g)) ? 0 : ls_rundir_micro_batch(r);
    char value[32];
    if (g)
        LS_TRY(ls_group_broadcast(g, &micro, sizeof micro, 0));
    snprintf(value, sizeof value, "%lld", (long long)micro);
    return micro ? ls_recipe_set(r, "train.micro_batch", value, "the run's recipe.yaml:") : LS_OK;
}

ls_status ls_workers_recipe(ls_workers *w)
{
    ls_recipe_destroy(w->recipe);
    return ls_recipe_load_to_continue(w->recipe, w->named->name, w->named->n_sets, w->named->sets);
}

static bool asked_for(const ls_recipe *r) { return !strcmp(ls_recipe_origin(r, "workers"), "--set"); }

/* The recipe's range, and within it the number that there is room for: cores, or ranks on the hosts. Hosts
 * take the place of what a file says; they do not of --workers. */
static ls_status find_room(const ls_recipe *r, const ls_hosts *hosts, int64_t *least, int64_t *n)
{
    const bool as_hosts = hosts && !asked_for(r);
    int64_t room = hosts ? ls_hosts_room(hosts) : 0;
    if (!hosts)
        LS_TRY(ls_launch_room(&room, r->workers.min, r->cores_per_worker, r->workers_per_host));
    *least = as_hosts ? 1 : r->workers.min;
    *n = as_hosts || r->workers.max > room ? room : r->workers.max;
    return !hosts || *least <= room
               ? LS_OK
               : ls_fail(LS_E_PEER, "the hosts have room for %lld ranks, and workers wants %lld or more",
                         (long long)room, (long long)*least);
}

static ls_status divide(ls_hosts *hosts, int n)
{
    return !hosts || ls_hosts_fit(hosts, n)
               ? LS_OK
               : ls_fail(LS_E_USAGE, "%d workers cannot be divided evenly among %d hosts", n, hosts->n);
}

static ls_status try_number(ls_workers *w, int n)
{
    LS_TRY(ls_workers_micro_batch(*w->recipe, NULL));
    LS_TRY(divide(w->hosts, n));
    return ls_setup_make(w->setup, *w->recipe, n, 0, w->hosts ? w->hosts->per : 0);
}

ls_status ls_workers_choose(ls_workers *w, int most, int *workers)
{
    int64_t least = 0, n = 0;
    ls_status s;
    LS_TRY(ls_workers_recipe(w));
    if (w->remote)
        LS_TRY(ls_bucket_begin(w->remote, *w->recipe));
    LS_TRY(find_room(*w->recipe, w->hosts, &least, &n));
    n = most && n > most ? most : n;
    w->why[0] = 0;
    for (n = n > least ? n : least;; n--) {
        s = try_number(w, (int)n);
        if (s == LS_OK || n == least)
            break;
        if (!w->why[0])
            snprintf(w->why, sizeof w->why, "%s", ls_error_message());
        LS_TRY(ls_workers_recipe(w)); /* the attempt that failed may have changed it */
    }
    *workers = (int)n;
    return s;
}

/* ---- hosts without ranks */

/* Whether all hosts would have k ranks each, with this batch (0: the recipe's). */
static bool would_do(const ls_workers *w, int k, int64_t batch)
{
    ls_recipe *recipe = NULL;
    ls_setup setup = { 0 };
    ls_hosts hosts = *w->hosts;
    ls_workers trial = { .named = w->named, .recipe = &recipe, .setup = &setup, .hosts = &hosts };
    char value[32];
    const int ranks = ls_hosts_room(&hosts) / hosts.each * k;
    hosts.each = k;
    snprintf(value, sizeof value, "%lld", (long long)batch);
    ls_status s = ls_workers_recipe(&trial);
    if (s == LS_OK && batch)
        s = ls_recipe_set(recipe, "train.global_batch", value, "");
    if (s == LS_OK)
        s = try_number(&trial, ranks);
    ls_recipe_destroy(&recipe);
    return s == LS_OK;
}

/* What would use all hosts: fewer ranks on each, though not fewer in all, or a larger batch. */
static void add_advice(ls_str *text, const ls_workers *w, int workers)
{
    const ls_hosts *h = w->hosts;
    const int room = ls_hosts_room(h), there = room / h->each;
    const int64_t micro = (*w->recipe)->train.micro_batch > 0 ? (*w->recipe)->train.micro_batch : 1,
                  batch = (*w->recipe)->train.global_batch;
    for (int k = h->each - 1; h->used < there && k > 0 && there * k >= workers; k--)
        if (would_do(w, k, 0)) {
            ls_str_printf(text, "; %d rank%s on each host would use all %d", k, k == 1 ? "" : "s", there);
            return;
        }
    for (int data = 2; data <= room; data++) {
        const int64_t unit = micro * data, more = (batch + unit - 1) / unit * unit;
        if (room % data == 0 && more > batch && would_do(w, h->each, more)) {
            ls_str_printf(text, "; train.global_batch %lld would use all %d ranks of %d hosts",
                          (long long)more, room, there);
            return;
        }
    }
}

/* Which of the hosts that answer have no rank, or fewer than there is room for; why, if `reason`; and what
 * would use all of them. Nothing: all have what they were asked for. */
static void left_out_text(ls_str *text, const ls_workers *w, int workers, bool reason)
{
    const ls_hosts *h = w->hosts;
    const int there = ls_hosts_room(h) / h->each, idle = there - h->used;
    if (!idle && (h->per == h->each || !w->why[0]))
        return;
    if (idle) {
        ls_str_printf(text, "host%s ", idle == 1 ? "" : "s");
        for (int i = h->used; i < there && i < h->used + 8; i++)
            ls_str_printf(text, "%s%s", i > h->used ? ", " : "", ls_hosts_used(h, i)->name);
        ls_str_printf(text, "%s %s left out: ", idle > 8 ? ", ..." : "", idle == 1 ? "is" : "are");
    }
    ls_str_printf(text, "%d rank%s on %d of %d hosts with room for %d on each", workers,
                  workers == 1 ? "" : "s", h->used, there, h->each);
    if (!w->why[0])
        ls_str_printf(text, ", because workers is %d", workers);
    else if (reason)
        ls_str_printf(text, ", because %s", w->why);
    if (w->why[0])
        add_advice(text, w, workers);
}

static void tell_left_out(const ls_workers *w, int workers)
{
    ls_str text = { 0 };
    if (w->hosts)
        left_out_text(&text, w, workers, true);
    if (text.len)
        ls_log(w->why[0] ? LS_WARN : LS_INFO, "%s", ls_str_text(&text));
    ls_str_release(&text);
}

static ls_status choose_on_pretended(ls_workers *w, int *workers, ls_str *text)
{
    ls_hosts *h = w->hosts;
    h->all = ls_sys_calloc((size_t)h->n, sizeof *h->all);
    LS_TRY(ls_sys_have(h->all));
    for (int i = 0; i < h->n; i++) {
        h->all[i].answers = true;
        snprintf(h->all[i].name, sizeof h->all[i].name, "%d", i + 1);
    }
    LS_TRY(ls_workers_choose(w, 0, workers));
    left_out_text(text, w, *workers, false);
    return LS_OK;
}

ls_status ls_workers_would(const ls_recipe_arg *named, int64_t per_host, ls_status s)
{
    char message[4096], range[48];
    ls_recipe *recipe = NULL;
    ls_setup setup = { 0 };
    ls_str text = { 0 };
    int workers = 0;
    snprintf(message, sizeof message, "%s", ls_error_message());
    if (ls_recipe_load(&recipe, named->name, named->n_sets, named->sets) != LS_OK)
        return ls_fail(s, "%s", message);
    const int64_t ranks = recipe->workers.max;
    const char **sets = ls_sys_malloc(sizeof *sets * (size_t)(named->n_sets + 1));
    if (sets && ranks % per_host == 0 && ranks > per_host) {
        ls_hosts hosts = { .n = (int)(ranks / per_host), .each = (int)per_host };
        for (int i = 0; i < named->n_sets; i++)
            sets[i] = named->sets[i];
        snprintf(range, sizeof range, "workers={min: 1, max: %lld}", (long long)ranks);
        sets[named->n_sets] = range;
        const ls_recipe_arg arg = { .name = named->name, .n_sets = named->n_sets + 1, .sets = sets };
        ls_workers w = { .named = &arg, .recipe = &recipe, .setup = &setup, .hosts = &hosts };
        if (choose_on_pretended(&w, &workers, &text) != LS_OK)
            ls_str_cut(&text, 0);
        free(hosts.all);
    }
    free(sets);
    ls_recipe_destroy(&recipe);
    ls_fail(s, "%s%s%s", message, text.len ? "; with --hosts: " : "", ls_str_text(&text));
    ls_str_release(&text);
    return s;
}

/* ---- choosing */

ls_status ls_workers_choose_again(void *context, int most, int *workers)
{
    ls_workers *w = context;
    if (w->hosts)
        LS_TRY(ls_hosts_ask(w->hosts, false));
    ls_status s = ls_workers_choose(w, most, workers);
    if (s == LS_OK)
        tell_left_out(w, *workers);
    return s != LS_OK && w->hosts && ls_hosts_room(w->hosts) < w->hosts->n * w->hosts->each
               ? ls_fail_in(LS_E_PEER, "hosts do not answer, and on those that do")
               : s;
}

ls_status ls_workers_check(const ls_recipe *r, int ranks)
{
    bool said = strcmp(ls_recipe_origin(r, "workers"), "default") != 0;
    if (!said || ls_launch_watched() || /* then our own parent has chosen */
        (ranks >= r->workers.min && ranks <= r->workers.max))
        return LS_OK;
    char *wanted = ls_recipe_value(r, "workers");
    ls_status s = ls_fail(LS_E_USAGE, "workers: %s in the recipe, but %d ranks were started",
                          wanted ? wanted : "another number", ranks);
    free(wanted);
    return s;
}

/* The hosts that `o` names, all of which answer. *hosts NULL: it names none. */
static ls_status find_hosts(ls_hosts **hosts, const ls_hosts_opts *o, const ls_recipe *r)
{
    ls_hosts_opts all = *o;
    if (r) {
        all.ranks = asked_for(r) ? (int)r->workers.max : 0;
        all.per_host = (int)r->workers_per_host;
    }
    LS_TRY(ls_hosts_read(hosts, &all));
    return *hosts ? ls_hosts_ask(*hosts, true) : LS_OK;
}

/* A job script without srun and --hosts. */
static void tell_idle(int workers)
{
    int tasks, hosts;
    ls_slurm_size(&tasks, &hosts);
    if (hosts <= 1 && (workers > 1 || tasks <= 1))
        return;
    ls_log_warn("this Slurm job has %d task%s on %d host%s, and the run has %d process%s on this host: `srun "
                "--mpi=pmix lockstep train ...` or --hosts slurm takes them all",
                tasks, tasks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s", workers,
                workers == 1 ? "" : "es");
}

/* failure.grow: true, where it has no effect. */
static void tell_grow(const ls_workers *w)
{
    if (!w->hosts)
        ls_log_warn(
            "failure.grow: true has no effect: all ranks are on this host; --hosts or --hostfile names "
            "several");
    else if (w->hosts->slurm)
        ls_log_warn(
            "failure.grow: true has no effect in a Slurm job: Slurm takes a host that fails out of the "
            "job and does not give it back; a job that is requeued gets as many hosts as before");
}

ls_status ls_workers_begin(ls_workers *w, const ls_hosts_opts *o, int *workers)
{
    if (o->list || o->file)
        LS_TRY(ls_workers_recipe(w));
    LS_TRY(find_hosts(&w->hosts, o, *w->recipe));
    LS_TRY(ls_workers_choose(w, 0, workers));
    tell_left_out(w, *workers);
    if (!w->hosts)
        tell_idle(*workers);
    if ((*w->recipe)->failure.grow)
        tell_grow(w);
    return LS_OK;
}

ls_status ls_workers_told(ls_launch_opts *o, ls_hosts **hosts, const ls_hosts_opts *places,
                          const ls_recipe *r)
{
    int64_t least = 0, n = 0;
    LS_TRY(find_hosts(hosts, places, r));
    LS_TRY(find_room(r, *hosts, &least, &n));
    o->ranks = (int)(n > least ? n : least);
    o->hosts = *hosts;
    o->threads = (int)r->threads;
    o->cores = (int)r->cores_per_worker;
    return divide(*hosts, o->ranks);
}

ls_status ls_workers_fit(int *threads, ls_group *g, const ls_recipe *r)
{
    const int here = ls_group_local_size(g);
    ls_status s = LS_OK;
    if (r->workers_per_host && here > r->workers_per_host)
        s = ls_fail(
            LS_E_USAGE,
            "workers_per_host: %lld, but %d ranks were started on this host: start as many or change the key",
            (long long)r->workers_per_host, here);
    else if (r->cores_per_worker && *threads < r->cores_per_worker)
        s = ls_fail(
            LS_E_USAGE,
            "cores_per_worker: %lld, but a rank has only %d core%s: start fewer ranks or ask for fewer cores",
            (long long)r->cores_per_worker, *threads, *threads == 1 ? "" : "s");
    else if (r->cores_per_worker)
        *threads = (int)r->cores_per_worker;
    return ls_ranks_agree(g, s);
}
