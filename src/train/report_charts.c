/* report_charts.c - frames with axes, and line charts in them, as SVG text. Coordinates are those of the drawing; the browser scales it. Beside each chart
 * lies its data as JSON, which the page's script shows under the pointer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "report_own.h"

#define COLUMNS 400 /* at most so many places along x; more points than that share one */

void ls_html_add(ls_str *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : *text == '"' ? "&quot;" : NULL;
        if (entity)
            ls_str_add(out, entity);
        else if ((unsigned char)*text >= 0x20 || *text == '\n')
            ls_str_add_n(out, text, 1);
    }
}

const char *ls_category_color(ls_category c)
{
    static const char *const COLORS[LS_CAT_COUNT] = { [LS_CAT_PARAMETERS] = "var(--c-blue)",   [LS_CAT_GRADIENTS] = "var(--c-amber)",
                                                      [LS_CAT_OPTIMIZER] = "var(--c-red)",     [LS_CAT_GATHERED] = "var(--c-sky)",
                                                      [LS_CAT_ACTIVATIONS] = "var(--c-teal)",  [LS_CAT_WORKSPACE] = "var(--c-violet)",
                                                      [LS_CAT_DATA] = "var(--c-brown)",        [LS_CAT_STAGING] = "var(--c-moss)" };
    return COLORS[c];
}

/* ---- axes ------------------------------------------------------------------------------------------------------------------ */

double ls_frame_x(const ls_frame *f, double x)
{
    return LS_CHART_LEFT + (x - f->x0) / (f->x1 - f->x0) * (f->width - LS_CHART_LEFT - LS_CHART_RIGHT);
}

double ls_frame_y(const ls_frame *f, double y)
{
    return f->height - LS_CHART_BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (f->height - LS_CHART_TOP - LS_CHART_BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` of them fit. */
static double nice_step(double range, int wanted)
{
    double raw = range / wanted, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void plain_tick(char out[32], double v)
{
    snprintf(out, 32, "%.6g", fabs(v) < 1e-12 ? 0 : v);
}

static void percent_tick(char out[32], double v)
{
    snprintf(out, 32, "%.4g%%", 100 * v);
}

void ls_frame_axes(ls_str *out, const ls_frame *f, double y_unit, ls_tick_text text, const char *x_name)
{
    char label[32];
    double step = nice_step((f->y1 - f->y0) / y_unit, 4) * y_unit;
    for (double y = ceil(f->y0 / step - 1e-9) * step; y <= f->y1 * (1 + 1e-9) + 1e-300; y += step) {
        text(label, y);
        ls_str_printf(out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                      LS_CHART_LEFT, f->width - LS_CHART_RIGHT, ls_frame_y(f, y), ls_frame_y(f, y), LS_CHART_LEFT - 8, ls_frame_y(f, y) + 4, label);
    }
    step = fmax(1, nice_step(f->x1 - f->x0, f->width > 600 ? 9 : 4));
    for (double x = ceil(f->x0 / step) * step; x <= f->x1; x += step)
        ls_str_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", ls_frame_x(f, x), f->height - LS_CHART_BOTTOM + 17, x);
    ls_str_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", f->width - LS_CHART_RIGHT, f->height - 3, x_name);
}

void ls_chart_open(ls_str *out, const ls_frame *f, const char *title)
{
    ls_str_add(out, "<figure class=\"chart\"><svg role=\"img\" aria-label=\"");
    ls_html_add(out, title);
    ls_str_printf(out, "\" viewBox=\"0 0 %.0f %.0f\" data-left=\"%.0f\" data-right=\"%.0f\" data-x0=\"%.9g\" data-x1=\"%.9g\">\n", f->width, f->height, LS_CHART_LEFT, f->width - LS_CHART_RIGHT, f->x0, f->x1);
}

/* ---- lines ----------------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Range of y that leaves out the most extreme half percent: one wild step must not flatten the rest. */
static void range_of(const ls_curve *c, double *low, double *high)
{
    double *sorted = malloc(sizeof *sorted * (size_t)(c->n + 1));
    int n = 0;
    for (int i = 0; sorted && i < c->n; i++)
        if (isfinite(c->y[i]))
            sorted[n++] = c->y[i];
    if (n) {
        qsort(sorted, (size_t)n, sizeof *sorted, compare);
        *low = fmin(*low, sorted[n / 200]);
        *high = fmax(*high, sorted[n - 1 - n / 200]);
    }
    free(sorted);
}

/* Points that share a column are drawn as their smallest and largest, so that the band of a noisy curve keeps its width. */
static void polyline(ls_str *out, const ls_frame *f, const ls_chart_series *s)
{
    const ls_curve *c = s->curve;
    int columns = c->n < 2 * COLUMNS ? c->n : COLUMNS;
    bool pen = false;
    ls_str_printf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"%s d=\"", s->color, s->faint ? "1" : "2", s->faint ? " opacity=\"0.38\"" : "");
    for (int k = 0; k < columns; k++) {
        int begin = (int)((int64_t)c->n * k / columns), end = (int)((int64_t)c->n * (k + 1) / columns), low = -1, high = -1;
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
        ls_str_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', ls_frame_x(f, c->x[first]), ls_frame_y(f, c->y[first]));
        if (second != first)
            ls_str_printf(out, "L%.1f %.1f", ls_frame_x(f, c->x[second]), ls_frame_y(f, c->y[second]));
        pen = true;
    }
    ls_str_add(out, "\"/>\n");
    for (int i = 0; s->dots && i < c->n && c->n <= 200; i++)
        if (isfinite(c->y[i]))
            ls_str_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", ls_frame_x(f, c->x[i]), ls_frame_y(f, c->y[i]), s->color);
}

void ls_chart_legend(ls_str *out, int n, const char *const *names, const char *const *colors, const bool *faint)
{
    ls_str_add(out, "<figcaption>");
    for (int i = 0; i < n; i++) {
        ls_str_printf(out, "<span class=\"key\"><i style=\"background:%s%s\"></i>", colors[i], faint && faint[i] ? ";opacity:.38" : "");
        ls_html_add(out, names[i]);
        ls_str_add(out, "</span>");
    }
    ls_str_add(out, "</figcaption>");
}

/* The writer has escaped '<' already; with '&' escaped too the page is well-formed XML as well as HTML. */
void ls_chart_data(ls_str *out, ls_json *j)
{
    ls_str_add(out, "<script type=\"application/json\">");
    for (const char *p = ls_str_text(&j->out); *p;) {
        size_t n = strcspn(p, "&");
        ls_str_add_n(out, p, n);
        p += n;
        if (*p)
            ls_str_add(out, "\\u0026");
        p += *p != 0;
    }
    ls_str_add(out, "</script>");
    ls_str_release(&j->out);
}

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
    ls_chart_data(out, &j);
}

void ls_chart_lines(ls_str *out, const ls_chart *c)
{
    const char *names[3], *colors[3];
    bool faint[3];
    ls_frame f = { INFINITY, -INFINITY, c->low <= c->high ? c->low : INFINITY, c->low <= c->high ? c->high : -INFINITY, c->width, c->height };
    for (int s = 0; s < c->n; s++) {
        const ls_curve *curve = c->series[s].curve;
        range_of(curve, &f.y0, &f.y1);
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
    ls_chart_open(out, &f, c->title);
    ls_frame_axes(out, &f, c->percent ? 0.01 : 1, c->percent ? percent_tick : plain_tick, c->x_name);
    /* an inner drawing cuts off what leaves the frame */
    ls_str_printf(out, "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" viewBox=\"%.1f %.1f %.1f %.1f\">\n", LS_CHART_LEFT - 5, LS_CHART_TOP - 5, f.width - LS_CHART_LEFT - LS_CHART_RIGHT + 10,
                  f.height - LS_CHART_TOP - LS_CHART_BOTTOM + 10, LS_CHART_LEFT - 5, LS_CHART_TOP - 5, f.width - LS_CHART_LEFT - LS_CHART_RIGHT + 10, f.height - LS_CHART_TOP - LS_CHART_BOTTOM + 10);
    for (int s = 0; s < c->n; s++)
        polyline(out, &f, &c->series[s]);
    ls_str_printf(out, "</svg><line class=\"cursor\" y1=\"%.0f\" y2=\"%.0f\"/></svg>\n", LS_CHART_TOP, f.height - LS_CHART_BOTTOM);
    ls_chart_legend(out, c->n, names, colors, faint);
    line_data(out, c);
    ls_str_add(out, "</figure>\n");
}
