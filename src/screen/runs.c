/* runs.c - prints the table of `lockstep runs`. Its columns are those of the metrics that some run has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/shown.h"
#include "base/sys.h"
#include "record/run_list.h"
#include "record/rundir.h"
#include "runs.h"
#include "table.h"

typedef char cell[48];

/* The metrics of a run beside loss: of its last evaluation, and of its last report. */
typedef struct columns {
    ls_metric_list evals, reported; /* names; values are not used */
} columns;

static void find_columns(columns *out, const ls_run_list *l)
{
    *out = (columns){ .evals.n = 0 };
    for (int r = 0; r < l->n; r++) {
        const ls_run_info *i = &l->at[r].info;
        for (int k = 0; !l->at[r].broken && k < i->eval.n && !i->reported.n; k++)
            if (strcmp(i->eval.at[k].name, "loss"))
                ls_metric_list_set(&out->evals, i->eval.at[k].name, NAN);
        for (int k = 0; !l->at[r].broken && k < i->reported.n; k++)
            if (strcmp(i->reported.at[k].name, "loss") && strcmp(i->reported.at[k].name, "eval_loss"))
                ls_metric_list_set(&out->reported, i->reported.at[k].name, NAN);
    }
}

static const char *runs_number(cell out, const char *name, double x)
{
    const bool percent = strstr(name, "accuracy") != NULL;
    *out = 0;
    if (!isnan(x))
        ls_snprintf(out, sizeof(cell),
                    percent                 ? "%.2f%%"
                    : !strcmp(name, "loss") ? "%.4f"
                                            : "%.4g",
                    percent ? 100 * x : x);
    return out;
}

enum { FIXED = 9 }; /* columns */

static void add_row(ls_table *t, const columns *c, const ls_run_info *i, cell *text, const char **cells)
{
    char duration[32];
    const char *slash = strrchr(i->checkpoint, '/');
    int n = 0;
    cells[n++] = i->name;
    cells[n++] = ls_run_state_name(i->state);
    snprintf(text[n], sizeof(cell), "%lld", (long long)i->metrics.step), cells[n] = text[n], n++;
    snprintf(text[n], sizeof(cell), "%lld", (long long)i->metrics.epoch), cells[n] = text[n], n++;
    cells[n] = runs_number(text[n], "loss", i->metrics.loss), n++;
    cells[n] = runs_number(text[n], "loss", ls_metric_list_find(&i->eval, "loss")), n++;
    for (int k = 0; k < c->evals.n; k++, n++)
        cells[n] = runs_number(text[n], c->evals.at[k].name,
                               i->reported.n ? NAN : ls_metric_list_find(&i->eval, c->evals.at[k].name));
    for (int k = 0; k < c->reported.n; k++, n++)
        cells[n] = runs_number(text[n], c->reported.at[k].name,
                               ls_metric_list_find(&i->reported, c->reported.at[k].name));
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

static ls_status print_columns(FILE *out, const ls_run_list *l, const columns *c, int width)
{
    static const ls_column FIRST[] = {
        { "run", true, 0 },    { "state", true, 0 }, { "step", false, 0 },
        { "epoch", false, 4 }, { "loss", false, 2 }, { "eval loss", false, 1 }
    };
    const int most = FIXED + c->evals.n + c->reported.n;
    ls_column *titles = ls_sys_malloc(sizeof *titles * (size_t)most);
    const char **cells = ls_sys_malloc(sizeof *cells * (size_t)most);
    cell *text = ls_sys_malloc(sizeof *text * (size_t)most);
    if (!titles || !cells || !text) {
        free(titles);
        free(cells);
        free(text);
        return ls_fail(LS_E_MEMORY, "no memory for a table of %d columns", most);
    }
    int n = sizeof FIRST / sizeof FIRST[0];
    memcpy(titles, FIRST, sizeof FIRST);
    for (int k = 0; k < c->evals.n; k++)
        titles[n++] = (ls_column){ c->evals.at[k].name, false, k ? 7 + k : 0 };
    for (int k = 0; k < c->reported.n; k++)
        titles[n++] = (ls_column){ c->reported.at[k].name, false, k ? 7 + k : 0 };
    titles[n++] = (ls_column){ "restarts", false, 5 };
    titles[n++] = (ls_column){ "checkpoint", true, 6 };
    titles[n++] = (ls_column){ "updated", false, 3 };
    ls_table t = { .n_columns = n, .columns = titles };
    for (int r = 0; r < l->n; r++)
        if (l->at[r].broken)
            add_broken(&t, &l->at[r], cells);
        else
            add_row(&t, c, &l->at[r].info, text, cells);
    const ls_status s = ls_table_print(out, &t, width);
    ls_table_release(&t);
    free(titles);
    free(cells);
    free(text);
    return s;
}

static ls_status print_table(FILE *out, const ls_run_list *l, int width)
{
    columns c;
    find_columns(&c, l);
    ls_status s = ls_metric_list_status(&c.evals);
    if (s == LS_OK)
        s = ls_metric_list_status(&c.reported);
    if (s == LS_OK)
        s = print_columns(out, l, &c, width);
    ls_metric_list_release(&c.evals);
    ls_metric_list_release(&c.reported);
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
    for (int k = 0; k < i->eval.n; k++)
        if (!ls_metric_is_common(i->eval.at[k].name)) {
            char key[LS_METRIC_NAME + 8];
            snprintf(key, sizeof key, "eval_%s", i->eval.at[k].name);
            ls_json_f64(j, key, i->eval.at[k].value);
        }
    if (i->reported.n) {
        ls_json_object(j, "metrics");
        ls_metric_list_write(j, "", &i->reported);
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
    if (s == LS_OK && json)
        s = runs_print_json(out, &l);
    else if (s == LS_OK && l.n)
        s = print_table(out, &l, width);
    else if (s == LS_OK)
        fprintf(out, "no runs in %s\n", storage);
    ls_run_list_release(&l);
    return s;
}
