/* metrics_table.h - the series of a run as a table, for people (aligned) and programs (CSV, JSON). */
#pragma once
#include <stdio.h>

#include "commands.h"
#include "record/history.h"

/* The epochs, the best marked; with `most` > 0 only so many of the last. Then one line for each attempt after
 * the first. */
void ls_epochs_print(FILE *out, const ls_history *h, int64_t best_step /* -1: none */, int most, int width);

/* The end of `lockstep train`: the last epochs, and where the best weights are; nothing for who wants it
 * quiet. */
ls_status ls_summary_print(const ls_rundir *d, const ls_recipe *r, const ls_ui *ui);

typedef enum ls_metrics_format { LS_METRICS_TEXT, LS_METRICS_CSV, LS_METRICS_JSON } ls_metrics_format;
/* `lockstep runs --metrics`: the epochs, or the steps, of a run that may be running. */
ls_status ls_metrics_print(FILE *out, const char *run_dir, bool steps, ls_metrics_format format, int width);
