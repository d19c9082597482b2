/* shown.c - makes control characters visible. */
#include <string.h>

#include "shown.h"

/* Length in bytes of the control character at `p`, 0 if it is none; *code receives its number. In UTF-8, the
 * characters C1 (0x80 to 0x9f) have two bytes. */
static size_t control_at(const unsigned char *p, unsigned *code)
{
    *code = p[0];
    if (p[0] < 0x20 || p[0] == 0x7f)
        return 1;
    if (p[0] != 0xc2 || p[1] < 0x80 || p[1] > 0x9f)
        return 0;
    *code = p[1];
    return 2;
}

void ls_str_add_shown(ls_str *s, const char *text, bool lines)
{
    const char *begin = text;
    for (unsigned code; *text;) {
        const size_t n = control_at((const unsigned char *)text, &code);
        if (!n || (lines && (code == '\n' || code == '\t'))) {
            text++;
            continue;
        }
        ls_str_add_n(s, begin, (size_t)(text - begin));
        if (code == '\n' || code == '\t')
            ls_str_add(s, code == '\n' ? "\\n" : "\\t");
        else
            ls_str_printf(s, "\\x%02x", code);
        begin = text += n;
    }
    ls_str_add_n(s, begin, (size_t)(text - begin));
}

void ls_str_add_csv(ls_str *s, const char *text)
{
    ls_str shown = { 0 };
    ls_str_add_shown(&shown, text, false);
    const bool quoted = strpbrk(ls_str_text(&shown), ",\"");
    ls_str_add(s, quoted ? "\"" : "");
    for (const char *p = ls_str_text(&shown); *p; p++)
        ls_str_add_n(s, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    ls_str_add(s, quoted ? "\"" : "");
    ls_str_inherit(s, &shown);
    ls_str_release(&shown);
}

void ls_print_line(FILE *out, const char *format, ...)
{
    ls_str text = { 0 }, shown = { 0 };
    va_list args;
    va_start(args, format);
    ls_str_vprintf(&text, format, args);
    va_end(args);
    ls_str_add_shown(&shown, ls_str_text(&text), false);
    ls_str_add(&shown, "\n");
    fputs(ls_str_text(&shown), out);
    ls_str_release(&text);
    ls_str_release(&shown);
}

ls_status ls_print_result(FILE *out, ls_str *s)
{
    const ls_status status = ls_str_status(s);
    if (status == LS_OK)
        fprintf(out, "%s%s", ls_str_text(s), s->len && s->data[s->len - 1] == '\n' ? "" : "\n");
    ls_str_release(s);
    return status;
}
