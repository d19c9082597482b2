/* row.c - see row.h. */
#include "row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "text/rouge.h"

static const void *member(const ls_row_column *c, const void *row) { return (const char *)row + c->at; }

static double cell_number(const ls_row_column *c, const void *row)
{
    const void *p = member(c, row);
    switch (c->type) {
    case LS_CELL_INT: return (double)*(const int64_t *)p;
    case LS_CELL_F32: return (double)*(const float *)p;
    case LS_CELL_F64: return *(const double *)p;
    case LS_CELL_SECONDS: return round(*(const double *)p * 1e9) / 1e9;
    case LS_CELL_BOOL: return *(const bool *)p;
    case LS_CELL_TEXT: return *(const char *const *)p != NULL;
    case LS_CELL_ENTRY: return ls_metric_list_find(p, c->key + strlen("eval_"));
    case LS_CELL_TRUE:
    case LS_CELL_ATTEMPT:
    case LS_CELL_NAMED: break;
    }
    return 0;
}

bool ls_row_has(const ls_row_column *c, const void *row)
{
    return !c->there || c->there(cell_number(c, row), row);
}

double ls_row_number(const ls_row_column *c, const void *row)
{
    return ls_row_has(c, row) ? cell_number(c, row) : NAN;
}

const ls_metric_list *ls_row_list(const ls_row_column *c, const void *row) { return member(c, row); }

bool ls_row_has_key(const ls_row_kind *k, const char *key)
{
    for (int i = 0; i < k->n; i++)
        if (k->columns[i].type != LS_CELL_NAMED && k->columns[i].type != LS_CELL_ENTRY &&
            !strcmp(k->columns[i].key, key))
            return true;
    return !strcmp(key, "kind");
}

/* ---- JSON */

void ls_row_write(ls_json *j, const ls_row_kind *k, const void *row, int64_t attempt)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", k->name);
    for (int i = 0; i < k->n; i++) {
        const ls_row_column *c = &k->columns[i];
        const void *p = member(c, row);
        if (!ls_row_has(c, row))
            continue;
        switch (c->type) {
        case LS_CELL_INT: ls_json_int(j, c->key, *(const int64_t *)p); break;
        case LS_CELL_F32: ls_json_f32(j, c->key, *(const float *)p); break;
        case LS_CELL_F64:
        case LS_CELL_SECONDS: ls_json_f64(j, c->key, cell_number(c, row)); break;
        case LS_CELL_BOOL: ls_json_bool(j, c->key, *(const bool *)p); break;
        case LS_CELL_TEXT: ls_json_text(j, c->key, *(const char *const *)p); break;
        case LS_CELL_TRUE: ls_json_bool(j, c->key, true); break;
        case LS_CELL_ATTEMPT: ls_json_int(j, c->key, attempt); break;
        case LS_CELL_NAMED: ls_metric_list_write(j, c->key, p); break;
        case LS_CELL_ENTRY: break;
        }
    }
    ls_json_close_object(j);
}

static double read_number(const ls_row_column *c, const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : json_is_null(value) ? NAN : c->unread;
}

/* The numbers whose keys begin with the column's and are not keys of the kind. */
static ls_metric_list read_named(const ls_row_kind *k, const ls_row_column *c, const json_t *json)
{
    ls_metric_list l = ls_metric_list_read(json, c->key);
    const size_t n = strlen(c->key);
    for (int i = 0; i < k->n; i++)
        if (ls_row_has_key(k, k->columns[i].key) && !strncmp(k->columns[i].key, c->key, n))
            ls_metric_list_remove(&l, k->columns[i].key + n);
    return l;
}

void ls_row_read(const ls_row_kind *k, const json_t *json, void *row)
{
    for (int i = 0; i < k->n; i++) {
        const ls_row_column *c = &k->columns[i];
        void *p = (char *)row + c->at;
        const json_t *value = json_object_get(json, c->key);
        if (!value && c->older)
            value = json_object_get(json, c->older);
        switch (c->type) {
        case LS_CELL_INT: *(int64_t *)p = json_integer_value(value); break;
        case LS_CELL_F32: *(float *)p = (float)read_number(c, value); break;
        case LS_CELL_F64:
        case LS_CELL_SECONDS: *(double *)p = read_number(c, value); break;
        case LS_CELL_BOOL: *(bool *)p = json_is_true(value); break;
        case LS_CELL_TEXT: *(const char **)p = json_string_value(value); break;
        case LS_CELL_NAMED: *(ls_metric_list *)p = read_named(k, c, json); break;
        case LS_CELL_TRUE:
        case LS_CELL_ATTEMPT:
        case LS_CELL_ENTRY: break;
        }
    }
}

/* ---- CSV */

static const ls_row_column *csv_column(const ls_row_kind *k, int place)
{
    for (int i = 0; i < k->n; i++)
        if (k->columns[i].csv == place)
            return &k->columns[i];
    return NULL;
}

void ls_row_csv_titles(ls_str *out, const ls_row_kind *k, bool older)
{
    const ls_row_column *c;
    for (int place = 1; (c = csv_column(k, place)); place++)
        ls_str_printf(out, "%s%s", place > 1 ? "," : "", older && c->older ? c->older : c->key);
}

void ls_row_csv_cells(ls_str *out, const ls_row_kind *k, const void *row, int64_t attempt)
{
    const ls_row_column *c;
    for (int place = 1; (c = csv_column(k, place)); place++) {
        const double x = ls_row_number(c, row);
        char text[32] = "";
        if (c->type == LS_CELL_ATTEMPT)
            snprintf(text, sizeof text, "%lld", (long long)attempt);
        else if (c->type == LS_CELL_INT && !isnan(x))
            snprintf(text, sizeof text, "%lld", (long long)*(const int64_t *)member(c, row));
        else if (c->type == LS_CELL_F32 && !isnan(x))
            ls_format_f32(text, (float)x);
        else if (!isnan(x))
            ls_format_f64(text, x);
        ls_str_printf(out, "%s%s", place > 1 ? "," : "", text);
    }
}

/* Means of generated texts are in no CSV. */
static bool csv_leaves_out(const ls_row_kind *k, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (k->columns[i].type == LS_CELL_ENTRY && !strcmp(k->columns[i].key, name))
            return true; /* it has a place */
    return ls_metric_of_texts(name);
}

void ls_row_csv_further(ls_metric_list *list, const ls_row_kind *k, const void *row)
{
    char name[LS_METRIC_NAME + 8];
    for (int i = 0; i < k->n; i++)
        if (k->columns[i].csv == LS_CSV_BEHIND && ls_row_has(&k->columns[i], row))
            ls_metric_list_set(list, k->columns[i].key, cell_number(&k->columns[i], row));
    for (int i = 0; i < k->n; i++) {
        const ls_metric_list *named = k->columns[i].type == LS_CELL_NAMED ? member(&k->columns[i], row)
                                                                          : NULL;
        for (int m = 0; named && m < named->n; m++) {
            snprintf(name, sizeof name, "%s%s", k->columns[i].key, named->at[m].name);
            if (!csv_leaves_out(k, name))
                ls_metric_list_set(list, name, named->at[m].value);
        }
    }
}

/* ---- tables */

const ls_row_column *ls_row_shown(const ls_row_kind *k, int place)
{
    for (int i = 0; i < k->n; i++)
        if (k->columns[i].show == place)
            return &k->columns[i];
    return NULL;
}

const char *ls_row_text(char out[32], const ls_row_column *c, const void *row, int64_t attempt)
{
    const double x = ls_row_number(c, row);
    *out = 0;
    if (c->type == LS_CELL_ATTEMPT)
        snprintf(out, 32, "%lld", (long long)attempt);
    else if (isnan(x))
        return c->undefined ? c->undefined : "";
    else if (c->type == LS_CELL_INT)
        snprintf(out, 32, "%lld", (long long)*(const int64_t *)member(c, row));
    else if (c->type == LS_CELL_SECONDS)
        ls_format_duration(out, x);
    else
        ls_format_number(out, c->format, x);
    return out;
}
