/* sweep_page.c - see sweep_page.h. C writes the table and the data; scripts/sweep.js draws a line for each
 * run through its values. */
#include "sweep_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/c_locale.h"
#include "chart.h"
#include "record/metric_text.h"

static void add_data(ls_str *out, const ls_sweep_view *v)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "metric", v->metric);
    ls_json_bool(&j, "highest", v->highest);
    ls_json_text(&j, "unit", ls_metric_is_share(v->metric) ? "percent" : "");
    ls_json_array(&j, "keys");
    for (int k = 0; k < v->n_keys; k++)
        ls_json_text(&j, NULL, v->keys[k]);
    ls_json_close_array(&j);
    ls_json_array(&j, "runs");
    for (int i = 0; i < v->n; i++) {
        ls_json_object(&j, NULL);
        ls_json_array(&j, "values");
        for (int k = 0; k < v->n_keys; k++)
            ls_json_text(&j, NULL, v->lines[i].values[k]);
        ls_json_close_array(&j);
        ls_json_f64(&j, "best", v->lines[i].best);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    ls_page_data(out, "data", &j);
}

static void add_heading(ls_str *out, const char *name, const char *sort)
{
    ls_str_printf(out, "<th%s>", sort);
    ls_html_add(out, name);
    ls_str_add(out, "</th>");
}

static void add_sorted(ls_str *out, const char *text, double value)
{
    ls_str_add(out, "<td");
    if (!isnan(value))
        ls_str_printf(out, " data-v=\"%.17g\"", value);
    ls_str_add(out, ">");
    ls_html_add(out, text);
    ls_str_add(out, "</td>");
}

static void add_value(ls_str *out, const char *text)
{
    char *end;
    const double x = ls_strtod(text, &end);
    add_sorted(out, text, *text && !*end && isfinite(x) ? x : NAN);
}

static void add_line(ls_str *out, const ls_sweep_view *v, int i)
{
    const ls_sweep_line *l = &v->lines[i];
    char text[32];
    ls_str_printf(out, "<tr data-run=\"%d\"><td>%d</td>", i, i + 1);
    for (int k = 0; k < v->n_keys; k++)
        add_value(out, l->values[k]);
    add_sorted(out, ls_metric_text(text, v->metric, "%.5g", l->best), l->best);
    add_sorted(out, isnan(l->best) ? "" : ls_html_count(text, l->best_step), (double)l->best_step);
    add_sorted(out, ls_metric_text(text, v->metric, "%.5g", l->last), l->last);
    add_sorted(out, ls_html_count(text, l->step), (double)l->step);
    add_sorted(out, isnan(l->seconds) ? "" : ls_format_duration(text, l->seconds), l->seconds);
    ls_str_printf(out, "<td><span class=\"state %s\">%s</span></td><td>",
                  strchr(l->state, ' ') ? "waiting" : l->state, l->state);
    if (l->report) { /* names of a sweep's runs have plain characters only */
        ls_str_add(out, "<a href=\"./");
        ls_html_add(out, l->name);
        ls_str_add(out, "/report.html\">report</a>");
    }
    ls_html_add(out, l->error ? l->error : "");
    ls_str_add(out, "</td></tr>\n");
}

static void add_table(ls_str *out, const ls_sweep_view *v)
{
    char best[LS_METRIC_TITLE + 8];
    snprintf(best, sizeof best, "best %s", v->metric);
    ls_str_add(out, "<div class=\"scroll\"><table id=\"table\" class=\"sortable\" "
                    "aria-label=\"the runs, the best first\"><thead><tr>");
    add_heading(out, "place", "");
    for (int k = 0; k < v->n_keys; k++)
        add_heading(out, v->keys[k], "");
    add_heading(out, best, v->highest ? " aria-sort=\"descending\"" : " aria-sort=\"ascending\"");
    add_heading(out, "at step", "");
    add_heading(out, "last", "");
    add_heading(out, "steps", "");
    add_heading(out, "training", "");
    add_heading(out, "state", "");
    add_heading(out, "run", "");
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < v->n; i++)
        add_line(out, v, i);
    ls_str_add(out, "</tbody></table></div>\n");
}

/* Runs that differ in the seed alone. */
static void add_seeds(ls_str *out, const ls_sweep_view *v)
{
    char text[32];
    ls_str_add(out,
               "<h2>Over seeds</h2>\n<p class=\"note\">Runs that differ in run.seed alone: mean, standard "
               "deviation, least and greatest of best ");
    ls_html_add(out, v->metric);
    ls_str_add(out,
               ". A difference between settings that is smaller than the deviation may be chance.</p>\n"
               "<div class=\"scroll\"><table class=\"sortable\" aria-label=\"runs over seeds\"><thead><tr>");
    for (int k = 0; k < v->n_keys; k++)
        if (k != v->seed)
            add_heading(out, v->keys[k], "");
    add_heading(out, "seeds", "");
    add_heading(out, "mean", v->highest ? " aria-sort=\"descending\"" : " aria-sort=\"ascending\"");
    add_heading(out, "deviation", "");
    add_heading(out, "least", "");
    add_heading(out, "greatest", "");
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < v->n_groups; i++) {
        const ls_sweep_group *g = &v->groups[i];
        const double numbers[] = { g->mean, g->deviation, g->least, g->greatest };
        ls_str_add(out, "<tr>");
        for (int k = 0; k < v->n_keys; k++)
            if (k != v->seed)
                add_value(out, g->values[k]);
        add_sorted(out, ls_html_count(text, g->n), g->n);
        for (int k = 0; k < 4; k++)
            add_sorted(out, ls_metric_text(text, v->metric, "%.5g", numbers[k]), numbers[k]);
        ls_str_add(out, "</tr>\n");
    }
    ls_str_add(out, "</tbody></table></div>\n");
}

ls_status ls_sweep_page_write(const char *folder, const ls_sweep_view *v)
{
    char *path = ls_path_join(folder, "sweep.html");
    ls_str out = { 0 };
    ls_page_begin(&out, v->name, true);
    ls_str_add(&out, "<h1>Sweep of ");
    ls_html_add(&out, v->name);
    ls_str_printf(&out, "</h1>\n<p class=\"sub\">%d runs, %d finished · lockstep " LS_VERSION "</p>\n", v->n,
                  v->finished);
    ls_str_add(&out, "<h2>Runs</h2>\n");
    add_data(&out, v);
    ls_figure_begin(&out, "values and metric of the runs");
    ls_str_add(&out,
               "<noscript><p class=\"note\">The drawing needs scripts. Its numbers are in the table.</p>"
               "</noscript>\n");
    add_table(&out, v);
    ls_str_add(&out, "</figure>\n");
    if (v->n_groups)
        add_seeds(&out, v);
    ls_page_end(&out, "charts.js sweep.js");
    const ls_status s = ls_file_write_text(path, &out);
    ls_str_release(&out);
    free(path);
    return s;
}
