/* metrics_csv.h - the file metrics.csv: a row for each epoch or, of a user's program (lockstep/run.h), for
 * each report. It begins with the columns that have a place in the table of the row (row.h). The others
 * follow in the order in which rows first had them. */
#pragma once
#include "metrics.h"

/* Writes the first columns of an empty file. */
ls_status ls_csv_begin(ls_rundir *d, const ls_row_kind *k);
ls_status ls_csv_add(ls_rundir *d, const ls_row_kind *k, const void *row);
