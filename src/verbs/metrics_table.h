/* metrics_table.h - the series of a run as a table, for people (aligned) and programs (CSV, JSON). */
#pragma once
#include <stdio.h>

#include "commands.h"
#include "record/history.h"

/* Prints a row for each epoch and marks the best one; with `most` > 0 only the last `most` epochs. Then one
 * line for each attempt after the first. */
ls_status ls_epochs_print(FILE *out, const ls_history *h, int64_t best_step /* -1: none */, int most,
                          int width);

/* The end of `lockstep train`: the last epochs, and the path of the best weights. Prints nothing with
 * --quiet. */
ls_status ls_summary_print(const ls_rundir *d, const ls_recipe *r, const ls_ui *ui);

typedef enum ls_metrics_format { LS_METRICS_TEXT, LS_METRICS_CSV, LS_METRICS_JSON } ls_metrics_format;
/* `lockstep runs --metrics`: the epochs, or the steps, of a run that may be running. */
ls_status ls_metrics_print(FILE *out, const char *run_dir, bool steps, ls_metrics_format format, int width);
