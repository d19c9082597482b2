/* text_chart.c - see text_chart.h. */
#include "text_chart.h"
#include "base/c_locale.h"

#include <math.h>
#include <stdio.h>

enum { LABEL = 9 }; /* columns of a number of the y axis, with a space */

typedef struct plane {
    ls_screen *screen;
    int row, column, columns, rows; /* cells of the drawing */
    int dots_x, dots_y;             /* in a cell */
    double x0, x1, y0, y1;          /* ranges; y as log10 if `log` */
    bool log;
} plane;

static void dot(const plane *p, int x, int y, ls_ink ink)
{
    static const uint8_t BITS[4][2] = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } };
    const int row = p->row + y / p->dots_y, column = p->column + x / p->dots_x;
    if (x < 0 || y < 0 || x >= p->columns * p->dots_x || y >= p->rows * p->dots_y)
        return;
    if (p->dots_x == 1) {
        ls_screen_letter(p->screen, row, column, ink, '*');
        return;
    }
    const uint32_t before = p->screen->cells[row * p->screen->width + column].letter;
    ls_screen_letter(p->screen, row, column, ink, (before >= 0x2800 ? before : 0x2800) | BITS[y % 4][x % 2]);
}

static int place_y(const plane *p, double y)
{
    const double v = p->log ? log10(y) : y, most = p->rows * p->dots_y - 1;
    return (int)lrint(fmin(fmax((p->y1 - v) / (p->y1 - p->y0), 0), 1) * most);
}

/* A line from point to point. Of many points in a column it so covers all from the least to the greatest. */
static void draw(const plane *p, const ls_text_series *s)
{
    bool pen = false;
    int x0 = 0, y0 = 0;
    for (int i = 0; i < s->curve->n; i++) {
        const double y = s->curve->y[i];
        if (!isfinite(y) || (p->log && y <= 0)) {
            pen = false; /* a gap where there is no number */
            continue;
        }
        const int x1 = (int)lrint((s->curve->x[i] - p->x0) / (p->x1 - p->x0) * (p->columns * p->dots_x - 1)),
                  y1 = place_y(p, y);
        const int dx = pen ? x1 - x0 : 0, dy = pen ? y1 - y0 : 0, n = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
        for (int k = 0; k <= n; k++)
            dot(p, x1 - (n ? dx * k / n : 0), y1 - (n ? dy * k / n : 0), s->ink);
        x0 = x1;
        y0 = y1;
        pen = true;
    }
}

static void label(const plane *p, int row, double at, bool percent)
{
    char text[32];
    const double y = p->log ? pow(10, at) : at;
    ls_snprintf(text, sizeof text, percent ? "%.1f%%" : "%.3g", percent ? 100 * y : y);
    ls_screen_print(p->screen, row, p->column - LABEL, LS_INK_DIM, "%*s", LABEL - 1, text);
}

/* Finds the ranges. False: there is nothing to draw. */
static bool ranges(plane *p, const ls_text_chart *c)
{
    double least = INFINITY;
    p->x0 = p->y0 = INFINITY;
    p->x1 = p->y1 = -INFINITY;
    for (int i = 0; i < c->n; i++) {
        const ls_curve *curve = c->series[i].curve;
        ls_curve_range(curve, &p->y0, &p->y1);
        for (int k = 0; k < curve->n; k++)
            least = fmin(least, curve->y[k]);
        if (curve->n) {
            p->x0 = fmin(p->x0, curve->x[0]);
            p->x1 = fmax(p->x1, curve->x[curve->n - 1]);
        }
    }
    if (!(p->y0 <= p->y1) || !(p->x0 <= p->x1))
        return false;
    p->log = c->log && least > 0;
    if (p->log) {
        p->y0 = log10(p->y0);
        p->y1 = log10(p->y1);
    }
    p->x1 = fmax(p->x1, p->x0 + 1);
    if (!(p->y1 > p->y0)) {
        const double margin = fmax(1e-12, 0.1 * fabs(p->y0));
        p->y0 -= margin;
        p->y1 += margin;
    }
    return true;
}

void ls_text_chart_draw(ls_screen *s, const ls_text_chart *c)
{
    plane p = { .screen = s,
                .row = c->row + 1,
                .column = c->column + LABEL,
                .columns = c->width - LABEL,
                .rows = c->height - 2,
                .dots_x = s->utf8 ? 2 : 1,
                .dots_y = s->utf8 ? 4 : 1 };
    const int end = c->column + c->width;
    if (p.columns < 4 || p.rows < 1)
        return;
    int at = ls_screen_text(s, c->row, p.column, LS_INK_BOLD, c->title);
    if (!ranges(&p, c)) {
        ls_screen_text(s, p.row, p.column, LS_INK_DIM, "no numbers yet");
        return;
    }
    at = p.log ? ls_screen_text(s, c->row, at, LS_INK_DIM, " (log)") : at;
    for (int i = 0; i < c->n; i++) {
        const ls_text_series *series = &c->series[i];
        draw(&p, series);
        if (*series->name && series->curve->n && at + 2 + (int)strlen(series->name) < end)
            at = ls_screen_text(s, c->row, at + 2, series->ink, series->name);
    }
    label(&p, p.row, p.y1, c->percent);
    label(&p, p.row + p.rows - 1, p.y0, c->percent);
    if (p.rows > 4)
        label(&p, p.row + p.rows / 2, p.y1 - (p.y1 - p.y0) * (p.rows / 2) / (p.rows - 1), c->percent);
    char last[32];
    const int n = ls_snprintf(last, sizeof last, "step %.0f", p.x1);
    ls_screen_print(s, p.row + p.rows, p.column, LS_INK_DIM, "%.0f", p.x0);
    ls_screen_text(s, p.row + p.rows, end - n, LS_INK_DIM, last);
}
