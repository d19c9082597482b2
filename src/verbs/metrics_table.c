/* metrics_table.c - `lockstep runs --metrics`, and the table at the end of `lockstep train`. */
#include "metrics_table.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/sys.h"
#include "record/metric_text.h"
#include "screen/table.h"

enum { LAST_EPOCHS = 20 };

static void say_starts(FILE *out, const ls_history *h)
{
    for (int i = 0; i < h->n_starts; i++) {
        const ls_past_start *s = &h->starts[i];
        char again[64] = "";
        if (s->lost)
            snprintf(again, sizeof again, " (%lld step%s done again)", (long long)s->lost,
                     s->lost == 1 ? "" : "s");
        ls_print_line(out, "attempt %lld began after step %lld%s: %s", (long long)s->attempt,
                      (long long)s->step, again, s->cause ? s->cause : "the run was started again");
    }
}

/* ---- for people */

typedef char cell[32];

/* The columns of a table and one row of it. */
typedef struct grid {
    ls_metric_list names; /* of the list in the rows, that have columns; their values are NAN */
    int n;
    ls_column *columns;
    const char **texts;
    cell *cells;
} grid;

static void grid_release(grid *g)
{
    ls_metric_list_release(&g->names);
    free(g->columns);
    free(g->texts);
    free(g->cells);
}

/* Whether another column shows this entry of the list. */
static bool is_shown_apart(const ls_row_kind *k, const ls_row_column *list, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (k->columns[i].type == LS_CELL_ENTRY && k->columns[i].show && k->columns[i].at == list->at &&
            !strcmp(k->columns[i].key + strlen(list->key), name))
            return true;
    return false;
}

/* What a table has besides the columns of the rows. */
typedef struct extra {
    const char *title; /* of a number before the attempt; NULL: none */
    const char *(*text)(cell out, const void *row);
    const char *(*note)(const void *row, int64_t best_step); /* the last column */
    int64_t best_step;
} extra;

/* The columns at places 1, 2, ...; the one of the list becomes one for each of its names. */
static ls_status grid_make(grid *g, const ls_past_rows *s, const extra *e)
{
    const ls_row_column *c;
    int most = 2;
    *g = (grid){ .n = 0 };
    for (int place = 1; (c = ls_row_shown(s->kind, place)); place++) {
        for (int i = 0; c->type == LS_CELL_NAMED && i < s->n; i++)
            for (int k = 0; k < ls_row_list(c, ls_past_row(s, i))->n; k++)
                if (!is_shown_apart(s->kind, c, ls_row_list(c, ls_past_row(s, i))->at[k].name))
                    ls_metric_list_set(&g->names, ls_row_list(c, ls_past_row(s, i))->at[k].name, NAN);
        most++;
    }
    most += g->names.n;
    g->columns = ls_sys_malloc(sizeof *g->columns * (size_t)most);
    g->texts = ls_sys_malloc(sizeof *g->texts * (size_t)most);
    g->cells = ls_sys_malloc(sizeof *g->cells * (size_t)most);
    if (g->names.no_memory || !g->columns || !g->texts || !g->cells)
        return ls_fail(LS_E_MEMORY, "no memory for a table of %d columns", most);
    for (int place = 1; (c = ls_row_shown(s->kind, place)); place++) {
        for (int k = 0; c->type == LS_CELL_NAMED && k < g->names.n; k++)
            g->columns[g->n++] = (ls_column){ g->names.at[k].name, false, k };
        if (c->type == LS_CELL_ATTEMPT && e->title)
            g->columns[g->n++] = (ls_column){ e->title, false, c->leave - 1 };
        if (c->type != LS_CELL_NAMED)
            g->columns[g->n++] = (ls_column){ c->title, false, c->leave };
    }
    if (e->note)
        g->columns[g->n++] = (ls_column){ "", true, 0 };
    return LS_OK;
}

static void grid_fill(grid *g, const ls_past_rows *s, int i, const extra *e)
{
    const void *row = ls_past_row(s, i);
    const ls_row_column *c;
    int at = 0;
    for (int place = 1; (c = ls_row_shown(s->kind, place)); place++) {
        for (int k = 0; c->type == LS_CELL_NAMED && k < g->names.n; k++, at++)
            g->texts[at] = ls_metric_text(g->cells[at], g->names.at[k].name, c->format,
                                          ls_metric_list_find(ls_row_list(c, row), g->names.at[k].name));
        if (c->type == LS_CELL_ATTEMPT && e->title)
            g->texts[at] = e->text(g->cells[at], row), at++;
        if (c->type != LS_CELL_NAMED)
            g->texts[at] = ls_row_text(g->cells[at], c, row, ls_past_attempt(s, i)), at++;
    }
    if (e->note)
        g->texts[at] = e->note(row, e->best_step);
}

/* With `most` > 0 only the last `most` rows. */
static ls_status rows_print(FILE *out, const ls_past_rows *s, const extra *e, int most, int width)
{
    grid g;
    ls_status status = grid_make(&g, s, e);
    ls_table t = { .n_columns = g.n, .columns = g.columns };
    for (int i = most > 0 && s->n > most ? s->n - most : 0; status == LS_OK && i < s->n; i++) {
        grid_fill(&g, s, i, e);
        ls_table_row(&t, g.texts, NULL);
    }
    if (status == LS_OK)
        status = ls_table_print(out, &t, width);
    ls_table_release(&t);
    grid_release(&g);
    return status;
}

static const char *is_best(const void *row, int64_t best_step)
{
    return ((const ls_epoch_row *)row)->step == best_step ? "best" : "";
}

ls_status ls_epochs_print(FILE *out, const ls_history *h, int64_t best_step, int most, int width)
{
    const ls_past_rows rows = ls_history_rows(h, &LS_EPOCH_ROW);
    const ls_status s = rows_print(out, &rows, &(extra){ .note = is_best, .best_step = best_step }, most,
                                   width);
    say_starts(out, h);
    return s;
}

static const char *skip_text(const void *row, int64_t best_step)
{
    const ls_step_row *r = row;
    (void)best_step;
    if (!r->skipped)
        return "";
    if (r->nonfinite)
        return *r->nonfinite == 'l' ? "skipped: loss not finite" : "skipped: gradient not finite";
    return r->loss_scale > 0 ? "skipped: overflow" : "skipped: no target counts";
}

static const char *speed(cell out, double n, double seconds)
{
    *out = 0;
    if (seconds > 0)
        ls_snprintf(out, sizeof(cell), "%.0f", n / seconds);
    return out;
}

static const char *tokens(cell out, const void *row)
{
    const ls_step_row *r = row;
    return speed(out, (double)r->targets, r->seconds);
}

static const char *samples(cell out, const void *row)
{
    const ls_step_row *r = row;
    return speed(out, (double)r->samples, r->seconds);
}

static ls_status steps_print(FILE *out, const ls_past_rows *rows, int width)
{
    const bool text = rows->n && ((const ls_step_row *)ls_past_row(rows, 0))->targets;
    return rows_print(out, rows,
                      &(extra){ .title = text ? "tokens/s" : "samples/s",
                                .text = text ? tokens : samples,
                                .note = skip_text },
                      0, width);
}

static ls_status reports_print(FILE *out, const ls_history *h, const ls_past_rows *rows, int width)
{
    const ls_status s = rows_print(out, rows, &(extra){ .title = NULL }, 0, width);
    say_starts(out, h);
    return s;
}

ls_status ls_summary_print(const ls_rundir *d, const ls_recipe *r, const ls_ui *ui)
{
    const ls_run_metrics *m = &d->metrics;
    const bool known = !isnan(m->best_value), saved = r->checkpoint.every_epochs >= 0;
    ls_history h;
    if (ui->quiet)
        return LS_OK;
    LS_TRY(ls_history_read(&h, d->path));
    const ls_status s = ls_epochs_print(ui->out, &h, known ? m->best_step : -1, LAST_EPOCHS, ui->width);
    if (d->builtin_data)
        fprintf(ui->out, "%s\n", LS_BUILTIN_NOTE);
    if (h.n_epochs > LAST_EPOCHS)
        fprintf(ui->out, "lockstep runs --metrics %s has all %d epochs\n", d->path, h.n_epochs);
    ls_history_release(&h);
    LS_TRY(s);
    if (!known && *d->no_best)
        ls_log_warn("no epoch is the best: %s", d->no_best);
    if (known)
        ls_log_info("best   %s %.4f in epoch %lld%s%s%s", r->checkpoint.best.metric, m->best_value,
                    (long long)m->best_epoch, saved ? ": " : "", saved ? d->path : "",
                    saved ? "/checkpoints/best" : "");
    return fflush(ui->out) ? ls_fail(LS_E_IO, "the table of epochs could not be written") : LS_OK;
}

/* ---- for programs */

/* A line: the first columns, and those behind them, of which `all` has the names. */
static ls_status csv_line(ls_str *line, const ls_past_rows *s, int i, const ls_metric_list *all)
{
    ls_metric_list further = { .n = 0 };
    char number[32];
    ls_str_clear(line);
    ls_row_csv_cells(line, s->kind, ls_past_row(s, i), ls_past_attempt(s, i));
    ls_row_csv_further(&further, s->kind, ls_past_row(s, i));
    for (int k = 0; k < all->n; k++) {
        const double x = ls_metric_list_find(&further, all->at[k].name);
        ls_str_printf(line, ",%s", isnan(x) ? "" : ls_format_f64(number, x));
    }
    const ls_status status = ls_metric_list_status(&further);
    ls_metric_list_release(&further);
    return status == LS_OK ? ls_str_status(line) : status;
}

/* As metrics.csv: columns behind the first ones are in the order in which rows first had them. */
static ls_status csv(FILE *out, const ls_past_rows *s)
{
    ls_str line = { 0 };
    ls_metric_list all = { .n = 0 };
    ls_row_csv_titles(&line, s->kind, false);
    for (int i = 0; i < s->n; i++)
        ls_row_csv_further(&all, s->kind, ls_past_row(s, i));
    for (int k = 0; k < all.n; k++) { /* a file that was edited may have any name */
        ls_str_add(&line, ",");
        ls_str_add_csv(&line, all.at[k].name);
    }
    ls_status status = all.no_memory ? ls_metric_list_status(&all) : ls_str_status(&line);
    for (int i = 0; status == LS_OK; i++) {
        fprintf(out, "%s\n", ls_str_text(&line));
        if (i == s->n)
            break;
        status = csv_line(&line, s, i, &all);
    }
    ls_metric_list_release(&all);
    ls_str_release(&line);
    return status;
}

static ls_status json(FILE *out, const ls_past_rows *s)
{
    ls_json j = { 0 };
    ls_json_array(&j, NULL);
    for (int i = 0; i < s->n; i++)
        ls_row_write(&j, s->kind, ls_past_row(s, i), ls_past_attempt(s, i));
    ls_json_close_array(&j);
    return ls_print_result(out, &j.out);
}

static ls_status text(FILE *out, const ls_history *h, const ls_past_rows *rows, const char *run_dir,
                      int width)
{
    ls_run_info info;
    /* without a best value no row is marked */
    const bool read = ls_run_info_read(&info, run_dir) == LS_OK,
               known = read && !isnan(info.metrics.best_value);
    if (read)
        ls_run_info_release(&info);
    if (rows->kind == &LS_STEP_ROW)
        LS_TRY(steps_print(out, rows, width));
    else if (rows->kind == &LS_REPORT_ROW)
        LS_TRY(reports_print(out, h, rows, width));
    else if (rows->n)
        LS_TRY(ls_epochs_print(out, h, known ? info.metrics.best_step : -1, 0, width));
    else
        fprintf(out, "%s: no epoch is finished; --steps shows its %d steps\n", run_dir, h->n_steps);
    if (read && info.builtin_data)
        fprintf(out, "%s\n", LS_BUILTIN_NOTE);
    return LS_OK;
}

ls_status ls_metrics_print(FILE *out, const char *run_dir, bool steps, ls_metrics_format format, int width)
{
    ls_history h;
    if (!ls_run_is(run_dir))
        return ls_fail(LS_E_USAGE, "%s: no such run (`lockstep runs` lists them)", run_dir);
    LS_TRY(ls_history_read(&h, run_dir));
    if (h.bad_lines)
        ls_log_warn("%s/metrics.jsonl: left out %d line%s: the machine stopped during a write", run_dir,
                    h.bad_lines, h.bad_lines == 1 ? " that is not a row" : "s that are not rows");
    ls_status s = LS_OK;
    /* a report is to a program what a step is to a recipe: with and without --steps */
    const ls_past_rows rows = ls_history_rows(&h, h.n_reports ? &LS_REPORT_ROW
                                                  : steps     ? &LS_STEP_ROW
                                                              : &LS_EPOCH_ROW);
    if (format == LS_METRICS_CSV)
        s = csv(out, &rows);
    else if (format == LS_METRICS_JSON)
        s = json(out, &rows);
    else
        s = text(out, &h, &rows, run_dir, width);
    ls_history_release(&h);
    return s;
}
