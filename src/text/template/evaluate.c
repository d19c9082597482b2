/* evaluate.c - expressions. */
#include "arithmetic.h"
#include "evaluate.h"

enum { RECURSION = 20 * LS_TEMPLATE_DEPTH };

bool ls_jdescend(ls_jrender *r, const ls_jnode *n)
{
    r->line = n->line;
    if (++r->depth > RECURSION)
        ls_jfail(r, LS_E_UNSUPPORTED, "macros and blocks are nested too deep here: %d levels", RECURSION);
    return ls_jstep(r, 0);
}

void ls_jreturn(ls_jrender *r) { r->depth--; }

void ls_jbind_name(ls_jrender *r, const char *name, ls_jvalue value)
{
    ls_jscope *s = r->scope;
    for (int i = 0; i < s->n; i++)
        if (s->bindings[i].name == name) {
            s->bindings[i].value = value;
            return;
        }
    if (s->n == s->cap) {
        const int cap = s->cap ? 2 * s->cap : 4;
        struct ls_jbinding *bindings = ls_jalloc(r, sizeof *bindings * (size_t)cap);
        if (!bindings)
            return;
        if (s->n)
            memcpy(bindings, s->bindings, sizeof *bindings * (size_t)s->n);
        s->bindings = bindings;
        s->cap = cap;
    }
    s->bindings[s->n++] = (struct ls_jbinding){ name, value };
}

ls_jvalue ls_jlook_up(ls_jrender *r, const char *name)
{
    for (const ls_jscope *s = r->scope; s; s = s->outer)
        for (int i = 0; i < s->n; i++)
            if (s->bindings[i].name == name)
                return s->bindings[i].value;
    const ls_jvalue *given = ls_jdict_name(r, r->variables.dict, name);
    if (given)
        return *given;
    const ls_jfunction *f = ls_jglobal(name);
    return f ? (ls_jvalue){ .kind = LS_JFUNCTION, .function = f } : ls_jundefined(name);
}

/* The arguments of a call: those by position, with the items of *lists among them, then those by name. */
static ls_jarguments arguments(ls_jrender *r, const ls_jnode *n)
{
    ls_jarguments a = { .names = n->keywords };
    ls_jvalue all = n->n ? ls_jlist_new(r, LS_JVIEW, n->n) : ls_jundefined(NULL);
    for (int i = 0; i < n->n && !ls_jfailed(r); i++) {
        const bool spread = n->items[i]->kind == LS_JN_SPREAD;
        const ls_jvalue v = ls_jevaluate(r, spread ? n->items[i]->a : n->items[i]);
        if (i == n->n - n->n_keywords)
            a.n_positional = (int)all.list->n;
        if (!spread) {
            ls_jlist_add(r, all, v);
            continue;
        }
        const ls_jlist *items = ls_jitems(r, v);
        for (int64_t k = 0; items && k < items->n && !ls_jfailed(r); k++)
            ls_jlist_add(r, all, items->items[k]);
    }
    if (ls_jfailed(r) || !n->n)
        return (ls_jarguments){ 0 };
    a.values = all.list->items;
    a.n = (int)all.list->n;
    if (!n->n_keywords)
        a.n_positional = a.n;
    return a;
}

static ls_jvalue call(ls_jrender *r, const ls_jnode *n)
{
    const ls_jvalue f = ls_jevaluate(r, n->a);
    if (f.kind == LS_JUNDEFINED) {
        r->line = n->line;
        ls_jfail(r, LS_E_FORMAT, "'%s' is undefined, or a method that would change a value",
                 f.name ? f.name : "value");
    }
    const ls_jarguments a = arguments(r, n);
    r->line = n->line;
    if (ls_jfailed(r))
        return ls_jundefined(NULL);
    switch (f.kind) {
    case LS_JMACRO: return r->call_macro(r, f.macro, &a);
    case LS_JFUNCTION: return ls_japply(r, f.function, ls_jundefined(NULL), &a);
    case LS_JMETHOD: return ls_japply(r, f.method->function, f.method->of, &a);
    default: ls_jfail(r, LS_E_FORMAT, "'%s' object is not callable", ls_jtype(f)); return ls_jundefined(NULL);
    }
}

static ls_jvalue filter(ls_jrender *r, const ls_jnode *n)
{
    const ls_jvalue of = n->a ? ls_jevaluate(r, n->a) : r->block;
    const ls_jarguments a = arguments(r, n);
    r->line = n->line;
    return ls_japply(r, n->function, of, &a);
}

static ls_jvalue chain(ls_jrender *r, const ls_jnode *n)
{
    ls_jvalue v = ls_jevaluate(r, n->items[0]);
    if (n->ops[1] == LS_JOP_JOIN) { /* all at once: a ~ b ~ c copies nothing twice */
        ls_jbuilder b = { 0 };
        ls_jshow_to(r, &b, v);
        for (int i = 1; i < n->n && !ls_jfailed(r); i++)
            ls_jshow_to(r, &b, ls_jevaluate(r, n->items[i]));
        return ls_jtext_value(ls_jbuilt(r, &b));
    }
    for (int i = 1; i < n->n && !ls_jfailed(r); i++) {
        const ls_jvalue right = ls_jevaluate(r, n->items[i]);
        r->line = n->line;
        v = ls_joperate(r, n->ops[i], v, right);
    }
    return v;
}

/* a < b < c: each with the next one, until one does not hold. */
static ls_jvalue compare(ls_jrender *r, const ls_jnode *n)
{
    ls_jvalue left = ls_jevaluate(r, n->items[0]);
    bool holds = true;
    for (int i = 1; i < n->n && holds && !ls_jfailed(r); i++) {
        const ls_jvalue right = ls_jevaluate(r, n->items[i]);
        r->line = n->line;
        holds = !ls_jfailed(r) && ls_jrelate(r, n->ops[i], left, right);
        left = right;
    }
    return ls_jbool(holds);
}

static ls_jvalue logical(ls_jrender *r, const ls_jnode *n)
{
    ls_jvalue v = ls_jevaluate(r, n->items[0]);
    for (int i = 1; i < n->n && !ls_jfailed(r) && ls_jtruth(v) == (n->kind == LS_JN_AND); i++)
        v = ls_jevaluate(r, n->items[i]);
    return v;
}

static ls_jvalue sequence(ls_jrender *r, const ls_jnode *n)
{
    ls_jvalue v = ls_jlist_new(r, n->kind == LS_JN_LIST ? LS_JLIST : LS_JTUPLE, n->n);
    for (int i = 0; i < n->n && !ls_jfailed(r); i++)
        ls_jlist_add(r, v, ls_jevaluate(r, n->items[i]));
    return v;
}

static ls_jvalue dictionary(ls_jrender *r, const ls_jnode *n)
{
    ls_jvalue v = ls_jdict_new(r, LS_JDICT);
    for (int i = 0; i + 1 < n->n && !ls_jfailed(r); i += 2) {
        const ls_jvalue key = ls_jevaluate(r, n->items[i]);
        ls_jdict_put(r, v, key, ls_jevaluate(r, n->items[i + 1]));
    }
    return v;
}

static ls_jvalue slice(ls_jrender *r, const ls_jnode *n)
{
    const ls_jvalue of = ls_jevaluate(r, n->a);
    ls_jvalue bounds[3];
    for (int i = 0; i < 3; i++)
        bounds[i] = n->items[i] ? ls_jevaluate(r, n->items[i]) : ls_jnone();
    r->line = n->line;
    return ls_jfailed(r) ? of : ls_jslice(r, of, bounds);
}

static ls_jvalue evaluate(ls_jrender *r, const ls_jnode *n)
{
    ls_jvalue v;
    switch (n->kind) {
    case LS_JN_CONST: return n->constant;
    case LS_JN_NAME: return ls_jlook_up(r, n->name);
    case LS_JN_CHAIN: return chain(r, n);
    case LS_JN_COMPARE: return compare(r, n);
    case LS_JN_AND:
    case LS_JN_OR: return logical(r, n);
    case LS_JN_NOT: return ls_jbool(!ls_jtruth(ls_jevaluate(r, n->a)));
    case LS_JN_NEGATIVE:
        v = ls_jevaluate(r, n->a);
        r->line = n->line;
        return n->n_keywords ? ls_jnegative(r, ls_jnegative(r, v)) : ls_jnegative(r, v);
    case LS_JN_IF_ELSE:
        if (ls_jtruth(ls_jevaluate(r, n->b)))
            return ls_jevaluate(r, n->a);
        return n->c ? ls_jevaluate(r, n->c) : ls_jundefined("if without else");
    case LS_JN_ATTRIBUTE:
        v = ls_jevaluate(r, n->a);
        r->line = n->line;
        return ls_jget_attribute(r, v, n->name);
    case LS_JN_ITEM: {
        v = ls_jevaluate(r, n->a);
        const ls_jvalue key = ls_jevaluate(r, n->b);
        r->line = n->line;
        return ls_jget_item(r, v, key);
    }
    case LS_JN_SLICE: return slice(r, n);
    case LS_JN_CALL: return call(r, n);
    case LS_JN_FILTER: return filter(r, n);
    case LS_JN_TEST: {
        v = ls_jevaluate(r, n->a);
        const ls_jarguments a = arguments(r, n);
        r->line = n->line;
        return ls_japply(r, n->function, v, &a);
    }
    case LS_JN_LIST:
    case LS_JN_TUPLE: return sequence(r, n);
    case LS_JN_DICT: return dictionary(r, n);
    default: return ls_jundefined(NULL); /* a statement is not an expression */
    }
}

ls_jvalue ls_jevaluate(ls_jrender *r, const ls_jnode *n)
{
    const ls_jvalue v = ls_jdescend(r, n) ? evaluate(r, n) : ls_jundefined(NULL);
    ls_jreturn(r);
    return ls_jfailed(r) ? ls_jundefined(NULL) : v;
}
