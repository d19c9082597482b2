/* metric_list.c - see metric_list.h. */
#include "metric_list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sys.h"

ls_status ls_metric_list_status(const ls_metric_list *l)
{
    return l->no_memory ? ls_fail(LS_E_MEMORY, "out of memory: a list of metrics") : LS_OK;
}

void ls_metric_list_release(ls_metric_list *l)
{
    for (int i = 0; i < l->n; i++)
        free((char *)(uintptr_t)l->at[i].name);
    free(l->at);
    *l = (ls_metric_list){ 0 };
}

void ls_metric_list_move(ls_metric_list *to, ls_metric_list *from)
{
    ls_metric_list_release(to);
    *to = *from;
    *from = (ls_metric_list){ 0 };
}

/* n: it is not in the list. */
static int place_in_list(const ls_metric_list *l, const char *name)
{
    int i = 0;
    while (i < l->n && strcmp(l->at[i].name, name))
        i++;
    return i;
}

void ls_metric_list_add(ls_metric_list *l, const char *name, double value)
{
    ls_metric *more = ls_sys_grow(l->at, l->n, &l->cap, sizeof *l->at);
    l->at = more ? more : l->at;
    char *copy = more ? ls_sys_strdup(name) : NULL;
    if (copy)
        l->at[l->n++] = (ls_metric){ copy, value };
    else
        l->no_memory = true;
}

void ls_metric_list_set(ls_metric_list *l, const char *name, double value)
{
    const int i = place_in_list(l, name);
    if (i < l->n)
        l->at[i].value = value;
    else
        ls_metric_list_add(l, name, value);
}

void ls_metric_list_remove(ls_metric_list *l, const char *name)
{
    const int i = place_in_list(l, name);
    if (i == l->n)
        return;
    free((char *)(uintptr_t)l->at[i].name);
    memmove(l->at + i, l->at + i + 1, sizeof *l->at * (size_t)(--l->n - i));
}

ls_metric_list ls_metric_list_copy(const ls_metric_list *l)
{
    ls_metric_list copy = { .no_memory = l->no_memory };
    for (int i = 0; i < l->n; i++)
        ls_metric_list_add(&copy, l->at[i].name, l->at[i].value);
    return copy;
}

bool ls_metric_list_has(const ls_metric_list *l, const char *name) { return place_in_list(l, name) < l->n; }

double ls_metric_list_find(const ls_metric_list *l, const char *name)
{
    const int i = place_in_list(l, name);
    return i < l->n ? l->at[i].value : NAN;
}

bool ls_metric_is_common(const char *name) { return !strcmp(name, "loss") || !strcmp(name, "accuracy"); }

static void write_member(ls_json *j, const char *prefix, const ls_metric *m)
{
    char key[32 + LS_METRIC_NAME];
    snprintf(key, sizeof key, "%s%s", prefix, m->name);
    ls_json_f64(j, *prefix ? key : m->name, m->value);
}

void ls_metric_list_write(ls_json *j, const char *prefix, const ls_metric_list *l)
{
    for (int i = 0; i < l->n; i++)
        write_member(j, prefix, &l->at[i]);
}

void ls_metric_list_write_others(ls_json *j, const char *prefix, const ls_metric_list *l)
{
    for (int i = 0; i < l->n; i++)
        if (!ls_metric_is_common(l->at[i].name))
            write_member(j, prefix, &l->at[i]);
}

void ls_metric_list_object(ls_json *j, const char *key, const ls_metric_list *l)
{
    if (!l->n)
        return;
    ls_json_object(j, key);
    ls_metric_list_write(j, "", l);
    ls_json_close_object(j);
}

ls_metric_list ls_metric_list_read(const json_t *object, const char *prefix)
{
    ls_metric_list l = { .n = 0 };
    const size_t n = strlen(prefix);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key,
                        value) if (!strncmp(key, prefix, n) && (json_is_number(value) || json_is_null(value)))
        ls_metric_list_add(&l, key + n, json_is_number(value) ? json_number_value(value) : NAN);
    return l;
}
