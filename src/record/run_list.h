/* run_list.h - the runs of a folder, in the order of their names. */
#pragma once
#include "rundir.h"

typedef struct ls_run_entry {
    char *name, *dir;
    char *broken; /* why result.json cannot be read; NULL: `info` is valid */
    ls_run_info info;
} ls_run_entry;
typedef struct ls_run_list {
    int n, cap;
    ls_run_entry *at;
} ls_run_list;

/* LS_E_USAGE: there is no such folder, and it is not "runs". Release it also after an error. */
ls_status ls_run_list_read(ls_run_list *out, const char *storage);
void ls_run_list_release(ls_run_list *l);
/* The names of the metrics that some run has a number for, but `loss`, which all may have. To be released. */
ls_metric_list ls_run_list_metrics(const ls_run_list *l);
