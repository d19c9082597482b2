/* report_charts.c - line charts with axes, as SVG text. Coordinates are those of the drawing, which the
 * browser scales. Each chart comes with its data as JSON; the script of the page shows the values at the
 * pointer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/json.h"
#include "base/sys.h"
#include "report_own.h"

#define COLUMNS                                                                                             \
    400 /* at most so many places along x, half as many on a narrow screen; more points than that share one \
         */
#define NARROW 430 /* width of a drawing for a telephone */

const char *ls_category_color(ls_category c)
{
    static const char *const COLORS[LS_CAT_COUNT] = {
        [LS_CAT_PARAMETERS] = "var(--c-blue)",  [LS_CAT_GRADIENTS] = "var(--c-amber)",
        [LS_CAT_OPTIMIZER] = "var(--c-red)",    [LS_CAT_GATHERED] = "var(--c-sky)",
        [LS_CAT_ACTIVATIONS] = "var(--c-teal)", [LS_CAT_WORKSPACE] = "var(--c-violet)",
        [LS_CAT_DATA] = "var(--c-brown)",       [LS_CAT_STAGING] = "var(--c-moss)"
    };
    return COLORS[c];
}

/* ---- axes */

double ls_frame_x(const ls_frame *f, double x)
{
    return LS_CHART_LEFT + (x - f->x0) / (f->x1 - f->x0) * (f->width - LS_CHART_LEFT - LS_CHART_RIGHT);
}

double ls_frame_y(const ls_frame *f, double y)
{
    return f->height - LS_CHART_BOTTOM -
           (y - f->y0) / (f->y1 - f->y0) * (f->height - LS_CHART_TOP - LS_CHART_BOTTOM);
}

/* A distance of ticks, 1, 2 or 5 times a power of ten, of which about `wanted` fit. */
static double nice_step(double range, int wanted)
{
    double raw = range / wanted, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void plain_tick(char out[32], double v) { ls_snprintf(out, 32, "%.6g", fabs(v) < 1e-12 ? 0 : v); }

static void percent_tick(char out[32], double v) { ls_snprintf(out, 32, "%.4g%%", 100 * v); }

void ls_frame_axes(ls_str *out, const ls_frame *f, double y_unit, ls_tick_text text, const char *x_name)
{
    char label[32];
    double step = nice_step((f->y1 - f->y0) / y_unit, 4) * y_unit;
    for (double y = ceil(f->y0 / step - 1e-9) * step; y <= f->y1 * (1 + 1e-9) + 1e-300; y += step) {
        text(label, y);
        ls_str_printf(out,
                      "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><text "
                      "class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                      LS_CHART_LEFT, f->width - LS_CHART_RIGHT, ls_frame_y(f, y), ls_frame_y(f, y),
                      LS_CHART_LEFT - 8, ls_frame_y(f, y) + 4, label);
    }
    step = fmax(1, nice_step(f->x1 - f->x0, f->width > 600 ? 9 : 4));
    for (double x = ceil(f->x0 / step) * step; x <= f->x1; x += step)
        ls_str_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n",
                      ls_frame_x(f, x), f->height - LS_CHART_BOTTOM + 17, x);
    ls_str_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  f->width - LS_CHART_RIGHT, f->height - 3, x_name);
}

const char *ls_frame_class(const ls_frame *f) { return f->width > NARROW ? "wide" : "any"; }

bool ls_frame_narrow(ls_frame *f)
{
    const bool wide = f->width > NARROW;
    if (wide) {
        f->width = NARROW;
        f->height = fmin(f->height, 280);
    }
    return wide;
}

void ls_chart_open(ls_str *out, const ls_frame *f, const char *title, const char *shown)
{
    ls_str_printf(out, "<svg role=\"img\" class=\"%s\" aria-label=\"", shown);
    ls_html_add(out, title);
    ls_str_printf(out,
                  "\" viewBox=\"0 0 %.0f %.0f\" data-left=\"%.0f\" data-right=\"%.0f\" data-x0=\"%.9g\" "
                  "data-x1=\"%.9g\">\n",
                  f->width, f->height, LS_CHART_LEFT, f->width - LS_CHART_RIGHT, f->x0, f->x1);
}

/* ---- lines */

/* Of points in the same column it draws the smallest and the largest, so a noisy curve keeps its width. */
static void polyline(ls_str *out, const ls_frame *f, const ls_chart_series *s)
{
    const ls_curve *c = s->curve;
    const int most = f->width > NARROW ? COLUMNS : COLUMNS / 2, columns = c->n < 2 * most ? c->n : most;
    bool pen = false;
    ls_str_printf(out,
                  "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"%s d=\"",
                  s->color, s->faint ? "1" : "2", s->faint ? " opacity=\"0.38\"" : "");
    for (int k = 0; k < columns; k++) {
        int begin = (int)((int64_t)c->n * k / columns), end = (int)((int64_t)c->n * (k + 1) / columns),
            low = -1, high = -1;
        for (int i = begin; i < end; i++)
            if (isfinite(c->y[i])) {
                low = low < 0 || c->y[i] < c->y[low] ? i : low;
                high = high < 0 || c->y[i] > c->y[high] ? i : high;
            }
        if (low < 0) {
            pen = false; /* a gap where there is no number */
            continue;
        }
        int first = low < high ? low : high, second = low < high ? high : low;
        ls_str_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', ls_frame_x(f, c->x[first]),
                      ls_frame_y(f, c->y[first]));
        if (second != first)
            ls_str_printf(out, "L%.1f %.1f", ls_frame_x(f, c->x[second]), ls_frame_y(f, c->y[second]));
        pen = true;
    }
    ls_str_add(out, "\"/>\n");
    for (int i = 0; s->dots && i < c->n && c->n <= 200; i++)
        if (isfinite(c->y[i]))
            ls_str_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                          ls_frame_x(f, c->x[i]), ls_frame_y(f, c->y[i]), s->color);
}

static void key(ls_str *out, const char *sign, const char *name)
{
    ls_str_printf(out, "<span class=\"key\">%s%s</span>", sign, name);
}

void ls_chart_legend(ls_str *out, int n, const char *const *names, const char *const *colors,
                     const bool *faint, const ls_marks *marks)
{
    ls_str_add(out, "<figcaption>");
    for (int i = 0; i < n; i++) {
        ls_str_printf(out, "<span class=\"key\"><i style=\"background:%s%s\"></i>", colors[i],
                      faint && faint[i] ? ";opacity:.38" : "");
        ls_html_add(out, names[i]);
        ls_str_add(out, "</span>");
    }
    if (marks && marks->counts[LS_MARK_RESTART])
        key(out, "<i class=\"restart\"></i>", "restart, with the attempt that it began");
    if (marks && marks->counts[LS_MARK_KEPT])
        key(out, "<b>▲</b>", "checkpoint");
    if (marks && marks->counts[LS_MARK_REMOVED])
        key(out, "<b>△</b>", "checkpoint removed since");
    ls_str_add(out, "</figcaption>");
}

/* The JSON writer has escaped '<'. This escapes '&', too, so the page is well-formed XML as well as HTML. */
static void line_data(ls_str *out, const ls_chart *c)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "x", c->x_name);
    ls_json_bool(&j, "percent", c->percent);
    ls_json_array(&j, "series");
    for (int s = 0; s < c->n; s++) {
        const ls_curve *curve = c->series[s].curve;
        int shown = curve->n < COLUMNS ? curve->n : COLUMNS;
        ls_json_object(&j, NULL);
        ls_json_text(&j, "name", c->series[s].name);
        ls_json_array(&j, "at");
        for (int k = 0; k < shown; k++) {
            int i = (int)((int64_t)curve->n * k / shown);
            ls_json_array(&j, NULL);
            ls_json_f64(&j, NULL, curve->x[i]);
            ls_json_f32(&j, NULL, (float)curve->y[i]);
            ls_json_close_array(&j);
        }
        ls_json_close_array(&j);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    ls_page_data(out, NULL, &j);
}

/* Draws a dashed line for the start of an attempt, and a triangle on the axis for a checkpoint. */
static void draw_mark(ls_str *out, const ls_frame *f, const ls_mark *m)
{
    const double x = ls_frame_x(f, m->x), y = f->height - LS_CHART_BOTTOM;
    if (m->kind == LS_MARK_RESTART)
        ls_str_printf(out,
                      "<line class=\"edge\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>"
                      "<text class=\"name\" x=\"%.1f\" y=\"%.0f\">%lld</text>\n",
                      x, x, LS_CHART_TOP, y, x + 4, LS_CHART_TOP + 9, (long long)m->attempt);
    else
        ls_str_printf(out, "<path class=\"%s\" d=\"M%.1f %.1fl4 6.5h-8z\"/>\n",
                      m->kind == LS_MARK_KEPT ? "saved" : "removed", x, y - 7);
}

static void drawing(ls_str *out, const ls_frame *f, const ls_chart *c, const char *shown)
{
    const double left = LS_CHART_LEFT - 5, top = LS_CHART_TOP - 5,
                 width = f->width - LS_CHART_LEFT - LS_CHART_RIGHT + 10;
    const double height = f->height - LS_CHART_TOP - LS_CHART_BOTTOM + 10;
    ls_chart_open(out, f, c->title, shown);
    ls_frame_axes(out, f, c->percent ? 0.01 : 1, c->percent ? percent_tick : plain_tick, c->x_name);
    /* an inner drawing cuts off what leaves the frame */
    ls_str_printf(
        out, "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" viewBox=\"%.1f %.1f %.1f %.1f\">\n",
        left, top, width, height, left, top, width, height);
    for (int s = 0; s < c->n; s++)
        polyline(out, f, &c->series[s]);
    ls_str_add(out, "</svg>");
    for (int i = 0; c->marks && i < c->marks->n; i++)
        draw_mark(out, f, &c->marks->at[i]);
    ls_str_printf(out, "<line class=\"cursor\" y1=\"%.0f\" y2=\"%.0f\"/></svg>\n", LS_CHART_TOP,
                  f->height - LS_CHART_BOTTOM);
}

void ls_chart_lines(ls_str *out, const ls_chart *c)
{
    const char *names[3], *colors[3];
    bool faint[3];
    const bool bounded = c->low <= c->high;
    ls_frame f = { .x0 = INFINITY,
                   .x1 = -INFINITY,
                   .y0 = bounded ? c->low : INFINITY,
                   .y1 = bounded ? c->high : -INFINITY,
                   .width = c->width,
                   .height = c->height };
    for (int s = 0; s < c->n; s++) {
        const ls_curve *curve = c->series[s].curve;
        ls_curve_range(curve, &f.y0, &f.y1);
        if (curve->n) {
            f.x0 = fmin(f.x0, curve->x[0]);
            f.x1 = fmax(f.x1, curve->x[curve->n - 1]);
        }
        names[s] = c->series[s].name;
        colors[s] = c->series[s].color;
        faint[s] = c->series[s].faint;
    }
    if (!(f.y0 <= f.y1) || !(f.x0 <= f.x1))
        return; /* no finite number to draw */
    f.x0 = fmin(f.x0, 0);
    f.x1 = f.x1 > f.x0 ? f.x1 : f.x0 + 1;
    double margin = f.y1 > f.y0 ? 0.05 * (f.y1 - f.y0) : fmax(1e-12, 0.1 * fabs(f.y1));
    f.y0 = f.y0 >= 0 && f.y0 - margin < 0 ? 0 : f.y0 - margin;
    f.y1 += margin;
    ls_str_add(out, "<figure class=\"chart\">");
    drawing(out, &f, c, ls_frame_class(&f));
    if (ls_frame_narrow(&f))
        drawing(out, &f, c, "narrow");
    ls_chart_legend(out, c->n, names, colors, faint, c->marks);
    line_data(out, c);
    ls_str_add(out, "</figure>\n");
}
