/* array_columns.h - which columns of a table a list of ranges and patterns names. */
#pragma once
#include "base/str.h"

/* Whether a list of columns may have more than names: ranges, patterns, or columns to take away. */
bool ls_columns_pattern(const char *list);

/* Writes out the list "c0-c18,t*,!t2" as names of columns, "c0,c1,..", malloc'ed. An item is a name of the
 * first line of `text`; else a pattern with * and ?; else FIRST-LAST, the columns between them in the table.
 * !ITEM takes columns away from all that the others name. LS_E_USAGE: an item names nothing, a column is
 * named twice, none is left, or a name cannot be written in a list. */
ls_status ls_columns_of_text(char **out, const char *list, const char *text, size_t n, const char *what);

/* The same with the first line of the table `file`, whose name may have a :COLUMN. NULL: there is no such
 * file. */
ls_status ls_columns_of(char **out, const char *list, const char *file);
/* Whether the first line of the table `file` has all names of the list. False if there is no such file. */
ls_status ls_columns_has(bool *out, const char *list, const char *file);
/* The classes in a table's column, as ls_csv_classes; `file` names the column, or it is `field`. NULL:
 * numbers, no such file, or several columns. */
ls_status ls_columns_classes(char **out, const char *file, const char *field, bool words);
/* Whether it is the name of a table, FILE.csv or FILE.csv.gz, with or without a :COLUMN. */
bool ls_columns_table(const char *file);
