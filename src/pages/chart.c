/* chart.c - charts of curves. See chart.h. */
#include "chart.h"

#include <math.h>

#include "base/c_locale.h"

enum {
    POINTS = 400, /* of a curve: more than that could not be told apart on a screen */
    BETWEEN = 10, /* numbers in the table between the first and the last */
};

static const char *const UNITS[] = {
    [LS_UNIT_NONE] = "", [LS_UNIT_PERCENT] = "percent", [LS_UNIT_MIB] = "MiB"
};

/* ---- the data */

void ls_chart_points(ls_json *j, const char *key, const ls_curve *c, int most)
{
    const int points = c->n < most ? c->n : most;
    ls_json_array(j, key);
    for (int k = 0; k < points; k++) {
        const int begin = (int)((int64_t)c->n * k / points), end = (int)((int64_t)c->n * (k + 1) / points);
        double sum = 0, least = INFINITY, greatest = -INFINITY;
        int n = 0;
        for (int i = begin; i < end; i++)
            if (isfinite(c->y[i])) {
                sum += c->y[i];
                least = fmin(least, c->y[i]);
                greatest = fmax(greatest, c->y[i]);
                n++;
            }
        ls_json_array(j, NULL);
        ls_json_f64(j, NULL, c->x[begin + (end - begin) / 2]);
        /* NAN is written as null: a gap. A rounded sum must not leave the range. */
        ls_json_f32(j, NULL, n ? (float)fmin(fmax(sum / n, least), greatest) : NAN);
        if (n > 1) {
            ls_json_f32(j, NULL, (float)least);
            ls_json_f32(j, NULL, (float)greatest);
        }
        ls_json_close_array(j);
    }
    ls_json_close_array(j);
}

void ls_figure_series(ls_json *j, const char *name, const char *color)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "name", name);
    ls_json_text(j, "color", color);
}

static void marks_json(ls_json *j, const ls_marks *marks)
{
    static const char *const KINDS[] = {
        [LS_MARK_RESTART] = "restart", [LS_MARK_KEPT] = "kept", [LS_MARK_REMOVED] = "removed"
    };
    ls_json_array(j, "marks");
    for (int i = 0; marks && i < marks->n; i++) {
        const ls_mark *m = &marks->at[i];
        char attempt[32];
        ls_json_object(j, NULL);
        ls_json_f64(j, "x", m->x);
        ls_json_text(j, "kind", KINDS[m->kind]);
        ls_snprintf(attempt, sizeof attempt, "%lld", (long long)m->attempt);
        if (m->kind == LS_MARK_RESTART)
            ls_json_text(j, "text", attempt);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}

static void lines_json(ls_str *out, const ls_chart *c, ls_figure_unit unit)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "title", c->title);
    ls_json_text(&j, "x", c->x_name);
    ls_json_text(&j, "unit", UNITS[unit]);
    ls_json_int(&j, "height", c->height);
    if (c->low <= c->high) {
        ls_json_f64(&j, "low", c->low);
        ls_json_f64(&j, "high", c->high);
    }
    ls_json_array(&j, "series");
    for (int s = 0; s < c->n; s++) {
        ls_figure_series(&j, c->series[s].name, c->series[s].color);
        ls_json_bool(&j, "faint", c->series[s].faint);
        ls_json_bool(&j, "dots", c->series[s].dots);
        ls_chart_points(&j, "points", c->series[s].curve, POINTS);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    marks_json(&j, c->marks);
    ls_figure_data(out, &j);
}

/* ---- the figure and its table */

void ls_figure_begin(ls_str *out, const char *title)
{
    ls_str_add(out, "<figure class=\"chart\" aria-label=\"");
    ls_html_add(out, title);
    ls_str_add(out, "\">\n");
}

void ls_figure_data(ls_str *out, ls_json *j)
{
    ls_json_close_object(j);
    ls_page_data(out, NULL, j);
    ls_str_add(out, "<noscript><p class=\"note\">The drawing needs scripts. Its numbers are in the table.</p>"
                    "</noscript>\n");
}

static int between(int most) { return most < 3 ? 0 : most - 2 < BETWEEN ? most - 2 : BETWEEN; }

void ls_figure_table(ls_str *out, const char *title, const char *x_name, ls_figure_unit unit, int most)
{
    ls_str_add(out, "<div class=\"scroll\"><table class=\"numbers\"><caption>");
    ls_html_add(out, title);
    ls_str_printf(out, "</caption>\n<thead><tr><th>%s, at ", unit == LS_UNIT_MIB ? "MiB" : "number");
    ls_html_add(out, x_name);
    ls_str_add(out, "</th><th>first</th>");
    if (between(most))
        ls_str_printf(out, "<th colspan=\"%d\">between</th>", between(most));
    ls_str_add(out, "<th>last</th><th>least</th><th>greatest</th></tr></thead><tbody>\n");
}

static void cell(ls_str *out, const ls_curve *c, int i, ls_figure_unit unit)
{
    static const char *const FORMATS[] = {
        [LS_UNIT_NONE] = "%.4g", [LS_UNIT_PERCENT] = "%.2f%%", [LS_UNIT_MIB] = "%.2f"
    };
    char text[32];
    ls_str_printf(out, "<td>%s <small>at %.*g</small></td>",
                  ls_html_number(text, FORMATS[unit], unit == LS_UNIT_PERCENT ? 100 * c->y[i] : c->y[i]),
                  c->x[i] == rint(c->x[i]) ? 15 : 4, c->x[i]); /* steps are whole, times are not */
}

void ls_figure_row(ls_str *out, const ls_curve *c, const char *name, ls_figure_unit unit, int most)
{
    const int shown = between(c->n);
    int least = -1, greatest = -1;
    for (int i = 0; i < c->n; i++)
        if (isfinite(c->y[i])) {
            least = least < 0 || c->y[i] < c->y[least] ? i : least;
            greatest = greatest < 0 || c->y[i] > c->y[greatest] ? i : greatest;
        }
    if (least < 0)
        return; /* no number is finite */
    ls_str_add(out, "<tr><th scope=\"row\">");
    ls_html_add(out, name);
    ls_str_add(out, "</th>");
    for (int k = 0; k <= shown; k++)
        cell(out, c, (int)((int64_t)(c->n - 1) * k / (shown + 1)), unit);
    for (int k = shown; k < between(most); k++)
        ls_str_add(out, "<td></td>");
    cell(out, c, c->n - 1, unit);
    cell(out, c, least, unit);
    cell(out, c, greatest, unit);
    ls_str_add(out, "</tr>\n");
}

void ls_figure_end(ls_str *out) { ls_str_add(out, "</tbody></table></div>\n</figure>\n"); }

static bool has_number(const ls_curve *c)
{
    for (int i = 0; i < c->n; i++)
        if (isfinite(c->y[i]))
            return true;
    return false;
}

void ls_chart_lines(ls_str *out, const ls_chart *c)
{
    const ls_figure_unit unit = c->percent ? LS_UNIT_PERCENT : LS_UNIT_NONE;
    bool any = false;
    int most = 0;
    for (int s = 0; s < c->n; s++) {
        any = any || has_number(c->series[s].curve);
        most = c->series[s].curve->n > most ? c->series[s].curve->n : most;
    }
    if (!any)
        return;
    ls_figure_begin(out, c->title);
    lines_json(out, c, unit);
    ls_figure_table(out, c->title, c->x_name, unit, most);
    for (int s = 0; s < c->n; s++)
        ls_figure_row(out, c->series[s].curve, c->series[s].name, unit, most);
    ls_figure_end(out);
}
