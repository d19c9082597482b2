/* report_charts.c - line charts and the memory picture as SVG text. Coordinates are those of the drawing; the browser scales it. Beside each chart
 * lies its data as JSON, which the page's script shows under the pointer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "report_own.h"

#define LEFT 58.0
#define RIGHT 14.0
#define TOP 12.0
#define BOTTOM 34.0
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
                                                      [LS_CAT_DATA] = "var(--c-brown)" };
    return COLORS[c];
}

/* ---- axes ------------------------------------------------------------------------------------------------------------------ */

typedef struct frame { double x0, x1, y0, y1, width, height; } frame; /* data ranges; size of the drawing */

static double to_x(const frame *f, double x)
{
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (f->width - LEFT - RIGHT);
}

static double to_y(const frame *f, double y)
{
    return f->height - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (f->height - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` of them fit. */
static double nice_step(double range, int wanted)
{
    double raw = range / wanted, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

typedef void (*tick_text)(char out[32], double value);

static void plain_tick(char out[32], double v)
{
    snprintf(out, 32, "%.6g", fabs(v) < 1e-12 ? 0 : v);
}

static void percent_tick(char out[32], double v)
{
    snprintf(out, 32, "%.4g%%", 100 * v);
}

static void mib_tick(char out[32], double v)
{
    snprintf(out, 32, "%.4g", fabs(v) < 1 ? 0 : v / (1 << 20));
}

static void axes(ls_str *out, const frame *f, double y_unit, tick_text text, const char *x_name)
{
    char label[32];
    double step = nice_step((f->y1 - f->y0) / y_unit, 4) * y_unit;
    for (double y = ceil(f->y0 / step - 1e-9) * step; y <= f->y1 * (1 + 1e-9) + 1e-300; y += step) {
        text(label, y);
        ls_str_printf(out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                      LEFT, f->width - RIGHT, to_y(f, y), to_y(f, y), LEFT - 8, to_y(f, y) + 4, label);
    }
    step = fmax(1, nice_step(f->x1 - f->x0, f->width > 600 ? 9 : 4));
    for (double x = ceil(f->x0 / step) * step; x <= f->x1; x += step)
        ls_str_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", to_x(f, x), f->height - BOTTOM + 17, x);
    ls_str_printf(out, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", f->width - RIGHT, f->height - 3, x_name);
}

static void open_chart(ls_str *out, const frame *f, const char *title)
{
    ls_str_add(out, "<figure class=\"chart\"><svg role=\"img\" aria-label=\"");
    ls_html_add(out, title);
    ls_str_printf(out, "\" viewBox=\"0 0 %.0f %.0f\" data-left=\"%.0f\" data-right=\"%.0f\" data-x0=\"%.9g\" data-x1=\"%.9g\">\n", f->width, f->height, LEFT, f->width - RIGHT, f->x0, f->x1);
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
static void polyline(ls_str *out, const frame *f, const ls_chart_series *s)
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
        ls_str_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', to_x(f, c->x[first]), to_y(f, c->y[first]));
        if (second != first)
            ls_str_printf(out, "L%.1f %.1f", to_x(f, c->x[second]), to_y(f, c->y[second]));
        pen = true;
    }
    ls_str_add(out, "\"/>\n");
    for (int i = 0; s->dots && i < c->n && c->n <= 200; i++)
        if (isfinite(c->y[i]))
            ls_str_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", to_x(f, c->x[i]), to_y(f, c->y[i]), s->color);
}

static void legend(ls_str *out, int n, const char *const *names, const char *const *colors, const bool *faint)
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
static void add_data(ls_str *out, ls_json *j)
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

static void chart_data(ls_str *out, const ls_chart *c)
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
    add_data(out, &j);
}

void ls_chart_lines(ls_str *out, const ls_chart *c)
{
    const char *names[3], *colors[3];
    bool faint[3];
    frame f = { INFINITY, -INFINITY, c->low <= c->high ? c->low : INFINITY, c->low <= c->high ? c->high : -INFINITY, c->width, c->height };
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
    open_chart(out, &f, c->title);
    axes(out, &f, c->percent ? 0.01 : 1, c->percent ? percent_tick : plain_tick, c->x_name);
    /* an inner drawing cuts off what leaves the frame */
    ls_str_printf(out, "<svg x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" viewBox=\"%.1f %.1f %.1f %.1f\">\n", LEFT - 5, TOP - 5, f.width - LEFT - RIGHT + 10,
                  f.height - TOP - BOTTOM + 10, LEFT - 5, TOP - 5, f.width - LEFT - RIGHT + 10, f.height - TOP - BOTTOM + 10);
    for (int s = 0; s < c->n; s++)
        polyline(out, &f, &c->series[s]);
    ls_str_printf(out, "</svg><line class=\"cursor\" y1=\"%.0f\" y2=\"%.0f\"/></svg>\n", TOP, f.height - BOTTOM);
    legend(out, c->n, names, colors, faint);
    chart_data(out, c);
    ls_str_add(out, "</figure>\n");
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

#define BANDS (LS_CAT_COUNT + 1) /* inputs and outputs, then the categories */

/* State and io are there all the time, whichever program runs: they come from the whole session, not from the program's own points. */
static double band_bytes(const ls_report *r, const ls_report_program *p, int position, int band)
{
    if (!band)
        return fmax(0, (double)r->plan_io - (double)r->state_by_category[LS_CAT_GRADIENTS]);
    return (double)(r->state_by_category[band - 1] + ls_report_transient(p, position, band - 1));
}

size_t ls_report_transient(const ls_report_program *p, int position, int category)
{
    size_t all = p->points[position].bytes[category], fixed = p->fixed[category];
    return all > fixed ? all - fixed : 0;
}

static double total_at(const ls_report *r, const ls_report_program *p, int position)
{
    double sum = 0;
    for (int b = 0; b < BANDS; b++)
        sum += band_bytes(r, p, position, b);
    return sum;
}

/* Upper edge of the stack from band 0 to `band`, position by position, as a stepped line over one program. */
static void stack_edge(ls_str *out, const frame *f, const ls_report *r, const ls_report_program *p, double start, int band, bool back)
{
    for (int k = 0; k < p->n; k++) {
        int i = back ? p->n - 1 - k : k;
        double y = 0;
        for (int b = 0; b <= band; b++)
            y += band_bytes(r, p, i, b);
        double x0 = to_x(f, start + i), x1 = to_x(f, start + i + 1);
        ls_str_printf(out, "L%.1f %.1fL%.1f %.1f", back ? x1 : x0, to_y(f, y), back ? x0 : x1, to_y(f, y));
    }
}

static void memory_data(ls_str *out, const ls_report *r, const char *const *names)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_bool(&j, "memory", true);
    ls_json_array(&j, "names");
    for (int b = 0; b < BANDS; b++)
        ls_json_text(&j, NULL, names[b]);
    ls_json_close_array(&j);
    ls_json_array(&j, "at");
    for (int k = 0; k < r->n_programs; k++)
        for (int i = 0; i < r->programs[k].n; i++) {
            ls_json_array(&j, NULL);
            ls_json_text(&j, NULL, r->programs[k].labels ? r->programs[k].labels[i] : r->programs[k].name);
            for (int b = 0; b < BANDS; b++)
                ls_json_f32(&j, NULL, (float)(band_bytes(r, &r->programs[k], i, b) / (1 << 20)));
            ls_json_close_array(&j);
        }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    add_data(out, &j);
}

void ls_chart_memory(ls_str *out, const ls_report *r)
{
    const char *names[BANDS] = { "inputs and outputs" }, *colors[BANDS] = { "var(--c-gray)" }, *used_names[BANDS], *used_colors[BANDS];
    bool used[BANDS] = { false };
    frame f = { 0, 0, 0, 0, 880, 300 };
    for (int b = 1; b < BANDS; b++) {
        names[b] = ls_category_name((ls_category)(b - 1));
        colors[b] = ls_category_color((ls_category)(b - 1));
    }
    for (int k = 0; k < r->n_programs; k++) {
        const ls_report_program *p = &r->programs[k];
        f.x1 += p->n;
        for (int i = 0; i < p->n; i++) {
            f.y1 = fmax(f.y1, total_at(r, p, i));
            for (int b = 0; b < BANDS; b++)
                used[b] = used[b] || band_bytes(r, p, i, b) > 0;
        }
    }
    if (f.x1 <= 0 || f.y1 <= 0)
        return;
    f.y1 *= 1.06;
    open_chart(out, &f, "memory over the step");
    axes(out, &f, 1 << 20, mib_tick, "kernel calls of a step");
    int shown = 0;
    for (int b = 0; b < BANDS; b++) {
        double start = 0;
        if (!used[b])
            continue;
        used_names[shown] = names[b];
        used_colors[shown++] = colors[b];
        for (int k = 0; k < r->n_programs; start += r->programs[k++].n) {
            const ls_report_program *p = &r->programs[k];
            if (!p->n)
                continue;
            ls_str_printf(out, "<path fill=\"%s\" d=\"M%.1f %.1f", colors[b], to_x(&f, start), to_y(&f, 0));
            stack_edge(out, &f, r, p, start, b, false);
            if (b)
                stack_edge(out, &f, r, p, start, b - 1, true);
            else
                ls_str_printf(out, "L%.1f %.1f", to_x(&f, start + p->n), to_y(&f, 0));
            ls_str_add(out, "Z\"/>\n");
        }
    }
    double start = 0;
    for (int k = 0; k < r->n_programs; start += r->programs[k++].n) {
        const ls_report_program *p = &r->programs[k];
        if (k)
            ls_str_printf(out, "<line class=\"edge\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>\n", to_x(&f, start), to_x(&f, start), TOP, f.height - BOTTOM);
        bool left = k && to_x(&f, start) > f.width - RIGHT - 60; /* no room behind the edge */
        ls_str_printf(out, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", to_x(&f, start) + (left ? -4 : 4), TOP + 9, left ? "end" : "start");
        ls_html_add(out, p->name);
        ls_str_add(out, "</text>\n");
    }
    ls_str_printf(out, "<line class=\"cursor\" y1=\"%.0f\" y2=\"%.0f\"/></svg>\n", TOP, f.height - BOTTOM);
    legend(out, shown, used_names, used_colors, NULL);
    memory_data(out, r, names);
    ls_str_add(out, "</figure>\n");
}
