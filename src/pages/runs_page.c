/* runs_page.c - see runs_page.h. C writes the table and the data; pages/runs.js draws the curves and the
 * table of differences for the runs that the reader has ticked. */
#include "runs_page.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "page.h"
#include "record/curves.h"
#include "record/metric_text.h"
#include "record/run_list.h"

enum {
    POINTS = 60000, /* of one metric, of all runs together: more would make the page slow */
    LEAST = 60,     /* of a curve */
    MOST = 800,
    TICKED = 12, /* runs that the page shows at first: those that wrote last */
};

/* ---- data of a run: curves and recipe */

/* A curve as points [x, y], or, of a long one, [x, mean, min, max] of neighbouring points. Numbers that are
 * not finite are left out. */
static void add_curve(ls_json *j, const ls_curve *c, int most)
{
    const int points = c->n < most ? c->n : most;
    ls_json_array(j, c->name);
    for (int k = 0; k < points; k++) {
        const int begin = (int)((int64_t)c->n * k / points), end = (int)((int64_t)c->n * (k + 1) / points);
        double sum = 0, low = INFINITY, high = -INFINITY;
        int n = 0;
        for (int i = begin; i < end; i++)
            if (isfinite(c->y[i])) {
                sum += c->y[i];
                low = fmin(low, c->y[i]);
                high = fmax(high, c->y[i]);
                n++;
            }
        if (!n)
            continue;
        ls_json_array(j, NULL);
        ls_json_f64(j, NULL, c->x[begin + (end - begin) / 2]);
        ls_json_f32(j, NULL, (float)(sum / n));
        if (n > 1) {
            ls_json_f32(j, NULL, (float)low);
            ls_json_f32(j, NULL, (float)high);
        }
        ls_json_close_array(j);
    }
    ls_json_close_array(j);
}

static ls_status add_curves(ls_json *j, const ls_run_entry *e, int most)
{
    ls_history h = { 0 };
    ls_curves all = { .n = 0 };
    ls_status s = LS_OK;
    ls_json_object(j, "curves");
    if (ls_file_in(e->dir, "metrics.jsonl")) {
        s = ls_history_read(&h, e->dir);
        if (s == LS_OK)
            s = ls_curves_make(&all, &h);
    }
    for (int k = 0; k < all.n && s == LS_OK; k++)
        add_curve(j, &all.at[k], most);
    ls_curves_release(&all);
    ls_history_release(&h);
    ls_json_close_object(j);
    return s;
}

/* recipe.yaml of a run is what ls_recipe_yaml printed: a key in each line, sections by indentation. It is
 * read as text, so that runs of other versions can be compared. */
static ls_status add_recipe(ls_json *j, const char *dir)
{
    char *path = ls_path_join(dir, LS_RUN_RECIPE), *text = NULL, key[256] = "";
    size_t size;
    ls_status s = ls_file_exists(path) ? ls_file_read(&text, &size, path) : LS_OK;
    free(path);
    ls_json_object(j, "recipe");
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        const size_t indent = strspn(line, " ");
        size_t length = 0; /* of the sections that the line is in: one for two spaces */
        for (size_t depth = 0; depth < indent / 2 && key[length]; depth++)
            length += strcspn(key + length, ".") + 1;
        char *colon = strchr(line, ':');
        if (!colon || line[indent] == '-' || line[indent] == '#')
            continue;
        *colon = 0;
        snprintf(key + length, sizeof key - length, "%s%s", line + indent, colon[1] ? "" : ".");
        if (colon[1])
            ls_json_text(j, key, colon + 1 + strspn(colon + 1, " "));
        if (colon[1]) /* the next line may belong to the same section */
            key[length] = 0;
    }
    ls_json_close_object(j);
    free(text);
    return s;
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

static void add_cell(ls_str *out, double value, const char *text)
{
    ls_str_add(out, "<td");
    if (!isnan(value))
        ls_str_printf(out, " data-v=\"%.17g\"", value);
    ls_str_add(out, ">");
    ls_html_add(out, text);
    ls_str_add(out, "</td>");
}

static void add_metric(ls_str *out, const char *name, double value)
{
    char text[32];
    add_cell(out, value, ls_metric_text(text, name, "%.5g", value));
}

static void add_heading(ls_str *out, const char *name)
{
    ls_str_add(out, "<th><button type=\"button\">");
    ls_html_add(out, name);
    ls_str_add(out, "</button></th>");
}

static void add_row(ls_str *out, const ls_run_entry *e, int number, const ls_metric_list *metrics,
                    const char *way, bool ticked)
{
    const ls_run_info *i = &e->info;
    const char *state = e->broken ? "broken" : ls_run_state_name(i->state);
    char ago[48], duration[32], count[32];
    ls_str_printf(out, "<tr data-run=\"%d\"><td><label><input type=\"checkbox\"%s/> ", number,
                  ticked ? " checked=\"checked\"" : "");
    ls_html_add(out, e->name);
    ls_str_add(out, "</label></td><td>");
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
    add_cell(out, (double)i->metrics.step, ls_html_count(count, i->metrics.step));
    add_cell(out, (double)i->metrics.epoch, ls_html_count(count, i->metrics.epoch));
    add_metric(out, "loss", i->metrics.loss);
    for (int k = 0; k < metrics->n; k++)
        add_metric(out, metrics->at[k].name, ls_metric_list_find(&i->named, metrics->at[k].name));
    add_cell(out, i->restarts, ls_html_count(count, i->restarts));
    snprintf(ago, sizeof ago, i->seconds_ago < 1 ? "just now" : "%s ago",
             ls_format_duration(duration, i->seconds_ago));
    add_cell(out, i->seconds_ago, ago);
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
    static const char *const FIRST[] = { "run", "report", "state", "step", "epoch", "loss" };
    ls_metric_list metrics = ls_run_list_metrics(l);
    ls_str_add(out, "<div class=\"scroll\"><table id=\"table\" class=\"sortable\"><thead><tr>");
    for (size_t i = 0; i < sizeof FIRST / sizeof FIRST[0]; i++)
        add_heading(out, FIRST[i]);
    for (int k = 0; k < metrics.n; k++)
        add_heading(out, metrics.at[k].name);
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

static const char CONTROLS[] =
    "<h2>Curves</h2>\n<p class=\"controls\"><label>metric <select id=\"metric\"></select></label> "
    "<label>smoothing <input id=\"smooth\" type=\"range\" min=\"0\" max=\"0.99\" step=\"0.01\" "
    "value=\"0\"/></label> <label><input id=\"log\" type=\"checkbox\"/> logarithmic</label></p>\n"
    "<figure class=\"chart\"><div id=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"curves of the ticked "
    "runs; the arrow keys move a cursor\"></div><figcaption id=\"legend\"></figcaption></figure>\n"
    "<h2>Recipes</h2>\n<p class=\"note\">Keys whose values differ among the ticked runs.</p>\n"
    "<div class=\"scroll\"><table id=\"recipes\"></table></div>\n";

static ls_status add_data(ls_str *out, const ls_run_list *l)
{
    ls_json j = { 0 };
    const int share = POINTS / (l->n > 0 ? l->n : 1), most = share < LEAST  ? LEAST
                                                             : share > MOST ? MOST
                                                                            : share;
    ls_status s = LS_OK;
    ls_json_array(&j, NULL);
    for (int r = 0; r < l->n && s == LS_OK; r++) {
        ls_json_object(&j, NULL);
        ls_json_text(&j, "name", l->at[r].name);
        s = add_curves(&j, &l->at[r], most);
        if (s == LS_OK)
            s = add_recipe(&j, l->at[r].dir);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_page_data(out, "runs", &j);
    return s;
}

static ls_status write_page(const char *path, const char *storage, const ls_run_list *l)
{
    ls_str out = { 0 };
    char *way = NULL;
    ls_status s;
    if (!l->n)
        return ls_fail(LS_E_USAGE, "no runs in %s: there is nothing to write to %s", storage, path);
    LS_TRY_TO(s, ls_make_parent(path), done);
    LS_TRY_TO(s, way_to(&way, path, storage), done);
    ls_page_begin(&out, storage, true);
    ls_str_add(&out, "<h1>Runs in ");
    ls_html_add(&out, storage);
    ls_str_printf(&out, "</h1>\n<p class=\"sub\">%d run%s · lockstep " LS_VERSION "</p>\n<h2>Table</h2>\n",
                  l->n, l->n == 1 ? "" : "s");
    add_table(&out, l, way);
    ls_str_add(&out, CONTROLS);
    LS_TRY_TO(s, add_data(&out, l), done);
    ls_page_end(&out, "runs.js");
    s = ls_file_write_text(path, &out);
done:
    free(way);
    ls_str_release(&out);
    return s;
}

ls_status ls_runs_page_write(const char *path, const char *storage)
{
    ls_run_list l;
    ls_status s = ls_run_list_read(&l, storage);
    if (s == LS_OK)
        s = write_page(path, storage, &l);
    ls_run_list_release(&l);
    return s;
}
