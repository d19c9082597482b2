/* chart.h - charts: a figure with its data as JSON, which scripts/charts.js draws (its head describes the
 * format), and a table of its numbers, for readers without scripts, on paper, or with a screen reader. */
#pragma once
#include "page.h"
#include "record/curves.h"

/* A mark on a curve: a restart, a checkpoint that still exists, one that was removed. */
typedef enum ls_mark_kind { LS_MARK_RESTART, LS_MARK_KEPT, LS_MARK_REMOVED, LS_MARK_KINDS } ls_mark_kind;
typedef struct ls_mark {
    double x;
    ls_mark_kind kind;
    int64_t attempt;
} ls_mark;
typedef struct ls_marks {
    int n, counts[LS_MARK_KINDS];
    ls_mark *at;
} ls_marks;

typedef struct ls_chart_series {
    const ls_curve *curve;
    const char *name, *color; /* color: of CSS */
    bool dots, faint;
} ls_chart_series;
typedef struct ls_chart {
    const char *title, *x_name;
    int n;
    ls_chart_series series[3];
    double low, high;      /* the least range of y; low > high: that of the data */
    bool percent;          /* y is a fraction, shown as % */
    int height;            /* in pixels; the drawing is as wide as its place */
    const ls_marks *marks; /* may be NULL */
} ls_chart;
/* Adds nothing if no number is finite. */
void ls_chart_lines(ls_str *out, const ls_chart *c);

/* Adds an array of the curve's points to an open object. More than `most` are joined into so many, each with
 * the mean, the least and the greatest of its numbers. */
void ls_chart_points(ls_json *j, const char *key, const ls_curve *c, int most);

/* Bytes over columns (positions or moments), in stacked bands. */
enum { LS_STACK_MARKS = 32 };
typedef struct ls_stack {
    const char *title, *x_name;
    int columns, bands;
    const char *const *names, *const *colors; /* per band, from the bottom up */
    const double *bytes;                      /* [columns][bands] */
    const char *const *labels;                /* per column: what runs there; shown at the pointer */
    double x0, x1;                            /* values of the axis at its two ends */
    int n_marks;
    /* vertical lines with a text */
    struct {
        double column;
        const char *text;
    } marks[LS_STACK_MARKS];
    int peak; /* this column gets a line and `peak_text`; -1: none */
    const char *peak_text;
} ls_stack;
/* Of more columns than a screen shows it joins neighbours into that which has the most bytes. Adds nothing if
 * there are no bytes. */
void ls_chart_stack(ls_str *out, const ls_stack *s);

/* ---- pieces of a figure, for figures with data or tables of their own */

void ls_figure_begin(ls_str *out, const char *title);
/* Ends the document j, whose outermost object is open, and adds it. */
void ls_figure_data(ls_str *out, ls_json *j);
/* The table: how its numbers are written, a row for each series, and the end of the figure. `most`: the
 * numbers of the longest series, or LS_FIGURE_MOST before they are known. */
enum { LS_FIGURE_MOST = 1000 };
typedef enum ls_figure_unit { LS_UNIT_NONE, LS_UNIT_PERCENT, LS_UNIT_MIB } ls_figure_unit;
void ls_figure_table(ls_str *out, const char *title, const char *x_name, ls_figure_unit unit, int most);
void ls_figure_row(ls_str *out, const ls_curve *c, const char *name, ls_figure_unit unit, int most);
void ls_figure_end(ls_str *out);
void ls_figure_series(ls_json *j, const char *name, const char *color); /* opens an object */
