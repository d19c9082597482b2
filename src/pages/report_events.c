/* report_events.c - epochs, restarts and checkpoints of a run: marks on its curves, and tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/sys.h"
#include "record/metric_text.h"
#include "record/step_folder.h"
#include "report_own.h"

#define REMOVED_MOST 120 /* more marks than this could not be told apart */

static char *folder_of(const char *run_dir, int64_t step)
{
    char name[LS_STEP_FOLDER_ROOM], relative[64];
    snprintf(relative, sizeof relative, "checkpoints/%s", ls_step_folder(name, step));
    return ls_path_join(run_dir, relative);
}

static bool is_kept(const char *run_dir, int64_t step)
{
    char *folder = folder_of(run_dir, step);
    const bool kept = ls_dir_exists(folder);
    free(folder);
    return kept;
}

static bool points_at(const char *run_dir, const char *link, int64_t step)
{
    char target[64] = "", name[LS_STEP_FOLDER_ROOM];
    char *folder = ls_path_join(run_dir, "checkpoints"), *path = ls_path_join(folder, link);
    const bool read = path && readlink(path, target, sizeof target - 1) > 0;
    free(folder);
    free(path);
    return read && !strcmp(target, ls_step_folder(name, step));
}

static void add_mark(ls_marks *m, int64_t step, ls_mark_kind kind, int64_t attempt)
{
    m->at[m->n++] = (ls_mark){ (double)step, kind, attempt };
    m->counts[kind]++;
}

ls_status ls_marks_make(ls_marks *out, const ls_history *h, const char *run_dir)
{
    ls_marks m = { .at = ls_sys_malloc(sizeof(ls_mark) * (size_t)(h->n_starts + h->n_checkpoints + 1)) };
    *out = m;
    LS_TRY(ls_sys_have(m.at));
    for (int i = 0; i < h->n_starts; i++)
        add_mark(&m, h->starts[i].step, LS_MARK_RESTART, h->starts[i].attempt);
    for (int i = 0; i < h->n_checkpoints; i++)
        if (is_kept(run_dir, h->checkpoints[i].step))
            add_mark(&m, h->checkpoints[i].step, LS_MARK_KEPT, 0);
        else if (h->n_checkpoints <= REMOVED_MOST)
            add_mark(&m, h->checkpoints[i].step, LS_MARK_REMOVED, 0);
    *out = m;
    return LS_OK;
}

/* ---- tables. Columns of metrics are curves, those that have a number in some row. */

typedef struct columns {
    int n;
    const ls_curve **at;
} columns;

static columns columns_make(ls_run_page *p)
{
    const columns c = { .at = LS_ARENA_ARRAY(&p->curves.memory, const ls_curve *, p->curves.n) };
    ls_str_add(&p->out, c.at ? "" : NULL);
    return c;
}

/* Evaluations have the name of their metric alone, unless the run has another one of that name. */
static void add_titles(ls_str *out, const ls_run_page *p, const columns *c)
{
    char title[LS_METRIC_TITLE];
    for (int i = 0; i < c->n; i++) {
        const char *name = c->at[i]->name;
        const bool alone = ls_curve_is_eval(name) && !ls_curve_of(&p->curves, name + 5)->n;
        ls_str_add(out, "<th>");
        ls_html_add(out, ls_metric_title(title, name, alone ? "" : "evaluation "));
        ls_str_add(out, "</th>");
    }
}

static void add_metric(ls_str *out, const char *name, double value)
{
    char text[32];
    const char *format = !strcmp(name, "loss") || !strcmp(name, "eval_loss") ? "%.4f" : "%.4g";
    ls_html_cell(out, isnan(value) ? "–" : ls_metric_text(text, name, format, value));
}

/* Those of evaluations but the loss, which is a column of the rows. */
static columns columns_of_epochs(ls_run_page *p)
{
    columns out = columns_make(p);
    for (int i = 0; i < p->curves.n && out.at; i++) {
        const ls_curve *c = &p->curves.at[i];
        if (ls_curve_is_eval(c->name) && strcmp(c->name, "eval_loss"))
            out.at[out.n++] = c;
    }
    return out;
}

/* The columns of the rows in their order in tables (record/rows.c); the list in them becomes one for each
 * metric. */
static void add_epoch(ls_str *out, const ls_past_epoch *e, const columns *metrics)
{
    const ls_row_column *c;
    char text[32];
    ls_str_add(out, "<tr>");
    for (int place = 1; (c = ls_row_shown(&LS_EPOCH_ROW, place)); place++) {
        for (int k = 0; c->type == LS_CELL_NAMED && k < metrics->n; k++)
            add_metric(out, metrics->at[k]->name,
                       ls_metric_list_find(&e->row.eval, metrics->at[k]->name + strlen("eval_")));
        if (c->type == LS_CELL_NAMED)
            continue;
        const char *shown = c->type == LS_CELL_INT ? ls_html_count(text, (int64_t)ls_row_number(c, &e->row))
                                                   : ls_row_text(text, c, &e->row, e->attempt);
        ls_html_cell(out, *shown ? shown : "–");
    }
    const double speed = e->row.seconds > 0 ? (double)e->row.samples / e->row.seconds : NAN;
    ls_html_cell(out, isnan(speed) ? "–" : ls_html_count(text, (int64_t)speed));
    ls_str_add(out, "</tr>\n");
}

void ls_report_epochs(ls_run_page *p)
{
    ls_str *out = &p->out;
    const ls_row_column *c;
    if (!p->history.n_epochs)
        return;
    const columns metrics = columns_of_epochs(p);
    ls_str_add(out, "<h2>Epochs</h2>\n<div class=\"scroll\"><table><thead><tr>");
    for (int place = 1; (c = ls_row_shown(&LS_EPOCH_ROW, place)); place++)
        if (c->type == LS_CELL_NAMED)
            add_titles(out, p, &metrics);
        else
            ls_str_printf(out, "<th>%s</th>", c->title);
    ls_str_add(out, "<th>samples / s</th></tr></thead><tbody>\n");
    for (int i = 0; i < p->history.n_epochs; i++)
        add_epoch(out, &p->history.epochs[i], &metrics);
    ls_str_add(out, "</tbody></table></div>\n");
}

void ls_report_restarts(ls_run_page *p)
{
    const ls_history *h = &p->history;
    ls_str *out = &p->out;
    if (!h->n_starts)
        return;
    ls_str_add(out, "<h2>Restarts</h2>\n<div class=\"scroll\"><table "
                    "class=\"plan\"><thead><tr><th>attempt</th><th>began after step</th>"
                    "<th>steps done again</th><th>why</th></tr></thead><tbody>\n");
    for (int i = 0; i < h->n_starts; i++) {
        const ls_past_start *s = &h->starts[i];
        char attempt[32], step[32], lost[32];
        ls_html_cells(out, 4,
                      (const char *const[]){ ls_html_count(attempt, s->attempt), ls_html_count(step, s->step),
                                             s->lost ? ls_html_count(lost, s->lost) : "none",
                                             s->cause ? s->cause : "the run was started again" });
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

/* Those that a checkpoint has a number for, as the list in result.json. Of the step it
 * has the loss alone: the learning rate, the time and so on say nothing about it. */
static columns columns_of_checkpoints(ls_run_page *p)
{
    columns out = columns_make(p);
    for (int i = 0; i < p->curves.n && out.at; i++) {
        const ls_curve *c = &p->curves.at[i];
        bool known = false;
        for (int k = 0; k < p->marks.n && !known; k++)
            known = p->marks.at[k].kind == LS_MARK_KEPT && !isnan(ls_curve_at(c, (int64_t)p->marks.at[k].x));
        if (known && (!ls_curve_is_of_steps(c->name) || !strcmp(c->name, "loss")))
            out.at[out.n++] = c;
    }
    return out;
}

static void add_checkpoint(ls_str *out, const ls_past_checkpoint *c, const char *run_dir,
                           const columns *metrics)
{
    const bool best = points_at(run_dir, "best", c->step), latest = points_at(run_dir, "latest", c->step);
    char text[32];
    ls_str_add(out, "<tr>");
    ls_html_cell(out, ls_html_count(text, c->step));
    ls_html_cell(out, ls_html_count(text, c->epoch));
    for (int k = 0; k < metrics->n; k++)
        add_metric(out, metrics->at[k]->name, ls_curve_at(metrics->at[k], c->step));
    ls_html_cell(out, ls_format_bytes(text, (uint64_t)c->bytes));
    ls_html_cell(out, best && latest ? "best, latest" : best ? "best" : latest ? "latest" : "");
    ls_str_add(out, "</tr>\n");
}

void ls_report_checkpoints(ls_run_page *p)
{
    const ls_history *h = &p->history;
    const char *run_dir = p->run->path;
    const int kept = p->marks.counts[LS_MARK_KEPT];
    ls_str *out = &p->out;
    if (!h->n_checkpoints)
        return;
    const columns c = columns_of_checkpoints(p);
    ls_str_add(out, "<h2>Checkpoints</h2>\n");
    if (kept) {
        ls_str_add(out, "<div class=\"scroll\"><table class=\"plan\"><thead><tr><th>step</th><th>epoch</th>");
        add_titles(out, p, &c);
        ls_str_add(out, "<th>size</th><th></th></tr></thead><tbody>\n");
    }
    for (int i = 0; i < h->n_checkpoints; i++)
        if (is_kept(run_dir, h->checkpoints[i].step))
            add_checkpoint(out, &h->checkpoints[i], run_dir, &c);
    if (kept)
        ls_str_add(out, "</tbody></table></div>\n");
    if (h->n_checkpoints > kept)
        ls_str_printf(
            out, "<p class=\"note\">%d other%s removed when newer ones were there (checkpoint.keep).</p>\n",
            h->n_checkpoints - kept, h->n_checkpoints - kept == 1 ? " was" : "s were");
}
