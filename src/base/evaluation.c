/* evaluation.c - see evaluation.h. */
#include "evaluation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool ls_is_row_key(const char *name)
{
    static const char *const KEYS[] = { "kind",         "step",       "epoch",      "attempt",
                                        "samples",      "targets",    "seconds",    "generate_seconds",
                                        "lr",           "grad_norm",  "loss_scale", "skipped",
                                        "memory",       "texts",      "rouge1",     "rouge2",
                                        "rougeL",       "correct",    "checkpoint", "data",
                                        "builtin_data", "other_data", "nonfinite" };
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
        if (!strcmp(name, KEYS[i]))
            return true;
    return false;
}

void ls_evaluation_set(ls_evaluation *e, const char *name, double value)
{
    int i = 0;
    while (i < e->n && strcmp(e->at[i].name, name))
        i++;
    if (i == LS_MOST_METRICS || strlen(name) >= LS_METRIC_NAME)
        return; /* another program wrote this file: models have fewer metrics, and shorter names */
    if (i == e->n)
        snprintf(e->at[e->n++].name, LS_METRIC_NAME, "%s", name);
    e->at[i].value = value;
}

double ls_evaluation_get(const ls_evaluation *e, const char *name)
{
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->at[i].name, name))
            return e->at[i].value;
    return NAN;
}

bool ls_evaluation_common(const char *name) { return !strcmp(name, "loss") || !strcmp(name, "accuracy"); }

void ls_evaluation_write(ls_json *j, const char *prefix, const ls_evaluation *e, bool common)
{
    char key[16 + LS_METRIC_NAME];
    for (int i = 0; i < e->n; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, e->at[i].name);
        if (common || !ls_evaluation_common(e->at[i].name))
            ls_json_f64(j, key, e->at[i].value);
    }
}

void ls_evaluation_write_skipped(ls_json *j, const ls_evaluation *e)
{
    if (e->n && isnan(ls_evaluation_get(e, "loss")))
        ls_json_bool(j, "skipped", true);
}

ls_evaluation ls_evaluation_read(const json_t *row, const char *prefix)
{
    ls_evaluation e = { .n = 0 };
    const size_t n = strlen(prefix);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)row, key, value) if (!strncmp(key, prefix, n) &&
                                                                  json_is_number(value) &&
                                                                  !ls_is_row_key(key + n))
        ls_evaluation_set(&e, key + n, json_number_value(value));
    return e;
}
