/* metrics_csv.h - metrics.csv of a user's program (lockstep/run.h). Private to metrics.c. */
#pragma once
#include "metrics.h"

/* The columns are report, step, epoch, seconds, attempt, and one for each metric in the order of their first
 * report. */
ls_status ls_csv_report(ls_rundir *d, const ls_report_row *row);
