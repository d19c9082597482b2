/* report_own.h - pieces of report.html. Private to report*.c and run_page.c. */
#pragma once
#include "chart.h"
#include "report.h"

/* Draws live bytes by category over the positions of the step's programs. */
void ls_chart_memory(ls_str *out, const ls_report *r);

/* Restarts and checkpoints: as marks on the curves, and as tables. */
ls_status ls_marks_make(ls_marks *out, const ls_history *h, const char *run_dir); /* free .at */
void ls_report_restarts(ls_str *out, const ls_history *h);
void ls_report_checkpoints(ls_str *out, const ls_history *h, const char *run_dir);
/* Adds a heading for each metric of a table, and its cell for one evaluation. */
void ls_report_metric_names(ls_str *out, const ls_evaluation *names);
int ls_report_metric_cells(const char **cells, char (*texts)[32], const ls_evaluation *names,
                           const ls_evaluation *values);

/* Bytes in the arena at a position. */
size_t ls_report_transient(const ls_report_program *p, int position, int category);
