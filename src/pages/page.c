/* page.c - the frame of a page, and text, numbers and rows in it. cmake/embed.cmake writes every file of
 * pages/ into pages.inc. */
#include "page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

static const struct {
    const char *name, *text;
} FILES[] = {
#include "pages.inc"
};

static const char *file(const char *name)
{
    size_t i = 0;
    while (i < sizeof FILES / sizeof FILES[0] && strcmp(FILES[i].name, name))
        i++;
    LS_CHECK(i < sizeof FILES / sizeof FILES[0]);
    return FILES[i].text;
}

void ls_page_begin(ls_str *out, const char *title, bool broad)
{
    ls_str_add(out,
               "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
               "content=\"width=device-width,initial-scale=1\"/>\n<title>");
    ls_html_add(out, title);
    ls_str_printf(out, " – lockstep</title>\n<style>%s</style></head>\n<body><main%s>\n", file("page.css"),
                  broad ? " class=\"broad\"" : "");
}

void ls_page_end(ls_str *out, const char *scripts)
{
    if (*scripts)
        ls_str_add(out, "<script>//<![CDATA[\n");
    for (const char *p = scripts; *p; p += strspn(p, " ")) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        ls_str_add(out, file(name));
        p += strlen(name);
    }
    if (*scripts)
        ls_str_add(out, "//]]></script>\n");
    ls_str_add(out, "</main></body></html>\n");
}

void ls_page_data(ls_str *out, const char *id, ls_json *j)
{
    ls_str_add(out, "<script type=\"application/json\"");
    if (id)
        ls_str_printf(out, " id=\"%s\"", id);
    ls_str_add(out, ">");
    for (const char *p = ls_str_text(&j->out); *p;) { /* (the writer of JSON has escaped '<') */
        size_t n = strcspn(p, "&");
        ls_str_add_n(out, p, n);
        p += n;
        if (*p)
            ls_str_add(out, "\\u0026");
        p += *p != 0;
    }
    ls_str_add(out, "</script>\n");
    ls_str_inherit(out, &j->out);
    ls_str_release(&j->out);
}

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

void ls_html_cell(ls_str *out, const char *text)
{
    ls_str_add(out, "<td>");
    ls_html_add(out, text);
    ls_str_add(out, "</td>");
}

void ls_html_cells(ls_str *out, int n, const char *const *texts)
{
    ls_str_add(out, "<tr>");
    for (int i = 0; i < n; i++)
        ls_html_cell(out, texts[i]);
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
    return isnan(x) ? "–" : ls_format_number(out, format, x);
}
