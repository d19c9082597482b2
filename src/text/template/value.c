/* value.c - making, asking and comparing values. */
#include "value.h"

ls_jvalue ls_jundefined(const char *name) { return (ls_jvalue){ .kind = LS_JUNDEFINED, .name = name }; }
ls_jvalue ls_jnone(void) { return (ls_jvalue){ .kind = LS_JNONE }; }
ls_jvalue ls_jbool(bool b) { return (ls_jvalue){ .kind = LS_JBOOL, .i = b }; }
ls_jvalue ls_jint(int64_t i) { return (ls_jvalue){ .kind = LS_JINT, .i = i }; }
ls_jvalue ls_jfloat(double f) { return (ls_jvalue){ .kind = LS_JFLOAT, .f = f }; }

ls_jvalue ls_jtext_value(const ls_jtext *text)
{
    return text ? (ls_jvalue){ .kind = LS_JTEXT, .text = text } : ls_jundefined(NULL);
}

/* Room for one more of n items of `size` bytes: a copy of twice the size. NULL: the rendering has failed. */
static void *grow(ls_jrender *r, void *items, int64_t n, int64_t *cap, size_t size)
{
    if (n < *cap)
        return items;
    const int64_t more = *cap ? 2 * *cap : 4;
    void *copy = ls_jalloc(r, (size_t)more * size);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, items, (size_t)n * size);
    *cap = more;
    return copy;
}

static int depth_of(ls_jvalue v)
{
    if (ls_jis_list(v))
        return v.list->depth;
    return v.kind == LS_JDICT ? v.dict->depth : 0;
}

static void deepen(ls_jrender *r, int *depth, ls_jvalue item)
{
    if (depth_of(item) >= *depth)
        *depth = depth_of(item) + 1;
    if (*depth > LS_TEMPLATE_DEPTH)
        ls_jfail(r, LS_E_UNSUPPORTED, "lists and objects are nested more than %d deep", LS_TEMPLATE_DEPTH);
}

ls_jvalue ls_jlist_new(ls_jrender *r, ls_jkind kind, int64_t n)
{
    ls_jlist *list = ls_jalloc(r, sizeof *list);
    if (!list)
        return ls_jundefined(NULL);
    list->depth = 1;
    list->items = n ? ls_jalloc(r, (size_t)n * sizeof *list->items) : NULL;
    list->cap = list->items ? n : 0;
    return (ls_jvalue){ .kind = kind, .list = list };
}

void ls_jlist_add(ls_jrender *r, ls_jvalue to, ls_jvalue item)
{
    if (!ls_jis_list(to) || !ls_jstep(r, 0))
        return;
    ls_jlist *list = to.list;
    ls_jvalue *items = grow(r, list->items, list->n, &list->cap, sizeof *items);
    if (!items)
        return;
    list->items = items;
    list->items[list->n++] = item;
    deepen(r, &list->depth, item);
}

ls_jvalue ls_jpair(ls_jrender *r, ls_jvalue a, ls_jvalue b)
{
    ls_jvalue pair = ls_jlist_new(r, LS_JTUPLE, 2);
    ls_jlist_add(r, pair, a);
    ls_jlist_add(r, pair, b);
    return pair;
}

ls_jvalue ls_jdict_new(ls_jrender *r, ls_jkind kind)
{
    ls_jdict *dict = ls_jalloc(r, sizeof *dict);
    if (!dict)
        return ls_jundefined(NULL);
    dict->depth = 1;
    return (ls_jvalue){ .kind = kind, .dict = dict };
}

static bool is_name(ls_jvalue v, const char *name, size_t n)
{
    return v.kind == LS_JTEXT && v.text->n == n && memcmp(v.text->bytes, name, n) == 0;
}

const ls_jvalue *ls_jdict_find(ls_jrender *r, const ls_jdict *d, ls_jvalue key)
{
    ls_jstep(r, (size_t)d->n);
    for (int64_t i = 0; i < d->n; i++)
        if (key.kind == LS_JTEXT ? is_name(d->entries[i].key, key.text->bytes, key.text->n)
                                 : ls_jequal(r, d->entries[i].key, key))
            return &d->entries[i].value;
    return NULL;
}

const ls_jvalue *ls_jdict_name(ls_jrender *r, const ls_jdict *d, const char *name)
{
    const ls_jtext text = { .bytes = name, .n = strlen(name) };
    return ls_jdict_find(r, d, ls_jtext_value(&text));
}

void ls_jdict_put(ls_jrender *r, ls_jvalue to, ls_jvalue key, ls_jvalue value)
{
    if (to.kind != LS_JDICT && to.kind != LS_JNAMESPACE)
        return;
    ls_jdict *dict = to.dict;
    if (ls_jis_list(key) ? key.kind != LS_JTUPLE : key.kind == LS_JDICT) {
        ls_jfail(r, LS_E_FORMAT, "unhashable type: '%s'", ls_jtype(key));
        return;
    }
    ls_jvalue *there = (ls_jvalue *)ls_jdict_find(r, dict, key);
    if (there) {
        *there = value;
    } else {
        struct ls_jentry *entries = grow(r, dict->entries, dict->n, &dict->cap, sizeof *entries);
        if (!entries)
            return;
        dict->entries = entries;
        dict->entries[dict->n++] = (struct ls_jentry){ key, value };
    }
    if (to.kind == LS_JDICT)
        deepen(r, &dict->depth, value);
}

static ls_jvalue text_of(ls_jrender *r, const char *bytes, size_t n, ls_jorigin origin, bool copy)
{
    char *own = copy ? ls_jalloc(r, n) : NULL;
    if (own && n)
        memcpy(own, bytes, n);
    return ls_jtext_value(ls_jtext_of(r, own ? own : bytes, copy && !own ? 0 : n, origin));
}

ls_jvalue ls_jfrom_json(ls_jrender *r, const json_t *json, ls_jorigin origin, int depth, bool copy)
{
    if (depth > LS_TEMPLATE_DEPTH) {
        ls_jfail(r, LS_E_UNSUPPORTED, "the conversation's JSON is nested more than %d deep",
                 LS_TEMPLATE_DEPTH);
        return ls_jnone();
    }
    ls_jvalue v = ls_jnone();
    switch (json_typeof(json)) {
    case JSON_NULL: break;
    case JSON_TRUE:
    case JSON_FALSE: v = ls_jbool(json_is_true(json)); break;
    case JSON_INTEGER: v = ls_jint(json_integer_value(json)); break;
    case JSON_REAL: v = ls_jfloat(json_real_value(json)); break;
    case JSON_STRING: return text_of(r, json_string_value(json), json_string_length(json), origin, copy);
    case JSON_ARRAY: {
        v = ls_jlist_new(r, LS_JLIST, (int64_t)json_array_size(json));
        for (size_t i = 0; i < json_array_size(json) && !ls_jfailed(r); i++)
            ls_jlist_add(r, v, ls_jfrom_json(r, json_array_get(json, i), origin, depth + 1, copy));
        break;
    }
    case JSON_OBJECT: {
        v = ls_jdict_new(r, LS_JDICT);
        const char *key;
        json_t *item;
        json_object_foreach((json_t *)json, key, item)
        {
            if (ls_jfailed(r))
                break;
            ls_jdict_put(r, v, text_of(r, key, strlen(key), origin, copy),
                         ls_jfrom_json(r, item, origin, depth + 1, copy));
        }
        break;
    }
    }
    v.origin = origin;
    return v;
}

bool ls_jis_list(ls_jvalue v) { return v.kind >= LS_JLIST && v.kind <= LS_JITERATOR; }
bool ls_jis_number(ls_jvalue v) { return v.kind >= LS_JBOOL && v.kind <= LS_JFLOAT; }
double ls_jnumber(ls_jvalue v) { return v.kind == LS_JFLOAT ? v.f : (double)v.i; }

bool ls_jtruth(ls_jvalue v)
{
    switch (v.kind) {
    case LS_JUNDEFINED:
    case LS_JNONE:
    case LS_JABSENT: return false;
    case LS_JBOOL:
    case LS_JINT: return v.i != 0;
    case LS_JFLOAT: return v.f != 0;
    case LS_JTEXT: return v.text->n > 0;
    case LS_JLIST:
    case LS_JTUPLE:
    case LS_JVIEW: return v.list->n > 0;
    case LS_JDICT: return v.dict->n > 0;
    default: return true;
    }
}

const char *ls_jtype(ls_jvalue v)
{
    static const char *const NAMES[] = {
        [LS_JUNDEFINED] = "Undefined", [LS_JNONE] = "NoneType",
        [LS_JBOOL] = "bool",           [LS_JINT] = "int",
        [LS_JFLOAT] = "float",         [LS_JTEXT] = "str",
        [LS_JLIST] = "list",           [LS_JTUPLE] = "tuple",
        [LS_JVIEW] = "dict view",      [LS_JITERATOR] = "generator",
        [LS_JDICT] = "dict",           [LS_JNAMESPACE] = "Namespace",
        [LS_JLOOP] = "LoopContext",    [LS_JMACRO] = "Macro",
        [LS_JFUNCTION] = "function",   [LS_JMETHOD] = "builtin method",
        [LS_JABSENT] = "no argument",
    };
    return NAMES[v.kind];
}

static int order(double a, double b) { return (a > b) - (a < b); }

bool ls_jequal(ls_jrender *r, ls_jvalue a, ls_jvalue b)
{
    if (ls_jis_number(a) && ls_jis_number(b))
        return a.kind == LS_JFLOAT || b.kind == LS_JFLOAT ? ls_jnumber(a) == ls_jnumber(b) : a.i == b.i;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case LS_JUNDEFINED:
    case LS_JNONE: return true;
    case LS_JTEXT: ls_jstep(r, a.text->n); return is_name(a, b.text->bytes, b.text->n);
    case LS_JLIST:
    case LS_JTUPLE:
        if (a.list->n != b.list->n)
            return false;
        for (int64_t i = 0; i < a.list->n && ls_jstep(r, 0); i++)
            if (!ls_jequal(r, a.list->items[i], b.list->items[i]))
                return false;
        return true;
    case LS_JDICT:
        if (a.dict->n != b.dict->n)
            return false;
        for (int64_t i = 0; i < a.dict->n && ls_jstep(r, 0); i++) {
            const ls_jvalue *other = ls_jdict_find(r, b.dict, a.dict->entries[i].key);
            if (!other || !ls_jequal(r, a.dict->entries[i].value, *other))
                return false;
        }
        return true;
    default: return a.list == b.list; /* the same one */
    }
}

int ls_jcompare(ls_jrender *r, ls_jvalue a, ls_jvalue b)
{
    if (ls_jis_number(a) && ls_jis_number(b)) {
        if (a.kind == LS_JFLOAT || b.kind == LS_JFLOAT)
            return order(ls_jnumber(a), ls_jnumber(b));
        return (a.i > b.i) - (a.i < b.i);
    }
    if (a.kind == LS_JTEXT && b.kind == LS_JTEXT) { /* bytes of UTF-8 have the order of their characters */
        ls_jstep(r, a.text->n);
        const size_t n = a.text->n < b.text->n ? a.text->n : b.text->n;
        const int c = n ? memcmp(a.text->bytes, b.text->bytes, n) : 0;
        return c ? c : (a.text->n > b.text->n) - (a.text->n < b.text->n);
    }
    if (a.kind == b.kind && (a.kind == LS_JLIST || a.kind == LS_JTUPLE)) {
        for (int64_t i = 0; i < a.list->n && i < b.list->n && ls_jstep(r, 0); i++)
            if (!ls_jequal(r, a.list->items[i], b.list->items[i]))
                return ls_jcompare(r, a.list->items[i], b.list->items[i]);
        return (a.list->n > b.list->n) - (a.list->n < b.list->n);
    }
    const ls_jvalue *undefined = a.kind == LS_JUNDEFINED ? &a : b.kind == LS_JUNDEFINED ? &b : NULL;
    if (undefined)
        ls_jfail(r, LS_E_FORMAT, "'%s' is undefined", undefined->name ? undefined->name : "value");
    else
        ls_jfail(r, LS_E_FORMAT, "'%s' and '%s' have no order", ls_jtype(a), ls_jtype(b));
    return 0;
}

bool ls_jcontains(ls_jrender *r, ls_jvalue all, ls_jvalue item)
{
    if (all.kind == LS_JTEXT) {
        if (item.kind != LS_JTEXT) {
            ls_jfail(r, LS_E_FORMAT, "'in' of a text needs a text, not '%s'", ls_jtype(item));
            return false;
        }
        ls_jstep(r, all.text->n);
        return ls_jfind(all.text, item.text, 0) != SIZE_MAX;
    }
    if (all.kind == LS_JDICT)
        return ls_jdict_find(r, all.dict, item) != NULL;
    const ls_jlist *items = ls_jitems(r, all);
    for (int64_t i = 0; items && i < items->n && ls_jstep(r, 0); i++)
        if (ls_jequal(r, items->items[i], item))
            return true;
    return false;
}

const ls_jlist *ls_jitems(ls_jrender *r, ls_jvalue v)
{
    if (v.kind == LS_JITERATOR) {
        ls_jlist *taken = ls_jalloc(r, sizeof *taken);
        if (!taken)
            return NULL;
        *taken = *v.list;
        v.list->n = 0;
        return taken;
    }
    if (ls_jis_list(v))
        return v.list;
    if (v.kind != LS_JTEXT && v.kind != LS_JDICT && v.kind != LS_JUNDEFINED) {
        ls_jfail(r, LS_E_FORMAT, "'%s' object is not iterable", ls_jtype(v));
        return NULL;
    }
    ls_jvalue items = ls_jlist_new(r, LS_JLIST, 0);
    if (v.kind == LS_JDICT)
        for (int64_t i = 0; i < v.dict->n && !ls_jfailed(r); i++)
            ls_jlist_add(r, items, v.dict->entries[i].key);
    if (v.kind == LS_JTEXT)
        for (size_t at = 0, end; at < v.text->n && !ls_jfailed(r); at = end) {
            end = ls_joffset(v.text, at, 1);
            ls_jlist_add(r, items, ls_jtext_value(ls_jpart(r, v.text, at, end)));
        }
    return ls_jfailed(r) ? NULL : items.list;
}
