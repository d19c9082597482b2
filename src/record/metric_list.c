/* metric_list.c - metrics by name. */
#include "metric_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"

static ls_metric_list room(size_t n)
{
    ls_metric *at = ls_sys_calloc(n + 1, sizeof *at);
    return (ls_metric_list){ .at = at, .no_memory = !at };
}

static void metric_list_add(ls_metric_list *l, const char *name, double value)
{
    char *copy = l->no_memory ? NULL : ls_sys_strdup(name);
    l->no_memory = !copy;
    if (copy)
        l->at[l->n++] = (ls_metric){ copy, value };
}

ls_status ls_metric_list_status(const ls_metric_list *l)
{
    return l->no_memory ? ls_fail(LS_E_MEMORY, "out of memory: a list of metrics") : LS_OK;
}

ls_metric_list ls_metric_list_copy(int n, const ls_metric *metrics)
{
    ls_metric_list l = room((size_t)n);
    for (int i = 0; i < n; i++)
        metric_list_add(&l, metrics[i].name, metrics[i].value);
    return l;
}

void ls_metric_list_release(ls_metric_list *l)
{
    for (int i = 0; i < l->n; i++)
        free((char *)l->at[i].name);
    free(l->at);
    *l = (ls_metric_list){ 0 };
}

double ls_metric_list_find(const ls_metric_list *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->at[i].name, name))
            return l->at[i].value;
    return NAN;
}

void ls_metric_list_write(ls_json *j, const ls_metric_list *l)
{
    for (int i = 0; i < l->n; i++)
        ls_json_f64(j, l->at[i].name, l->at[i].value);
}

ls_metric_list ls_metric_list_read(const json_t *object)
{
    ls_metric_list l = room(json_object_size(object));
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) if (json_is_number(value) || json_is_null(value))
        metric_list_add(&l, name, json_is_number(value) ? json_number_value(value) : NAN);
    return l;
}
