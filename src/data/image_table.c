/* image_table.c - pictures in a CSV file with a header: the columns `path` and `label`. Paths begin in the
 * file's folder. Labels are whole numbers, or names of classes, which are numbered in their sorted order; a
 * file with both is refused, because names sorted as texts (0, 1, 10, 2) would be other classes than numbers.
 * With columns of values there are no labels: a data set of arrays reads the values (image_set.c). */
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/sys.h"
#include "data/corpus.h"
#include "data/csv.h"
#include "data/image_list.h"

typedef struct table {
    const char *what;
    ls_text_file text;
    size_t at;
    int64_t line; /* from 1 */
    int path, label, columns;
    bool labelled;
    ls_str field[2]; /* of the latest row: its path, its label */
} table;

/* Texts of labels, in an arena; the same one again is the same pointer where rows follow each other. */
typedef struct labels {
    char **at;
    int64_t *lines; /* [n]: where each stands; not kept in step by make_unique */
    int64_t n;
    int capacity, line_capacity;
} labels;

static ls_status in_line(const table *t, int64_t line, ls_status s)
{
    return s == LS_OK ? s : ls_fail_in(s, "%s line %lld", t->what, (long long)line);
}

/* Reads the next field; `out` NULL: it is not wanted. */
static ls_status next_field(table *t, ls_str *out, bool *last)
{
    const size_t from = t->at;
    if (out)
        ls_str_clear(out);
    LS_TRY(in_line(t, t->line, ls_csv_field(t->text.text, t->text.n, &t->at, out, last)));
    for (const char *p = t->text.text + from, *end = t->text.text + t->at;
         (p = memchr(p, '\n', (size_t)(end - p))); p++)
        t->line++;
    return out ? ls_str_status(out) : LS_OK;
}

static ls_status open_table(table *t, const char *path, bool labelled)
{
    bool last = false;
    *t = (table){ .what = path, .line = 1, .path = -1, .label = -1, .labelled = labelled };
    LS_TRY(ls_text_file_open(&t->text, path));
    for (; !last && t->text.n; t->columns++) {
        LS_TRY(next_field(t, &t->field[0], &last));
        const char *name = ls_str_text(&t->field[0]);
        if (!strcmp(name, "path"))
            t->path = t->columns;
        else if (labelled && !strcmp(name, "label"))
            t->label = t->columns;
    }
    const char *other = t->path < 0 ? ls_csv_other_separator(t->text.text, t->text.n) : NULL;
    if (other)
        return ls_fail(LS_E_FORMAT, "%s line 1: %s separate its fields, " LS_CSV_OTHER, path, other);
    if (t->path < 0 || (labelled && t->label < 0))
        return ls_fail(
            LS_E_USAGE,
            "%s: its first line names no column \"%s\": a list of pictures has the columns path and "
            "label, or path and the fields of the recipe's loss",
            path, t->path < 0 ? "path" : "label");
    return LS_OK;
}

static void close_table(table *t)
{
    ls_text_file_close(&t->text);
    for (int i = 0; i < 2; i++)
        ls_str_release(&t->field[i]);
}

/* Reads the next row that is not empty. *line is where it begins. */
static ls_status next_row(table *t, int64_t *line, bool *end)
{
    while (t->at < t->text.n && t->text.text[t->at] == '\n') {
        t->at++;
        t->line++;
    }
    *end = t->at >= t->text.n;
    *line = t->line;
    if (*end)
        return LS_OK;
    bool last = false;
    int k = 0;
    for (; !last; k++)
        LS_TRY(next_field(t, k == t->path ? &t->field[0] : k == t->label ? &t->field[1] : NULL, &last));
    if (k != t->columns)
        return in_line(
            t, *line,
            ls_fail(LS_E_FORMAT, "the line has %d columns, but the first line has %d", k, t->columns));
    for (int i = 0; i < 1 + t->labelled; i++)
        if (!t->field[i].len)
            return in_line(t, *line, ls_fail(LS_E_FORMAT, "the %s is empty", i ? "label" : "path"));
    return LS_OK;
}

static ls_status add_label(labels *l, ls_arena *a, const char *text, int64_t line)
{
    char **at = ls_sys_grow(l->at, l->n, &l->capacity, sizeof *at);
    LS_TRY(ls_sys_have(at));
    l->at = at;
    int64_t *lines = ls_sys_grow(l->lines, l->n, &l->line_capacity, sizeof *lines);
    LS_TRY(ls_sys_have(lines));
    l->lines = lines;
    lines[l->n] = line;
    const bool again = l->n && !strcmp(l->at[l->n - 1], text);
    at[l->n] = again ? at[l->n - 1] : ls_arena_strdup(a, text);
    l->n++;
    return ls_arena_status(a);
}

/* Reads all rows: their labels into `out`, and if `list` is not NULL their pictures, with the line as offset.
 */
static ls_status read_rows(labels *out, ls_image_list *list, ls_arena *a, const char *path, bool labelled)
{
    table t;
    bool end = false;
    int64_t line;
    int64_t n = 0;
    ls_status s = open_table(&t, path, labelled);
    while (s == LS_OK) {
        s = ls_stop_check("reading %s", path);
        if (s == LS_OK)
            s = next_row(&t, &line, &end);
        if (s != LS_OK || end)
            break;
        n++;
        if (labelled)
            s = add_label(out, a, ls_str_text(&t.field[1]), line);
        if (s == LS_OK && list)
            s = ls_image_list_add(list, ls_str_text(&t.field[0]),
                                  (ls_image_entry){ .shard = -1, .offset = (uint64_t)line });
    }
    if (s == LS_OK && !n)
        s = ls_fail(LS_E_USAGE, "%s: no pictures: only its first line is there", path);
    close_table(&t);
    return s;
}

/* Whether a label is written as a number: digits, perhaps with a sign or a point. */
static bool is_number(const char *text)
{
    text += strspn(text, " \t");
    text += *text == '-' || *text == '+';
    const size_t digits = strspn(text, "0123456789");
    text += digits;
    text += *text == '.' ? 1 + strspn(text + 1, "0123456789") : 0;
    return digits && !text[strspn(text, " \t\r")];
}

/* The number of a class, or -1. */
static int32_t as_number(const char *text)
{
    char *end;
    const long v = strtol(text, &end, 10);
    return *text < '0' || *text > '9' || *end || v > 1000000 ? -1 : (int32_t)v;
}

/* Whether the labels of a file are numbers, all of them or none: the first one decides. */
static ls_status are_numbers(bool *out, const labels *l, const char *path)
{
    *out = is_number(l->at[0]);
    for (int64_t i = 0; i < l->n; i++) {
        const char *label = l->at[i];
        const long long line = l->lines[i];
        if (is_number(label) != *out)
            return ls_fail(LS_E_FORMAT,
                           "%s line %lld: the label \"%s\" is %s, and \"%s\" of line %lld is %s: labels are "
                           "either whole numbers from 0 on or names of classes; correct one, or write names "
                           "that are not numbers",
                           path, line, label, *out ? "a name" : "a number", l->at[0], (long long)l->lines[0],
                           *out ? "a number" : "a name");
        if (*out && as_number(label) < 0)
            return ls_fail(
                LS_E_FORMAT,
                "%s line %lld: the label \"%s\" is not a class: classes are whole numbers from 0 to "
                "1000000",
                path, line, label);
    }
    return LS_OK;
}

/* Sorts the texts and leaves each once. */
static void make_unique(labels *l)
{
    int64_t n = 0;
    ls_sort_texts(l->at, (size_t)l->n);
    for (int64_t i = 0; i < l->n; i++)
        if (!n || strcmp(l->at[n - 1], l->at[i]))
            l->at[n++] = l->at[i];
    l->n = n;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Puts numbers in place of the labels `own`. `known`: names of the classes; none: labels are numbers. */
static ls_status number_labels(ls_image_list *l, const labels *own, const labels *known, const char *path,
                               const char *train)
{
    for (int64_t i = 0; i < l->n; i++) {
        ls_image_entry *e = &l->at[i];
        char **found = known->n
                           ? bsearch(&own->at[i], known->at, (size_t)known->n, sizeof *known->at, by_text)
                           : NULL;
        if (known->n && !found)
            return ls_fail(LS_E_USAGE, "%s line %llu: %s has no class \"%s\"", path,
                           (unsigned long long)e->offset, train, own->at[i]);
        e->label = found ? (int32_t)(found - known->at) : as_number(own->at[i]);
        if (e->label >= l->classes)
            l->classes = e->label + 1;
        l->digest = (l->digest ^ (uint64_t)e->label) * 0x9e3779b97f4a7c15;
    }
    if (!known->n)
        return LS_OK;
    l->classes = (int)known->n;
    l->names = ls_arena_dup(&l->arena, known->at, sizeof *known->at * (size_t)known->n);
    return ls_arena_status(&l->arena);
}

/* Leaves in `known` the names of the classes, or none if labels are numbers. */
static ls_status choose_names(const labels *own, labels *known, const char *path, const char *train)
{
    bool numbers, train_numbers;
    LS_TRY(are_numbers(&numbers, own, path));
    LS_TRY(are_numbers(&train_numbers, known, train));
    if (numbers != train_numbers)
        return ls_fail(LS_E_FORMAT,
                       "%s line %lld: the label \"%s\" is %s, and the labels of %s are %s: use the same kind "
                       "in both",
                       path, (long long)own->lines[0], own->at[0], numbers ? "a number" : "a name", train,
                       numbers ? "names" : "numbers");
    if (numbers)
        known->n = 0;
    make_unique(known);
    return LS_OK;
}

static void image_table_release(labels *l)
{
    free(l->at);
    free(l->lines);
}

ls_status ls_image_table(ls_image_list *out, const ls_image_source *from)
{
    labels own = { 0 }, known = { 0 };
    const char *slash = strrchr(from->split, '/'),
               *train = from->train && strcmp(from->train, from->split) ? from->train : NULL;
    if (!out->root)
        out->root = slash ? ls_arena_printf(&out->arena, "%.*s", (int)(slash - from->split), from->split)
                          : "";
    ls_status s = read_rows(&own, out, &out->arena, from->split, !from->values);
    if (from->values)
        return s;
    if (s == LS_OK)
        s = read_rows(&known, NULL, &out->arena, train ? train : from->split, true);
    if (s == LS_OK)
        s = choose_names(&own, &known, from->split, train ? train : from->split);
    if (s == LS_OK)
        s = number_labels(out, &own, &known, from->split, train ? train : from->split);
    image_table_release(&own);
    image_table_release(&known);
    return s;
}
