/* chart_stack.c - charts of memory: bytes by category, stacked, over columns. See chart.h. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "chart.h"

enum { COLUMNS = 800 }; /* more than that could not be told apart on a screen */

static double at(const ls_stack *s, int column, int band)
{
    return s->bytes[(int64_t)column * s->bands + band];
}

static double sum(const ls_stack *s, int column)
{
    double y = 0;
    for (int b = 0; b < s->bands; b++)
        y += at(s, column, b);
    return y;
}

static bool is_same(const ls_stack *s, int a, int b)
{
    return !strcmp(s->labels[a], s->labels[b]) &&
           !memcmp(&s->bytes[(int64_t)a * s->bands], &s->bytes[(int64_t)b * s->bands],
                   sizeof *s->bytes * (size_t)s->bands);
}

/* The columns to draw: of those that share a place the one with the most bytes, and only where it differs
 * from the one before. `first` gets where the place begins. Returns how many. */
static int find_columns(const ls_stack *s, int *shown, int *first)
{
    const int places = s->columns < COLUMNS ? s->columns : COLUMNS;
    int n = 0;
    for (int k = 0; k < places; k++) {
        const int begin = (int)((int64_t)s->columns * k / places),
                  end = (int)((int64_t)s->columns * (k + 1) / places);
        int most = begin;
        for (int i = begin + 1; i < end; i++)
            most = sum(s, i) > sum(s, most) ? i : most;
        if (n && is_same(s, shown[n - 1], most))
            continue;
        shown[n] = most;
        first[n++] = begin;
    }
    return n;
}

/* The bytes of a band at every shown column, in MiB; of all bands for band -1. */
static void fill(ls_curve *c, const ls_stack *s, const int *shown, int band)
{
    for (int k = 0; k < c->n; k++)
        c->y[k] = (band < 0 ? sum(s, shown[k]) : at(s, shown[k], band)) / (1 << 20);
}

static bool is_used(const ls_stack *s, int band)
{
    bool used = false;
    for (int i = 0; i < s->columns && !used; i++)
        used = at(s, i, band) > 0;
    return used;
}

static double position(const ls_stack *s, double column)
{
    return s->x0 + (s->x1 - s->x0) * column / s->columns;
}

static void mark(ls_json *j, const ls_stack *s, double column, const char *kind, const char *text)
{
    ls_json_object(j, NULL);
    ls_json_f64(j, "x", position(s, column));
    ls_json_text(j, "kind", kind);
    ls_json_text(j, "text", text);
    ls_json_close_object(j);
}

static void stack_json(ls_str *out, const ls_stack *s, ls_curve *c, const int *shown)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "title", s->title);
    ls_json_text(&j, "x", s->x_name);
    ls_json_text(&j, "unit", "MiB");
    ls_json_int(&j, "height", 300);
    ls_json_bool(&j, "stacked", true);
    ls_json_f64(&j, "end", s->x1);
    ls_json_array(&j, "labels");
    for (int k = 0; k < c->n; k++)
        ls_json_text(&j, NULL, s->labels[shown[k]]);
    ls_json_close_array(&j);
    ls_json_array(&j, "series");
    for (int b = 0; b < s->bands; b++) {
        if (!is_used(s, b))
            continue;
        fill(c, s, shown, b);
        ls_figure_series(&j, s->names[b], s->colors[b]);
        ls_chart_points(&j, "points", c, c->n);
        ls_json_close_object(&j);
    }
    ls_json_close_array(&j);
    ls_json_array(&j, "marks");
    for (int i = 0; i < s->n_marks; i++)
        mark(&j, s, s->marks[i].column, "line", s->marks[i].text);
    if (s->peak >= 0)
        mark(&j, s, s->peak + 0.5, "peak", s->peak_text);
    ls_json_close_array(&j);
    ls_figure_data(out, &j);
}

static void stack_figure(ls_str *out, const ls_stack *s, ls_curve *c, const int *shown)
{
    ls_figure_begin(out, s->title);
    stack_json(out, s, c, shown);
    ls_figure_table(out, s->title, s->x_name, LS_UNIT_MIB, c->n);
    fill(c, s, shown, -1);
    ls_figure_row(out, c, "all", LS_UNIT_MIB, c->n);
    for (int b = s->bands - 1; b >= 0; b--) {
        fill(c, s, shown, b);
        if (is_used(s, b))
            ls_figure_row(out, c, s->names[b], LS_UNIT_MIB, c->n);
    }
    ls_figure_end(out);
}

void ls_chart_stack(ls_str *out, const ls_stack *s)
{
    double most = 0;
    for (int i = 0; i < s->columns; i++)
        most = fmax(most, sum(s, i));
    if (most <= 0)
        return;
    ls_arena scratch;
    ls_arena_init(&scratch);
    int *shown = LS_ARENA_ARRAY(&scratch, int, COLUMNS), *first = LS_ARENA_ARRAY(&scratch, int, COLUMNS);
    ls_curve c = { .x = LS_ARENA_ARRAY(&scratch, double, COLUMNS),
                   .y = LS_ARENA_ARRAY(&scratch, double, COLUMNS) };
    if (ls_arena_status(&scratch) == LS_OK) {
        c.n = find_columns(s, shown, first);
        for (int k = 0; k < c.n; k++)
            c.x[k] = position(s, first[k]);
        stack_figure(out, s, &c, shown);
    } else {
        ls_str_add(out, NULL); /* (no memory) */
    }
    ls_arena_release(&scratch);
}
