/* runs.c - prints the table of `lockstep runs`. Its columns are those of the metrics that some run has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/c_locale.h"
#include "base/file.h"
#include "base/shown.h"
#include "base/sys.h"
#include "record/metric_text.h"
#include "record/run_list.h"
#include "record/rundir.h"
#include "runs.h"
#include "table.h"

typedef char cell[48];

enum { FIXED = 10 }; /* columns */

/* The compared metric at its best, and when: "eval_loss 0.0338 at 3000". */
static const char *best_text(cell out, const ls_run_info *i)
{
    char number[32];
    const double x = *i->best_metric ? i->metrics.best_value : NAN;
    *out = 0;
    if (!isnan(x))
        ls_snprintf(out, sizeof(cell), "%.20s %.10s at %lld", i->best_metric,
                    ls_metric_text(number, i->best_metric, "%.4g", x), (long long)i->metrics.best_step);
    return out;
}

static void add_row(ls_table *t, const ls_metric_list *columns, const ls_run_info *i, cell *text,
                    const char **cells)
{
    char duration[32];
    const char *slash = strrchr(i->checkpoint, '/');
    int n = 0;
    cells[n++] = i->name;
    cells[n++] = ls_run_state_name(i->state);
    snprintf(text[n], sizeof(cell), "%lld", (long long)i->metrics.step), cells[n] = text[n], n++;
    snprintf(text[n], sizeof(cell), "%lld", (long long)i->metrics.epoch), cells[n] = text[n], n++;
    cells[n] = ls_metric_text(text[n], "loss", "%.4f", i->metrics.loss), n++;
    cells[n] = ls_metric_text(text[n], "loss", "%.4f", ls_metric_list_find(&i->eval, "loss")), n++;
    for (int k = 0; k < columns->n; k++, n++)
        cells[n] = ls_metric_text(text[n], columns->at[k].name, "%.4g",
                                  ls_metric_list_find(&i->named, columns->at[k].name));
    cells[n] = best_text(text[n], i), n++;
    snprintf(text[n], sizeof(cell), i->restarts ? "%d" : "", i->restarts), cells[n] = text[n], n++;
    cells[n++] = slash ? slash + 1 : i->checkpoint;
    snprintf(text[n], sizeof(cell), i->seconds_ago < 1 ? "just now" : "%s ago",
             ls_format_duration(duration, i->seconds_ago));
    cells[n] = text[n], n++;
    ls_table_row(t, cells, *i->error ? i->error : i->builtin_data && i->eval.n ? LS_BUILTIN_NOTE : NULL);
}

static void add_broken(ls_table *t, const ls_run_entry *e, const char **cells)
{
    for (int i = 0; i < t->n_columns; i++)
        cells[i] = "";
    cells[0] = e->name;
    cells[1] = "broken";
    ls_table_row(t, cells, e->broken);
}

/* Evaluations have the name of their metric alone, unless there is another one of that name. */
static const char *title_of(char out[LS_METRIC_TITLE], const ls_metric_list *metrics, const char *name)
{
    if (ls_metric_list_has(metrics, ls_metric_title(out, name, "")) && strcmp(out, name))
        ls_metric_title(out, name, "eval ");
    return out;
}

static ls_status print_columns(FILE *out, const ls_run_list *l, const ls_metric_list *metrics, int width)
{
    static const ls_column FIRST[] = {
        { "run", true, 0 },    { "state", true, 0 }, { "step", false, 0 },
        { "epoch", false, 4 }, { "loss", false, 2 }, { "eval loss", false, 1 }
    };
    const int most = FIXED + metrics->n;
    ls_arena a;
    ls_arena_init(&a);
    ls_column *titles = LS_ARENA_ARRAY(&a, ls_column, most);
    const char **cells = LS_ARENA_ARRAY(&a, const char *, most);
    cell *text = LS_ARENA_ARRAY(&a, cell, most);
    char(*names)[LS_METRIC_TITLE] = ls_arena_alloc(&a, sizeof *names * (size_t)most);
    ls_status s = ls_arena_status(&a);
    if (s != LS_OK)
        goto end;
    int n = sizeof FIRST / sizeof FIRST[0];
    memcpy(titles, FIRST, sizeof FIRST);
    for (int k = 0; k < metrics->n; k++)
        titles[n++] = (ls_column){ title_of(names[k], metrics, metrics->at[k].name), false, k ? 7 + k : 0 };
    titles[n++] = (ls_column){ "best", true, 5 };
    titles[n++] = (ls_column){ "restarts", false, 5 };
    titles[n++] = (ls_column){ "checkpoint", true, 6 };
    titles[n++] = (ls_column){ "updated", false, 3 };
    ls_table t = { .n_columns = n, .columns = titles };
    for (int r = 0; r < l->n; r++)
        if (l->at[r].broken)
            add_broken(&t, &l->at[r], cells);
        else
            add_row(&t, metrics, &l->at[r].info, text, cells);
    s = ls_table_print(out, &t, width);
    ls_table_release(&t);
end:
    ls_arena_release(&a);
    return s;
}

/* eval_loss has a column of its own. */
static ls_status print_table(FILE *out, const ls_run_list *l, int width)
{
    ls_metric_list metrics = ls_run_list_metrics(l);
    ls_metric_list_remove(&metrics, "eval_loss");
    ls_status s = ls_metric_list_status(&metrics);
    if (s == LS_OK)
        s = print_columns(out, l, &metrics, width);
    ls_metric_list_release(&metrics);
    return s;
}

static void json_row(ls_json *j, const ls_run_info *i)
{
    ls_json_text(j, "state", ls_run_state_name(i->state));
    ls_json_int(j, "step", i->metrics.step);
    ls_json_int(j, "epoch", i->metrics.epoch);
    ls_json_f32(j, "loss", (float)i->metrics.loss);
    ls_json_f64(j, "eval_loss", ls_metric_list_find(&i->eval, "loss"));
    ls_json_f64(j, "eval_accuracy", ls_metric_list_find(&i->eval, "accuracy"));
    ls_metric_list_write_others(j, "eval_", &i->eval);
    ls_metric_list_object(j, "metrics", &i->reported);
    if (!isnan(i->metrics.best_value)) {
        ls_json_object(j, "best");
        ls_json_text(j, "metric", i->best_metric);
        ls_json_f64(j, "value", i->metrics.best_value);
        ls_json_int(j, "step", i->metrics.best_step);
        ls_json_close_object(j);
    }
    ls_json_bool(j, "builtin_data", i->builtin_data);
    ls_json_int(j, "restarts", i->restarts);
    ls_json_f64(j, "seconds_ago", i->seconds_ago);
    ls_json_text(j, "error", *i->error ? i->error : NULL);
    ls_json_text(j, "checkpoint", *i->checkpoint ? i->checkpoint : NULL);
}

static ls_status runs_print_json(FILE *out, const ls_run_list *l)
{
    ls_json j = { 0 };
    ls_json_array(&j, NULL);
    for (int i = 0; i < l->n; i++) {
        ls_json_object(&j, NULL);
        ls_json_text(&j, "name", l->at[i].name);
        if (l->at[i].broken)
            ls_json_text(&j, "broken", l->at[i].broken);
        else
            json_row(&j, &l->at[i].info);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    return ls_print_result(out, &j.out);
}

ls_status ls_runs_print(FILE *out, const char *storage, bool json, int width)
{
    ls_run_list l;
    ls_status s = ls_run_list_read(&l, storage);
    if (s == LS_OK && !l.n && ls_file_in(storage, "result.json"))
        s = ls_fail(LS_E_USAGE, "%s is a run, not a folder of runs: --metrics %s prints its epochs", storage,
                    storage);
    else if (s == LS_OK && json)
        s = runs_print_json(out, &l);
    else if (s == LS_OK && l.n)
        s = print_table(out, &l, width);
    else if (s == LS_OK)
        fprintf(out, "no runs in %s\n", storage);
    ls_run_list_release(&l);
    return s;
}
