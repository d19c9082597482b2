/* array_csv.h - columns of numbers in comma-separated values. */
#pragma once
#include <stddef.h>

#include "base/str.h"

/* Reads the columns of these names, in this order, into *out, malloc'ed [*rows, columns]. The first line has
 * the names of all columns. An empty field, and NaN, NA, null and None, are NaN;
 * True and False are 1 and 0. Messages begin with `what`.
 * LS_E_USAGE: no such column, with the nearest name; LS_E_FORMAT with the line: a field that is not a number,
 * another number of fields than names, quotes that are not closed. */
ls_status ls_csv_numbers(double **out, int64_t *rows, const char *text, size_t n, int columns,
                         const char *const *names, const char *what);
/* The same of columns with the names of classes, "a,b,c", which are 0, 1, 2. LS_E_FORMAT: another text, a
 * missing one. */
ls_status ls_csv_labels(double **out, int64_t *rows, const char *text, size_t n, int columns,
                        const char *const *names, const char *classes, const char *what);
/* The texts of a column, or the words of all of them, each once and sorted by bytes, as "a,b,c", malloc'ed;
 * NULL: it has numbers alone. LS_E_UNSUPPORTED: more than LS_CSV_CLASSES of them, or a comma in one. */
enum { LS_CSV_CLASSES = 1024 };
ls_status ls_csv_classes(char **out, const char *text, size_t n, const char *column, bool words,
                         const char *what);
/* Calls `each` with the texts of these columns in every row; what it fails with gets the line in front. */
ls_status ls_csv_texts(const char *text, size_t n, int columns, const char *const *names, const char *what,
                       ls_status (*each)(void *context, const ls_str *texts), void *context);
/* The names of the first line: malloc'ed, as each of them is. LS_E_FORMAT: the text is empty, quotes. */
ls_status ls_csv_names(char ***names, int *fields, const char *text, size_t n, const char *what);
