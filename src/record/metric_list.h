/* metric_list.h - metrics by name: a list of its own, to and from JSON. */
#pragma once
#include "base/json.h"
#include "lockstep/types.h"

typedef struct ls_metric_list {
    int n;
    ls_metric *at;
} ls_metric_list; /* owns array and names */

ls_metric_list ls_metric_list_copy(int n, const ls_metric *metrics);
void ls_metric_list_release(ls_metric_list *l);
double ls_metric_list_find(const ls_metric_list *l, const char *name); /* NAN: not there */
/* Into the open object; what is not finite becomes null. And back, null as NAN; other members are passed
 * over, and so is an object that is NULL. */
void ls_metric_list_write(ls_json *j, const ls_metric_list *l);
ls_metric_list ls_metric_list_read(const json_t *object);
