/* methods.c - Python's methods of texts, dictionaries and lists, those of loops, and their table. */
#include "functions.h"
#include "text/text.h"

static ls_jvalue text_value(const ls_jtext *t) { return ls_jtext_value(t); }

static ls_jvalue upper(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jupper(r, of.text, true));
}

static ls_jvalue lower(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jupper(r, of.text, false));
}

static ls_jvalue capitalize(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jcapitalize(r, of.text));
}

static ls_jvalue strip_from(ls_jrender *r, ls_jvalue of, const ls_jarguments *a, int from)
{
    const bool white = !ls_jgiven(a, 0) || a->values[0].kind == LS_JNONE;
    return text_value(ls_jstrip(r, of.text, white ? NULL : ls_jargument_text(r, a, 0), from));
}
static ls_jvalue lstrip(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return strip_from(r, of, a, 1);
}
static ls_jvalue rstrip(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return strip_from(r, of, a, 2);
}
static ls_jvalue strip(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return strip_from(r, of, a, 3);
}

/* Whether the text has `part` at its begin, or at its end. */
static bool has_at(ls_jrender *r, const ls_jtext *text, const ls_jtext *part, bool end)
{
    ls_jstep(r, part->n);
    return part->n <= text->n &&
           (part->n == 0 || memcmp(text->bytes + (end ? text->n - part->n : 0), part->bytes, part->n) == 0);
}

/* startswith, endswith: a text, or a tuple of texts of which one has to be there. */
static ls_jvalue has_edge(ls_jrender *r, ls_jvalue of, const ls_jarguments *a, bool end)
{
    if (a->values[0].kind != LS_JTUPLE)
        return ls_jbool(has_at(r, of.text, ls_jargument_text(r, a, 0), end));
    const ls_jlist *all = a->values[0].list;
    for (int64_t i = 0; i < all->n && ls_jstep(r, 0); i++) {
        const ls_jarguments one = { .values = &all->items[i], .n = 1 };
        if (has_at(r, of.text, ls_jargument_text(r, &one, 0), end))
            return ls_jbool(true);
    }
    return ls_jbool(false);
}
static ls_jvalue startswith(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return has_edge(r, of, a, false);
}
static ls_jvalue endswith(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return has_edge(r, of, a, true);
}

static ls_jvalue removeprefix(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jtext *part = ls_jargument_text(r, a, 0);
    return has_at(r, of.text, part, false) ? text_value(ls_jpart(r, of.text, part->n, of.text->n)) : of;
}

static ls_jvalue removesuffix(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jtext *part = ls_jargument_text(r, a, 0);
    return has_at(r, of.text, part, true) ? text_value(ls_jpart(r, of.text, 0, of.text->n - part->n)) : of;
}

static ls_jvalue replace(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return text_value(ls_jreplace(r, of.text, ls_jargument_text(r, a, 0), ls_jargument_text(r, a, 1),
                                  ls_jargument_int(r, a, 2, -1)));
}

/* The words of a text, without white space around them; behind `most` of them the rest is one, as it stands.
 */
static ls_jvalue words(ls_jrender *r, const ls_jtext *text, int64_t most)
{
    ls_jvalue out = ls_jlist_new(r, LS_JLIST, 0);
    size_t at = ls_jstrip_begin(text->bytes, 0, text->n);
    while (at < text->n && ls_jstep(r, 0)) {
        size_t end = at;
        while (end < text->n && ls_jstrip_begin(text->bytes, end, text->n) == end)
            end = ls_joffset(text, end, 1);
        if (most-- == 0)
            end = text->n;
        ls_jlist_add(r, out, text_value(ls_jpart(r, text, at, end)));
        at = ls_jstrip_begin(text->bytes, end, text->n);
    }
    return out;
}

static ls_jvalue split(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jtext *text = of.text;
    int64_t most = ls_jargument_int(r, a, 1, -1);
    ls_jstep(r, text->n);
    if (!ls_jgiven(a, 0) || a->values[0].kind == LS_JNONE)
        return words(r, text, most < 0 ? INT64_MAX : most);
    const ls_jtext *between = ls_jargument_text(r, a, 0);
    if (between->n == 0)
        ls_jfail(r, LS_E_FORMAT, "split: the separator is empty");
    ls_jvalue out = ls_jlist_new(r, LS_JLIST, 0);
    size_t at = 0;
    size_t found;
    for (; most-- != 0 && ls_jstep(r, 0) && (found = ls_jfind(text, between, at)) != SIZE_MAX;
         at = found + between->n)
        ls_jlist_add(r, out, text_value(ls_jpart(r, text, at, found)));
    ls_jlist_add(r, out, text_value(ls_jpart(r, text, at, text->n)));
    return out;
}

/* From the end. The parts are found in reverse. */
static ls_jvalue rsplit(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const int64_t most = ls_jargument_int(r, a, 1, -1);
    if (most < 0)
        return split(r, of, a);
    const ls_jtext *text = of.text, *between = ls_jargument_text(r, a, 0);
    if (between->n == 0)
        ls_jfail(r, LS_E_FORMAT, "rsplit: the separator is empty");
    ls_jvalue back = ls_jlist_new(r, LS_JLIST, 0), out = ls_jlist_new(r, LS_JLIST, 0);
    size_t end = text->n;
    for (int64_t left = most; left > 0 && ls_jstep(r, end); left--) {
        const char *found = NULL;
        for (size_t at = end; at >= between->n && !found; at--)
            if (memcmp(text->bytes + at - between->n, between->bytes, between->n) == 0)
                found = text->bytes + at - between->n;
        if (!found)
            break;
        const size_t begin = (size_t)(found - text->bytes);
        ls_jlist_add(r, back, text_value(ls_jpart(r, text, begin + between->n, end)));
        end = begin;
    }
    ls_jlist_add(r, out, text_value(ls_jpart(r, text, 0, end)));
    for (int64_t i = ls_jfailed(r) ? 0 : back.list->n; i > 0; i--)
        ls_jlist_add(r, out, back.list->items[i - 1]);
    return out;
}

static ls_jvalue splitlines(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return ls_jlines(r, of.text, ls_jtruth(a->values[0]));
}

static ls_jvalue join(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jlist *all = ls_jitems(r, a->values[0]);
    for (int64_t i = 0; all && i < all->n && !ls_jfailed(r); i++)
        if (all->items[i].kind != LS_JTEXT)
            ls_jfail(r, LS_E_FORMAT, "join: item %lld has to be a text, and not '%s'", (long long)i,
                     ls_jtype(all->items[i]));
    return text_value(ls_jjoin(r, all, of.text));
}

static ls_jvalue find(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const size_t at = ls_jfind(of.text, ls_jargument_text(r, a, 0), 0);
    ls_jstep(r, of.text->n);
    return ls_jint(at == SIZE_MAX ? -1 : (int64_t)ls_jcharacters(r, ls_jpart(r, of.text, 0, at)));
}

static ls_jvalue text_count(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jtext *part = ls_jargument_text(r, a, 0);
    if (part->n == 0)
        return ls_jint((int64_t)ls_jcharacters(r, of.text) + 1);
    int64_t n = 0;
    for (size_t at = 0; ls_jstep(r, 0) && (at = ls_jfind(of.text, part, at)) != SIZE_MAX; at += part->n)
        n++;
    return ls_jint(n);
}

static ls_jvalue isdigit_(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    ls_jstep(r, of.text->n);
    bool all = of.text->n > 0;
    for (size_t i = 0; i < of.text->n && all; i++)
        all = of.text->bytes[i] >= '0' && of.text->bytes[i] <= '9';
    return ls_jbool(all);
}

/* "{}" and "{0}" stand for arguments, "{{" and "}}" for braces. */
static ls_jvalue format(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jtext *text = of.text;
    ls_jbuilder b = { 0 };
    int next = 0;
    for (size_t at = 0; at < text->n && ls_jstep(r, 0);) {
        const char c = text->bytes[at], after = at + 1 < text->n ? text->bytes[at + 1] : 0;
        if (c != '{' && c != '}') {
            const size_t end = at + 1;
            ls_jadd_part(r, &b, text, at, end);
            at = end;
            continue;
        }
        const bool digit = after >= '0' && after <= '9';
        if (after == c) {
            ls_jadd_part(r, &b, text, at, at + 1);
            at += 2;
            continue;
        }
        const int i = digit ? after - '0' : next++;
        if (c == '}' || at + 1u + digit >= text->n || text->bytes[at + 1 + digit] != '}' ||
            i >= a->n_positional) {
            ls_jfail(r, LS_E_UNSUPPORTED, "format: {} or {0} for each argument is all that is supported");
            break;
        }
        ls_jshow_to(r, &b, a->values[i]);
        at += 2u + digit;
    }
    return text_value(ls_jbuilt(r, &b));
}

/* A capital letter after each character that is not a letter. */
static ls_jvalue title(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jtext *text = of.text;
    ls_jbuilder b = { 0 };
    bool inside = false;
    for (size_t at = 0, end; at < text->n && ls_jstep(r, 0); at = end) {
        end = ls_joffset(text, at, 1);
        const ls_jtext *one = ls_jpart(r, text, at, end);
        const ls_jtext *small = ls_jupper(r, one, false), *large = ls_jupper(r, one, true);
        ls_jadd_text(r, &b, inside ? small : large);
        inside = small->n != large->n || memcmp(small->bytes, large->bytes, small->n) != 0;
    }
    return text_value(ls_jbuilt(r, &b));
}

/* ---- dictionaries, lists, loops */

static ls_jvalue get(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jvalue *item = ls_jdict_find(r, of.dict, a->values[0]);
    return item ? *item : ls_jgiven(a, 1) ? a->values[1] : ls_jnone();
}

/* what: 1 keys, 2 values, 3 pairs */
static ls_jvalue view(ls_jrender *r, ls_jvalue of, int what)
{
    ls_jvalue out = ls_jlist_new(r, LS_JVIEW, of.dict->n);
    for (int64_t i = 0; i < of.dict->n && !ls_jfailed(r); i++) {
        const struct ls_jentry *e = &of.dict->entries[i];
        ls_jlist_add(r, out, what == 1 ? e->key : what == 2 ? e->value : ls_jpair(r, e->key, e->value));
    }
    return out;
}

static ls_jvalue keys(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return view(r, of, 1);
}

static ls_jvalue values(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return view(r, of, 2);
}

static ls_jvalue items(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return view(r, of, 3);
}

static ls_jvalue copy(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)r;
    (void)a;
    return of; /* nothing changes either */
}

static ls_jvalue list_count(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    int64_t n = 0;
    for (int64_t i = 0; i < of.list->n && ls_jstep(r, 0); i++)
        n += ls_jequal(r, of.list->items[i], a->values[0]);
    return ls_jint(n);
}

static ls_jvalue list_index(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    for (int64_t i = 0; i < of.list->n && ls_jstep(r, 0); i++)
        if (ls_jequal(r, of.list->items[i], a->values[0]))
            return ls_jint(i);
    ls_jfail(r, LS_E_FORMAT, "index: the list has no such item");
    return ls_jundefined(NULL);
}

static ls_jvalue cycle(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    if (a->n > 0)
        return a->values[of.loop->index % a->n];
    ls_jfail(r, LS_E_FORMAT, "loop.cycle needs arguments");
    return ls_jundefined(NULL);
}

static ls_jvalue changed(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    ls_jvalue all = ls_jlist_new(r, LS_JTUPLE, a->n);
    for (int i = 0; i < a->n; i++)
        ls_jlist_add(r, all, a->values[i]);
    const bool same = of.loop->changed.kind == LS_JTUPLE && ls_jequal(r, of.loop->changed, all);
    of.loop->changed = all;
    return ls_jbool(!same);
}

/* NULL for a function: the method changes its value. transformers' sandbox gives "undefined" for it. */
static const ls_jfunction TABLE[] = {
    { "capitalize", "", capitalize, LS_JTEXT },
    { "count", "sub", text_count, LS_JTEXT },
    { "endswith", "suffix", endswith, LS_JTEXT },
    { "find", "sub", find, LS_JTEXT },
    { "format", "*", format, LS_JTEXT },
    { "isdigit", "", isdigit_, LS_JTEXT },
    { "join", "iterable", join, LS_JTEXT },
    { "lower", "", lower, LS_JTEXT },
    { "lstrip", "chars", lstrip, LS_JTEXT },
    { "removeprefix", "prefix", removeprefix, LS_JTEXT },
    { "removesuffix", "suffix", removesuffix, LS_JTEXT },
    { "replace", "old new count", replace, LS_JTEXT },
    { "rsplit", "sep maxsplit", rsplit, LS_JTEXT },
    { "rstrip", "chars", rstrip, LS_JTEXT },
    { "split", "sep maxsplit", split, LS_JTEXT },
    { "splitlines", "keepends", splitlines, LS_JTEXT },
    { "startswith", "prefix", startswith, LS_JTEXT },
    { "strip", "chars", strip, LS_JTEXT },
    { "title", "", title, LS_JTEXT },
    { "upper", "", upper, LS_JTEXT },
    { "copy", "", copy, LS_JDICT },
    { "get", "key default", get, LS_JDICT },
    { "items", "", items, LS_JDICT },
    { "keys", "", keys, LS_JDICT },
    { "values", "", values, LS_JDICT },
    { "clear", "", NULL, LS_JDICT },
    { "pop", "", NULL, LS_JDICT },
    { "popitem", "", NULL, LS_JDICT },
    { "setdefault", "", NULL, LS_JDICT },
    { "update", "", NULL, LS_JDICT },
    { "copy", "", copy, LS_JLIST },
    { "count", "value", list_count, LS_JLIST },
    { "index", "value", list_index, LS_JLIST },
    { "append", "", NULL, LS_JLIST },
    { "clear", "", NULL, LS_JLIST },
    { "extend", "", NULL, LS_JLIST },
    { "insert", "", NULL, LS_JLIST },
    { "pop", "", NULL, LS_JLIST },
    { "remove", "", NULL, LS_JLIST },
    { "reverse", "", NULL, LS_JLIST },
    { "sort", "", NULL, LS_JLIST },
    { "changed", "*", changed, LS_JLOOP },
    { "cycle", "*", cycle, LS_JLOOP },
    { NULL, NULL, NULL, 0 },
};

bool ls_jany_method(const char *name) { return ls_jin_table(TABLE, name) != NULL; }

const ls_jfunction *ls_jmethod_of(ls_jkind kind, const char *name)
{
    for (const ls_jfunction *f = TABLE; f->name; f++)
        if (f->of == kind && strcmp(f->name, name) == 0)
            return f->call ? f : NULL;
    return NULL;
}
