/* report_events.c - restarts and checkpoints of a run: marks on its curves, and tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/sys.h"
#include "report_own.h"
#include "record/step_folder.h"

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

static void report_events_add(ls_marks *m, int64_t step, ls_mark_kind kind, int64_t attempt)
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
        report_events_add(&m, h->starts[i].step, LS_MARK_RESTART, h->starts[i].attempt);
    for (int i = 0; i < h->n_checkpoints; i++)
        if (is_kept(run_dir, h->checkpoints[i].step))
            report_events_add(&m, h->checkpoints[i].step, LS_MARK_KEPT, 0);
        else if (h->n_checkpoints <= REMOVED_MOST)
            report_events_add(&m, h->checkpoints[i].step, LS_MARK_REMOVED, 0);
    *out = m;
    return LS_OK;
}

void ls_report_restarts(ls_str *out, const ls_history *h)
{
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

static const ls_eval_row *eval_at(const ls_history *h, int64_t step)
{
    for (int i = h->n_evals - 1; i >= 0 && h->evals[i].row.step >= step; i--)
        if (h->evals[i].row.step == step)
            return &h->evals[i].row;
    return NULL;
}

void ls_report_metric_names(ls_str *out, const ls_metric_list *names)
{
    for (int k = 0; k < names->n; k++) {
        ls_str_add(out, "<th>");
        ls_html_add(out, names->at[k].name);
        ls_str_add(out, "</th>");
    }
}

void ls_report_metric_cells(ls_str *out, const ls_metric_list *names, const ls_metric_list *values)
{
    for (int k = 0; k < names->n; k++) {
        const double x = ls_metric_list_find(values, names->at[k].name);
        char text[32];
        ls_html_cell(out, strcmp(names->at[k].name, "accuracy") ? ls_html_number(text, "%.4g", x)
                                                                : ls_html_number(text, "%.2f%%", 100 * x));
    }
}

static void checkpoint(ls_str *out, const ls_history *h, const ls_past_checkpoint *c, const char *run_dir,
                       const ls_metric_list *names)
{
    static const ls_metric_list NONE = { .n = 0 };
    const ls_eval_row *row = eval_at(h, c->step);
    const ls_metric_list *e = row ? &row->eval : &NONE;
    const bool best = points_at(run_dir, "best", c->step), latest = points_at(run_dir, "latest", c->step);
    char b[32];
    ls_str_add(out, "<tr>");
    ls_html_cell(out, ls_html_count(b, c->step));
    ls_html_cell(out, ls_html_count(b, c->epoch));
    ls_html_cell(out, ls_html_number(b, "%.4f", ls_metric_list_find(e, "loss")));
    ls_report_metric_cells(out, names, e);
    ls_html_cell(out, ls_format_bytes(b, (uint64_t)c->bytes));
    ls_html_cell(out, best && latest ? "best, latest" : best ? "best" : latest ? "latest" : "");
    ls_str_add(out, "</tr>\n");
}

void ls_report_checkpoints(ls_str *out, const ls_history *h, const char *run_dir)
{
    int kept = 0;
    for (int i = 0; i < h->n_checkpoints; i++)
        kept += is_kept(run_dir, h->checkpoints[i].step);
    if (!h->n_checkpoints)
        return;
    ls_metric_list names = ls_history_metrics(h);
    ls_str_add(out, names.no_memory ? NULL : "");
    ls_str_add(out, "<h2>Checkpoints</h2>\n");
    if (kept) {
        ls_str_add(out, "<div class=\"scroll\"><table "
                        "class=\"plan\"><thead><tr><th>step</th><th>epoch</th><th>evaluation loss</th>");
        ls_report_metric_names(out, &names);
        ls_str_add(out, "<th>size</th><th></th></tr></thead><tbody>\n");
    }
    for (int i = 0; i < h->n_checkpoints; i++)
        if (is_kept(run_dir, h->checkpoints[i].step))
            checkpoint(out, h, &h->checkpoints[i], run_dir, &names);
    if (kept)
        ls_str_add(out, "</tbody></table></div>\n");
    if (h->n_checkpoints > kept)
        ls_str_printf(
            out, "<p class=\"note\">%d other%s removed when newer ones were there (checkpoint.keep).</p>\n",
            h->n_checkpoints - kept, h->n_checkpoints - kept == 1 ? " was" : "s were");
    ls_metric_list_release(&names);
}
