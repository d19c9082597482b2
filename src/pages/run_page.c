/* run_page.c - the page of a run without a recipe: head, curves, last values, restarts, checkpoints,
 * configuration. */
#include "run_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/sys.h"
#include "report_own.h"

static void run_page_head(ls_str *out, const ls_run_info *i, const ls_history *h, ls_run_state state)
{
    ls_page_begin(out, i->name, false);
    ls_str_add(out, "<h1>");
    ls_html_add(out, i->name);
    ls_str_printf(out,
                  "<span class=\"state %s\">%s</span></h1>\n<p class=\"sub\">your own program · step "
                  "%lld, epoch %lld · lockstep " LS_VERSION "</p>\n",
                  ls_run_state_name(state), ls_run_state_name(state), (long long)i->metrics.step,
                  (long long)i->metrics.epoch);
    if (*i->error) {
        ls_str_add(out, "<p class=\"warn\">");
        ls_html_add(out, i->error);
        ls_str_add(out, "</p>\n");
    }
    if (h->bad_lines)
        ls_str_printf(out, "<p class=\"warn\">metrics.jsonl has %d damaged line%s.</p>\n", h->bad_lines,
                      h->bad_lines == 1 ? "" : "s");
}

/* One metric over the steps at which it was reported. */
static void chart(ls_str *out, const ls_history *h, const char *name, const ls_marks *marks)
{
    ls_curve c = { 0, ls_sys_malloc(sizeof *c.x * (size_t)(h->n_reports + 1)),
                   ls_sys_malloc(sizeof *c.y * (size_t)(h->n_reports + 1)) };
    if (!c.x || !c.y)
        ls_str_add(out, NULL);
    for (int i = 0; c.x && c.y && i < h->n_reports; i++)
        for (int k = 0; k < h->reports[i].metrics.n; k++)
            if (!strcmp(h->reports[i].metrics.at[k].name, name)) {
                c.x[c.n] = (double)h->reports[i].step;
                c.y[c.n++] = h->reports[i].metrics.at[k].value;
            }
    ls_str_add(out, "<h2>");
    ls_html_add(out, name);
    ls_str_add(out, "</h2>\n");
    ls_chart_lines(out, &(ls_chart){ .title = name,
                                     .x_name = "step",
                                     .n = 1,
                                     .low = 1,
                                     .high = 0,
                                     .width = 880,
                                     .height = 240,
                                     .marks = marks,
                                     .series = { { &c, name, "var(--c-blue)", c.n < 60, false } } });
    free(c.x);
    free(c.y);
}

/* Metrics are in the order of their first report. */
static bool is_new(const ls_history *h, int report, const char *name)
{
    for (int i = 0; i < report; i++)
        for (int k = 0; k < h->reports[i].metrics.n; k++)
            if (!strcmp(h->reports[i].metrics.at[k].name, name))
                return false;
    return true;
}

static ls_status charts(ls_str *out, const ls_history *h, const char *run_dir)
{
    ls_marks marks;
    LS_TRY(ls_marks_make(&marks, h, run_dir));
    if (!h->n_reports)
        ls_str_add(out, "<p class=\"note\">Nothing has been reported yet.</p>\n");
    for (int i = 0; i < h->n_reports; i++)
        for (int k = 0; k < h->reports[i].metrics.n; k++)
            if (is_new(h, i, h->reports[i].metrics.at[k].name))
                chart(out, h, h->reports[i].metrics.at[k].name, &marks);
    free(marks.at);
    return LS_OK;
}

static ls_status config(ls_str *out, const char *run_dir)
{
    char *path = ls_path_join(run_dir, LS_RUN_CONFIG), *text = NULL;
    size_t size;
    ls_status s = ls_file_read(&text, &size, path);
    if (s == LS_OK && size) {
        ls_str_add(out, "<h2>Configuration</h2>\n<details><summary>config.txt</summary><pre>");
        ls_html_add(out, text);
        ls_str_add(out, "</pre></details>\n");
    }
    free(text);
    free(path);
    return s;
}

ls_status ls_run_page_write(const ls_rundir *d, ls_run_state state)
{
    ls_str out = { 0 };
    ls_run_info info;
    ls_history h = { 0 };
    char *path = ls_path_join(d->path, "report.html");
    ls_status s;
    LS_TRY_TO(s, ls_run_info_read(&info, d->path), done);
    LS_TRY_TO(s, ls_history_read(&h, d->path), done);
    run_page_head(&out, &info, &h, state);
    LS_TRY_TO(s, charts(&out, &h, d->path), done);
    ls_report_restarts(&out, &h);
    ls_report_checkpoints(&out, &h, d->path);
    LS_TRY_TO(s, config(&out, d->path), done);
    ls_page_end(&out, "charts.js");
    LS_TRY_TO(s, ls_file_write_text(path, &out), done);
done:
    ls_history_release(&h);
    ls_str_release(&out);
    free(path);
    return s;
}
