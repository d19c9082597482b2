/* report_own.h - pieces of the report page: curves read from metrics.jsonl, charts drawn as SVG text. Private to report.c and report_c*.c. */
#pragma once
#include "base/str.h"
#include "report.h"

/* Rows of metrics.jsonl by kind, in the order of the file. Numbers that a row lacks are NAN. */
typedef struct ls_curve { int n, cap; double *x, *y; } ls_curve;
typedef struct ls_epoch_line { double epoch, step, samples, loss, eval_loss, eval_accuracy, seconds; } ls_epoch_line;
typedef struct ls_curves {
    ls_curve loss, smooth, lr, seconds; /* over steps */
    ls_curve eval_loss, eval_accuracy;  /* over steps */
    ls_epoch_line *epochs; int n_epochs, cap_epochs;
    int64_t samples;                    /* of all steps */
    double step_seconds;                /* sum over steps */
    int bad_lines;                      /* lines that are no JSON (a crash of the machine cut one) */
} ls_curves;
ls_status ls_curves_read(ls_curves *out, const char *path);
void ls_curves_release(ls_curves *c);

typedef struct ls_chart_series { const ls_curve *curve; const char *name, *color; bool dots, faint; } ls_chart_series;
typedef struct ls_chart {
    const char *title, *x_name;
    int n;
    ls_chart_series series[3];
    double low, high;      /* y must show at least these; low > high: whatever the data says */
    bool percent;          /* y is a fraction, shown as % */
    int width, height;     /* units of the drawing: a letter is 12 high, the page 880 wide */
} ls_chart;
void ls_chart_lines(ls_str *out, const ls_chart *c);
void ls_chart_memory(ls_str *out, const ls_report *r); /* live bytes by category over the positions of the step's programs */

size_t ls_report_transient(const ls_report_program *p, int position, int category); /* bytes of the arena */

void ls_html_add(ls_str *out, const char *text);       /* escaped for text and attributes */
const char *ls_category_color(ls_category c);          /* CSS variable */
