/* csv.c - reads the fields of comma-separated values. */
#include "data/csv.h"

#include <string.h>

/* A byte 0 would end a name or a number in the middle for code that reads the field as a C string. */
static ls_status csv_keep(ls_str *out, const char *text, size_t n)
{
    if (out && memchr(text, 0, n))
        return ls_fail(LS_E_FORMAT, "a field has a byte 0: this is not text, or it is damaged");
    if (out)
        ls_str_add_n(out, text, n);
    return LS_OK;
}

/* Reads from after the opening quote to after the closing one. */
static ls_status quoted(const char *text, size_t n, size_t *at, ls_str *out)
{
    for (;;) {
        const char *begin = text + *at, *quote = memchr(begin, '"', n - *at);
        if (!quote)
            return ls_fail(LS_E_FORMAT,
                           "a quote opens a field, and none closes it before the end of the file");
        LS_TRY(csv_keep(out, begin, (size_t)(quote - begin)));
        *at = (size_t)(quote - text) + 1;
        if (*at == n || text[*at] != '"')
            return LS_OK;
        LS_TRY(csv_keep(out, "\"", 1));
        ++*at;
    }
}

ls_status ls_csv_field(const char *text, size_t n, size_t *at, ls_str *out, bool *last)
{
    const bool in_quotes = *at < n && text[*at] == '"';
    size_t i = *at + in_quotes;
    if (in_quotes) {
        LS_TRY(quoted(text, n, &i, out));
        if (i < n && text[i] != ',' && text[i] != '\n')
            return ls_fail(
                LS_E_FORMAT,
                "text follows the quote that closes a field; a quote inside a field is written twice");
    } else {
        while (i < n && text[i] != ',' && text[i] != '\n')
            i++;
        LS_TRY(csv_keep(out, text + *at, i - *at));
    }
    *last = i == n || text[i] == '\n';
    *at = i < n ? i + 1 : n;
    return LS_OK;
}

const char *ls_csv_other_separator(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n);
    const size_t line = end ? (size_t)(end - text) : n;
    return memchr(text, ',', line)    ? NULL
           : memchr(text, ';', line)  ? "semicolons"
           : memchr(text, '\t', line) ? "tabs"
           : memchr(text, '|', line)  ? "bars"
                                      : NULL;
}
