/* metrics_table.c - `lockstep runs --metrics`, and the table at the end of `lockstep train`. */
#include "metrics_table.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/sys.h"
#include "record/metrics_csv.h"
#include "screen/table.h"
#include "text/rouge.h"

enum { LAST_EPOCHS = 20 };

typedef char cell[32];

/* The columns of a table, and one row of it. */
typedef struct grid {
    int n;
    ls_column *columns;
    const char **texts;
    cell *cells;
} grid;

static void grid_release(grid *g)
{
    free(g->columns);
    free(g->texts);
    free(g->cells);
}

static ls_status grid_make(grid *g, int most)
{
    *g = (grid){ 0, ls_sys_malloc(sizeof *g->columns * (size_t)most),
                 ls_sys_malloc(sizeof *g->texts * (size_t)most),
                 ls_sys_malloc(sizeof *g->cells * (size_t)most) };
    if (g->columns && g->texts && g->cells)
        return LS_OK;
    grid_release(g);
    return ls_fail(LS_E_MEMORY, "no memory for a table of %d columns", most);
}

static const char *whole(cell out, int64_t n)
{
    snprintf(out, sizeof(cell), "%lld", (long long)n);
    return out;
}

static const char *number(cell out, const char *format, double x)
{
    *out = 0;
    if (!isnan(x))
        ls_snprintf(out, sizeof(cell), format, x); /* formats are the callers' literals */
    return out;
}

static const char *duration(cell out, double seconds)
{
    return isnan(seconds) ? "" : ls_format_duration(out, seconds);
}

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

static ls_status epochs_print(FILE *out, const ls_history *h, const ls_metric_list *names, int64_t best_step,
                              int most, int width)
{
    static const ls_column FIRST[] = {
        { "epoch", false, 0 }, { "step", false, 4 }, { "train loss", false, 0 }, { "eval loss", false, 1 }
    };
    grid g;
    LS_TRY(grid_make(&g, 8 + names->n));
    for (int i = 0; i < 4; i++)
        g.columns[g.n++] = FIRST[i];
    for (int k = 0; k < names->n; k++)
        g.columns[g.n++] = (ls_column){ names->at[k].name, false, k };
    g.columns[g.n++] = (ls_column){ "lr", false, 5 };
    g.columns[g.n++] = (ls_column){ "time", false, 3 };
    g.columns[g.n++] = (ls_column){ "attempt", false, 2 };
    g.columns[g.n++] = (ls_column){ "", true, 0 };
    ls_table t = { .n_columns = g.n, .columns = g.columns };
    for (int i = most > 0 && h->n_epochs > most ? h->n_epochs - most : 0; i < h->n_epochs; i++) {
        const ls_epoch_row *r = &h->epochs[i].row;
        cell *c = g.cells;
        int at = 0;
        g.texts[at] = whole(c[at], r->epoch), at++;
        g.texts[at] = whole(c[at], r->step), at++;
        g.texts[at] = number(c[at], "%.4f", r->train_loss), at++;
        g.texts[at] = number(c[at], "%.4f", ls_metric_list_find(&r->eval, "loss")), at++;
        for (int k = 0; k < names->n; k++, at++) {
            const double x = ls_metric_list_find(&r->eval, names->at[k].name);
            g.texts[at] = strcmp(names->at[k].name, "accuracy") ? number(c[at], "%.4g", x)
                                                                : number(c[at], "%.2f%%", 100 * x);
        }
        g.texts[at] = number(c[at], "%.3g", r->lr), at++;
        g.texts[at] = duration(c[at], r->seconds), at++;
        g.texts[at] = whole(c[at], h->epochs[i].attempt), at++;
        g.texts[at] = r->step == best_step ? "best" : "";
        ls_table_row(&t, g.texts, NULL);
    }
    const ls_status s = ls_table_print(out, &t, width);
    ls_table_release(&t);
    grid_release(&g);
    return s;
}

ls_status ls_epochs_print(FILE *out, const ls_history *h, int64_t best_step, int most, int width)
{
    ls_metric_list names = ls_history_metrics(h);
    ls_status s = ls_metric_list_status(&names);
    if (s == LS_OK)
        s = epochs_print(out, h, &names, best_step, most, width);
    ls_metric_list_release(&names);
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

static const char *skip_text(const ls_step_row *r)
{
    if (!r->skipped)
        return "";
    if (r->nonfinite)
        return *r->nonfinite == 'l' ? "skipped: loss not finite" : "skipped: gradient not finite";
    return r->loss_scale > 0 ? "skipped: overflow" : "skipped: no target counts";
}

static ls_status steps_print(FILE *out, const ls_history *h, int width)
{
    const bool text = h->n_steps && h->steps[0].row.targets;
    const ls_column columns[] = { { "step", false, 0 },      { "epoch", false, 4 },
                                  { "loss", false, 0 },      { "lr", false, 3 },
                                  { "grad norm", false, 2 }, { "loss scale", false, 5 },
                                  { "time", false, 1 },      { text ? "tokens/s" : "images/s", false, 6 },
                                  { "attempt", false, 7 },   { "", true, 0 } };
    ls_table t = { .n_columns = sizeof columns / sizeof columns[0], .columns = columns };
    for (int i = 0; i < h->n_steps; i++) {
        const ls_step_row *r = &h->steps[i].row;
        cell c[9];
        ls_table_row(
            &t,
            (const char *const[]){
                whole(c[0], r->step), whole(c[1], r->epoch),
                isnan(r->loss) ? "none" : number(c[2], "%.4f", (double)r->loss), number(c[3], "%.3g", r->lr),
                number(c[4], "%.4g", r->grad_norm < 0 ? NAN : r->grad_norm),
                number(c[5], "%g", r->loss_scale > 0 ? r->loss_scale : NAN), duration(c[6], r->seconds),
                number(c[7], "%.0f",
                       r->seconds > 0 ? (double)(text ? r->targets : r->samples) / r->seconds : NAN),
                whole(c[8], h->steps[i].attempt), skip_text(r) },
            NULL);
    }
    const ls_status s = ls_table_print(out, &t, width);
    ls_table_release(&t);
    return s;
}

/* ---- reports that your own program wrote: a column for each metric of any report */

/* Their values are NaN. */
static ls_metric_list metric_names(const ls_history *h)
{
    ls_metric_list all = { .n = 0 };
    for (int i = 0; i < h->n_reports; i++)
        for (int k = 0; k < h->reports[i].metrics.n; k++)
            ls_metric_list_set(&all, h->reports[i].metrics.at[k].name, NAN);
    return all;
}

static ls_status reports_print(FILE *out, const ls_history *h, const ls_metric_list *names, int width)
{
    static const ls_column FIRST[] = { { "report", false, 0 },
                                       { "step", false, INT_MAX - 3 },
                                       { "epoch", false, INT_MAX - 2 },
                                       { "time", false, INT_MAX - 1 },
                                       { "attempt", false, INT_MAX } };
    enum { OURS = sizeof FIRST / sizeof FIRST[0] };
    grid g;
    LS_TRY(grid_make(&g, OURS + names->n));
    memcpy(g.columns, FIRST, sizeof FIRST);
    for (int k = 0; k < names->n; k++)
        g.columns[OURS + k] = (ls_column){ names->at[k].name, false, k };
    ls_table t = { .n_columns = OURS + names->n, .columns = g.columns };
    for (int i = 0; i < h->n_reports; i++) {
        const ls_past_report *r = &h->reports[i];
        g.texts[0] = whole(g.cells[0], r->report);
        g.texts[1] = whole(g.cells[1], r->step);
        g.texts[2] = whole(g.cells[2], r->epoch);
        g.texts[3] = duration(g.cells[3], r->seconds);
        g.texts[4] = whole(g.cells[4], r->attempt);
        for (int k = 0; k < names->n; k++)
            g.texts[OURS + k] = number(g.cells[OURS + k], "%.6g",
                                       ls_metric_list_find(&r->metrics, names->at[k].name));
        ls_table_row(&t, g.texts, NULL);
    }
    const ls_status s = ls_table_print(out, &t, width);
    ls_table_release(&t);
    grid_release(&g);
    say_starts(out, h);
    return s;
}

static ls_status all_reports_print(FILE *out, const ls_history *h, int width)
{
    ls_metric_list names = metric_names(h);
    ls_status s = ls_metric_list_status(&names);
    if (s == LS_OK)
        s = reports_print(out, h, &names, width);
    ls_metric_list_release(&names);
    return s;
}

static ls_status reports_csv(FILE *out, const ls_history *h)
{
    ls_metric_list metrics = metric_names(h);
    const ls_status s = ls_metric_list_status(&metrics);
    cell text;
    fputs("report,step,epoch,seconds,attempt", out);
    for (int k = 0; k < metrics.n; k++)
        fprintf(out, ",%s", metrics.at[k].name);
    for (int i = 0; i < h->n_reports; i++) {
        const ls_past_report *r = &h->reports[i];
        fprintf(out, "\n%lld,%lld,%lld,%s,%lld", (long long)r->report, (long long)r->step,
                (long long)r->epoch, isnan(r->seconds) ? "" : ls_format_f64(text, r->seconds),
                (long long)r->attempt);
        for (int k = 0; k < metrics.n; k++) {
            const double x = ls_metric_list_find(&r->metrics, metrics.at[k].name);
            fprintf(out, ",%s", isnan(x) ? "" : ls_format_f64(text, x));
        }
    }
    fputc('\n', out);
    ls_metric_list_release(&metrics);
    return s;
}

/* ---- for programs */

static ls_status csv(FILE *out, const ls_history *h, bool steps)
{
    char line[LS_CSV_ROW], text[32];
    if (h->n_reports && !steps)
        return reports_csv(out, h);
    ls_metric_list metrics = { .n = 0 };
    for (int i = 0; i < h->n_epochs; i++)
        for (int k = 0; k < h->epochs[i].row.eval.n; k++) {
            const char *name = h->epochs[i].row.eval.at[k].name;
            if (!ls_metric_is_common(name) && !ls_metric_of_texts(name))
                ls_metric_list_set(&metrics, name, NAN);
        }
    const ls_status s = ls_metric_list_status(&metrics);
    fputs(steps ? LS_STEP_CSV : LS_EPOCH_CSV, out);
    for (int k = 0; k < metrics.n && !steps; k++)
        fprintf(out, ",eval_%s", metrics.at[k].name);
    fputc('\n', out);
    for (int i = 0; i < (steps ? h->n_steps : h->n_epochs); i++) {
        fputs(steps ? ls_step_row_csv(line, &h->steps[i].row, h->steps[i].attempt)
                    : ls_epoch_row_csv(line, &h->epochs[i].row, h->epochs[i].attempt),
              out);
        for (int k = 0; k < metrics.n && !steps; k++) {
            const double x = ls_metric_list_find(&h->epochs[i].row.eval, metrics.at[k].name);
            fprintf(out, ",%s", isnan(x) ? "" : ls_format_f64(text, x));
        }
        fputc('\n', out);
    }
    ls_metric_list_release(&metrics);
    return s;
}

static ls_status json(FILE *out, const ls_history *h, bool steps)
{
    ls_json j = { 0 };
    ls_json_array(&j, NULL);
    for (int i = 0; steps && i < h->n_steps; i++)
        ls_step_row_write(&j, &h->steps[i].row, h->steps[i].attempt);
    for (int i = 0; !steps && i < h->n_epochs; i++)
        ls_epoch_row_write(&j, &h->epochs[i].row, h->epochs[i].attempt);
    for (int i = 0; !steps && i < h->n_reports; i++) {
        const ls_past_report *r = &h->reports[i];
        ls_report_row_write(&j, &(ls_report_row){ r->report, r->step, r->epoch, r->seconds, &r->metrics },
                            r->attempt);
    }
    ls_json_close_array(&j);
    return ls_print_result(out, &j.out);
}

static ls_status text(FILE *out, const ls_history *h, const char *run_dir, bool steps, int width)
{
    ls_run_info info;
    /* without a best value no row is marked */
    const bool read = ls_run_info_read(&info, run_dir) == LS_OK,
               known = read && !isnan(info.metrics.best_value);
    if (read)
        ls_run_info_release(&info);
    if (steps)
        LS_TRY(steps_print(out, h, width));
    else if (h->n_reports)
        LS_TRY(all_reports_print(out, h, width));
    else if (h->n_epochs)
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
    if (format == LS_METRICS_CSV)
        s = csv(out, &h, steps);
    else if (format == LS_METRICS_JSON)
        s = json(out, &h, steps);
    else
        s = text(out, &h, run_dir, steps, width);
    ls_history_release(&h);
    return s;
}
