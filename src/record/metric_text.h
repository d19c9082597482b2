/* metric_text.h - how a table, a page and a terminal show a metric, by its name in the files of a run. */
#pragma once
#include <stdbool.h>

enum { LS_METRIC_TITLE = 160 };
/* Whether it is shown in percent: its name says accuracy. */
bool ls_metric_is_share(const char *name);
/* -1: smaller is better (it ends in loss); 1: larger is (accuracy, ROUGE); 0: its name does not say it. */
int ls_metric_direction(const char *name);
/* An accuracy as 12.34%, everything else by `format` (a literal, of one double). NAN: "". */
const char *ls_metric_text(char out[32], const char *name, const char *format, double value);
/* The title of eval_NAME: `evaluation` and NAME; of everything else its name. */
const char *ls_metric_title(char out[LS_METRIC_TITLE], const char *name, const char *evaluation);
