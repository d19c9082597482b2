/* metrics_csv.h - metrics.csv of a program of its own. Private to metrics.c. */
#pragma once
#include "metrics.h"

/* report,step,epoch,seconds,attempt and a column a metric, in the order in which they came. */
ls_status ls_csv_report(ls_rundir *d, const ls_report_row *row);
