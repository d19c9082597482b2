/* metrics_csv.c - metrics.csv with columns that are not known beforehand. For a new metric the file is
 * written again with one more column, which is empty in earlier rows. This is safe, because metrics.jsonl has
 * the same rows. */
#include "metrics_csv.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "rundir_own.h"

/* A row: the columns that every file of its kind begins with, what an older version called them, their cells,
 * and further numbers. */
typedef struct csv_row {
    ls_str first, before, cells;
    ls_metric_list further;
} csv_row;

static void csv_row_release(csv_row *r)
{
    ls_str_release(&r->first);
    ls_str_release(&r->before);
    ls_str_release(&r->cells);
    ls_metric_list_release(&r->further);
}

static ls_status csv_row_make(csv_row *r, const ls_row_kind *k, const void *row, int64_t attempt)
{
    *r = (csv_row){ .further = { .n = 0 } };
    ls_row_csv_titles(&r->first, k, false);
    ls_row_csv_titles(&r->before, k, true);
    ls_row_csv_cells(&r->cells, k, row, attempt);
    ls_row_csv_further(&r->further, k, row);
    LS_TRY(ls_str_status(&r->first));
    LS_TRY(ls_str_status(&r->before));
    LS_TRY(ls_str_status(&r->cells));
    return ls_metric_list_status(&r->further);
}

/* Length of the column name at `p`. */
static size_t width(const char *p) { return strcspn(p, ",\n"); }

static bool has_column(const char *header, const char *name)
{
    for (const char *p = header;; p += width(p) + 1) {
        if (width(p) == strlen(name) && !strncmp(p, name, width(p)))
            return true;
        if (p[width(p)] != ',')
            return false;
    }
}

/* Adds columns to each line of `before`: their names to the header, commas to the rows. */
static void widen(ls_str *out, const char *before, const char *names, int columns)
{
    for (const char *p = before, *end; *p; p = *end ? end + 1 : end) {
        end = strchr(p, '\n');
        end = end ? end : p + strlen(p);
        ls_str_add_n(out, p, (size_t)(end - p));
        if (p == before)
            ls_str_add(out, names);
        else
            for (int i = 0; i < columns; i++)
                ls_str_add(out, ",");
        ls_str_add(out, "\n");
    }
}

static ls_status replace(ls_rundir *d, const char *path, const ls_str *text)
{
    LS_TRY(ls_file_write_text(path, text));
    close(d->own->csv);
    d->own->csv = ls_sys_open(path, O_RDWR | O_APPEND);
    return d->own->csv < 0 ? ls_fail_os(path, "open", errno) : LS_OK;
}

static bool begins_with(const char *file, const char *columns)
{
    const size_t n = strlen(columns);
    return !strncmp(file, columns, n) && (file[n] == ',' || file[n] == '\n' || !file[n]);
}

/* Puts the names of this version in place of an older one's. */
static ls_status rename_columns(char **file, size_t *size, const csv_row *row)
{
    ls_str text = { 0 };
    ls_str_printf(&text, "%s%s", row->first.data, *file + row->before.len);
    *size = text.len;
    free(*file);
    *file = ls_str_take(&text);
    return ls_sys_have(*file);
}

/* Whether the file is a part of the header alone: the disk was full. */
static bool is_cut_header(const char *file, const char *first)
{
    const size_t n = strcspn(file, "\n");
    return n < strlen(first) && !strncmp(file, first, n) && (!file[n] || !file[n + 1]);
}

/* Writes the file again with these columns, and with a header if it had none. */
static ls_status write_anew(ls_rundir *d, const char *path, const csv_row *row, const char *names,
                            int columns)
{
    char *before = NULL;
    size_t size = 0;
    ls_str wide = { 0 };
    LS_TRY(ls_file_read(&before, &size, path));
    const bool older = size && strcmp(row->first.data, row->before.data) &&
                       begins_with(before, row->before.data);
    if (older)
        LS_TRY(rename_columns(&before, &size, row));
    size = size && (is_cut_header(before, row->first.data) || is_cut_header(before, row->before.data)) ? 0
                                                                                                       : size;
    if (size && !begins_with(before, row->first.data)) {
        free(before);
        return ls_fail(LS_E_FORMAT, "%s: does not begin with %s: something else has written it; move it away",
                       path, row->first.data);
    }
    widen(&wide, size ? before : row->first.data, names, columns);
    ls_status s = columns || !size || older ? replace(d, path, &wide) : LS_OK;
    ls_str_release(&d->own->header);
    ls_str_add_n(&d->own->header, wide.data, strcspn(wide.data, "\n"));
    if (s == LS_OK)
        s = ls_str_status(&d->own->header);
    ls_str_release(&wide);
    free(before);
    return s;
}

static ls_status add_columns(ls_rundir *d, const char *path, const csv_row *row)
{
    ls_str names = { 0 };
    int columns = 0;
    ls_status s = d->own->header.len ? LS_OK : write_anew(d, path, row, "", 0); /* reads it */
    for (int i = 0; i < row->further.n && s == LS_OK; i++)
        if (!has_column(d->own->header.data, row->further.at[i].name)) {
            ls_str_printf(&names, ",%s", row->further.at[i].name);
            columns++;
        }
    if (s == LS_OK)
        s = ls_str_status(&names);
    if (s == LS_OK && columns)
        s = write_anew(d, path, row, names.data, columns);
    ls_str_release(&names);
    return s;
}

/* Writes the row's cells in the order of the header. */
static void add_cells(ls_str *out, const char *header, const csv_row *row)
{
    char number[32];
    ls_str_append(out, &row->cells);
    for (const char *p = header + row->first.len; *p == ',';) {
        char name[128];
        p++;
        snprintf(name, sizeof name, "%.*s", (int)width(p), p);
        const double value = ls_metric_list_find(&row->further, name);
        ls_str_printf(out, ",%s", isnan(value) ? "" : ls_format_f64(number, value));
        p += width(p);
    }
    ls_str_add(out, "\n");
}

static ls_status metrics_csv_add(ls_rundir *d, const csv_row *row)
{
    if (d->rank)
        return LS_OK;
    char *path = ls_path_join(d->path, "metrics.csv");
    ls_str line = { 0 };
    ls_status s = add_columns(d, path, row);
    if (s == LS_OK) {
        add_cells(&line, d->own->header.data, row);
        s = ls_str_status(&line);
    }
    if (s == LS_OK)
        s = ls_rundir_append(d, d->own->csv, "metrics.csv", line.data, line.len);
    ls_str_release(&line);
    free(path);
    return s;
}

ls_status ls_csv_add(ls_rundir *d, const ls_row_kind *k, const void *row)
{
    csv_row r;
    ls_status s = csv_row_make(&r, k, row, d->attempt);
    if (s == LS_OK)
        s = metrics_csv_add(d, &r);
    csv_row_release(&r);
    return s;
}

ls_status ls_csv_begin(ls_rundir *d, const ls_row_kind *k)
{
    ls_str titles = { 0 };
    ls_row_csv_titles(&titles, k, false);
    ls_str_add(&titles, "\n");
    ls_status s = ls_str_status(&titles);
    if (s == LS_OK)
        s = ls_rundir_append(d, d->own->csv, "metrics.csv", titles.data, titles.len);
    ls_str_release(&titles);
    return s;
}
