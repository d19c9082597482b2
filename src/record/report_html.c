/* report_html.c - text, numbers and rows of a page. */
#include <math.h>
#include <stdio.h>

#include "report_own.h"

void ls_html_add(ls_str *out, const char *text)
{
    ls_str_add(out, text ? "" : NULL);
    for (; text && *text; text++) {
        const char *entity = *text == '<'   ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '&' ? "&amp;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (entity)
            ls_str_add(out, entity);
        else if ((unsigned char)*text >= 0x20 || *text == '\n')
            ls_str_add_n(out, text, 1);
    }
}

void ls_html_cells(ls_str *out, int n, const char *const *texts)
{
    ls_str_add(out, "<tr>");
    for (int i = 0; i < n; i++) {
        ls_str_add(out, "<td>");
        ls_html_add(out, texts[i]);
        ls_str_add(out, "</td>");
    }
    ls_str_add(out, "</tr>\n");
}

const char *ls_html_count(char out[32], int64_t n)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), k = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
    return out;
}

const char *ls_html_number(char out[32], const char *format, double x)
{
    if (isnan(x))
        return "–";
    snprintf(out, 32, format, x); /* formats are the callers' literals */
    return out;
}
