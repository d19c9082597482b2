/* csv.h - comma-separated values (RFC 4180): a field in quotes may contain commas, line ends and doubled
 * quotes. */
#pragma once
#include <stddef.h>

#include "base/str.h"

/* Reads the field that begins at text[*at], *at <= n, and appends it to `out` unless that is NULL. *at moves
 * to the start of the next field or record. *last: the field ended its record. Lines end in \n. LS_E_FORMAT:
 * a quote is never closed, text follows a closing quote, or a field that is wanted has a byte 0. */
ls_status ls_csv_field(const char *text, size_t n, size_t *at, ls_str *out, bool *last);

/* What separates the fields of the first line where it is not a comma: the line has none, and has semicolons,
 * tabs or bars. NULL: nothing else. For a message about a column that is not found. */
const char *ls_csv_other_separator(const char *text, size_t n);
/* What to do then; follows the name of the separator. */
#define LS_CSV_OTHER                                                                                   \
    "and only commas do so here: write the file again with commas and decimal points, for example in " \
    "Python pandas.read_csv(FILE, sep=None, engine='python', decimal=',').to_csv(OTHER, index=False)"
