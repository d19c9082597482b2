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
#include "text/rouge.h"

static const char *csv_number(char buffer[32], double x) { return isnan(x) ? "" : ls_format_f64(buffer, x); }

const char *ls_epoch_row_csv(char text[LS_CSV_ROW], const ls_epoch_row *row, int64_t attempt)
{
    char b[5][32];
    snprintf(text, LS_CSV_ROW, "%lld,%lld,%lld,%s,%s,%s,%s,%s,%lld", (long long)row->epoch,
             (long long)row->step, (long long)row->samples, csv_number(b[0], row->train_loss),
             csv_number(b[1], ls_metric_list_find(&row->eval, "loss")),
             csv_number(b[2], ls_metric_list_find(&row->eval, "accuracy")), csv_number(b[3], row->lr),
             csv_number(b[4], ls_row_seconds(row->seconds)), (long long)attempt);
    return text;
}

const char *ls_step_row_csv(char text[LS_CSV_ROW], const ls_step_row *row, int64_t attempt)
{
    char loss[32], b[4][32];
    snprintf(text, LS_CSV_ROW, "%lld,%lld,%lld,%s,%s,%s,%s,%s,%s,%lld", (long long)row->step,
             (long long)row->epoch, (long long)row->samples,
             isnan(row->loss) ? "" : ls_format_f32(loss, row->loss), csv_number(b[0], row->lr),
             csv_number(b[1], ls_row_seconds(row->seconds)),
             row->grad_norm < 0 ? "" : csv_number(b[2], row->grad_norm),
             row->loss_scale > 0 ? csv_number(b[3], row->loss_scale) : "",
             row->skipped          ? "1"
             : row->loss_scale > 0 ? "0"
                                   : "",
             (long long)attempt);
    return text;
}

/* A row: the columns that every file of its kind begins with, what an older version called them (NULL: the
 * same), their cells, and further metrics. */
typedef struct csv_row {
    const char *first, *before, *cells;
    int n;
    const ls_metric *metrics;
} csv_row;

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
    const size_t n = columns ? strlen(columns) : 0;
    return n && !strncmp(file, columns, n) && (file[n] == ',' || file[n] == '\n' || !file[n]);
}

/* Puts the names of this version in place of an older one's. */
static ls_status rename_columns(char **file, size_t *size, const csv_row *row)
{
    ls_str text = { 0 };
    ls_str_printf(&text, "%s%s", row->first, *file + strlen(row->before));
    *size = text.len;
    free(*file);
    *file = ls_str_take(&text);
    return ls_sys_have(*file);
}

/* Whether the file is a part of the header alone: the disk was full. */
static bool is_cut_header(const char *file, const char *first)
{
    const size_t n = strcspn(file, "\n");
    return first && n < strlen(first) && !strncmp(file, first, n) && (!file[n] || !file[n + 1]);
}

/* Writes the file again with these columns, and with a header if it had none. */
static ls_status write_anew(ls_rundir *d, const char *path, const csv_row *row, const char *names,
                            int columns)
{
    char *before = NULL;
    size_t size = 0;
    ls_str wide = { 0 };
    LS_TRY(ls_file_read(&before, &size, path));
    const bool older = size && begins_with(before, row->before);
    if (older)
        LS_TRY(rename_columns(&before, &size, row));
    size = size && (is_cut_header(before, row->first) || is_cut_header(before, row->before)) ? 0 : size;
    if (size && !begins_with(before, row->first)) {
        free(before);
        return ls_fail(LS_E_FORMAT, "%s: does not begin with %s: something else has written it; move it away",
                       path, row->first);
    }
    widen(&wide, size ? before : row->first, names, columns);
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
    for (int i = 0; i < row->n && s == LS_OK; i++)
        if (!has_column(d->own->header.data, row->metrics[i].name)) {
            ls_str_printf(&names, ",%s", row->metrics[i].name);
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
    const ls_metric_list metrics = { .n = row->n, .at = (ls_metric *)(uintptr_t)row->metrics };
    ls_str_add(out, row->cells);
    for (const char *p = header + strlen(row->first); *p == ',';) {
        char name[128];
        p++;
        snprintf(name, sizeof name, "%.*s", (int)width(p), p);
        const double value = ls_metric_list_find(&metrics, name);
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

ls_status ls_csv_epoch(ls_rundir *d, const ls_epoch_row *row)
{
    char cells[LS_CSV_ROW], name[LS_METRIC_NAME + 8];
    ls_metric_list metrics = { .n = 0 };
    for (int i = 0; i < row->eval.n; i++)
        if (!ls_metric_is_common(row->eval.at[i].name) && !ls_metric_of_texts(row->eval.at[i].name)) {
            snprintf(name, sizeof name, "eval_%s", row->eval.at[i].name);
            ls_metric_list_add(&metrics, name, row->eval.at[i].value);
        }
    ls_status s = ls_metric_list_status(&metrics);
    if (s == LS_OK)
        s = metrics_csv_add(d, &(csv_row){ LS_EPOCH_CSV, LS_EPOCH_CSV_BEFORE,
                                           ls_epoch_row_csv(cells, row, d->attempt), metrics.n, metrics.at });
    ls_metric_list_release(&metrics);
    return s;
}

ls_status ls_csv_report(ls_rundir *d, const ls_report_row *row)
{
    char cells[LS_CSV_ROW], number[32];
    snprintf(cells, sizeof cells, "%lld,%lld,%lld,%s,%lld", (long long)row->report, (long long)row->step,
             (long long)row->epoch, ls_format_f64(number, row->seconds), (long long)d->attempt);
    return metrics_csv_add(
        d, &(csv_row){ "report,step,epoch,seconds,attempt", NULL, cells, row->metrics->n, row->metrics->at });
}
