/* report_stack.c - charts of memory: bytes by category, stacked, over the columns of a drawing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/c_locale.h"
#include "report_own.h"

static void mib_tick(char out[32], double v)
{
    ls_snprintf(out, 32, "%.4g", fabs(v) < 1 ? 0 : v / (1 << 20));
}

static double at(const ls_stack *s, int column, int band)
{
    return s->bytes[(int64_t)column * s->bands + band];
}

/* Height of the upper edge of a band. */
static double height(const ls_stack *s, int column, int band)
{
    double y = 0;
    for (int b = 0; b <= band; b++)
        y += at(s, column, b);
    return y;
}

/* Draws the upper edge of a band over columns [begin, end) as a stepped line. Columns of equal height share a
 * piece. */
static void edge(ls_str *out, const ls_frame *f, const ls_stack *s, int begin, int end, int band, bool back)
{
    const int n = end - begin;
    for (int k = 0; k < n;) {
        int i = back ? end - 1 - k : begin + k, same = 1;
        const double y = height(s, i, band);
        while (k + same < n && height(s, back ? i - same : i + same, band) == y)
            same++;
        const double x0 = ls_frame_x(f, back ? i + 1 : i), x1 = ls_frame_x(f, back ? i + 1 - same : i + same);
        ls_str_printf(out, "L%.1f %.1fL%.1f %.1f", x0, ls_frame_y(f, y), x1, ls_frame_y(f, y));
        k += same;
    }
}

static bool is_used(const ls_stack *s, int band)
{
    bool used = false;
    for (int i = 0; i < s->columns && !used; i++)
        used = at(s, i, band) > 0;
    return used;
}

static void band_path(ls_str *out, const ls_frame *f, const ls_stack *s, int band)
{
    ls_str_printf(out, "<path fill=\"%s\" d=\"M%.1f %.1f", s->colors[band], ls_frame_x(f, 0),
                  ls_frame_y(f, 0));
    edge(out, f, s, 0, s->columns, band, false);
    if (band)
        edge(out, f, s, 0, s->columns, band - 1, true);
    else
        ls_str_printf(out, "L%.1f %.1f", ls_frame_x(f, s->columns), ls_frame_y(f, 0));
    ls_str_add(out, "Z\"/>\n");
}

/* The text of a line stands to its left where there is no room to the right. */
static bool stands_left(const ls_frame *f, double x) { return x > f->width - LS_CHART_RIGHT - 90; }

static void mark(ls_str *out, const ls_frame *f, double column, const char *text, double y, bool line)
{
    const double x = ls_frame_x(f, column);
    const bool left = line && stands_left(f, x);
    if (line)
        ls_str_printf(out, "<line class=\"edge\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>\n", x, x,
                      LS_CHART_TOP, f->height - LS_CHART_BOTTOM);
    ls_str_printf(out, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x + (left ? -4 : 4),
                  y, left ? "end" : "start");
    ls_html_add(out, text);
    ls_str_add(out, "</text>\n");
}

static void data(ls_str *out, const ls_stack *s)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_bool(&j, "memory", true);
    ls_json_array(&j, "names");
    for (int b = 0; b < s->bands; b++)
        ls_json_text(&j, NULL, s->names[b]);
    ls_json_close_array(&j);
    ls_json_array(&j, "at");
    for (int i = 0; i < s->columns; i++) {
        ls_json_array(&j, NULL);
        ls_json_text(&j, NULL, s->labels[i]);
        for (int b = 0; b < s->bands; b++)
            ls_json_f32(&j, NULL, (float)(at(s, i, b) / (1 << 20)));
        ls_json_close_array(&j);
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    ls_page_data(out, NULL, &j);
}

static void drawing(ls_str *out, const ls_frame *f, const ls_stack *s, const char *shown)
{
    ls_frame axis = *f;
    axis.x0 = s->x0;
    axis.x1 = s->x1;
    ls_chart_open(out, f, s->title, shown);
    ls_frame_axes(out, &axis, 1 << 20, mib_tick, s->x_name);
    for (int i = 0; i < s->bands; i++)
        if (is_used(s, i))
            band_path(out, f, s, i);
    double end = 0; /* of the last text: one that would lie over it is left out */
    for (int i = 0; i < s->n_marks; i++) {
        const double x = ls_frame_x(f, s->marks[i].column);
        const double width = 10 + 8 * (double)strlen(s->marks[i].text);
        const double from = stands_left(f, x) ? x - width : x;
        mark(out, f, s->marks[i].column, from >= end ? s->marks[i].text : "", LS_CHART_TOP + 9,
             s->marks[i].column > 0);
        end = from >= end ? from + width : end;
    }
    if (s->peak >= 0)
        mark(out, f, s->peak + 0.5, s->peak_text, LS_CHART_TOP + 23, true);
    ls_str_printf(out, "<line class=\"cursor\" y1=\"%.0f\" y2=\"%.0f\"/></svg>\n", LS_CHART_TOP,
                  f->height - LS_CHART_BOTTOM);
}

void ls_chart_stack(ls_str *out, const ls_stack *s)
{
    ls_frame f = { 0, s->columns, 0, 0, 880, 300 };
    const char *names[16], *colors[16];
    int shown = 0;
    for (int i = 0; i < s->columns; i++)
        f.y1 = fmax(f.y1, height(s, i, s->bands - 1));
    if (s->columns < 1 || f.y1 <= 0)
        return;
    f.y1 *= 1.12; /* room for the words at the top */
    for (int i = 0; i < s->bands; i++)
        if (is_used(s, i)) {
            names[shown] = s->names[i];
            colors[shown++] = s->colors[i];
        }
    ls_str_add(out, "<figure class=\"chart\">");
    drawing(out, &f, s, ls_frame_class(&f));
    if (ls_frame_narrow(&f))
        drawing(out, &f, s, "narrow");
    ls_chart_legend(out, shown, names, colors, NULL, NULL);
    data(out, s);
    ls_str_add(out, "</figure>\n");
}

/* ---- the step of a run */

#define BANDS (LS_CAT_COUNT + 1) /* inputs and outputs, then the categories */

size_t ls_report_transient(const ls_report_program *p, int position, int category)
{
    size_t all = p->points[position].bytes[category], fixed = p->fixed[category];
    return all > fixed ? all - fixed : 0;
}

/* State and io are there whichever program runs, so they come from the whole session, not from the points of
 * a program. */
static double band_bytes(const ls_report *r, const ls_report_program *p, int position, int band)
{
    if (!band)
        return fmax(0, (double)r->plan_io - (double)r->state_by_category[LS_CAT_GRADIENTS]);
    return (double)(r->state_by_category[band - 1] + ls_report_transient(p, position, band - 1));
}

void ls_chart_memory(ls_str *out, const ls_report *r)
{
    const char *names[BANDS] = { "inputs and outputs" }, *colors[BANDS] = { "var(--c-gray)" };
    for (int b = 1; b < BANDS; b++) {
        names[b] = ls_category_name((ls_category)(b - 1));
        colors[b] = ls_category_color((ls_category)(b - 1));
    }
    ls_stack s = { .title = "memory over the step",
                   .x_name = "kernel calls of a step",
                   .bands = BANDS,
                   .names = names,
                   .colors = colors,
                   .peak = -1 };
    for (int k = 0; k < r->n_programs; k++)
        s.columns += r->programs[k].n;
    ls_arena scratch;
    ls_arena_init(&scratch);
    double *bytes = LS_ARENA_ARRAY(&scratch, double, s.columns *BANDS + 1);
    const char **labels = LS_ARENA_ARRAY(&scratch, const char *, s.columns + 1);
    ls_str_add(out, labels ? "" : NULL);
    for (int k = 0, column = 0; labels && k < r->n_programs; k++) {
        const ls_report_program *p = &r->programs[k];
        s.marks[s.n_marks].column = column;
        s.marks[s.n_marks++].text = p->name;
        for (int i = 0; i < p->n; i++, column++) {
            labels[column] = p->labels ? p->labels[i] : p->name;
            for (int b = 0; b < BANDS; b++)
                bytes[column * BANDS + b] = band_bytes(r, p, i, b);
        }
    }
    s.bytes = bytes;
    s.labels = labels;
    s.x1 = s.columns;
    if (labels)
        ls_chart_stack(out, &s);
    ls_arena_release(&scratch);
}
