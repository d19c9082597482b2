/* filters.c - the filters, and their table. */
#include <math.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "functions.h"

static ls_jvalue text_value(const ls_jtext *t) { return ls_jtext_value(t); }

/* ---- texts */

static ls_jvalue upper(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jupper(r, ls_jshow(r, of), true));
}

static ls_jvalue lower(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jupper(r, ls_jshow(r, of), false));
}

static ls_jvalue capitalize(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jcapitalize(r, ls_jshow(r, of)));
}

/* Words that begin behind blanks, hyphens and brackets (not as Python's str.title). */
static ls_jvalue title(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jtext *text = ls_jshow(r, of);
    ls_jbuilder b = { 0 };
    for (size_t at = 0; at < text->n && ls_jstep(r, 0);) {
        size_t end = at;
        while (end < text->n && !strchr("-({[<", text->bytes[end]) &&
               ls_jstrip_begin(text->bytes, end, text->n) == end)
            end = ls_joffset(text, end, 1);
        ls_jadd_text(r, &b, ls_jcapitalize(r, ls_jpart(r, text, at, end)));
        at = end < text->n ? ls_joffset(text, end, 1) : end;
        ls_jadd_part(r, &b, text, end, at);
    }
    return text_value(ls_jbuilt(r, &b));
}

static ls_jvalue trim(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const bool all = !ls_jgiven(a, 0) || a->values[0].kind == LS_JNONE;
    return text_value(ls_jstrip(r, ls_jshow(r, of), all ? NULL : ls_jargument_text(r, a, 0), 3));
}

static ls_jvalue replace(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return text_value(ls_jreplace(r, ls_jshow(r, of), ls_jshow(r, a->values[0]), ls_jshow(r, a->values[1]),
                                  ls_jargument_int(r, a, 2, -1)));
}

static ls_jvalue indent(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    ls_jbuilder blanks = { 0 }, b = { 0 };
    if (ls_jgiven(a, 0) && a->values[0].kind == LS_JTEXT)
        ls_jadd_text(r, &blanks, a->values[0].text);
    else
        for (int64_t i = ls_jargument_int(r, a, 0, 4); i > 0 && !ls_jfailed(r); i--)
            ls_jadd(r, &blanks, " ", 1, 0);
    const ls_jtext *by = ls_jbuilt(r, &blanks), *text = ls_jshow(r, of);
    const bool first = ls_jtruth(a->values[1]), blank = ls_jtruth(a->values[2]);
    ls_jbuilder ended = { 0 }; /* so a line break at its end leaves an empty line, as in Python */
    ls_jadd_text(r, &ended, text);
    ls_jadd(r, &ended, "\n", 1, 0);
    ls_jvalue lines = ls_jlines(r, ls_jbuilt(r, &ended), false);
    if (!ls_jis_list(lines))
        return lines;
    for (int64_t i = 0; i < lines.list->n && ls_jstep(r, 0); i++) {
        const ls_jtext *line = lines.list->items[i].text;
        if (i)
            ls_jadd(r, &b, "\n", 1, ls_jorigin_text(text));
        if (i ? blank || line->n : first)
            ls_jadd_text(r, &b, by);
        ls_jadd_text(r, &b, line);
    }
    return text_value(ls_jbuilt(r, &b));
}

static ls_jvalue string(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return text_value(ls_jshow(r, of));
}

static ls_jvalue safe(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    ls_jtext *markup = ls_jalloc(r, sizeof *markup);
    if (!markup)
        return ls_jundefined(NULL);
    *markup = *ls_jshow(r, of);
    markup->markup = true;
    return text_value(markup);
}

static ls_jvalue escape(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jtext *text = ls_jshow(r, of);
    return text_value(text->markup ? text : ls_jescape(r, text));
}

static ls_jvalue to_json(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    static const ls_jpiece PIECES[] = { { 1, 0 }, { 2, 0 } };
    static const ls_jtext COMMA = { .bytes = ",", .n = 1, .pieces = PIECES, .n_pieces = 1 };
    static const ls_jtext COMMA_BLANK = { .bytes = ", ", .n = 2, .pieces = PIECES + 1, .n_pieces = 1 };
    static const ls_jtext COLON_BLANK = { .bytes = ": ", .n = 2, .pieces = PIECES + 1, .n_pieces = 1 };
    ls_jjson how = { .ascii = ls_jtruth(a->values[0]),
                     .sorted = ls_jtruth(a->values[3]),
                     .colon = &COLON_BLANK };
    if (ls_jgiven(a, 1) && a->values[1].kind != LS_JNONE) {
        ls_jbuilder blanks = { 0 };
        if (a->values[1].kind == LS_JTEXT)
            ls_jadd_text(r, &blanks, a->values[1].text);
        else
            for (int64_t i = ls_jargument_int(r, a, 1, 0); i > 0 && !ls_jfailed(r); i--)
                ls_jadd(r, &blanks, " ", 1, 0);
        how.indent = ls_jbuilt(r, &blanks);
    }
    how.item = how.indent ? &COMMA : &COMMA_BLANK;
    const ls_jvalue separators = a->values[2];
    if (ls_jgiven(a, 2) && separators.kind != LS_JNONE) {
        if (!ls_jis_list(separators) || separators.list->n != 2 ||
            separators.list->items[0].kind != LS_JTEXT || separators.list->items[1].kind != LS_JTEXT) {
            ls_jfail(r, LS_E_FORMAT, "tojson: separators have to be two texts");
            return ls_jundefined(NULL);
        }
        how.item = separators.list->items[0].text;
        how.colon = separators.list->items[1].text;
    }
    return text_value(ls_jto_json(r, of, &how));
}

static ls_jvalue from_json(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jtext *text = ls_jshow(r, of);
    if (ls_jfailed(r))
        return ls_jundefined(NULL);
    json_error_t error;
    json_t *tree = json_loadb(text->bytes, text->n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!tree) {
        ls_jfail(r, LS_E_FORMAT, "from_json: not valid JSON: %s", error.text);
        return ls_jundefined(NULL);
    }
    const ls_jvalue v = ls_jfrom_json(r, tree, ls_jorigin_text(text), 0, true);
    json_decref(tree);
    return v;
}

/* ---- numbers and choices */

static ls_jvalue to_float(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    ls_jvalue v = ls_jgiven(a, 0) ? a->values[0] : ls_jfloat(0);
    if (ls_jis_number(of)) {
        v = ls_jfloat(ls_jnumber(of));
    } else if (of.kind == LS_JTEXT) {
        const ls_jtext *text = ls_jstrip(r, of.text, NULL, 3);
        char copy[64], *end;
        ls_snprintf(copy, sizeof copy, "%.*s", (int)(text->n < 63 ? text->n : 63), text->bytes);
        const double f = ls_strtod(copy, &end);
        if (*copy && !*end && text->n < 63)
            v = ls_jfloat(f);
        v.origin = ls_jorigin_text(of.text);
    }
    return v;
}

static ls_jvalue to_int(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    ls_jvalue v = ls_jgiven(a, 0) ? a->values[0] : ls_jint(0);
    if (of.kind == LS_JINT || of.kind == LS_JBOOL)
        return ls_jint(of.i);
    const ls_jvalue f = to_float(r, of, &(ls_jarguments){ .values = (ls_jvalue[]){ ls_jnone() }, .n = 1 });
    if (f.kind == LS_JFLOAT && fabs(f.f) < 9e18) { /* NaN is not less */
        v = ls_jint((int64_t)f.f);
        v.origin = f.origin;
    }
    return v;
}

static ls_jvalue absolute(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    if (of.kind == LS_JFLOAT)
        return ls_jfloat(fabs(of.f));
    if (!ls_jis_number(of) || of.i == INT64_MIN)
        ls_jfail(r, LS_E_FORMAT, "abs of '%s'", ls_jtype(of));
    return ls_jint(of.i < 0 && !ls_jfailed(r) ? -of.i : of.i);
}

static ls_jvalue otherwise(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const bool use = of.kind == LS_JUNDEFINED || (ls_jtruth(a->values[1]) && !ls_jtruth(of));
    if (!use)
        return of;
    return ls_jgiven(a, 0) ? a->values[0] : text_value(ls_jtext_of(r, "", 0, 0));
}

/* ---- lists and dictionaries */

static ls_jvalue length(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    return ls_jint(ls_jlength(r, of));
}

static ls_jvalue first(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jlist *items = ls_jitems(r, of);
    return items && items->n ? items->items[0] : ls_jundefined("first item");
}

static ls_jvalue last(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jlist *items = ls_jitems(r, of);
    return items && items->n ? items->items[items->n - 1] : ls_jundefined("last item");
}

static ls_jvalue filter_list(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jlist *items = ls_jitems(r, of);
    ls_jvalue copy = ls_jlist_new(r, LS_JLIST, items ? items->n : 0);
    for (int64_t i = 0; items && i < items->n; i++)
        ls_jlist_add(r, copy, items->items[i]);
    return copy;
}

static ls_jvalue reverse(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    const ls_jlist *items = ls_jitems(r, of);
    ls_jvalue copy = ls_jlist_new(r, LS_JITERATOR, items ? items->n : 0);
    for (int64_t i = items ? items->n : 0; i > 0; i--)
        ls_jlist_add(r, copy, items->items[i - 1]);
    if (of.kind != LS_JTEXT || !ls_jis_list(copy))
        return copy;
    return text_value(ls_jjoin(r, copy.list, ls_jtext_of(r, "", 0, 0)));
}

static ls_jvalue items(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    (void)a;
    ls_jvalue pairs = ls_jlist_new(r, LS_JITERATOR, 0);
    if (of.kind != LS_JDICT && of.kind != LS_JUNDEFINED)
        ls_jfail(r, LS_E_FORMAT, "'items' needs a dictionary, and not '%s'", ls_jtype(of));
    for (int64_t i = 0; of.kind == LS_JDICT && i < of.dict->n && !ls_jfailed(r); i++)
        ls_jlist_add(r, pairs, ls_jpair(r, of.dict->entries[i].key, of.dict->entries[i].value));
    return pairs;
}

/* "a.b.0" of a value, item by item. */
static ls_jvalue at_path(ls_jrender *r, ls_jvalue v, ls_jvalue path)
{
    if (path.kind != LS_JTEXT)
        return ls_jget_item(r, v, path);
    const ls_jtext *text = path.text;
    for (size_t at = 0; at <= text->n && ls_jstep(r, 0);) {
        const char *dot = at < text->n ? memchr(text->bytes + at, '.', text->n - at) : NULL;
        const size_t end = dot ? (size_t)(dot - text->bytes) : text->n;
        ls_jvalue key = text_value(ls_jpart(r, text, at, end));
        bool digits = end > at && end - at < 10;
        for (size_t i = at; i < end; i++)
            digits &= text->bytes[i] >= '0' && text->bytes[i] <= '9';
        if (digits)
            key = ls_jint(strtoll(text->bytes + at, NULL, 10));
        v = ls_jget_item(r, v, key);
        at = end + 1;
    }
    return v;
}

static ls_jvalue join(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jlist *all = ls_jitems(r, of);
    const ls_jtext *between = ls_jgiven(a, 0) ? ls_jshow(r, a->values[0]) : ls_jtext_of(r, "", 0, 0);
    if (!all || !ls_jgiven(a, 1))
        return text_value(ls_jjoin(r, all, between));
    ls_jvalue parts = ls_jlist_new(r, LS_JLIST, all->n);
    for (int64_t i = 0; i < all->n && !ls_jfailed(r); i++)
        ls_jlist_add(r, parts, at_path(r, all->items[i], a->values[1]));
    return text_value(ls_jjoin(r, ls_jfailed(r) ? NULL : parts.list, between));
}

/* What a value is sorted by: texts without regard to case, unless `exact`. */
static ls_jvalue sort_key(ls_jrender *r, ls_jvalue v, ls_jvalue path, bool exact)
{
    if (path.kind != LS_JABSENT && path.kind != LS_JNONE)
        v = at_path(r, v, path);
    return v.kind == LS_JTEXT && !exact ? text_value(ls_jupper(r, v.text, false)) : v;
}

/* Sorts pairs (key, value) by their keys, keeping the order of equal ones; then keeps the values. Merges, so
 * that a long list takes n log n steps. */
static void sort_pairs(ls_jrender *r, ls_jvalue *pairs, ls_jvalue *spare, int64_t n, bool down)
{
    if (n < 2 || ls_jfailed(r))
        return;
    const int64_t half = n / 2;
    sort_pairs(r, pairs, spare, half, down);
    sort_pairs(r, pairs + half, spare, n - half, down);
    memcpy(spare, pairs, (size_t)half * sizeof *pairs);
    for (int64_t i = 0, j = half, to = 0; i < half && ls_jstep(r, 0); to++) {
        bool right = false;
        if (j < n) {
            const int c = ls_jcompare(r, pairs[j].list->items[0], spare[i].list->items[0]);
            right = down ? c > 0 : c < 0;
        }
        pairs[to] = right ? pairs[j++] : spare[i++];
    }
}

static ls_jvalue sorted(ls_jrender *r, const ls_jlist *all, ls_jvalue path, bool exact, bool down)
{
    ls_jvalue pairs = ls_jlist_new(r, LS_JLIST, all ? all->n : 0);
    for (int64_t i = 0; all && i < all->n && !ls_jfailed(r); i++)
        ls_jlist_add(r, pairs, ls_jpair(r, sort_key(r, all->items[i], path, exact), all->items[i]));
    ls_jvalue *spare = ls_jalloc(r, sizeof *spare * (size_t)(all && all->n ? all->n : 1));
    if (!spare || !ls_jis_list(pairs))
        return ls_jundefined(NULL);
    sort_pairs(r, pairs.list->items, spare, pairs.list->n, down);
    for (int64_t i = 0; i < pairs.list->n && !ls_jfailed(r); i++)
        pairs.list->items[i] = pairs.list->items[i].list->items[1];
    return pairs;
}

static ls_jvalue sort(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return sorted(r, ls_jitems(r, of), a->values[2], ls_jtruth(a->values[1]), ls_jtruth(a->values[0]));
}

static ls_jvalue dictsort(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    bool by_value = false;
    if (ls_jgiven(a, 1)) {
        const ls_jtext *by = ls_jargument_text(r, a, 1);
        by_value = by->n == 5 && memcmp(by->bytes, "value", 5) == 0;
        if (!by_value && !(by->n == 3 && memcmp(by->bytes, "key", 3) == 0))
            ls_jfail(r, LS_E_FORMAT, "dictsort: 'by' has to be \"key\" or \"value\"");
    }
    const ls_jlist *all = ls_jitems(r, items(r, of, NULL));
    return sorted(r, all, ls_jint(by_value), ls_jtruth(a->values[0]), ls_jtruth(a->values[2]));
}

static ls_jvalue extreme(ls_jrender *r, ls_jvalue of, const ls_jarguments *a, int sign)
{
    const ls_jlist *all = ls_jitems(r, of);
    ls_jvalue best = ls_jundefined("item of an empty list"), best_key = best;
    for (int64_t i = 0; all && i < all->n && !ls_jfailed(r); i++) {
        const ls_jvalue key = sort_key(r, all->items[i], a->values[1], ls_jtruth(a->values[0]));
        if (i == 0 || sign * ls_jcompare(r, key, best_key) > 0) {
            best = all->items[i];
            best_key = key;
        }
    }
    return best;
}
static ls_jvalue min(ls_jrender *r, ls_jvalue of, const ls_jarguments *a) { return extreme(r, of, a, -1); }
static ls_jvalue max(ls_jrender *r, ls_jvalue of, const ls_jarguments *a) { return extreme(r, of, a, 1); }

static ls_jvalue unique(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jlist *all = ls_jitems(r, of);
    ls_jvalue out = ls_jlist_new(r, LS_JITERATOR, 0), seen = ls_jdict_new(r, LS_JDICT);
    for (int64_t i = 0; all && i < all->n && !ls_jfailed(r); i++) {
        const ls_jvalue key = sort_key(r, all->items[i], a->values[1], ls_jtruth(a->values[0]));
        if (ls_jdict_find(r, seen.dict, key))
            continue;
        ls_jdict_put(r, seen, key, ls_jnone());
        ls_jlist_add(r, out, all->items[i]);
    }
    return out;
}

/* The function that argument `at` names, and the arguments behind it. */
static const ls_jfunction *named(ls_jrender *r, const ls_jarguments *a, int at, bool test,
                                 ls_jarguments *rest)
{
    const ls_jtext *name = ls_jargument_text(r, a, at);
    char *copy = ls_arena_printf(&r->arena, "%.*s", (int)(name->n < 100 ? name->n : 100), name->bytes);
    const ls_jfunction *f = test ? ls_jtest(copy) : ls_jfilter(copy);
    if (!f)
        ls_jfail(r, LS_E_UNSUPPORTED, "the %s '%s' is not known here", test ? "test" : "filter", copy);
    *rest = (ls_jarguments){ .values = a->values + at + 1 };
    while (at + 1 + rest->n < a->n && ls_jgiven(a, at + 1 + rest->n) && rest->n < 3)
        rest->n++;
    rest->n_positional = rest->n;
    return f;
}

static ls_jvalue map(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    const ls_jlist *all = ls_jtruth(of) ? ls_jitems(r, of) : NULL; /* none | map is empty */
    ls_jvalue out = ls_jlist_new(r, LS_JITERATOR, all ? all->n : 0);
    ls_jarguments rest = { 0 };
    const ls_jfunction *f = NULL;
    if (!ls_jgiven(a, 3))
        f = named(r, a, 0, false, &rest);
    for (int64_t i = 0; all && i < all->n && ls_jstep(r, 0); i++) {
        ls_jvalue v = f ? ls_japply(r, f, all->items[i], &rest) : at_path(r, all->items[i], a->values[3]);
        if (!f && v.kind == LS_JUNDEFINED && ls_jgiven(a, 4))
            v = a->values[4];
        ls_jlist_add(r, out, v);
    }
    return out;
}

/* Those items of which a test holds: of themselves, or of what argument 0 names in them. */
static ls_jvalue pick(ls_jrender *r, ls_jvalue of, const ls_jarguments *a, bool attribute, bool wanted)
{
    const ls_jlist *all = ls_jtruth(of) ? ls_jitems(r, of) : NULL; /* none | map is empty */
    ls_jvalue out = ls_jlist_new(r, LS_JITERATOR, 0);
    ls_jarguments rest = { 0 };
    const ls_jfunction *test = ls_jgiven(a, attribute) ? named(r, a, attribute, true, &rest) : NULL;
    for (int64_t i = 0; all && i < all->n && ls_jstep(r, 0); i++) {
        ls_jvalue v = attribute ? at_path(r, all->items[i], a->values[0]) : all->items[i];
        if (test)
            v = ls_japply(r, test, v, &rest);
        if (ls_jtruth(v) == wanted)
            ls_jlist_add(r, out, all->items[i]);
    }
    return out;
}
static ls_jvalue choose(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return pick(r, of, a, false, true);
}
static ls_jvalue reject(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return pick(r, of, a, false, false);
}
static ls_jvalue choose_by(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return pick(r, of, a, true, true);
}
static ls_jvalue reject_by(ls_jrender *r, ls_jvalue of, const ls_jarguments *a)
{
    return pick(r, of, a, true, false);
}

static const ls_jfunction TABLE[] = {
    { "abs", "", absolute, 0 },
    { "capitalize", "", capitalize, 0 },
    { "count", "", length, 0 },
    { "d", "default_value boolean", otherwise, 0 },
    { "default", "default_value boolean", otherwise, 0 },
    { "dictsort", "case_sensitive by reverse", dictsort, 0 },
    { "e", "", escape, 0 },
    { "escape", "", escape, 0 },
    { "first", "", first, 0 },
    { "float", "default", to_float, 0 },
    { "from_json", "", from_json, 0 },
    { "indent", "width first blank", indent, 0 },
    { "int", "default", to_int, 0 },
    { "items", "", items, 0 },
    { "join", "d attribute", join, 0 },
    { "last", "", last, 0 },
    { "length", "", length, 0 },
    { "list", "", filter_list, 0 },
    { "lower", "", lower, 0 },
    { "map", "filter 1 2 attribute default", map, 0 },
    { "max", "case_sensitive attribute", max, 0 },
    { "min", "case_sensitive attribute", min, 0 },
    { "reject", "test 1 2", reject, 0 },
    { "rejectattr", "attribute test 1 2", reject_by, 0 },
    { "replace", "old new count", replace, 0 },
    { "reverse", "", reverse, 0 },
    { "safe", "", safe, 0 },
    { "select", "test 1 2", choose, 0 },
    { "selectattr", "attribute test 1 2", choose_by, 0 },
    { "sort", "reverse case_sensitive attribute", sort, 0 },
    { "string", "", string, 0 },
    { "title", "", title, 0 },
    { "tojson", "ensure_ascii indent separators sort_keys", to_json, 0 },
    { "trim", "chars", trim, 0 },
    { "unique", "case_sensitive attribute", unique, 0 },
    { "upper", "", upper, 0 },
    { NULL, NULL, NULL, 0 },
};

const ls_jfunction *ls_jfilter(const char *name) { return ls_jin_table(TABLE, name); }
