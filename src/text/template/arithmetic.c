/* arithmetic.c - operators on values, as in Python. Whole numbers have 64 bits: beyond that is a failure. */
#include <math.h>

#include "arithmetic.h"

static ls_jvalue fail_types(ls_jrender *r, const char *what, ls_jvalue a, ls_jvalue b)
{
    const ls_jvalue *undefined = a.kind == LS_JUNDEFINED ? &a : b.kind == LS_JUNDEFINED ? &b : NULL;
    if (undefined)
        ls_jfail(r, LS_E_FORMAT, "'%s' is undefined", undefined->name ? undefined->name : "value");
    else
        ls_jfail(r, LS_E_FORMAT, "%s does not fit '%s' and '%s'", what, ls_jtype(a), ls_jtype(b));
    return ls_jundefined(NULL);
}

static ls_jvalue fail_size(ls_jrender *r)
{
    ls_jfail(r, LS_E_UNSUPPORTED, "a whole number has more than 64 bits");
    return ls_jundefined(NULL);
}

static ls_jvalue joined(ls_jrender *r, const ls_jtext *a, const ls_jtext *b)
{
    ls_jbuilder to = { 0 };
    ls_jadd_text(r, &to, a);
    ls_jadd_text(r, &to, b);
    return ls_jtext_value(ls_jbuilt(r, &to));
}

/* With markup the other side is escaped, as jinja2's Markup does. */
static ls_jvalue add_texts(ls_jrender *r, const ls_jtext *a, const ls_jtext *b)
{
    if (!a->markup && !b->markup)
        return joined(r, a, b);
    const ls_jvalue sum = joined(r, a->markup ? a : ls_jescape(r, a), b->markup ? b : ls_jescape(r, b));
    ls_jtext *markup = ls_jalloc(r, sizeof *markup);
    if (!markup)
        return sum;
    *markup = *sum.text;
    markup->markup = true;
    return ls_jtext_value(markup);
}

static ls_jvalue add_lists(ls_jrender *r, ls_jvalue a, ls_jvalue b)
{
    ls_jvalue sum = ls_jlist_new(r, a.kind, a.list->n + b.list->n);
    for (int64_t i = 0; i < a.list->n && !ls_jfailed(r); i++)
        ls_jlist_add(r, sum, a.list->items[i]);
    for (int64_t i = 0; i < b.list->n && !ls_jfailed(r); i++)
        ls_jlist_add(r, sum, b.list->items[i]);
    return sum;
}

static ls_jvalue repeat(ls_jrender *r, ls_jvalue of, int64_t times)
{
    if (of.kind == LS_JTEXT) {
        ls_jbuilder to = { 0 };
        for (; times > 0 && ls_jstep(r, 0); times--)
            ls_jadd_text(r, &to, of.text);
        return ls_jtext_value(ls_jbuilt(r, &to));
    }
    ls_jvalue all = ls_jlist_new(r, of.kind, 0);
    for (; times > 0 && ls_jstep(r, 0); times--)
        for (int64_t i = 0; i < of.list->n && !ls_jfailed(r); i++)
            ls_jlist_add(r, all, of.list->items[i]);
    return all;
}

static ls_jvalue whole_power(ls_jrender *r, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    for (int64_t i = 0; i < exponent && ls_jstep(r, 0); i++)
        if (__builtin_mul_overflow(result, base, &result))
            return fail_size(r);
    return ls_jint(result);
}

static ls_jvalue whole(ls_jrender *r, ls_jop op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    switch (op) {
    case LS_JOP_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
    case LS_JOP_SUBTRACT: overflow = __builtin_sub_overflow(a, b, &result); break;
    case LS_JOP_MULTIPLY: overflow = __builtin_mul_overflow(a, b, &result); break;
    case LS_JOP_POWER: return b < 0 ? ls_jfloat(pow((double)a, (double)b)) : whole_power(r, a, b);
    case LS_JOP_FLOOR_DIVIDE:
        if (b == -1)
            overflow = __builtin_sub_overflow((int64_t)0, a, &result);
        else
            result = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default: /* the remainder has the sign of b */
        result = b == -1 ? 0 : a % b;
        if (result != 0 && (result < 0) != (b < 0))
            result += b;
    }
    return overflow ? fail_size(r) : ls_jint(result);
}

static ls_jvalue numbers(ls_jrender *r, ls_jop op, ls_jvalue a, ls_jvalue b)
{
    const double x = ls_jnumber(a), y = ls_jnumber(b);
    const bool divides = op == LS_JOP_DIVIDE || op == LS_JOP_FLOOR_DIVIDE || op == LS_JOP_MODULO;
    if (y == 0 && divides) {
        ls_jfail(r, LS_E_FORMAT, "division by zero");
        return ls_jundefined(NULL);
    }
    if (op == LS_JOP_DIVIDE)
        return ls_jfloat(x / y);
    if (a.kind != LS_JFLOAT && b.kind != LS_JFLOAT)
        return whole(r, op, a.i, b.i);
    switch (op) {
    case LS_JOP_ADD: return ls_jfloat(x + y);
    case LS_JOP_SUBTRACT: return ls_jfloat(x - y);
    case LS_JOP_MULTIPLY: return ls_jfloat(x * y);
    case LS_JOP_POWER: return ls_jfloat(pow(x, y));
    case LS_JOP_FLOOR_DIVIDE: return ls_jfloat(floor(x / y));
    default: {
        const double m = fmod(x, y);
        return ls_jfloat(m != 0 && (m < 0) != (y < 0) ? m + y : m);
    }
    }
}

ls_jvalue ls_joperate(ls_jrender *r, ls_jop op, ls_jvalue a, ls_jvalue b)
{
    static const char *const NAMES[] = { "+", "-", "~", "*", "/", "//", "%", "**" };
    if (op == LS_JOP_JOIN)
        return joined(r, ls_jshow(r, a), ls_jshow(r, b));
    if (ls_jis_number(a) && ls_jis_number(b))
        return numbers(r, op, a, b);
    if (op == LS_JOP_ADD && a.kind == LS_JTEXT && b.kind == LS_JTEXT)
        return add_texts(r, a.text, b.text);
    const bool lists = a.kind == LS_JLIST || a.kind == LS_JTUPLE;
    if (op == LS_JOP_ADD && a.kind == b.kind && lists)
        return add_lists(r, a, b);
    if (op == LS_JOP_MULTIPLY && (a.kind == LS_JTEXT || lists) && (b.kind == LS_JINT || b.kind == LS_JBOOL))
        return repeat(r, a, b.i);
    if (op == LS_JOP_MULTIPLY && (a.kind == LS_JINT || a.kind == LS_JBOOL) &&
        (b.kind == LS_JTEXT || b.kind == LS_JLIST || b.kind == LS_JTUPLE))
        return repeat(r, b, a.i);
    if (op == LS_JOP_MODULO && a.kind == LS_JTEXT) {
        ls_jfail(r, LS_E_UNSUPPORTED, "formatting with %% is not supported");
        return ls_jundefined(NULL);
    }
    return fail_types(r, NAMES[op], a, b);
}

bool ls_jrelate(ls_jrender *r, ls_jop op, ls_jvalue a, ls_jvalue b)
{
    switch (op) {
    case LS_JOP_EQUAL: return ls_jequal(r, a, b);
    case LS_JOP_UNEQUAL: return !ls_jequal(r, a, b);
    case LS_JOP_LESS: return ls_jcompare(r, a, b) < 0;
    case LS_JOP_LESS_EQUAL: return ls_jcompare(r, a, b) <= 0;
    case LS_JOP_GREATER: return ls_jcompare(r, a, b) > 0;
    case LS_JOP_GREATER_EQUAL: return ls_jcompare(r, a, b) >= 0;
    case LS_JOP_IN: return ls_jcontains(r, b, a);
    default: return !ls_jcontains(r, b, a);
    }
}

ls_jvalue ls_jnegative(ls_jrender *r, ls_jvalue v)
{
    if (v.kind == LS_JFLOAT)
        return ls_jfloat(-v.f);
    if (!ls_jis_number(v))
        return fail_types(r, "-", ls_jint(0), v);
    return whole(r, LS_JOP_SUBTRACT, 0, v.i);
}

/* Python's rule for a bound of a slice of n items. */
static int64_t bound(ls_jrender *r, ls_jvalue v, int64_t n, int64_t otherwise, bool down)
{
    if (v.kind == LS_JNONE)
        return otherwise;
    if (v.kind != LS_JINT && v.kind != LS_JBOOL) {
        ls_jfail(r, LS_E_FORMAT, "a slice needs whole numbers, and not '%s'", ls_jtype(v));
        return 0;
    }
    int64_t i = v.i < 0 ? v.i + n : v.i;
    if (i < 0)
        i = down ? -1 : 0;
    return i > n - down ? n - down : i;
}

ls_jvalue ls_jslice(ls_jrender *r, ls_jvalue of, const ls_jvalue bounds[3])
{
    if (of.kind == LS_JUNDEFINED)
        return fail_types(r, "[]", of, of);
    if (of.kind != LS_JTEXT && of.kind != LS_JLIST && of.kind != LS_JTUPLE)
        return ls_jundefined("slice");
    const int64_t n = of.kind == LS_JTEXT ? (int64_t)ls_jcharacters(r, of.text) : of.list->n;
    const int64_t by = bounds[2].kind == LS_JNONE ? 1 : bounds[2].i;
    if (by == 0 || by < INT32_MIN || by > INT32_MAX ||
        (bounds[2].kind != LS_JNONE && bounds[2].kind != LS_JINT && bounds[2].kind != LS_JBOOL)) {
        ls_jfail(r, LS_E_FORMAT, "the step of a slice has to be a whole number other than 0");
        return ls_jundefined(NULL);
    }
    const bool down = by < 0;
    const int64_t start = bound(r, bounds[0], n, down ? n - 1 : 0, down);
    const int64_t stop = bound(r, bounds[1], n, down ? -1 : n, down);
    if (of.kind == LS_JTEXT && by == 1) {
        const size_t from = ls_joffset(of.text, 0, start);
        return ls_jtext_value(ls_jpart(r, of.text, from, ls_joffset(of.text, from, stop - start)));
    }
    const ls_jlist *items = ls_jitems(r, of);
    ls_jvalue out = ls_jlist_new(r, of.kind == LS_JTEXT ? LS_JLIST : of.kind, 0);
    for (int64_t i = start; items && !ls_jfailed(r) && (down ? i > stop : i < stop); i += by)
        ls_jlist_add(r, out, items->items[i]);
    if (of.kind != LS_JTEXT || ls_jfailed(r))
        return out;
    ls_jbuilder b = { 0 };
    for (int64_t i = 0; i < out.list->n; i++)
        ls_jadd_text(r, &b, out.list->items[i].text);
    return ls_jtext_value(ls_jbuilt(r, &b));
}
