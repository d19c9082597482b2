/* array_csv.c - columns of numbers in comma-separated values. */
#include "data/array_csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/c_locale.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/array_room.h"
#include "data/csv.h"

enum { MOST = 1 << 16 }; /* columns of a file */
#define WHITE " \t\r\n"  /* between words */

typedef struct reader {
    const char *text, *what;
    size_t n, at;
    int64_t line; /* from 1 */
    int fields;   /* of the first line */
    int *place;   /* [fields]: which of the wanted columns it is; -1: none */
    int columns;
    const char *const *wanted; /* [columns] */
    const char *classes;       /* "a,b,c": the columns have these texts, not numbers */
    ls_str field;
} reader;

static ls_status in_line(const reader *r, ls_status s)
{
    return s == LS_OK ? s : ls_fail_in(s, "%s line %lld", r->what, (long long)r->line);
}

/* Reads the next field into r->field, if it is wanted. Counts the lines that it has. */
static ls_status next(reader *r, bool wanted, bool *last)
{
    const size_t from = r->at;
    r->field.len = 0;
    const ls_status s = ls_csv_field(r->text, r->n, &r->at, wanted ? &r->field : NULL, last);
    LS_TRY(in_line(r, s));
    LS_TRY(ls_str_status(&r->field));
    for (const char *p = r->text + from, *end = r->text + r->at; (p = memchr(p, '\n', (size_t)(end - p)));
         p++)
        r->line++;
    return LS_OK;
}

/* The text without the spaces around it. */
static char *trimmed(ls_str *s)
{
    char *text = (char *)(uintptr_t)ls_str_text(s), *end = text + s->len;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (s->len)
        *end = 0;
    return text + strspn(text, " \t");
}

static bool is_missing(const char *text)
{
    static const char *const WORDS[] = { "", "nan", "na", "null", "none" };
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!strcasecmp(text, WORDS[i]))
            return true;
    return false;
}

/* strtod alone would also take 0x10. */
static bool is_number(const char *text, double *out)
{
    char *end;
    if (is_missing(text)) {
        *out = (double)NAN;
        return true;
    }
    *out = ls_strtod(text, &end);
    return !*end && end != text && strpbrk(text, "xX") == NULL;
}

/* A number, or a truth value as pandas.get_dummies writes it. */
static bool parse(const char *text, double *out)
{
    const bool yes = !strcasecmp(text, "true");
    if (!yes && strcasecmp(text, "false"))
        return is_number(text, out);
    *out = yes;
    return true;
}

/* The number of a class; NaN: it is missing. */
static bool label(const char *text, const char *classes, double *out)
{
    const size_t n = strlen(text);
    *out = 0;
    for (const char *p = classes; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (!strncmp(p, text, n) && (!p[n] || p[n] == ','))
            return true;
        *out += 1;
    }
    *out = (double)NAN;
    return is_missing(text);
}

static ls_status no_column(const reader *r, const char *name, char *const *names)
{
    const char *other = ls_csv_other_separator(r->text, r->n);
    if (other)
        return ls_fail(LS_E_FORMAT, "%s line 1: %s separate its fields, " LS_CSV_OTHER, r->what, other);
    const char *near = ls_nearest_name(name, (const char *const *)names, r->fields);
    return near ? ls_fail(LS_E_USAGE, "%s: its first line has no column \"%s\"; is it \"%s\"?", r->what, name,
                          near)
                : ls_fail(
                      LS_E_USAGE,
                      "%s: its first line has no column \"%s\"; it must have the names of the columns, and "
                      "begins with \"%s\"",
                      r->what, name, names[0]);
}

static ls_status add_name(char ***names, int *room, reader *r)
{
    if (r->fields == MOST)
        return ls_fail(LS_E_UNSUPPORTED, "%s: more than %d columns", r->what, MOST);
    char **more = ls_sys_grow(*names, r->fields, room, sizeof *more);
    LS_TRY(ls_sys_have(more));
    *names = more;
    more[r->fields] = ls_sys_strdup(trimmed(&r->field));
    LS_TRY(ls_sys_have(more[r->fields]));
    r->fields++;
    return LS_OK;
}

static void free_names(char **names, int n)
{
    for (int f = 0; f < n; f++)
        free(names[f]);
    free(names);
}

/* The first line. The names are of the caller, also on failure. */
static ls_status read_names(reader *r, char ***names)
{
    int room = 0;
    ls_status s = r->n ? LS_OK : ls_fail(LS_E_FORMAT, "%s: it is empty", r->what);
    for (bool last = false; s == LS_OK && !last;)
        if ((s = next(r, true, &last)) == LS_OK)
            s = add_name(names, &room, r);
    return s;
}

/* Finds the wanted columns among the names in the first line. */
static ls_status read_header(reader *r, const char *const *wanted)
{
    char **names = NULL;
    ls_status s = read_names(r, &names);
    if (s == LS_OK && !(r->place = ls_sys_malloc(sizeof *r->place * (size_t)r->fields)))
        s = ls_fail(LS_E_MEMORY, "%s: no memory for its columns", r->what);
    for (int f = 0; s == LS_OK && f < r->fields; f++)
        r->place[f] = -1;
    for (int c = 0; s == LS_OK && c < r->columns; c++) {
        int f = 0;
        while (f < r->fields && strcmp(names[f], wanted[c]))
            f++;
        if (f == r->fields)
            s = no_column(r, wanted[c], names);
        else if (r->place[f] >= 0)
            s = ls_fail(LS_E_USAGE, "%s: column \"%s\" is asked for twice", r->what, wanted[c]);
        else
            r->place[f] = c;
    }
    free_names(names, r->fields);
    return s;
}

static ls_status no_label(const reader *r, int64_t line, const char *column, const char *text)
{
    return *text ? ls_fail(LS_E_FORMAT,
                           "%s line %lld, column \"%s\": the label is missing, as %s reads as a missing "
                           "value; if it is a class, name all of them in class_names, else leave the "
                           "row out",
                           r->what, (long long)line, column, text)
                 : ls_fail(LS_E_FORMAT,
                           "%s line %lld, column \"%s\": the label is missing; fill the cell or leave the "
                           "row out",
                           r->what, (long long)line, column);
}

static ls_status wrong_fields(const reader *r, int64_t line, bool more)
{
    return ls_fail(LS_E_FORMAT, "%s line %lld: %s fields than the %d columns of the first line%s", r->what,
                   (long long)line, more ? "more" : "fewer", r->fields,
                   more ? "; if its numbers have decimal commas, write points" : "");
}

/* One line into `row`. *empty: there is nothing in it. */
static ls_status read_row(reader *r, double *row, bool *empty)
{
    bool last = false;
    const int64_t line = r->line;
    /* in a table of one column an empty line is a row whose number is missing */
    *empty = r->text[r->at] == '\n' && r->fields > 1;
    if (*empty) {
        r->at++;
        r->line++;
        return LS_OK;
    }
    for (int f = 0; !last; f++) {
        const int column = f < r->fields ? r->place[f] : -1;
        LS_TRY(next(r, column >= 0, &last));
        if (f >= r->fields || (last && f + 1 < r->fields))
            return wrong_fields(r, line, f >= r->fields);
        const char *text = column >= 0 ? trimmed(&r->field) : NULL;
        if (text && r->classes && !label(text, r->classes, &row[column]))
            return ls_fail(LS_E_FORMAT,
                           "%s line %lld, column \"%s\": \"%.64s\" is not one of the classes %.256s", r->what,
                           (long long)line, r->wanted[column], text, r->classes);
        if (text && r->classes && isnan(row[column]))
            return no_label(r, line, r->wanted[column], text);
        if (text && !r->classes && !parse(text, &row[column])) {
            char shown[24];
            snprintf(shown, sizeof shown, "%s", text);
            return ls_fail(LS_E_FORMAT, "%s line %lld, column \"%s\": \"%s\" is not a number; %s", r->what,
                           (long long)line, r->wanted[column], shown,
                           strchr(text, ',') ? "write decimals with a point"
                                             : "replace texts by numbers, or leave the column out");
        }
    }
    return LS_OK;
}

/* The lines that are left: no more rows than that, as a line end in quotes is counted, too. */
static size_t count_lines(const reader *r)
{
    size_t lines = r->n > r->at;
    for (const char *p = r->text + r->at, *end = r->text + r->n; (p = memchr(p, '\n', (size_t)(end - p)));
         p++)
        lines++;
    return lines;
}

static ls_status read_rows(reader *r, double **out, int64_t *rows)
{
    *rows = 0;
    while (r->n > r->at && r->text[r->n - 1] == '\n') /* empty lines at the end are not rows */
        r->n--;
    /* (a line is a byte, and MOST columns of 8 bytes are 2^19: no overflow) */
    const size_t room = count_lines(r), bytes = room * (size_t)r->columns * sizeof **out;
    LS_TRY(ls_array_room(bytes, r->what));
    *out = ls_sys_malloc(bytes ? bytes : 1);
    if (!*out)
        return ls_fail(LS_E_MEMORY, "%s: no memory for %zu rows", r->what, room);
    while (r->at < r->n) {
        bool empty;
        if (*rows % 65536 == 0)
            LS_TRY(ls_stop_check("reading %s", r->what));
        LS_TRY(read_row(r, *out + *rows * r->columns, &empty));
        *rows += !empty;
    }
    return LS_OK;
}

ls_status ls_csv_numbers(double **out, int64_t *rows, const char *text, size_t n, int columns,
                         const char *const *names, const char *what)
{
    return ls_csv_labels(out, rows, text, n, columns, names, NULL, what);
}

ls_status ls_csv_labels(double **out, int64_t *rows, const char *text, size_t n, int columns,
                        const char *const *names, const char *classes, const char *what)
{
    reader r = {
        .text = text, .what = what, .n = n, .line = 1, .columns = columns, .wanted = names, .classes = classes
    };
    *out = NULL;
    ls_status s = read_header(&r, names);
    if (s == LS_OK)
        s = read_rows(&r, out, rows);
    if (s != LS_OK) {
        free(*out);
        *out = NULL;
    }
    free(r.place);
    ls_str_release(&r.field);
    return s;
}

/* Puts a text among those that are there, in their order. */
static ls_status add_class(char **classes, int *n, const char *text, const reader *r, const char *column)
{
    int at = 0;
    while (at < *n && strcmp(classes[at], text) < 0)
        at++;
    if (at < *n && !strcmp(classes[at], text))
        return LS_OK;
    if (strchr(text, ','))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s line %lld, column \"%s\": \"%.64s\": the name of a class has no comma", r->what,
                       (long long)r->line, column, text);
    if (*n == LS_CSV_CLASSES)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: column \"%s\" has more than %d different texts: are they classes?", r->what,
                       column, LS_CSV_CLASSES);
    char *own = ls_sys_strdup(text);
    LS_TRY(ls_sys_have(own));
    memmove(classes + at + 1, classes + at, sizeof *classes * (size_t)(*n - at));
    classes[at] = own;
    ++*n;
    return LS_OK;
}

static ls_status read_classes(reader *r, char **classes, int *n, const char *column, bool words, bool *texts)
{
    char **names = NULL;
    ls_status s = read_names(r, &names);
    int place = 0;
    while (s == LS_OK && place < r->fields && strcmp(names[place], column))
        place++;
    if (s == LS_OK && place == r->fields)
        s = no_column(r, column, names);
    free_names(names, r->fields);
    while (s == LS_OK && r->at < r->n) {
        bool last = false;
        for (int f = 0; s == LS_OK && !last; f++)
            if ((s = next(r, f == place, &last)) == LS_OK && f == place) {
                char *text = trimmed(&r->field), *rest = NULL;
                double number;
                *texts |= words || !is_number(text, &number); /* True and False are classes with names */
                if (words)
                    text = strtok_r(text, WHITE, &rest);
                for (; s == LS_OK && text && (words || !is_missing(text));
                     text = words ? strtok_r(NULL, WHITE, &rest) : NULL)
                    s = add_class(classes, n, text, r, column);
            }
    }
    return s;
}

ls_status ls_csv_classes(char **out, const char *text, size_t n, const char *column, bool words,
                         const char *what)
{
    reader r = { .text = text, .what = what, .n = n, .line = 1 };
    char **classes = ls_sys_malloc(sizeof *classes * LS_CSV_CLASSES);
    int count = 0;
    bool texts = false;
    *out = NULL;
    ls_status s = ls_sys_have(classes);
    if (s == LS_OK)
        s = read_classes(&r, classes, &count, column, words, &texts);
    if (s == LS_E_UNSUPPORTED && !texts) /* many numbers */
        s = LS_OK;
    ls_str all = { 0 };
    for (int i = 0; i < count; i++) {
        ls_str_printf(&all, "%s%s", i ? "," : "", classes[i]);
        free(classes[i]);
    }
    free(classes);
    ls_str_release(&r.field);
    if (s == LS_OK && texts) {
        *out = ls_sys_strdup(ls_str_text(&all));
        s = ls_sys_have(*out);
    }
    ls_str_release(&all);
    return s;
}

/* One line. *empty as where numbers are read. */
static ls_status read_texts(reader *r, ls_str *texts, bool *empty)
{
    bool last = false;
    const int64_t line = r->line;
    int f = 0;
    *empty = r->text[r->at] == '\n' && r->fields > 1;
    if (*empty) {
        r->at++;
        r->line++;
        return LS_OK;
    }
    for (; !last; f++) {
        const int column = f < r->fields ? r->place[f] : -1;
        LS_TRY(next(r, column >= 0, &last));
        if (column < 0)
            continue;
        ls_str_clear(&texts[column]);
        ls_str_append(&texts[column], &r->field);
        LS_TRY(ls_str_status(&texts[column]));
    }
    return f == r->fields ? LS_OK : wrong_fields(r, line, f > r->fields);
}

ls_status ls_csv_texts(const char *text, size_t n, int columns, const char *const *names, const char *what,
                       ls_status (*each)(void *context, const ls_str *texts), void *context)
{
    reader r = { .text = text, .what = what, .n = n, .line = 1, .columns = columns, .wanted = names };
    ls_str *texts = ls_sys_calloc((size_t)columns, sizeof *texts);
    ls_status s = ls_sys_have(texts);
    if (s == LS_OK)
        s = read_header(&r, names);
    while (r.n > r.at && r.text[r.n - 1] == '\n')
        r.n--;
    for (int64_t row = 0; s == LS_OK && r.at < r.n; row++) {
        const int64_t line = r.line;
        bool empty;
        if (row % 65536 == 0)
            s = ls_stop_check("reading %s", what);
        if (s == LS_OK && (s = read_texts(&r, texts, &empty)) == LS_OK && !empty &&
            (s = each(context, texts)) != LS_OK)
            s = ls_fail_in(s, "%s line %lld, column \"%s\"", what, (long long)line, names[columns - 1]);
    }
    for (int c = 0; c < columns && texts; c++)
        ls_str_release(&texts[c]);
    free(texts);
    free(r.place);
    ls_str_release(&r.field);
    return s;
}

ls_status ls_csv_names(char ***names, int *fields, const char *text, size_t n, const char *what)
{
    reader r = { .text = text, .what = what, .n = n, .line = 1 };
    *names = NULL;
    const ls_status s = read_names(&r, names);
    if (s != LS_OK) {
        free_names(*names, r.fields);
        *names = NULL;
    }
    *fields = s == LS_OK ? r.fields : 0;
    ls_str_release(&r.field);
    return s;
}
