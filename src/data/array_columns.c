/* array_columns.c - which columns of a table a list of ranges and patterns names. */
#include "data/array_columns.h"

#include <stdlib.h>
#include <string.h>

#include "base/find.h"
#include "base/sys.h"
#include "data/array_csv.h"
#include "data/array_file.h"
#include "data/corpus.h"
#include "data/csv.h"

typedef struct table {
    const char *what, *text;
    size_t size;
    char **names;
    int n;
    int *order; /* [n]: the columns that the list names, in its order */
    int chosen;
    bool *is, *away; /* [n] */
} table;

bool ls_columns_pattern(const char *list) { return strpbrk(list, "*?!-") != NULL; }

static int place_of(const table *t, const char *name, size_t length)
{
    for (int k = 0; k < t->n; k++)
        if (strlen(t->names[k]) == length && !memcmp(t->names[k], name, length))
            return k;
    return -1;
}

static ls_status names_nothing(const table *t, const char *item)
{
    enum { SHOWN = 12 };
    const char *other = ls_csv_other_separator(t->text, t->size);
    if (other)
        return ls_fail(LS_E_FORMAT, "%s line 1: %s separate its fields, " LS_CSV_OTHER, t->what, other);
    const char *near = ls_nearest_name(item, (const char *const *)t->names, t->n);
    ls_str all = { 0 };
    for (int k = 0; k < t->n && k < SHOWN; k++)
        ls_str_printf(&all, "%s%s", k ? ", " : "", t->names[k]);
    if (t->n > SHOWN)
        ls_str_printf(&all, ", ... (%d columns)", t->n);
    const ls_status s = near ? ls_fail(LS_E_USAGE, "%s: its first line has no column \"%s\"; is it \"%s\"?",
                                       t->what, item, near)
                             : ls_fail(LS_E_USAGE, "%s: \"%s\" names none of its columns: %s", t->what, item,
                                       ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

/* FIRST-LAST. A name may have a - itself, so each - is tried. *first < 0: it is none. */
static ls_status range_of(const table *t, const char *item, int *first, int *last)
{
    *first = *last = -1;
    for (const char *p = item; (p = strchr(p, '-')); p++) {
        const int a = place_of(t, item, (size_t)(p - item)), b = place_of(t, p + 1, strlen(p + 1));
        if (a < 0 || b < 0)
            continue;
        if (*first >= 0)
            return ls_fail(LS_E_USAGE, "%s: \"%s\" is two ranges, as names have a -: list the columns",
                           t->what, item);
        if (a > b)
            return ls_fail(LS_E_USAGE, "%s: \"%s\": in its first line \"%s\" comes after \"%s\"", t->what,
                           item, t->names[a], t->names[b]);
        *first = a;
        *last = b;
    }
    return LS_OK;
}

static ls_status choose(table *t, int k, bool away)
{
    if (away) {
        t->away[k] = true;
        return LS_OK;
    }
    if (t->is[k])
        return ls_fail(LS_E_USAGE, "%s: column \"%s\" is asked for twice", t->what, t->names[k]);
    t->is[k] = true;
    t->order[t->chosen++] = k;
    return LS_OK;
}

static ls_status take_item(table *t, const char *whole)
{
    const int there = place_of(t, whole, strlen(whole));
    const bool away = there < 0 && *whole == '!';
    const char *item = whole + away;
    int first = there >= 0 ? there : place_of(t, item, strlen(item)), last = first;
    if (first < 0 && !strpbrk(item, "*?"))
        LS_TRY(range_of(t, item, &first, &last));
    bool any = first >= 0;
    for (int k = first; any && k <= last; k++)
        LS_TRY(choose(t, k, away));
    for (int k = 0; first < 0 && k < t->n; k++)
        if (ls_glob_match(item, t->names[k])) {
            any = true;
            LS_TRY(choose(t, k, away));
        }
    return any ? LS_OK : names_nothing(t, item);
}

static ls_status write_list(const table *t, const char *list, ls_str *out)
{
    bool any = false;
    for (int i = 0; i < t->chosen; i++) {
        const int k = t->order[i];
        const char *name = t->names[k];
        if (t->away[k])
            continue;
        if (!*name || strchr(name, ','))
            return ls_fail(
                LS_E_USAGE,
                "%s: \"%s\" takes column %d, whose name \"%s\" %s: give it another one, or take it "
                "away with !%s",
                t->what, list, k + 1, name, *name ? "has a comma" : "is empty, as that of an index",
                *name ? "PATTERN" : "");
        if (place_of(t, name, strlen(name)) != k)
            return ls_fail(LS_E_USAGE,
                           "%s: \"%s\" takes column %d, and an earlier one also has the name \"%s\"", t->what,
                           list, k + 1, name);
        ls_str_printf(out, "%s%s", any ? "," : "", name);
        any = true;
    }
    for (int k = 0; k < t->n; k++)
        if (t->away[k] && !t->is[k])
            return ls_fail(
                LS_E_USAGE,
                "%s: \"%s\" takes column \"%s\" away, which it does not name: \"*,!%s\" names all others",
                t->what, list, t->names[k], t->names[k]);
    return any ? ls_str_status(out) : ls_fail(LS_E_USAGE, "%s: \"%s\" leaves no column", t->what, list);
}

static ls_status expand(table *t, const char *list, char **out)
{
    ls_str names = { 0 };
    char *copy = ls_sys_strdup(list);
    t->order = ls_sys_calloc((size_t)t->n, sizeof *t->order);
    t->is = ls_sys_calloc((size_t)t->n, sizeof *t->is);
    t->away = ls_sys_calloc((size_t)t->n, sizeof *t->away);
    ls_status s = ls_sys_have(copy && t->order && t->is ? t->away : NULL);
    for (char *p = copy, *comma; s == LS_OK && p; p = comma) {
        if ((comma = strchr(p, ',')))
            *comma++ = 0;
        s = take_item(t, p);
    }
    if (s == LS_OK)
        s = write_list(t, list, &names);
    if (s == LS_OK)
        s = ls_sys_have(*out = ls_sys_strdup(ls_str_text(&names)));
    ls_str_release(&names);
    free(copy);
    free(t->order);
    free(t->is);
    free(t->away);
    return s;
}

static void free_table(table *t)
{
    for (int k = 0; k < t->n; k++)
        free(t->names[k]);
    free(t->names);
}

ls_status ls_columns_of_text(char **out, const char *list, const char *text, size_t n, const char *what)
{
    table t = { .what = what, .text = text, .size = n };
    *out = NULL;
    ls_status s = ls_csv_names(&t.names, &t.n, text, n, what);
    if (s == LS_OK)
        s = expand(&t, list, out);
    free_table(&t);
    return s;
}

bool ls_columns_table(const char *file)
{
    const size_t n = strlen(file) - strlen(ls_array_file_part(file));
    char *path = ls_sys_strndup(file, n);
    const bool is = path && (ls_ends_with(path, ".csv") || ls_ends_with(path, ".csv.gz"));
    free(path);
    return is;
}

/* *path: NULL if there is no such file. */
static ls_status open_table(ls_text_file *text, char **path, const char *file)
{
    char *name = ls_sys_strndup(file, strlen(file) - strlen(ls_array_file_part(file)));
    *path = NULL;
    ls_status s = ls_sys_have(name);
    if (s == LS_OK)
        s = ls_find(path, name, ls_find_any);
    if (s == LS_OK && *path && !ls_file_exists(*path)) {
        free(*path);
        *path = NULL;
    }
    if (s == LS_OK && *path)
        s = ls_text_file_open(text, *path);
    free(name);
    return s;
}

ls_status ls_columns_of(char **out, const char *list, const char *file)
{
    char *path;
    ls_text_file text = { 0 };
    *out = NULL;
    ls_status s = open_table(&text, &path, file);
    if (s == LS_OK && path)
        s = ls_columns_of_text(out, list, text.text, text.n, path);
    ls_text_file_close(&text);
    free(path);
    return s;
}

ls_status ls_columns_has(bool *out, const char *list, const char *file)
{
    char *path;
    ls_text_file text = { 0 };
    table t = { 0 };
    ls_status s = open_table(&text, &path, file);
    *out = s == LS_OK && path;
    if (*out)
        s = ls_csv_names(&t.names, &t.n, text.text, text.n, path);
    for (const char *p = list, *comma; s == LS_OK && *out && p; p = comma ? comma + 1 : NULL) {
        comma = strchr(p, ',');
        *out = place_of(&t, p, comma ? (size_t)(comma - p) : strlen(p)) >= 0;
    }
    free_table(&t);
    ls_text_file_close(&text);
    free(path);
    return s;
}

ls_status ls_columns_classes(char **out, const char *file, const char *field, bool words)
{
    const char *part = ls_array_file_part(file), *column = *part == ':' ? part + 1 : field;
    char *path;
    ls_text_file text = { 0 };
    *out = NULL;
    if (strchr(column, ','))
        return LS_OK;
    ls_status s = open_table(&text, &path, file);
    if (s == LS_OK && path)
        s = ls_csv_classes(out, text.text, text.n, column, words, path);
    ls_text_file_close(&text);
    free(path);
    return s;
}
