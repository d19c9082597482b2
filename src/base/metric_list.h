/* metric_list.h - numbers by name: what an evaluation measured, or what a user's program reported. They stand
 * in the order in which they came. NaN: undefined; in a file it is null. A list owns its array and its names;
 * a copy of the struct is a view of it. A list remembers that memory ran out. */
#pragma once
#include "json.h"
#include "lockstep/types.h"

/* What a model declares ("loss" included), and what a program reports. Lists of other origin may be longer.
 */
enum {
    LS_MOST_METRICS = 256,
    LS_METRIC_NAME = 101, /* bytes of a name with its 0; also of eval_NAME */
};

typedef struct ls_metric_list {
    int n;
    ls_metric *at;
    int cap;
    bool no_memory; /* metrics are missing */
} ls_metric_list;

ls_status ls_metric_list_status(const ls_metric_list *l); /* LS_E_MEMORY: metrics are missing */
void ls_metric_list_release(ls_metric_list *l);
ls_metric_list ls_metric_list_copy(const ls_metric_list *l);
void ls_metric_list_move(ls_metric_list *to, ls_metric_list *from);         /* `from` becomes empty */
void ls_metric_list_add(ls_metric_list *l, const char *name, double value); /* a name that it does not have */
void ls_metric_list_set(ls_metric_list *l, const char *name, double value); /* replaces, or adds at the end */
void ls_metric_list_remove(ls_metric_list *l, const char *name);
bool ls_metric_list_has(const ls_metric_list *l, const char *name);
double ls_metric_list_find(const ls_metric_list *l, const char *name); /* NAN: it is not in the list */

/* "loss" and "accuracy": most files have keys or columns for these two in any case. */
bool ls_metric_is_common(const char *name);

/* Writes the members of the open object, with `prefix` before each name. */
void ls_metric_list_write(ls_json *j, const char *prefix, const ls_metric_list *l);
/* Writes them as an object; nothing if there are none. */
void ls_metric_list_object(ls_json *j, const char *key, const ls_metric_list *l);
/* The same without the common ones. */
void ls_metric_list_write_others(ls_json *j, const char *prefix, const ls_metric_list *l);
/* The members of an object whose names begin with `prefix`, without it: numbers, and null as NAN. NULL gives
 * an empty list. */
ls_metric_list ls_metric_list_read(const json_t *object, const char *prefix);
