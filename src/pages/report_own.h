/* report_own.h - pieces of report.html: its sections. Each is a function that adds its HTML, heading
 * included, or nothing where the run has no data for it, so none asks whether a recipe or a program made the
 * run. The list is in report.c. Private to report*.c. */
#pragma once
#include "chart.h"
#include "record/curves.h"
#include "record/run_confusion.h"
#include "report.h"

typedef struct ls_run_page {
    ls_str out;
    const ls_rundir *run;
    const ls_report *r;
    ls_run_info info; /* of result.json */
    ls_history history;
    ls_curves curves;         /* all numbers over steps, by name */
    ls_curve smooth;          /* of the loss */
    ls_marks marks;           /* restarts and checkpoints, on the curves */
    char *config;             /* the text of config.txt; NULL: there is none */
    ls_confusions confusions; /* of the last evaluation, which followed this step */
    int64_t confusion_step;
} ls_run_page;

void ls_report_tiles(ls_run_page *p);   /* report_tiles.c */
void ls_report_curves(ls_run_page *p);  /* report_curves.c */
void ls_report_epochs(ls_run_page *p);  /* report_events.c */
void ls_report_classes(ls_run_page *p); /* report_classes.c */
void ls_report_restarts(ls_run_page *p);
void ls_report_checkpoints(ls_run_page *p);
void ls_report_memory(ls_run_page *p); /* report_plan.c */
void ls_report_plan(ls_run_page *p);
void ls_report_startup(ls_run_page *p);

/* Whether it is a curve that has a chart, a tile or columns of its own: loss, eval_loss, lr, seconds.
 * All others are shown in the same way. */
bool ls_report_is_common(const char *name);
ls_status ls_marks_make(ls_marks *out, const ls_history *h, const char *run_dir); /* free .at */
/* Draws live bytes by category over the positions of the step's programs. */
void ls_chart_memory(ls_str *out, const ls_report *r);
/* Bytes in the arena at a position. */
size_t ls_report_transient(const ls_report_program *p, int position, int category);
