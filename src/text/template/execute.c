/* execute.c - statements. A loop, a macro and the body of a block have a scope of their own; `if` has none.
 */
#include "evaluate.h"
#include "execute.h"

typedef enum flow { NEXT, BREAK, CONTINUE } flow;

static flow execute(ls_jrender *r, const ls_jnode *n);

/* Runs a body in a new scope inside of `outer`, with `out` for what it writes. */
static flow inside(ls_jrender *r, ls_jscope *scope, ls_jbuilder *out, const ls_jnode *body)
{
    ls_jscope *old = r->scope;
    ls_jbuilder *old_out = r->out;
    r->scope = scope;
    r->out = out;
    const flow f = execute(r, body);
    r->scope = old;
    r->out = old_out;
    return f;
}

static ls_jscope *scope_in(ls_jrender *r, ls_jscope *outer)
{
    ls_jscope *s = ls_jalloc(r, sizeof *s);
    if (s)
        s->outer = outer;
    return s;
}

static void assign(ls_jrender *r, const ls_jnode *to, ls_jvalue v)
{
    if (to->kind == LS_JN_NAME) {
        ls_jbind_name(r, to->name, v);
    } else if (to->kind == LS_JN_TUPLE) {
        const ls_jlist *items = ls_jitems(r, v);
        if (items && items->n != to->n)
            ls_jfail(r, LS_E_FORMAT, "%lld values for %d names", (long long)items->n, to->n);
        for (int i = 0; i < to->n && !ls_jfailed(r); i++)
            assign(r, to->items[i], items->items[i]);
    } else { /* NAMESPACE.NAME */
        const ls_jvalue space = ls_jlook_up(r, to->a->name);
        if (space.kind != LS_JNAMESPACE)
            ls_jfail(r, LS_E_FORMAT, "'%s' is not a namespace: its attribute cannot be set", to->a->name);
        else if (to->name[0] == '_')
            ls_jfail(r, LS_E_FORMAT, "'%s' begins with _: a namespace does not take it", to->name);
        else
            ls_jdict_put(r, space, ls_jtext_value(ls_jtext_of(r, to->name, strlen(to->name), 0)), v);
    }
}

static void loop(ls_jrender *r, const ls_jnode *n)
{
    const ls_jlist *items = ls_jitems(r, ls_jevaluate(r, n->b));
    ls_jscope *outer = r->scope, *scope = scope_in(r, outer);
    ls_jloop *l = ls_jalloc(r, sizeof *l);
    if (!items || !scope || !l)
        return;
    r->scope = scope;
    if (n->test) {
        ls_jvalue kept = ls_jlist_new(r, LS_JLIST, 0);
        for (int64_t i = 0; i < items->n && ls_jstep(r, 0); i++) {
            assign(r, n->a, items->items[i]);
            if (ls_jtruth(ls_jevaluate(r, n->test)))
                ls_jlist_add(r, kept, items->items[i]);
        }
        if (!ls_jfailed(r))
            items = kept.list;
    }
    *l = (ls_jloop){ .items = items, .changed = { .kind = LS_JABSENT } };
    for (flow f = NEXT; l->index < items->n && f != BREAK && ls_jstep(r, 0); l->index++) {
        scope->n = 0; /* nothing of the last round is left */
        r->line = n->line;
        ls_jbind_name(r, n->name, (ls_jvalue){ .kind = LS_JLOOP, .loop = l });
        assign(r, n->a, items->items[l->index]);
        f = execute(r, n->c);
    }
    scope->n = 0;
    if (!items->n && n->n)
        execute(r, n->items[0]);
    r->scope = outer;
}

/* The text that a body writes, through the filters of its block. */
static ls_jvalue captured(ls_jrender *r, const ls_jnode *n)
{
    ls_jbuilder b = { 0 };
    ls_jscope *scope = scope_in(r, r->scope);
    if (!scope)
        return ls_jundefined(NULL);
    inside(r, scope, &b, n->c);
    const ls_jvalue text = ls_jtext_value(ls_jbuilt(r, &b));
    if (!n->b || ls_jfailed(r))
        return text;
    const ls_jvalue old = r->block;
    r->block = text;
    const ls_jvalue v = ls_jevaluate(r, n->b);
    r->block = old;
    return v;
}

static void generation(ls_jrender *r, const ls_jnode *n)
{
    const ls_jorigin old = r->generation;
    ls_jscope *scope = scope_in(r, r->scope);
    if (!scope)
        return;
    r->generation = LS_JORIGIN_GENERATION;
    inside(r, scope, r->out, n->c);
    r->generation = old;
}

static void define(ls_jrender *r, const ls_jnode *n)
{
    ls_jmacro *m = ls_jalloc(r, sizeof *m);
    if (!m)
        return;
    *m = (ls_jmacro){ n, r->scope };
    ls_jbind_name(r, n->name, (ls_jvalue){ .kind = LS_JMACRO, .macro = m });
}

static int parameter(ls_jrender *r, const ls_jnode *n, const ls_jarguments *a, int argument)
{
    if (argument < a->n_positional) {
        if (argument >= n->n)
            ls_jfail(r, LS_E_FORMAT, "macro '%s' takes at most %d arguments, and not %d", n->name, n->n,
                     a->n_positional);
        return argument;
    }
    const char *name = a->names[argument - a->n_positional];
    for (int i = 0; i < n->n; i++)
        if (n->items[i]->name == name)
            return i;
    ls_jfail(r, LS_E_FORMAT, "macro '%s' has no argument '%s'", n->name, name);
    return 0;
}

static ls_jvalue call_macro(ls_jrender *r, const ls_jmacro *m, const ls_jarguments *a)
{
    const ls_jnode *n = m->node;
    ls_jbuilder b = { 0 };
    ls_jscope *outer = r->scope, *scope = scope_in(r, m->scope);
    if (++r->calls > LS_TEMPLATE_DEPTH)
        ls_jfail(r, LS_E_UNSUPPORTED, "macros call each other more than %d deep: '%s'", LS_TEMPLATE_DEPTH,
                 n->name);
    if (scope && !ls_jfailed(r)) {
        r->scope = scope;
        for (int i = 0; i < a->n && !ls_jfailed(r); i++) {
            const int at = parameter(r, n, a, i);
            if (!ls_jfailed(r))
                ls_jbind_name(r, n->items[at]->name, a->values[i]);
        }
        for (int i = 0; i < n->n && !ls_jfailed(r); i++) { /* those that were not given */
            bool given = false;
            for (int k = 0; k < scope->n; k++)
                given |= scope->bindings[k].name == n->items[i]->name;
            if (!given)
                ls_jbind_name(r, n->items[i]->name,
                              n->values[i] ? ls_jevaluate(r, n->values[i])
                                           : ls_jundefined(n->items[i]->name));
        }
        if (!ls_jfailed(r))
            inside(r, scope, &b, n->c);
        r->scope = outer;
    }
    r->calls--;
    return ls_jtext_value(ls_jbuilt(r, &b));
}

static flow choose(ls_jrender *r, const ls_jnode *n)
{
    for (int i = 0; i < n->n && !ls_jfailed(r); i += 2)
        if (ls_jtruth(ls_jevaluate(r, n->items[i])))
            return execute(r, n->items[i + 1]);
    return n->c && !ls_jfailed(r) ? execute(r, n->c) : NEXT;
}

static flow statement(ls_jrender *r, const ls_jnode *n)
{
    flow f = NEXT;
    switch (n->kind) {
    case LS_JN_BODY:
        for (int i = 0; i < n->n && f == NEXT && !ls_jfailed(r); i++)
            f = execute(r, n->items[i]);
        return f;
    case LS_JN_DATA: ls_jadd_text(r, r->out, n->constant.text); return NEXT;
    case LS_JN_PRINT: ls_jshow_to(r, r->out, ls_jevaluate(r, n->a)); return NEXT;
    case LS_JN_IF: return choose(r, n);
    case LS_JN_FOR: loop(r, n); return NEXT;
    case LS_JN_SET: {
        const ls_jvalue v = ls_jevaluate(r, n->b);
        r->line = n->line;
        assign(r, n->a, v);
        return NEXT;
    }
    case LS_JN_SET_BLOCK: assign(r, n->a, captured(r, n)); return NEXT;
    case LS_JN_FILTERED: ls_jshow_to(r, r->out, captured(r, n)); return NEXT;
    case LS_JN_MACRO: define(r, n); return NEXT;
    case LS_JN_GENERATION: generation(r, n); return NEXT;
    case LS_JN_BREAK: return BREAK;
    case LS_JN_CONTINUE: return CONTINUE;
    default: return NEXT; /* an expression is not a statement */
    }
}

static flow execute(ls_jrender *r, const ls_jnode *n)
{
    const flow f = ls_jdescend(r, n) ? statement(r, n) : NEXT;
    ls_jreturn(r);
    return f;
}

void ls_jexecute(ls_jrender *r, const struct ls_template *t)
{
    r->call_macro = call_macro;
    r->scope = scope_in(r, NULL);
    if (r->scope)
        execute(r, t->body);
}
