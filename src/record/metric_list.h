/* metric_list.h - a list of named metrics that owns its names; to and from JSON. */
#pragma once
#include "base/json.h"
#include "lockstep/types.h"

typedef struct ls_metric_list {
    int n;
    ls_metric *at;
    bool no_memory; /* metrics are missing */
} ls_metric_list;   /* owns array and names */

ls_status ls_metric_list_status(const ls_metric_list *l); /* LS_E_MEMORY: metrics are missing */
ls_metric_list ls_metric_list_copy(int n, const ls_metric *metrics);
void ls_metric_list_release(ls_metric_list *l);
double ls_metric_list_find(const ls_metric_list *l, const char *name); /* NAN: it is not in the list */
/* Writes the members of the open object; a value that is not finite becomes null. */
void ls_metric_list_write(ls_json *j, const ls_metric_list *l);
/* Reads them back; null becomes NAN. Members that are not numbers are ignored. NULL gives an empty list. */
ls_metric_list ls_metric_list_read(const json_t *object);
