/* tojson.c - values as JSON, as Python's json.dumps writes them, which transformers takes for `tojson`. */
#include <math.h>

#include "base/c_locale.h"
#include "text/text.h"
#include "value.h"

typedef struct writer {
    ls_jrender *r;
    ls_jbuilder b;
    const ls_jjson *how;
} writer;

static void json_add(writer *w, const char *text, ls_jorigin origin)
{
    ls_jadd(w->r, &w->b, text, strlen(text), origin);
}

static void quote(writer *w, const ls_jtext *text)
{
    const ls_jorigin origin = ls_jorigin_text(text);
    json_add(w, "\"", origin);
    uint32_t c = 0;
    for (size_t at = 0, n, plain = 0; at <= text->n && !ls_jfailed(w->r); at += n) {
        n = at < text->n ? ls_utf8_next(text->bytes + at, &c) : 1;
        char as[16] = "";
        static const char FROM[] = "\"\\\n\r\t\f\b", TO[] = "\"\\nrtfb";
        const char *short_form = at < text->n && c < 0x80 && c ? strchr(FROM, (int)c) : NULL;
        if (at == text->n)
            ;
        else if (short_form)
            ls_snprintf(as, sizeof as, "\\%c", TO[short_form - FROM]);
        else if (c < 0x20 || (w->how->ascii && c >= 0x7f && c < 0x10000))
            ls_snprintf(as, sizeof as, "\\u%04x", c);
        else if (w->how->ascii && c >= 0x10000)
            ls_snprintf(as, sizeof as, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                        0xdc00 + ((c - 0x10000) & 0x3ff));
        else
            continue;
        ls_jadd_part(w->r, &w->b, text, plain, at);
        if (*as)
            json_add(w, as, ls_jorigin_at(text, at));
        plain = at + n;
    }
    json_add(w, "\"", origin);
}

static void line(writer *w, int depth, ls_jorigin origin)
{
    if (!w->how->indent)
        return;
    json_add(w, "\n", origin);
    for (int i = 0; i < depth; i++)
        ls_jadd(w->r, &w->b, w->how->indent->bytes, w->how->indent->n, origin);
}

static void write_value(writer *w, ls_jvalue v, int depth);

static void key(writer *w, ls_jvalue k)
{
    if (k.kind == LS_JTEXT) {
        quote(w, k.text);
    } else if (ls_jis_number(k) || k.kind == LS_JNONE) {
        json_add(w, "\"", k.origin);
        write_value(w, k, 0);
        json_add(w, "\"", k.origin);
    } else {
        ls_jfail(w->r, LS_E_FORMAT, "tojson: keys must be texts or numbers, and not '%s'", ls_jtype(k));
    }
}

static void object(writer *w, ls_jvalue v, int depth)
{
    const ls_jdict *d = v.dict;
    int64_t *order = ls_jalloc(w->r, (size_t)(d->n ? d->n : 1) * sizeof *order);
    if (!order)
        return;
    for (int64_t i = 0; i < d->n; i++) { /* insertion sort: objects are small */
        int64_t at = i;
        for (; w->how->sorted && at > 0 && ls_jstep(w->r, 0) &&
               ls_jcompare(w->r, d->entries[order[at - 1]].key, d->entries[i].key) > 0;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    json_add(w, "{", v.origin);
    for (int64_t i = 0; i < d->n && ls_jstep(w->r, 0); i++) {
        const struct ls_jentry *e = &d->entries[order[i]];
        if (i)
            ls_jadd(w->r, &w->b, w->how->item->bytes, w->how->item->n, v.origin);
        line(w, depth + 1, v.origin);
        key(w, e->key);
        ls_jadd(w->r, &w->b, w->how->colon->bytes, w->how->colon->n, v.origin);
        write_value(w, e->value, depth + 1);
    }
    if (d->n)
        line(w, depth, v.origin);
    json_add(w, "}", v.origin);
}

static void write_value(writer *w, ls_jvalue v, int depth)
{
    switch (v.kind) {
    case LS_JNONE: json_add(w, "null", v.origin); break;
    case LS_JBOOL: json_add(w, v.i ? "true" : "false", v.origin); break;
    case LS_JINT: ls_jshow_to(w->r, &w->b, v); break;
    case LS_JFLOAT:
        if (isfinite(v.f))
            ls_jadd_float(w->r, &w->b, v.f, v.origin);
        else
            json_add(w, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity", v.origin);
        break;
    case LS_JTEXT: quote(w, v.text); break;
    case LS_JLIST:
    case LS_JTUPLE:
        json_add(w, "[", v.origin);
        for (int64_t i = 0; i < v.list->n && ls_jstep(w->r, 0); i++) {
            if (i)
                ls_jadd(w->r, &w->b, w->how->item->bytes, w->how->item->n, v.origin);
            line(w, depth + 1, v.origin);
            write_value(w, v.list->items[i], depth + 1);
        }
        if (v.list->n)
            line(w, depth, v.origin);
        json_add(w, "]", v.origin);
        break;
    case LS_JDICT: object(w, v, depth); break;
    default: ls_jfail(w->r, LS_E_FORMAT, "tojson: a value of type '%s' has no JSON", ls_jtype(v));
    }
}

const ls_jtext *ls_jto_json(ls_jrender *r, ls_jvalue v, const ls_jjson *how)
{
    writer w = { .r = r, .how = how };
    write_value(&w, v, 0);
    return ls_jbuilt(r, &w.b);
}
