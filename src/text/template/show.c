/* show.c - values as texts: Python's str() and repr(). */
#include <math.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "base/c_locale.h"
#include "text/text.h"
#include "value.h"

void ls_jadd_float(ls_jrender *r, ls_jbuilder *b, double f, ls_jorigin origin)
{
    char text[64];
    if (isnan(f)) {
        ls_jadd(r, b, "nan", 3, origin);
        return;
    }
    if (isinf(f)) {
        ls_jadd(r, b, f < 0 ? "-inf" : "inf", f < 0 ? 4 : 3, origin);
        return;
    }
    int digits = 1;
    do
        ls_snprintf(text, sizeof text, "%.*e", digits - 1, f);
    while (ls_strtod(text, NULL) != f && digits++ < 17);
    const int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= 16 || exponent < -4) { /* 1e+16, 1.5e-07: as printf writes it */
        ls_jadd(r, b, text, strlen(text), origin);
        return;
    }
    const int decimals = digits - 1 - exponent;
    ls_snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, f);
    ls_jadd(r, b, text, strlen(text), origin);
}

static bool is_printable(uint32_t c)
{
    if (c < 0x80)
        return c >= 0x20 && c < 0x7f;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return false;
    default: return true;
    }
}

/* In quotes, with escapes. */
static void quote(ls_jrender *r, ls_jbuilder *b, const ls_jtext *text)
{
    const ls_jorigin origin = ls_jorigin_text(text);
    const bool single = text->n && memchr(text->bytes, '\'', text->n);
    const char mark = single && !memchr(text->bytes, '"', text->n) ? '"' : '\'';
    ls_jadd(r, b, &mark, 1, origin);
    uint32_t c;
    for (size_t at = 0, n; at < text->n && !ls_jfailed(r); at += n) {
        n = ls_utf8_next(text->bytes + at, &c);
        char as[16] = "";
        if (c == (uint32_t)mark || c == '\\')
            ls_snprintf(as, sizeof as, "\\%c", (int)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            ls_snprintf(as, sizeof as, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!is_printable(c))
            ls_snprintf(as, sizeof as, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (*as)
            ls_jadd(r, b, as, strlen(as), ls_jorigin_at(text, at));
        else
            ls_jadd_part(r, b, text, at, at + n);
    }
    ls_jadd(r, b, &mark, 1, origin);
}

static void show_add(ls_jrender *r, ls_jbuilder *b, const char *text, ls_jorigin origin)
{
    ls_jadd(r, b, text, strlen(text), origin);
}

static void show_value(ls_jrender *r, ls_jbuilder *b, ls_jvalue v, bool inside);

static void show_list(ls_jrender *r, ls_jbuilder *b, ls_jvalue v)
{
    const bool tuple = v.kind == LS_JTUPLE;
    show_add(r, b, v.kind == LS_JVIEW ? "dict_items([" : tuple ? "(" : "[", v.origin);
    for (int64_t i = 0; i < v.list->n && ls_jstep(r, 0); i++) {
        if (i)
            show_add(r, b, ", ", v.origin);
        show_value(r, b, v.list->items[i], true);
    }
    show_add(r, b, v.kind == LS_JVIEW ? "])" : !tuple ? "]" : v.list->n == 1 ? ",)" : ")", v.origin);
}

static void show_value(ls_jrender *r, ls_jbuilder *b, ls_jvalue v, bool inside)
{
    char number[32];
    switch (v.kind) {
    case LS_JUNDEFINED:
    case LS_JABSENT: show_add(r, b, inside ? "Undefined" : "", v.origin); break;
    case LS_JNONE: show_add(r, b, "None", v.origin); break;
    case LS_JBOOL: show_add(r, b, v.i ? "True" : "False", v.origin); break;
    case LS_JINT:
        ls_snprintf(number, sizeof number, "%lld", (long long)v.i);
        show_add(r, b, number, v.origin);
        break;
    case LS_JFLOAT: ls_jadd_float(r, b, v.f, v.origin); break;
    case LS_JTEXT:
        if (inside)
            quote(r, b, v.text);
        else
            ls_jadd_text(r, b, v.text);
        break;
    case LS_JLIST:
    case LS_JTUPLE:
    case LS_JVIEW: show_list(r, b, v); break;
    case LS_JDICT:
        show_add(r, b, "{", v.origin);
        for (int64_t i = 0; i < v.dict->n && ls_jstep(r, 0); i++) {
            if (i)
                show_add(r, b, ", ", v.origin);
            show_value(r, b, v.dict->entries[i].key, true);
            show_add(r, b, ": ", v.origin);
            show_value(r, b, v.dict->entries[i].value, true);
        }
        show_add(r, b, "}", v.origin);
        break;
    default: /* Python prints an address */ ls_jfail(r, LS_E_FORMAT, "a %s cannot be printed", ls_jtype(v));
    }
}

void ls_jshow_to(ls_jrender *r, ls_jbuilder *b, ls_jvalue v) { show_value(r, b, v, false); }

const ls_jtext *ls_jshow(ls_jrender *r, ls_jvalue v)
{
    if (v.kind == LS_JTEXT)
        return v.text;
    ls_jbuilder b = { 0 };
    show_value(r, &b, v, false);
    return ls_jbuilt(r, &b);
}
