/* sweep_report.c - how the runs of a sweep stand: as a table and as JSON, the best first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/json.h"
#include "base/shown.h"
#include "base/str.h"
#include "base/sys.h"
#include "launch/launch.h"
#include "record/metric_text.h"
#include "record/run_list.h"
#include "screen/table.h"
#include "sweep.h"

const char *ls_sweep_failure(ls_sweep *s, const ls_sweep_run *r)
{
    ls_run_info info;
    char *path = ls_arena_printf(&s->arena, "%s/log/%s.txt", s->dir, r->name), *text = NULL;
    const char *why = NULL;
    size_t size;
    if (ls_run_is(r->dir) && ls_run_info_read(&info, r->dir) == LS_OK) {
        if (*info.error)
            why = ls_arena_strdup(&s->arena, info.error);
        ls_run_info_release(&info);
    }
    if (!why && ls_file_read(&text, &size, path) == LS_OK)
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
            if (!strncmp(line, "error: ", 7))
                why = ls_arena_strdup(&s->arena, line + 7);
    free(text);
    if (!why && r->status > 128)
        why = ls_arena_printf(&s->arena, "signal %d ended it", r->status - 128);
    return why ? why : "it left no message";
}

/* ---- reading */

/* The metric as the run records it: the best value, and that of the last evaluation. */
static void read_line(ls_sweep_line *l, const ls_sweep *s, const ls_run_info *i)
{
    l->state = ls_run_state_name(i->state);
    l->step = i->metrics.step;
    l->last = ls_metric_list_find(&i->named, s->metric);
    if (!strcmp(i->best_metric, s->metric)) {
        l->best = i->metrics.best_value;
        l->best_step = i->metrics.best_step;
    }
    if (isnan(l->best)) {
        l->best = l->last;
        l->best_step = l->step;
    }
}

static double seconds_of(const char *dir)
{
    char *path = ls_path_join(dir, "result.json"), *text = NULL;
    size_t size;
    json_t *t = NULL;
    double seconds = NAN;
    if (ls_file_read(&text, &size, path) == LS_OK && ls_json_parse(&t, text, size, path) == LS_OK) {
        const json_t *v = json_object_get(json_object_get(t, "timings"), "train");
        seconds = json_is_number(v) ? json_number_value(v) : NAN;
    }
    json_decref(t);
    free(text);
    free(path);
    return seconds;
}

static void make_line(ls_sweep_line *l, ls_sweep *s, int number)
{
    const ls_sweep_run *r = &s->runs[number];
    ls_run_info info;
    *l = (ls_sweep_line){ .number = number,
                          .name = r->name,
                          .values = r->values,
                          .state = r->refused ? "refused" : "not started",
                          .error = r->refused,
                          .best = NAN,
                          .last = NAN,
                          .seconds = NAN };
    if (!r->refused && ls_run_is(r->dir) && ls_run_info_read(&info, r->dir) == LS_OK) {
        read_line(l, s, &info);
        l->report = ls_file_in(r->dir, "report.html");
        l->seconds = seconds_of(r->dir);
        ls_run_info_release(&info);
    }
    if (r->status > 0 && r->status != LS_EXIT_STOPPED) {
        l->state = "failed";
        l->error = ls_sweep_failure(s, r);
    }
}

static int compare(const void *a, const void *b, void *highest)
{
    const ls_sweep_line *x = a, *y = b;
    const double p = x->best, q = y->best;
    if (isnan(p) || isnan(q) || p == q)
        return isnan(p) != isnan(q) ? (isnan(p) ? 1 : -1) : x->number - y->number;
    return (p < q) != *(const bool *)highest ? -1 : 1;
}

ls_status ls_sweep_view_make(ls_sweep_view *v, ls_sweep *s)
{
    ls_arena *a = &s->arena;
    const char **keys = LS_ARENA_ARRAY(a, const char *, s->n_keys);
    *v = (ls_sweep_view){ .name = s->recipe_name,
                          .metric = s->metric,
                          .highest = s->highest,
                          .n_keys = s->n_keys,
                          .n = s->n,
                          .keys = keys,
                          .lines = LS_ARENA_ARRAY(a, ls_sweep_line, s->n) };
    LS_TRY(ls_arena_status(a));
    for (int k = 0; k < s->n_keys; k++)
        keys[k] = s->keys[k].key;
    bool any = false;
    for (int i = 0; i < s->n; i++) {
        make_line(&v->lines[i], s, i);
        any = any || !isnan(v->lines[i].best);
        v->finished += !strcmp(v->lines[i].state, "finished");
    }
    /* without an evaluation the loss of the last step is all that is known */
    for (int i = 0; i < s->n && !any; i++) {
        ls_run_info info;
        if (ls_run_is(s->runs[i].dir) && ls_run_info_read(&info, s->runs[i].dir) == LS_OK) {
            v->metric = "loss";
            v->highest = false;
            v->lines[i].best = v->lines[i].last = info.metrics.loss;
            v->lines[i].best_step = info.metrics.step;
            ls_run_info_release(&info);
        }
    }
    qsort_r(v->lines, (size_t)v->n, sizeof *v->lines, compare, &v->highest);
    LS_TRY(ls_arena_status(a));
    return ls_sweep_view_seeds(v, s);
}

/* ---- printing */

static void table_row(ls_table *t, const ls_sweep_view *v, const ls_sweep_line *l)
{
    char best[32], last[32], step[32], duration[32];
    const char *cells[LS_SWEEP_KEYS + 5];
    int n = 0;
    for (int k = 0; k < v->n_keys; k++)
        cells[n++] = l->values[k];
    cells[n++] = ls_metric_text(best, v->metric, "%.5g", l->best);
    snprintf(step, sizeof step, isnan(l->best) ? "" : "%lld", (long long)l->best_step);
    cells[n++] = step;
    cells[n++] = ls_metric_text(last, v->metric, "%.5g", l->last);
    cells[n++] = isnan(l->seconds) ? "" : ls_format_duration(duration, l->seconds);
    cells[n++] = l->state;
    ls_table_row(t, cells, l->error);
}

static ls_status print_table(const ls_sweep *s, const ls_sweep_view *v, const ls_ui *ui)
{
    ls_column columns[LS_SWEEP_KEYS + 5];
    char best[LS_METRIC_TITLE], title[LS_METRIC_TITLE + 8];
    int n = 0;
    for (int k = 0; k < v->n_keys; k++)
        columns[n++] = (ls_column){ s->keys[k].label, false, 0 };
    snprintf(title, sizeof title, "best %s", ls_metric_title(best, v->metric, "eval "));
    columns[n++] = (ls_column){ title, false, 0 };
    columns[n++] = (ls_column){ "at step", false, 2 };
    columns[n++] = (ls_column){ "last", false, 3 };
    columns[n++] = (ls_column){ "training", false, 4 };
    columns[n++] = (ls_column){ "state", true, 1 };
    ls_table t = { .n_columns = n, .columns = columns };
    for (int i = 0; i < v->n; i++)
        table_row(&t, v, &v->lines[i]);
    const ls_status st = ls_table_print(ui->out, &t, ui->width);
    ls_table_release(&t);
    return st;
}

/* Of each group of seeds. */
static ls_status print_seeds(const ls_sweep *s, const ls_sweep_view *v, const ls_ui *ui)
{
    ls_column columns[LS_SWEEP_KEYS + 5];
    char best[LS_METRIC_TITLE], title[LS_METRIC_TITLE + 16], text[5][32];
    int n = 0;
    for (int k = 0; k < v->n_keys; k++)
        if (k != v->seed)
            columns[n++] = (ls_column){ s->keys[k].label, false, 0 };
    snprintf(title, sizeof title, "mean best %s", ls_metric_title(best, v->metric, "eval "));
    columns[n++] = (ls_column){ "seeds", false, 0 };
    columns[n++] = (ls_column){ title, false, 0 };
    columns[n++] = (ls_column){ "deviation", false, 0 };
    columns[n++] = (ls_column){ "least", false, 1 };
    columns[n++] = (ls_column){ "greatest", false, 1 };
    ls_table t = { .n_columns = n, .columns = columns };
    for (int i = 0; i < v->n_groups; i++) {
        const ls_sweep_group *g = &v->groups[i];
        const double numbers[] = { g->mean, g->deviation, g->least, g->greatest };
        const char *cells[LS_SWEEP_KEYS + 5];
        n = 0;
        for (int k = 0; k < v->n_keys; k++)
            if (k != v->seed)
                cells[n++] = g->values[k];
        snprintf(text[4], sizeof text[4], "%d", g->n);
        cells[n++] = text[4];
        for (int k = 0; k < 4; k++)
            cells[n++] = ls_metric_text(text[k], v->metric, "%.5g", numbers[k]);
        ls_table_row(&t, cells, NULL);
    }
    fputs("\n", ui->out);
    const ls_status st = ls_table_print(ui->out, &t, ui->width);
    ls_table_release(&t);
    return st;
}

static void json_seeds(ls_json *j, const ls_sweep_view *v)
{
    ls_json_array(j, "seeds");
    for (int i = 0; i < v->n_groups; i++) {
        const ls_sweep_group *g = &v->groups[i];
        ls_json_object(j, NULL);
        ls_json_object(j, "values");
        for (int k = 0; k < v->n_keys; k++)
            if (k != v->seed)
                ls_json_text(j, v->keys[k], g->values[k]);
        ls_json_close_object(j);
        ls_json_int(j, "runs", g->n);
        ls_json_f64(j, "mean", g->mean);
        ls_json_f64(j, "deviation", g->deviation);
        ls_json_f64(j, "least", g->least);
        ls_json_f64(j, "greatest", g->greatest);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}

static ls_status print_sweep_json(const ls_sweep *s, const ls_sweep_view *v, const ls_ui *ui)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "folder", s->dir);
    ls_json_text(&j, "metric", v->metric);
    ls_json_text(&j, "mode", v->highest ? "max" : "min");
    ls_json_array(&j, "runs");
    for (int i = 0; i < v->n; i++) {
        const ls_sweep_line *l = &v->lines[i];
        ls_json_object(&j, NULL);
        ls_json_int(&j, "number", l->number);
        ls_json_text(&j, "run", s->runs[l->number].dir);
        ls_json_object(&j, "values");
        for (int k = 0; k < v->n_keys; k++)
            ls_json_text(&j, v->keys[k], l->values[k]);
        ls_json_close_object(&j);
        ls_json_text(&j, "state", l->state);
        ls_json_f64(&j, "best", l->best);
        ls_json_int(&j, "best_step", l->best_step);
        ls_json_f64(&j, "last", l->last);
        ls_json_int(&j, "step", l->step);
        ls_json_f64(&j, "train_seconds", l->seconds);
        ls_json_text(&j, "error", l->error);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    if (v->seed >= 0)
        json_seeds(&j, v);
    ls_json_close_object(&j);
    return ls_print_result(ui->out, &j.out);
}

ls_status ls_sweep_print(const ls_sweep *s, const ls_sweep_view *v, const ls_ui *ui)
{
    if (s->o->json)
        return print_sweep_json(s, v, ui);
    LS_TRY(print_table(s, v, ui));
    return v->n_groups ? print_seeds(s, v, ui) : LS_OK;
}
