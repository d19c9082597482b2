/* csv.h - comma-separated values as RFC 4180 has them: a field in quotes may hold commas, line ends and
 * doubled quotes. */
#pragma once
#include <stddef.h>

#include "base/str.h"

/* The field that begins at text[*at], *at <= n: appended to `out` unless that is NULL; *at goes to where the
 * next field or record begins. *last: it ended its record. Lines end in \n. LS_E_FORMAT: a quote that is
 * never closed, or text behind a closing one. */
ls_status ls_csv_field(const char *text, size_t n, size_t *at, ls_str *out, bool *last);
