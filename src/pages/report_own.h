/* report_own.h - pieces of the HTML pages: charts as SVG text. Private to report*.c, run_page.c and
 * memory_page.c. */
#pragma once
#include "record/curves.h"
#include "page.h"
#include "report.h"

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
    const char *name, *color;
    bool dots, faint;
} ls_chart_series;
typedef struct ls_chart {
    const char *title, *x_name;
    int n;
    ls_chart_series series[3];
    double low, high; /* the least range of y; low > high: that of the data */
    bool percent;     /* y is a fraction, shown as % */
    /* In units of the drawing: a letter is 12 high, the page 880 wide. A wide chart is drawn a second time
     * for narrow screens. */
    int width, height;
    const ls_marks *marks; /* may be NULL */
} ls_chart;
void ls_chart_lines(ls_str *out, const ls_chart *c);
/* Draws live bytes by category over the positions of the step's programs. */
void ls_chart_memory(ls_str *out, const ls_report *r);

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
void ls_chart_stack(ls_str *out, const ls_stack *s);

/* Restarts and checkpoints: as marks on the curves, and as tables. */
ls_status ls_marks_make(ls_marks *out, const ls_history *h, const char *run_dir); /* free .at */
void ls_report_restarts(ls_str *out, const ls_history *h);
void ls_report_checkpoints(ls_str *out, const ls_history *h, const char *run_dir);
/* Adds to a table a heading for each metric, and its cell for one evaluation. */
void ls_report_metric_names(ls_str *out, const ls_metric_list *names);
void ls_report_metric_cells(ls_str *out, const ls_metric_list *names, const ls_metric_list *values);

/* ---- pieces of a chart */
#define LS_CHART_LEFT 58.0
#define LS_CHART_RIGHT 14.0
#define LS_CHART_TOP 12.0
#define LS_CHART_BOTTOM 34.0
/* Ranges of the data, and the size of the drawing. */
typedef struct ls_frame {
    double x0, x1, y0, y1, width, height;
} ls_frame;
typedef void (*ls_tick_text)(char out[32], double value);
double ls_frame_x(const ls_frame *f, double x);
double ls_frame_y(const ls_frame *f, double y);
void ls_frame_axes(ls_str *out, const ls_frame *f, double y_unit, ls_tick_text text, const char *x_name);
bool ls_frame_narrow(ls_frame *f); /* makes it the frame for narrow screens; false: it is one already */
const char *ls_frame_class(const ls_frame *f); /* "wide": shown where there is room; "any": always */
void ls_chart_open(ls_str *out, const ls_frame *f, const char *title, const char *shown);
void ls_chart_legend(ls_str *out, int n, const char *const *names, const char *const *colors,
                     const bool *faint, const ls_marks *marks);

/* Bytes in the arena at a position. */
size_t ls_report_transient(const ls_report_program *p, int position, int category);

const char *ls_category_color(ls_category c); /* CSS variable */
