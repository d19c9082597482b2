/* run_report.c - ls_report. The ranks compare what they report. Then rank 0 writes the row, and all ranks, or
 * rank 0 alone, write the checkpoint. The row comes first: if the process is killed in between, the next
 * attempt writes it again, and no row is missing. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/agree.h"
#include "base/argument.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sys.h"
#include "record/heartbeat.h"
#include "record/step_folder.h"
#include "run_own.h"
#include "step/trainer.h"

enum {
    MOST_NAME = LS_METRIC_NAME - 1,
    MOST_STEP = 99999999 /* a checkpoint's name has eight digits */
};

typedef struct report {
    ls_run *run;
    ls_metric_list metrics;
    const ls_run_contents *contents;
    int64_t step, epoch;
    const char *name; /* of the checkpoint's folder; NULL: by the step */
    bool checkpoint;  /* some rank brings one */
    bool alone;       /* only rank 0 brings it */
    char call[32];
} report;

/* ---- checks of one rank */

static ls_status check_name(const char *name)
{
    size_t n = name ? strlen(name) : 0;
    bool fine = n > 0 && n <= MOST_NAME;
    for (size_t i = 0; i < n && fine; i++)
        fine = isalnum((unsigned char)name[i]) || strchr("_-./@%:", name[i]);
    if (!fine)
        return ls_fail(
            LS_E_ARG,
            "metric name \"%.120s\" is not valid: use 1 to %d letters, digits and characters of _-./@%%:",
            name ? name : "", (int)MOST_NAME);
    if (ls_row_has_key(&LS_REPORT_ROW, name))
        return ls_fail(LS_E_ARG,
                       "metric name \"%s\" is reserved: every row of metrics.jsonl already has this key",
                       name);
    return LS_OK;
}

static ls_status check_metrics(int64_t n, const ls_metric *metrics)
{
    if (n < 0 || n > LS_MOST_METRICS || (n > 0 && !metrics))
        return ls_fail(LS_E_ARG, "too many metrics: %lld given, at most %d allowed", (long long)n,
                       (int)LS_MOST_METRICS);
    for (int64_t i = 0; i < n; i++) {
        LS_TRY(check_name(metrics[i].name));
        for (int64_t k = 0; k < i; k++)
            if (!strcmp(metrics[i].name, metrics[k].name))
                return ls_fail(LS_E_ARG, "metric \"%s\" is reported twice in one report", metrics[i].name);
    }
    return LS_OK;
}

static ls_status check_place(const report *p)
{
    if (p->step <= p->run->step || p->step > MOST_STEP)
        return ls_fail(LS_E_ARG,
                       "step %lld, after a report of step %lld: steps grow from report to report, up to %d",
                       (long long)p->step, (long long)p->run->step, (int)MOST_STEP);
    return LS_OK;
}

/* The name of a checkpoint's folder must differ from those of steps and from the links. */
static ls_status check_folder(const report *p)
{
    const char *name = p->name ? p->name : "full";
    const size_t n = strlen(name);
    bool fine = n > 0 && n <= MOST_NAME && *name != '.';
    for (size_t i = 0; i < n && fine; i++)
        fine = isalnum((unsigned char)name[i]) || strchr("_-.", name[i]);
    if (!fine || !strcmp(name, "latest") || !strcmp(name, "best") || ls_step_folder_parse(name) >= 0)
        return ls_fail(LS_E_ARG,
                       "checkpoint \"%.120s\": a name is 1 to %d letters, digits and _-. that do not begin "
                       "with a dot, and none of latest, best and step-NNNNNNNN",
                       name, (int)MOST_NAME);
    return LS_OK;
}

static ls_status run_report_check(const report *p, int64_t n, const ls_metric *metrics)
{
    LS_TRY(check_folder(p));
    LS_TRY(check_metrics(n, metrics));
    LS_TRY(check_place(p));
    return ls_run_check_contents(p->contents);
}

/* ---- comparing the ranks */

enum { BRINGS_NOTHING, BRINGS_SHARDS, BRINGS_TRAINER };

static int brings(const ls_run_contents *c)
{
    return !c ? BRINGS_NOTHING : c->trainer ? BRINGS_TRAINER : BRINGS_SHARDS;
}

/* Finds which ranks bring a checkpoint: none, rank 0 alone, or all. Else it fails with the same message on
 * every rank. */
static ls_status find_bringers(report *p, const int32_t *all)
{
    static const char *const WHAT[] = { "no checkpoint", "shards", "a trainer" };
    const int ranks = p->run->place.ranks;
    int others = 0;
    for (int k = 1; k < ranks; k++)
        others += all[k] != BRINGS_NOTHING;
    p->checkpoint = all[0] != BRINGS_NOTHING;
    p->alone = p->checkpoint && !others;
    for (int k = 1; k < ranks && !p->alone; k++)
        if (all[k] != all[0])
            return ls_fail(
                LS_E_USAGE,
                "%s: rank %d brings %s, rank 0 %s: a checkpoint comes from rank 0 alone, or from all ranks",
                p->call, k, WHAT[all[k]], WHAT[all[0]]);
    return LS_OK;
}

/* All ranks of a trainer save together, so its group must be that of the run. */
static ls_status check_trainer(const report *p)
{
    const ls_group *g = p->contents && p->contents->trainer ? p->contents->trainer->group : NULL;
    const int ranks = g ? ls_group_size(g) : 1;
    if (!p->contents || !p->contents->trainer || (p->alone ? ranks == 1 : g == p->run->group))
        return LS_OK;
    return ranks == 1
               ? ls_fail(LS_E_USAGE, "%s: every rank brings a trainer of its own: let rank 0 alone bring its",
                         p->call)
               : ls_fail(LS_E_USAGE,
                         "%s: the trainer has %d ranks that are not the run's: open the run with its group",
                         p->call, ranks);
}

/* What all ranks must report alike, a line each. */
static char *identity(const report *p)
{
    ls_str s = { 0 };
    ls_str_printf(&s, "step %lld\nepoch %lld\n", (long long)p->step, (long long)p->epoch);
    if (p->name)
        ls_str_printf(&s, "checkpoint %s\n", p->name);
    for (int i = 0; i < p->metrics.n; i++)
        ls_str_printf(&s, "metric %s\n", p->metrics.at[i].name);
    for (int64_t i = 0; i < (p->contents && !p->alone ? p->contents->n : 0); i++) {
        const ls_shard *t = &p->contents->shards[i];
        ls_str_printf(&s, "shard %s %s", t->name, ls_dtype_name(t->type.dtype));
        for (int d = 0; d < t->type.ndim; d++)
            ls_str_printf(&s, "%s%lld", d ? " x " : " ", (long long)t->type.dims[d]);
        ls_str_add(&s, "\n");
    }
    return ls_str_take(&s);
}

static ls_status run_report_agree(report *p, ls_status mine)
{
    LS_TRY(ls_run_compare(p->run, p->call, mine, brings(p->contents)));
    LS_TRY(find_bringers(p, p->run->words));
    if (p->name && !p->checkpoint)
        return ls_fail(LS_E_ARG, "%s: checkpoint \"%s\" has a name, and no rank brings what it holds",
                       p->call, p->name);
    LS_TRY(ls_ranks_agree(p->run->group, check_trainer(p)));
    char *lines = identity(p);
    ls_status s = ls_ranks_same(p->run->group, lines, p->call);
    free(lines);
    return s;
}

/* ---- the checkpoint */

/* Called on the ranks that bring the checkpoint, with its trainer.json. That of rank 0 is stored. */
static ls_status save(const report *p, const char *json)
{
    ls_run *r = p->run;
    const ls_run_contents *c = p->contents;
    ls_group *g = p->alone ? NULL : r->group;
    ls_arena a;
    ls_arena_init(&a);
    const ls_checkpoint_contents all = { .config = c->config ? c->config : "{}\n",
                                         .trainer = json,
                                         .replace = p->name,
                                         .model = ls_run_list(&a, c),
                                         .max_file = r->opts.max_file,
                                         .per_rank = r->opts.per_rank };
    const ls_snapshot what = { .step = p->step,
                               .epoch = p->epoch,
                               .name = p->name,
                               .metrics = &p->metrics,
                               .keep = r->opts.keep,
                               .keep_best = r->opts.keep_best > 1 ? r->opts.keep_best : 1,
                               .best = !p->name && r->place.rank == 0 &&
                                       ls_run_is_best(r, p->step, p->epoch, &p->metrics),
                               .value = ls_run_value(r, &p->metrics),
                               .beside = r->opts.async,
                               .trainer = c->trainer,
                               .group = g,
                               .contents = &all };
    ls_status s = json ? ls_arena_status(&a) : ls_sys_have(json);
    s = ls_checkpoint_together(c->trainer ? c->trainer->group : g, s);
    if (s == LS_OK)
        s = ls_snapshots_save(&r->snapshots, r->dir, &what);
    ls_arena_release(&a);
    return s;
}

static ls_status make_checkpoint(const report *p)
{
    ls_run *r = p->run;
    const ls_run_saved saved = { p->step, p->epoch, r->reports, p->metrics, (char *)p->contents->text };
    char *json = ls_run_saved_json(&saved, r->place.ranks, p->contents->trainer);
    const ls_status s = save(p, json);
    if (s == LS_OK && !p->name && r->place.rank == 0)
        r->coming = json;
    else
        free(json);
    return s;
}

static ls_status write_row(const report *p)
{
    ls_run *r = p->run;
    const double now = ls_now();
    const ls_report_row row = { r->reports, p->step, p->epoch, round((now - r->reported) * 1e9) / 1e9,
                                p->metrics };
    r->reported = now;
    /* how long a rank of the user's loop waits is not known here */
    ls_heartbeat_write(
        r->dir, &(ls_heartbeat){ .ranks = r->place.ranks, .step = p->step, .doing = "reporting" }, false);
    if (r->place.rank)
        return LS_OK;
    LS_TRY(ls_metrics_report(r->dir, &row));
    return p->checkpoint && !r->opts.async ? ls_metrics_saving(r->dir) : LS_OK;
}

static ls_status carry_out(const report *p)
{
    ls_run *r = p->run;
    LS_TRY(ls_ranks_agree(r->group, write_row(p)));
    if (!p->checkpoint)
        return LS_OK;
    if (r->apart && !p->alone && !p->contents->trainer)
        LS_TRY(ls_run_check_cover(r->group, p->contents, p->call));
    LS_TRY(ls_run_settle(r)); /* at most one at a time */
    LS_TRY(ls_checkpoint_together(r->group, p->contents ? make_checkpoint(p) : LS_OK));
    return r->opts.async ? LS_OK : ls_run_point(r);
}

ls_status ls_report_with(ls_run *r, const ls_metric *metrics, int64_t n, const ls_run_contents *c,
                         const ls_report_opts *o)
{
    LS_ARG(r);
    if (n)
        LS_ARG(metrics);
    o = o ? o : &(const ls_report_opts){ LS_REPORT_DEFAULTS };
    const int64_t number = r->reports;
    const int64_t next = r->step < 0 ? 1 : r->step + 1;
    report p = { .run = r,
                 .contents = c,
                 .step = o->step >= 0 ? o->step : next,
                 .epoch = o->epoch >= 0 ? o->epoch : number,
                 .name = o->checkpoint };
    snprintf(p.call, sizeof p.call, "report %lld", (long long)number);
    ls_status s = run_report_check(&p, n, metrics);
    for (int64_t i = 0; s == LS_OK && i < n; i++)
        ls_metric_list_add(&p.metrics, metrics[i].name, metrics[i].value);
    if (s == LS_OK)
        s = ls_metric_list_status(&p.metrics);
    s = run_report_agree(&p, s);
    if (s == LS_OK)
        s = carry_out(&p);
    ls_metric_list_release(&p.metrics);
    if (s != LS_OK)
        return s;
    r->reports = number + 1;
    r->step = p.step;
    return LS_OK;
}

ls_report_opts ls_report_opts_default(void) { return (ls_report_opts){ LS_REPORT_DEFAULTS }; }
