/* attributes.c - lengths, attributes and items of values. */
#include "functions.h"

int64_t ls_jlength(ls_jrender *r, ls_jvalue of)
{
    switch (of.kind) {
    case LS_JUNDEFINED: return 0;
    case LS_JTEXT: return (int64_t)ls_jcharacters(r, of.text);
    case LS_JLIST:
    case LS_JTUPLE:
    case LS_JVIEW: return of.list->n;
    case LS_JDICT: return of.dict->n;
    case LS_JLOOP: return of.loop->items->n;
    default: ls_jfail(r, LS_E_FORMAT, "object of type '%s' has no length", ls_jtype(of)); return 0;
    }
}

static ls_jvalue loop_attribute(const ls_jloop *l, const char *name)
{
    const int64_t n = l->items->n, i = l->index;
    if (strcmp(name, "index0") == 0)
        return ls_jint(i);
    if (strcmp(name, "index") == 0)
        return ls_jint(i + 1);
    if (strcmp(name, "first") == 0)
        return ls_jbool(i == 0);
    if (strcmp(name, "last") == 0)
        return ls_jbool(i == n - 1);
    if (strcmp(name, "length") == 0)
        return ls_jint(n);
    if (strcmp(name, "revindex") == 0)
        return ls_jint(n - i);
    if (strcmp(name, "revindex0") == 0)
        return ls_jint(n - i - 1);
    if (strcmp(name, "depth") == 0)
        return ls_jint(1);
    if (strcmp(name, "depth0") == 0)
        return ls_jint(0);
    if (strcmp(name, "previtem") == 0)
        return i > 0 ? l->items->items[i - 1] : ls_jundefined("loop.previtem");
    if (strcmp(name, "nextitem") == 0)
        return i < n - 1 ? l->items->items[i + 1] : ls_jundefined("loop.nextitem");
    return ls_jundefined(name);
}

static bool fail_undefined(ls_jrender *r, ls_jvalue of)
{
    if (of.kind == LS_JUNDEFINED)
        ls_jfail(r, LS_E_FORMAT, "'%s' is undefined", of.name ? of.name : "value");
    return ls_jfailed(r);
}

static ls_jvalue method(ls_jrender *r, ls_jvalue of, const ls_jfunction *f)
{
    ls_jmethod *m = ls_jalloc(r, sizeof *m);
    if (!m)
        return ls_jundefined(NULL);
    *m = (ls_jmethod){ f, of };
    return (ls_jvalue){ .kind = LS_JMETHOD, .method = m };
}

ls_jvalue ls_jget_attribute(ls_jrender *r, ls_jvalue of, const char *name)
{
    if (fail_undefined(r, of))
        return ls_jundefined(NULL);
    const ls_jfunction *f = ls_jmethod_of(of.kind, name);
    if (f)
        return method(r, of, f);
    if (of.kind == LS_JLOOP)
        return loop_attribute(of.loop, name);
    const ls_jvalue *item = of.kind == LS_JDICT || of.kind == LS_JNAMESPACE ? ls_jdict_name(r, of.dict, name)
                                                                            : NULL;
    return item ? *item : ls_jundefined(name);
}

ls_jvalue ls_jget_item(ls_jrender *r, ls_jvalue of, ls_jvalue key)
{
    if (fail_undefined(r, of))
        return ls_jundefined(NULL);
    const bool number = key.kind == LS_JINT || key.kind == LS_JBOOL;
    if (of.kind == LS_JDICT) {
        const ls_jvalue *item = ls_jdict_find(r, of.dict, key);
        if (item)
            return *item;
    } else if (number && (of.kind == LS_JLIST || of.kind == LS_JTUPLE)) {
        const int64_t i = key.i < 0 ? key.i + of.list->n : key.i;
        return i >= 0 && i < of.list->n ? of.list->items[i] : ls_jundefined("item of a list");
    } else if (number && of.kind == LS_JTEXT) {
        const int64_t n = (int64_t)ls_jcharacters(r, of.text);
        const int64_t i = key.i < 0 ? key.i + n : key.i;
        if (i < 0 || i >= n)
            return ls_jundefined("character of a text");
        const size_t from = ls_joffset(of.text, 0, i);
        return ls_jtext_value(ls_jpart(r, of.text, from, ls_joffset(of.text, from, 1)));
    }
    if (key.kind != LS_JTEXT)
        return ls_jundefined("item");
    char *name = ls_arena_printf(&r->arena, "%.*s", (int)(key.text->n < 100 ? key.text->n : 100),
                                 key.text->bytes);
    if (of.kind == LS_JDICT) { /* not there as a key: perhaps as a method */
        const ls_jfunction *f = ls_jmethod_of(LS_JDICT, name);
        return f ? method(r, of, f) : ls_jundefined(name);
    }
    return ls_jget_attribute(r, of, name);
}
