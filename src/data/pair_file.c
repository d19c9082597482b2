/* pair_file.c - reads pairs of texts from records of CSV or lines of JSON. */
#include "data/pair_file.h"

#include <string.h>

#include "base/field.h"
#include "base/json.h"
#include "data/csv.h"

/* ---- CSV */

/* Checks whether column `at` has this name; LS_E_FORMAT if an earlier column had it, too. */
static ls_status find_column(int64_t *column, int64_t at, const char *name, const char *wanted,
                             const char *key)
{
    if (strcmp(name, wanted))
        return LS_OK;
    if (*column >= 0)
        return ls_fail(LS_E_FORMAT,
                       "columns %lld and %lld are both called \"%s\" (option %s): rename or remove one",
                       (long long)*column + 1, (long long)at + 1, wanted, key);
    *column = at;
    return LS_OK;
}

/* Finds the columns that the header names. */
static ls_status read_header(ls_pair_file *f)
{
    ls_str name = { 0 }, all = { 0 };
    ls_status s = LS_OK;
    f->source = f->target = -1;
    for (bool last = false; !last && s == LS_OK; f->columns++) {
        ls_str_clear(&name);
        s = ls_csv_field(f->text->text, f->text->n, &f->at.at, &name, &last);
        if (s == LS_OK)
            s = find_column(&f->source, f->columns, ls_str_text(&name), f->names->source, "source");
        if (s == LS_OK)
            s = find_column(&f->target, f->columns, ls_str_text(&name), f->names->target, "target");
        ls_str_printf(&all, "%s%s", f->columns ? ", " : "", ls_str_text(&name));
    }
    const char *other = f->columns == 1 ? ls_csv_other_separator(f->text->text, f->text->n) : NULL;
    if (s == LS_OK && other && (f->source < 0 || f->target < 0))
        s = ls_fail(LS_E_FORMAT, "%s separate its fields, " LS_CSV_OTHER, other);
    if (s == LS_OK && (f->source < 0 || f->target < 0))
        s = ls_fail_field(LS_E_USAGE, f->source < 0 ? "source" : "target",
                          "%s has no column \"%s\"; its first line names: %s", f->path,
                          f->source < 0 ? f->names->source : f->names->target, ls_str_text(&all));
    ls_str_release(&name);
    ls_str_release(&all);
    return s;
}

static int64_t lines_in(const char *text, size_t n)
{
    int64_t lines = 0;
    for (const char *p = text, *end = text + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return lines;
}

static ls_status next_record(ls_pair_file *f, ls_document *out, bool *done)
{
    const ls_text_file *t = f->text;
    int64_t fields = 0;
    for (; f->at.at < t->n && t->text[f->at.at] == '\n'; f->at.at++)
        f->at.line++;
    const size_t begin = f->at.at;
    *done = begin == t->n;
    *out = (ls_document){ begin, 0, f->at.line };
    for (bool last = *done; !last; fields++)
        LS_TRY(ls_csv_field(t->text, t->n, &f->at.at, NULL, &last));
    if (!*done && fields != f->columns)
        return ls_fail(LS_E_FORMAT,
                       "%lld fields, and the header names %lld columns: a comma or a quote too many, or too "
                       "few; a field with a comma is "
                       "written in quotes",
                       (long long)fields, (long long)f->columns);
    out->n = f->at.at - begin;
    f->at.line += lines_in(t->text + begin, out->n);
    return LS_OK;
}

static ls_status read_record(const ls_pair_file *f, const char *record, size_t n, ls_str *source,
                             ls_str *target)
{
    size_t at = 0;
    bool last = false;
    for (int64_t k = 0; !last; k++)
        LS_TRY(ls_csv_field(record, n, &at, k == f->source ? source : k == f->target ? target : NULL, &last));
    return LS_OK;
}

/* ---- JSON lines */

/* Appends a text: a string, or a list of strings. A source takes all strings of a list, separated by spaces;
 * a target takes the first. */
static ls_status add_member(const json_t *root, const char *name, const char *key, bool all, ls_str *out)
{
    const json_t *value = json_object_get(root, name);
    const bool list = json_is_array(value);
    const size_t there = list ? json_array_size(value) : 1, n = there < 1 || all ? there : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = list ? json_array_get(value, i) : value;
        if (!json_is_string(text))
            return ls_fail(
                LS_E_FORMAT,
                "this is not a JSON object with a text, or a list of texts, called \"%s\" (option %s)", name,
                key);
        if (i)
            ls_str_add_n(out, " ", 1);
        ls_str_add_n(out, json_string_value(text), json_string_length(text));
    }
    return LS_OK;
}

static ls_status read_line(const ls_pair_file *f, const char *line, size_t n, ls_str *source, ls_str *target)
{
    json_t *root;
    LS_TRY(ls_json_parse(&root, line, n, "JSON"));
    ls_status s = add_member(root, f->names->source, "source", true, source);
    if (s == LS_OK)
        s = add_member(root, f->names->target, "target", false, target);
    json_decref(root);
    return s;
}

/* ---- CSV or JSON */

static bool is_blank(const char *text, size_t n) { return strspn(text, " \t\n\r") >= n; }

ls_status ls_pair_file_begin(ls_pair_file *out, const ls_text_file *text, const char *path,
                             const ls_pair_names *names)
{
    size_t i = 0;
    *out = (ls_pair_file){ .text = text, .path = path, .names = names, .at = { 0, 1 } };
    while (i < text->n && memchr(" \t\n", text->text[i], 3))
        i++;
    if (i == text->n || text->text[i] == '{')
        return LS_OK;
    ls_status s = read_header(out);
    if (s == LS_E_FORMAT)
        s = ls_fail_in(s, "%s, header", path);
    out->at.line += lines_in(text->text, out->at.at);
    return s;
}

ls_status ls_pair_file_next(ls_pair_file *f, ls_document *out, bool *done)
{
    if (f->columns)
        return next_record(f, out, done);
    *done = !ls_document_next(f->text, LS_DOCUMENTS_LINE, &f->at, out);
    return LS_OK;
}

ls_status ls_pair_file_read(const ls_pair_file *f, const ls_document *pair, ls_str *source, ls_str *target)
{
    const size_t before = strlen(f->names->prefix);
    ls_str_add_n(source, f->names->prefix, before);
    LS_TRY((f->columns ? read_record : read_line)(f, f->text->text + pair->begin, pair->n, source, target));
    const bool no_source = is_blank(ls_str_text(source) + before, source->len - before);
    if (no_source || is_blank(ls_str_text(target), target->len))
        return ls_fail(LS_E_FORMAT, "its %s is empty: take the pair out of the file",
                       no_source ? "source" : "target");
    return LS_OK;
}
