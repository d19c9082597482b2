/* runs_page.c - see runs_page.h. C writes the tables and the data; scripts/runs.js draws the curves of the
 * runs that the reader has ticked, and shows their part of the tables. */
#include "runs_page.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/c_locale.h"
#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "chart.h"
#include "record/curves.h"
#include "record/metric_text.h"
#include "record/run_list.h"
#include "runs_recipes.h"

enum {
    POINTS = 60000, /* of one metric, of all runs together: more would make the page slow */
    LEAST = 60,     /* of a curve */
    MOST = 800,
    TICKED = 12, /* runs that the page shows at first: those that wrote last */
};

typedef struct metric_table { /* rows of the runs that have the metric */
    const char *name;
    ls_str rows;
} metric_table;

typedef struct runs_page {
    ls_arena arena;
    const ls_run_list *runs;
    int n, cap; /* metrics */
    metric_table *metrics;
    ls_json curves;
} runs_page;

/* ---- curves */

static ls_figure_unit unit_of(const char *metric)
{
    return ls_metric_is_share(metric) ? LS_UNIT_PERCENT : LS_UNIT_NONE;
}

/* NULL: no memory. */
static metric_table *metric_of(runs_page *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->metrics[i].name, name))
            return &p->metrics[i];
    if (p->n == p->cap) {
        metric_table *more = LS_ARENA_ARRAY(&p->arena, metric_table, 2 * p->cap + 16);
        if (!more)
            return NULL;
        if (p->n)
            memcpy(more, p->metrics, sizeof *more * (size_t)p->n);
        p->metrics = more;
        p->cap = 2 * p->cap + 16;
    }
    p->metrics[p->n] = (metric_table){ .name = ls_arena_strdup(&p->arena, name) };
    return &p->metrics[p->n++];
}

static void add_curve(runs_page *p, const ls_run_entry *e, const ls_curve *c, int most)
{
    metric_table *t = metric_of(p, c->name);
    ls_chart_points(&p->curves, c->name, c, most);
    if (t)
        ls_figure_row(&t->rows, c, e->name, unit_of(c->name), LS_FIGURE_MOST);
}

static ls_status add_curves(runs_page *p, const ls_run_entry *e, int most)
{
    ls_history h = { 0 };
    ls_curves all = { .n = 0 };
    ls_status s = LS_OK;
    ls_json_object(&p->curves, "curves");
    if (ls_file_in(e->dir, "metrics.jsonl")) {
        s = ls_history_read(&h, e->dir);
        if (s == LS_OK)
            s = ls_curves_make(&all, &h);
    }
    for (int k = 0; k < all.n && s == LS_OK; k++)
        add_curve(p, e, &all.at[k], most);
    ls_curves_release(&all);
    ls_history_release(&h);
    ls_json_close_object(&p->curves);
    return s;
}

/* Reads the curves of all runs. */
static ls_status read_curves(runs_page *p)
{
    const int n = p->runs->n, share = POINTS / (n > 0 ? n : 1),
              most = share < LEAST  ? LEAST
                     : share > MOST ? MOST
                                    : share;
    ls_json *j = &p->curves;
    ls_json_object(j, NULL);
    ls_json_array(j, "runs");
    for (int r = 0; r < n; r++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", p->runs->at[r].name);
        LS_TRY(add_curves(p, &p->runs->at[r], most));
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_array(j, "metrics");
    for (int i = 0; i < p->n; i++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", p->metrics[i].name);
        ls_json_text(j, "unit", unit_of(p->metrics[i].name) == LS_UNIT_PERCENT ? "percent" : "");
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
    return ls_arena_status(&p->arena);
}

/* A table for each metric: its numbers in every run. */
static void add_figure(ls_str *out, runs_page *p)
{
    ls_str_add(out, "<h2>Curves</h2>\n");
    ls_page_data(out, "data", &p->curves);
    ls_figure_begin(out, "curves of the runs");
    ls_str_add(out,
               "<noscript><p class=\"note\">The drawing needs scripts. Its numbers are in the tables.</p>"
               "</noscript>\n");
    for (int i = 0; i < p->n; i++) {
        const metric_table *m = &p->metrics[i];
        ls_str_add(out, "<div class=\"metric\"><h3>");
        ls_html_add(out, m->name);
        ls_str_add(out, "</h3>\n");
        ls_figure_table(out, m->name, "step", unit_of(m->name), LS_FIGURE_MOST);
        ls_str_append(out, &m->rows);
        ls_str_add(out, "</tbody></table></div></div>\n");
    }
    ls_str_add(out, "</figure>\n");
}

/* ---- links */

/* The way from the folder of `path` to `storage`, "" or with a slash at its end. malloc'ed. */
static ls_status way_to(char **out, const char *path, const char *storage)
{
    char *slash_at = strrchr(path, '/') ? ls_sys_strndup(path, (size_t)(strrchr(path, '/') - path + 1))
                                        : ls_sys_strdup("./");
    char *from = slash_at ? realpath(slash_at, NULL) : NULL, *to = from ? realpath(storage, NULL) : NULL;
    ls_str way = { 0 };
    free(slash_at);
    if (!from || !to) {
        free(from);
        return ls_fail_os(from ? storage : path, "find the folder of", errno);
    }
    size_t same = 0; /* bytes of the folders that both share */
    for (size_t i = 0;; i++) {
        const bool end_from = !from[i] || from[i] == '/', end_to = !to[i] || to[i] == '/';
        if (end_from && end_to)
            same = i;
        if (from[i] != to[i] || !from[i])
            break;
    }
    for (const char *p = from + same; (p = strchr(p, '/')) && p[1]; p++)
        ls_str_add(&way, "../");
    const char *below = to + same + (to[same] == '/');
    ls_str_add(&way, below);
    ls_str_add(&way, *below ? "/" : "");
    free(from);
    free(to);
    *out = ls_str_take(&way);
    return *out ? LS_OK : LS_E_MEMORY;
}

/* A path as an address: other bytes than letters, digits and -._~/ become %XX. */
static void add_address(ls_str *out, const char *path)
{
    for (; *path; path++)
        if (isalnum((unsigned char)*path) || strchr("-._~/", *path))
            ls_str_add_n(out, path, 1);
        else
            ls_str_printf(out, "%%%02X", (unsigned char)*path);
}

/* ---- the table */

/* `best`: no other run has a better value. */
static void add_cell(ls_str *out, double value, const char *text, bool best)
{
    ls_str_add(out, "<td");
    if (!isnan(value))
        ls_str_printf(out, " data-v=\"%.17g\"", value);
    ls_str_add(out, ">");
    ls_html_add(out, text);
    ls_str_add(out, best ? " <span class=\"best\">best</span></td>" : "</td>");
}

static void add_metric(ls_str *out, const char *name, double value, double best)
{
    char text[32];
    add_cell(out, value, ls_metric_text(text, name, "%.5g", value), value == best);
}

static double value_of(const ls_run_info *i, const char *metric)
{
    return strcmp(metric, "loss") ? ls_metric_list_find(&i->named, metric) : i->metrics.loss;
}

/* The best value that one of several runs has; NAN: there is one run alone, or nobody knows what is better.
 */
static double best_of(const ls_run_list *l, const char *metric)
{
    const int direction = ls_metric_direction(metric);
    double best = NAN;
    int n = 0;
    for (int r = 0; r < l->n && direction; r++) {
        const double x = l->at[r].broken ? NAN : value_of(&l->at[r].info, metric);
        n += !isnan(x);
        best = isnan(best) || direction * x > direction * best ? x : best;
    }
    return n > 1 ? best : NAN;
}

static void add_heading(ls_str *out, const char *name)
{
    ls_str_add(out, "<th>");
    ls_html_add(out, name);
    ls_str_add(out, "</th>");
}

/* What the run itself holds for its best value, and when: "0.0338 at 3,000". */
static void add_best(ls_str *out, const ls_run_info *i)
{
    char number[32], count[32], text[160] = "";
    const double x = *i->best_metric ? i->metrics.best_value : NAN;
    if (!isnan(x))
        ls_snprintf(text, sizeof text, "%.40s %s at %s", i->best_metric,
                    ls_metric_text(number, i->best_metric, "%.5g", x),
                    ls_html_count(count, i->metrics.best_step));
    add_cell(out, x, text, false);
}

/* `loss` and the other metrics of the runs, each with the best value that a run has. */
static ls_metric_list find_metrics(const ls_run_list *l)
{
    ls_metric_list all = { .n = 0 }, others = ls_run_list_metrics(l);
    ls_metric_list_set(&all, "loss", best_of(l, "loss"));
    for (int k = 0; k < others.n; k++)
        ls_metric_list_set(&all, others.at[k].name, best_of(l, others.at[k].name));
    all.no_memory = all.no_memory || others.no_memory;
    ls_metric_list_release(&others);
    return all;
}

static void add_row(ls_str *out, const ls_run_entry *e, int number, const ls_metric_list *metrics,
                    const char *way, bool ticked)
{
    const ls_run_info *i = &e->info;
    const char *state = e->broken ? "broken" : ls_run_state_name(i->state);
    char ago[48], duration[32], count[32];
    ls_str_printf(out, "<tr data-run=\"%d\"%s><td>", number, ticked ? " data-ticked=\"\"" : "");
    ls_html_add(out, e->name);
    ls_str_add(out, "</td><td>");
    if (ls_file_in(e->dir, "report.html")) {
        ls_str_add(out, "<a href=\"");
        ls_str_add(out, *way ? "" : "./"); /* a name with a colon is not an address of another kind */
        add_address(out, way);
        add_address(out, e->name);
        ls_str_add(out, "/report.html\">report</a>");
    }
    ls_str_printf(out, "</td><td><span class=\"state %s\">%s</span></td>", state, state);
    if (e->broken) {
        ls_str_printf(out, "<td colspan=\"%d\">", 5 + metrics->n);
        ls_html_add(out, e->broken);
        ls_str_add(out, "</td></tr>\n");
        return;
    }
    add_cell(out, (double)i->metrics.step, ls_html_count(count, i->metrics.step), false);
    add_cell(out, (double)i->metrics.epoch, ls_html_count(count, i->metrics.epoch), false);
    for (int k = 0; k < metrics->n; k++)
        add_metric(out, metrics->at[k].name, value_of(i, metrics->at[k].name), metrics->at[k].value);
    add_best(out, i);
    add_cell(out, i->restarts, ls_html_count(count, i->restarts), false);
    snprintf(ago, sizeof ago, i->seconds_ago < 1 ? "just now" : "%s ago",
             ls_format_duration(duration, i->seconds_ago));
    add_cell(out, i->seconds_ago, ago, false);
    ls_str_add(out, "</tr>\n");
}

/* How many runs wrote later than this one. */
static int later(const ls_run_list *l, int r)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += i != r && !l->at[i].broken &&
             (l->at[r].broken || l->at[i].info.seconds_ago < l->at[r].info.seconds_ago ||
              (l->at[i].info.seconds_ago == l->at[r].info.seconds_ago && i < r));
    return n;
}

static void add_table(ls_str *out, const ls_run_list *l, const char *way)
{
    static const char *const FIRST[] = { "run", "report", "state", "step", "epoch" };
    ls_metric_list metrics = find_metrics(l);
    ls_str_add(out, "<div class=\"scroll\"><table id=\"table\" class=\"sortable\"><thead><tr>");
    for (size_t i = 0; i < sizeof FIRST / sizeof FIRST[0]; i++)
        add_heading(out, FIRST[i]);
    for (int k = 0; k < metrics.n; k++)
        add_heading(out, metrics.at[k].name);
    add_heading(out, "its own best");
    add_heading(out, "restarts");
    add_heading(out, "updated");
    ls_str_add(out, "</tr></thead><tbody>\n");
    for (int r = 0; r < l->n; r++)
        add_row(out, &l->at[r], r, &metrics, way, later(l, r) < TICKED);
    ls_str_add(out, metrics.no_memory ? NULL : "");
    ls_metric_list_release(&metrics);
    ls_str_add(out, "</tbody></table></div>\n");
}

/* ---- the page */

static ls_status write_page(const char *path, const char *storage, runs_page *p)
{
    const ls_run_list *l = p->runs;
    ls_str out = { 0 };
    char *way = NULL;
    ls_status s;
    if (!l->n)
        return ls_fail(LS_E_USAGE, "no runs in %s: there is nothing to write to %s", storage, path);
    LS_TRY_TO(s, ls_make_parent(path), done);
    LS_TRY_TO(s, way_to(&way, path, storage), done);
    LS_TRY_TO(s, read_curves(p), done);
    ls_page_begin(&out, storage, true);
    ls_str_add(&out, "<h1>Runs in ");
    ls_html_add(&out, storage);
    ls_str_printf(&out, "</h1>\n<p class=\"sub\">%d run%s · lockstep " LS_VERSION "</p>\n<h2>Table</h2>\n",
                  l->n, l->n == 1 ? "" : "s");
    add_table(&out, l, way);
    add_figure(&out, p);
    ls_str_add(&out, "<h2>Recipes</h2>\n<p class=\"note\">Keys whose values differ.</p>\n");
    LS_TRY_TO(s, ls_runs_recipes(&out, l), done);
    ls_page_end(&out, "charts.js runs.js");
    s = ls_file_write_text(path, &out);
done:
    free(way);
    ls_str_release(&out);
    return s;
}

ls_status ls_runs_page_write(const char *path, const char *storage)
{
    ls_run_list l;
    runs_page p = { .runs = &l };
    ls_arena_init(&p.arena);
    ls_status s = ls_run_list_read(&l, storage);
    if (s == LS_OK)
        s = write_page(path, storage, &p);
    for (int i = 0; i < p.n; i++)
        ls_str_release(&p.metrics[i].rows);
    ls_str_release(&p.curves.out);
    ls_arena_release(&p.arena);
    ls_run_list_release(&l);
    return s;
}
