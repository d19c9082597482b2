/* parse_expression.c - expressions, in jinja2's order of precedence. */
#include "functions.h"
#include "parser.h"

/* A call of a function by its name. */
struct ls_jcall {
    struct ls_jcall *next;
    const char *name;
    int line;
};

static ls_jnode *unary(ls_jparser *p, bool filters);
static ls_jnode *primary(ls_jparser *p);

/* ---- calls */

/* The arguments, from behind the ( to behind the ). */
static void arguments(ls_jparser *p, ls_jnode *node)
{
    const char *keywords[32];
    while (p->status == LS_OK && !ls_jskip_op(p, ")")) {
        if (node->n)
            ls_jexpect_op(p, ",");
        if (ls_jskip_op(p, ")"))
            break;
        const ls_jtoken *at = p->at;
        if (at->kind == LS_JT_NAME && at[1].kind == LS_JT_OPERATOR && strcmp(at[1].op, "=") == 0) {
            if (node->n_keywords == (int)(sizeof keywords / sizeof *keywords)) {
                ls_jparse_fail(p, at, LS_E_UNSUPPORTED, "a call has more than 32 named arguments");
                return;
            }
            keywords[node->n_keywords++] = ls_jname(p, at->text, false);
            p->at += 2;
            ls_jnode_add(p, node, ls_jparse_expression(p));
        } else if (ls_jat_op(p, "**")) {
            ls_jparse_fail(p, at, LS_E_UNSUPPORTED, "** in a call is not supported");
        } else if (node->n_keywords) {
            ls_jparse_fail(p, at, LS_E_FORMAT, "an argument without a name stands behind one with a name");
        } else if (node->kind == LS_JN_CALL && ls_jskip_op(p, "*")) {
            ls_jnode *spread = ls_jnode_new(p, LS_JN_SPREAD, at->line);
            spread->a = ls_jparse_expression(p);
            ls_jnode_add(p, node, ls_jnode_done(p, spread));
        } else {
            ls_jnode_add(p, node, ls_jparse_expression(p));
        }
    }
    if (p->status != LS_OK || !node->n_keywords)
        return;
    node->keywords = ls_arena_dup(&p->t->arena, keywords, sizeof *keywords * (size_t)node->n_keywords);
    if (!node->keywords)
        p->status = ls_arena_status(&p->t->arena);
}

/* The arguments of a call of `f` are those that it takes. */
static void check(ls_jparser *p, const ls_jnode *node, const ls_jfunction *f, const char *what)
{
    if (p->status != LS_OK || strcmp(f->parameters, "*") == 0)
        return;
    const ls_jtoken at = { .line = node->line };
    if (node->n - node->n_keywords > ls_jparameters(f))
        ls_jparse_fail(p, &at, LS_E_UNSUPPORTED, "%s '%s' takes at most %d arguments here", what, f->name,
                       ls_jparameters(f));
    for (int i = 0; i < node->n_keywords; i++)
        if (ls_jparameter(f, node->keywords[i]) < 0)
            ls_jparse_fail(p, &at, LS_E_UNSUPPORTED, "%s '%s' has no argument '%s' here", what, f->name,
                           node->keywords[i]);
}

static ls_jnode *call(ls_jparser *p, ls_jnode *of)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_CALL, p->at->line);
    node->a = of;
    ls_jexpect_op(p, "(");
    arguments(p, node);
    if (of->kind == LS_JN_NAME) {
        struct ls_jcall *c = LS_ARENA_NEW(&p->t->arena, struct ls_jcall);
        if (c) {
            *c = (struct ls_jcall){ p->calls, of->name, node->line };
            p->calls = c;
        }
    } else if (of->kind == LS_JN_ATTRIBUTE && !ls_jany_method(of->name)) {
        const ls_jtoken at = { .line = node->line };
        ls_jparse_fail(p, &at, LS_E_UNSUPPORTED, "the method .%s() is not known here", of->name);
    }
    return ls_jnode_done(p, node);
}

void ls_jcheck_calls(ls_jparser *p)
{
    for (const struct ls_jcall *c = p->calls; c; c = c->next)
        if (!ls_jglobal(c->name) && !ls_jname_assigned(c->name)) {
            const ls_jtoken at = { .line = c->line };
            ls_jparse_fail(p, &at, LS_E_UNSUPPORTED, "the function %s() is not known here", c->name);
        }
}

/* ---- filters and tests */

/* A filter or test that an argument names: map('upper'), selectattr('role', 'equalto', 'user'). */
static void check_named(ls_jparser *p, const ls_jnode *node, int argument, bool test)
{
    if (p->status != LS_OK || node->n - node->n_keywords <= argument)
        return;
    const ls_jnode *name = node->items[argument];
    if (name->kind != LS_JN_CONST || name->constant.kind != LS_JTEXT)
        return;
    const ls_jtext *text = name->constant.text;
    char *copy = ls_arena_printf(&p->t->arena, "%.*s", (int)text->n, text->bytes);
    const ls_jtoken at = { .line = node->line };
    if (!(test ? ls_jtest(copy) : ls_jfilter(copy)))
        ls_jparse_fail(p, &at, LS_E_UNSUPPORTED, "the %s '%s' is not known here", test ? "test" : "filter",
                       copy);
}

ls_jnode *ls_jparse_filter(ls_jparser *p, ls_jnode *of)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_FILTER, p->at->line);
    const ls_jtoken *at = p->at;
    const char *name = ls_jexpect_any_name(p, false);
    node->a = of;
    node->name = name;
    if (ls_jskip_op(p, "("))
        arguments(p, node);
    if (p->status == LS_OK)
        node->function = ls_jfilter(name);
    if (p->status == LS_OK && !node->function)
        ls_jparse_fail(p, at, LS_E_UNSUPPORTED, "the filter '%s' is not known here", name);
    if (p->status == LS_OK)
        check(p, node, node->function, "the filter");
    if (strcmp(name, "map") == 0)
        check_named(p, node, 0, false);
    if (strcmp(name, "select") == 0 || strcmp(name, "reject") == 0)
        check_named(p, node, 0, true);
    if (strcmp(name, "selectattr") == 0 || strcmp(name, "rejectattr") == 0)
        check_named(p, node, 1, true);
    return ls_jnode_done(p, node);
}

static ls_jnode *postfix(ls_jparser *p, ls_jnode *node);

static ls_jnode *test(ls_jparser *p, ls_jnode *of)
{
    const ls_jtoken *at = p->at;
    const bool negative = ls_jskip_name(p, "not");
    ls_jnode *node = ls_jnode_new(p, LS_JN_TEST, at->line);
    node->a = of;
    node->name = ls_jexpect_any_name(p, false);
    const ls_jtoken_kind k = p->at->kind;
    if (ls_jskip_op(p, "(")) {
        arguments(p, node);
    } else if (ls_jat_name(p, "is")) {
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "tests with 'is' cannot be chained");
    } else if (((k == LS_JT_NAME && !ls_jat_name(p, "else") && !ls_jat_name(p, "or") &&
                 !ls_jat_name(p, "and")) ||
                k == LS_JT_STRING || k == LS_JT_INT || k == LS_JT_FLOAT || ls_jat_op(p, "[") ||
                ls_jat_op(p, "{"))) {
        ls_jnode_add(p, node, postfix(p, primary(p)));
    }
    if (p->status == LS_OK)
        node->function = ls_jtest(node->name);
    if (p->status == LS_OK && !node->function)
        ls_jparse_fail(p, at, LS_E_UNSUPPORTED, "the test '%s' is not known here", node->name);
    if (p->status == LS_OK)
        check(p, node, node->function, "the test");
    ls_jnode_done(p, node);
    if (!negative)
        return node;
    ls_jnode *not = ls_jnode_new(p, LS_JN_NOT, at->line);
    not ->a = node;
    return ls_jnode_done(p, not );
}

/* ---- what stands behind a value */

static ls_jnode *subscript(ls_jparser *p, ls_jnode *of)
{
    const int line = p->at->line;
    ls_jnode *node = ls_jnode_new(p, LS_JN_ITEM, line);
    node->a = of;
    ls_jskip(p); /* [ */
    ls_jnode *first = ls_jat_op(p, ":") ? NULL : ls_jparse_expression(p);
    if (!ls_jskip_op(p, ":")) {
        node->b = first;
    } else {
        node->kind = LS_JN_SLICE;
        ls_jnode_add(p, node, first);
        ls_jnode_add(p, node, ls_jat_op(p, ":") || ls_jat_op(p, "]") ? NULL : ls_jparse_expression(p));
        ls_jnode_add(p, node, ls_jskip_op(p, ":") && !ls_jat_op(p, "]") ? ls_jparse_expression(p) : NULL);
    }
    ls_jexpect_op(p, "]");
    return ls_jnode_done(p, node);
}

static ls_jnode *attribute(ls_jparser *p, ls_jnode *of)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_ATTRIBUTE, p->at->line);
    node->a = of;
    ls_jskip(p);                    /* . */
    if (p->at->kind == LS_JT_INT) { /* a.0 is a[0] */
        node->kind = LS_JN_ITEM;
        node->b = primary(p);
    } else {
        node->name = ls_jexpect_any_name(p, false);
    }
    return ls_jnode_done(p, node);
}

static ls_jnode *postfix(ls_jparser *p, ls_jnode *node)
{
    while (p->status == LS_OK) {
        if (ls_jat_op(p, "."))
            node = attribute(p, node);
        else if (ls_jat_op(p, "["))
            node = subscript(p, node);
        else if (ls_jat_op(p, "("))
            node = call(p, node);
        else
            break;
    }
    return node;
}

static ls_jnode *filters(ls_jparser *p, ls_jnode *node)
{
    while (p->status == LS_OK) {
        if (ls_jskip_op(p, "|"))
            node = ls_jparse_filter(p, node);
        else if (ls_jskip_name(p, "is"))
            node = test(p, node);
        else if (ls_jat_op(p, "("))
            node = call(p, node);
        else
            break;
    }
    return node;
}

/* ---- values */

static ls_jnode *text(ls_jparser *p)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_CONST, p->at->line);
    ls_str joined = { 0 };
    for (; p->at->kind == LS_JT_STRING; p->at++) /* texts side by side are one */
        ls_str_add_n(&joined, p->at->text, p->at->n);
    struct {
        ls_jtext text;
        ls_jpiece piece;
    } *t = ls_arena_alloc(&p->t->arena, sizeof *t);
    char *bytes = ls_arena_dup(&p->t->arena, ls_str_text(&joined), joined.len);
    if (t && bytes && ls_str_status(&joined) == LS_OK) {
        t->piece = (ls_jpiece){ joined.len, 0 };
        t->text = (ls_jtext){
            .bytes = bytes, .n = joined.len, .pieces = &t->piece, .n_pieces = joined.len > 0
        };
        node->constant = ls_jtext_value(&t->text);
    } else {
        p->status = ls_fail(LS_E_MEMORY, "%s: no memory to compile it", p->t->name);
    }
    ls_str_release(&joined);
    return node;
}

/* Items up to `close`, which is skipped. */
static ls_jnode *bracketed(ls_jparser *p, ls_jnode_kind kind, const char *close)
{
    ls_jnode *node = ls_jnode_new(p, kind, p->at->line);
    ls_jskip(p);
    while (p->status == LS_OK && !ls_jskip_op(p, close)) {
        if (node->n)
            ls_jexpect_op(p, ",");
        if (ls_jskip_op(p, close))
            break;
        ls_jnode_add(p, node, ls_jparse_expression(p));
        if (kind == LS_JN_DICT) {
            ls_jexpect_op(p, ":");
            ls_jnode_add(p, node, ls_jparse_expression(p));
        }
    }
    return ls_jnode_done(p, node);
}

static ls_jnode *constant(ls_jparser *p, ls_jvalue value)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_CONST, p->at->line);
    ls_jskip(p);
    node->constant = value;
    return ls_jnode_done(p, node);
}

static ls_jnode *name(ls_jparser *p)
{
    if (ls_jat_name(p, "true") || ls_jat_name(p, "True"))
        return constant(p, ls_jbool(true));
    if (ls_jat_name(p, "false") || ls_jat_name(p, "False"))
        return constant(p, ls_jbool(false));
    if (ls_jat_name(p, "none") || ls_jat_name(p, "None"))
        return constant(p, ls_jnone());
    static const char *const SPECIAL[] = { "varargs", "kwargs", "caller", "self", "super" };
    for (size_t i = 0; i < sizeof SPECIAL / sizeof *SPECIAL; i++)
        if (ls_jat_name(p, SPECIAL[i]) && (p->macros || i >= 3) &&
            !ls_jname_assigned(ls_jname(p, SPECIAL[i], false))) {
            ls_jparse_fail(p, NULL, LS_E_UNSUPPORTED, "'%s' is not supported here", SPECIAL[i]);
            break;
        }
    ls_jnode *node = ls_jnode_new(p, LS_JN_NAME, p->at->line);
    node->name = ls_jexpect_any_name(p, false);
    return ls_jnode_done(p, node);
}

static ls_jnode *primary(ls_jparser *p)
{
    switch (p->at->kind) {
    case LS_JT_NAME: return name(p);
    case LS_JT_STRING: return ls_jnode_done(p, text(p));
    case LS_JT_INT: return constant(p, ls_jint(p->at->i));
    case LS_JT_FLOAT: return constant(p, ls_jfloat(p->at->f));
    default: break;
    }
    if (ls_jat_op(p, "["))
        return bracketed(p, LS_JN_LIST, "]");
    if (ls_jat_op(p, "{"))
        return bracketed(p, LS_JN_DICT, "}");
    if (ls_jat_op(p, "(")) {
        ls_jskip(p);
        if (ls_jat_op(p, ")")) {
            ls_jnode *empty = ls_jnode_new(p, LS_JN_TUPLE, p->at->line);
            ls_jskip(p);
            return ls_jnode_done(p, empty);
        }
        ls_jnode *inner = ls_jparse_tuple(p, true);
        ls_jexpect_op(p, ")");
        return inner;
    }
    if (p->at->kind == LS_JT_OPERATOR)
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "a value is expected, and not '%s'", p->at->op);
    else
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "a value is expected");
    return ls_jnode_new(p, LS_JN_CONST, 0);
}

/* ---- operators */

static ls_jnode *unary(ls_jparser *p, bool with_filters)
{
    ls_jnode *node;
    const int line = p->at->line;
    if (ls_jat_op(p, "-") || ls_jat_op(p, "+")) {
        ls_jnode *sign = ls_jnode_new(p, LS_JN_NEGATIVE, line);
        sign->n_keywords = ls_jat_op(p, "+");
        ls_jskip(p);
        if (ls_jparse_enter(p))
            sign->a = unary(p, false);
        ls_jparse_leave(p);
        node = ls_jnode_done(p, sign);
    } else {
        node = primary(p);
    }
    node = postfix(p, node);
    return with_filters ? filters(p, node) : node;
}

/* Operators of chains, from the ones that bind most. */
static const struct {
    const char text[3];
    ls_jop op;
    int level;
} OPERATORS[] = {
    { "**", LS_JOP_POWER, 0 },        { "*", LS_JOP_MULTIPLY, 1 },       { "/", LS_JOP_DIVIDE, 1 },
    { "//", LS_JOP_FLOOR_DIVIDE, 1 }, { "%", LS_JOP_MODULO, 1 },         { "~", LS_JOP_JOIN, 2 },
    { "+", LS_JOP_ADD, 3 },           { "-", LS_JOP_SUBTRACT, 3 },       { "==", LS_JOP_EQUAL, 4 },
    { "!=", LS_JOP_UNEQUAL, 4 },      { "<", LS_JOP_LESS, 4 },           { "<=", LS_JOP_LESS_EQUAL, 4 },
    { ">", LS_JOP_GREATER, 4 },       { ">=", LS_JOP_GREATER_EQUAL, 4 },
};
enum { COMPARE = 4 };

/* Whether an operator of this level stands there; skips it. */
static bool skip_operator(ls_jparser *p, int level, ls_jop *op)
{
    if (level == COMPARE && ls_jskip_name(p, "in")) {
        *op = LS_JOP_IN;
        return true;
    }
    if (level == COMPARE && ls_jat_name(p, "not") && p->at[1].kind == LS_JT_NAME &&
        !strcmp(p->at[1].text, "in")) {
        *op = LS_JOP_NOT_IN;
        p->at += 2;
        return true;
    }
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
        if (OPERATORS[i].level == level && ls_jskip_op(p, OPERATORS[i].text)) {
            *op = OPERATORS[i].op;
            return true;
        }
    return false;
}

/* Operands with operators of a level between them, which are computed from the left. */
static ls_jnode *chain(ls_jparser *p, int level)
{
    const int line = p->at->line;
    ls_jnode *first = level ? chain(p, level - 1) : unary(p, true);
    ls_jop op;
    if (!skip_operator(p, level, &op))
        return first;
    ls_jnode *node = ls_jnode_new(p, level == COMPARE ? LS_JN_COMPARE : LS_JN_CHAIN, line);
    ls_jnode_add(p, node, first);
    ls_str ops = { 0 };
    ls_str_add_n(&ops, (const char *)&op, sizeof op); /* ops[0] counts nothing */
    do {
        if (op == LS_JOP_MODULO && node->items && node->items[node->n - 1]->constant.kind == LS_JTEXT)
            ls_jparse_fail(p, NULL, LS_E_UNSUPPORTED, "formatting with %% is not supported");
        ls_str_add_n(&ops, (const char *)&op, sizeof op);
        ls_jnode_add(p, node, level ? chain(p, level - 1) : unary(p, true));
    } while (p->status == LS_OK && skip_operator(p, level, &op));
    node->ops = ls_arena_dup(&p->t->arena, ls_str_text(&ops), ops.len);
    if (p->status == LS_OK && (!node->ops || ls_str_status(&ops) != LS_OK))
        p->status = ls_fail(LS_E_MEMORY, "%s: no memory to compile it", p->t->name);
    ls_str_release(&ops);
    return ls_jnode_done(p, node);
}

static ls_jnode *negation(ls_jparser *p)
{
    const int line = p->at->line;
    if (!ls_jskip_name(p, "not"))
        return chain(p, COMPARE);
    ls_jnode *node = ls_jnode_new(p, LS_JN_NOT, line);
    if (ls_jparse_enter(p))
        node->a = negation(p);
    ls_jparse_leave(p);
    return ls_jnode_done(p, node);
}

static ls_jnode *logical(ls_jparser *p, bool or)
{
    const int line = p->at->line;
    ls_jnode *first = or ? logical(p, false) : negation(p);
    const char *word = or ? "or" : "and";
    if (!ls_jat_name(p, word))
        return first;
    ls_jnode *node = ls_jnode_new(p, or ? LS_JN_OR : LS_JN_AND, line);
    ls_jnode_add(p, node, first);
    while (p->status == LS_OK && ls_jskip_name(p, word))
        ls_jnode_add(p, node, or ? logical(p, false) : negation(p));
    return ls_jnode_done(p, node);
}

ls_jnode *ls_jparse_condition(ls_jparser *p) { return logical(p, true); }

ls_jnode *ls_jparse_expression(ls_jparser *p)
{
    const int line = p->at->line;
    ls_jnode *node = ls_jparse_enter(p) ? ls_jparse_condition(p) : ls_jnode_new(p, LS_JN_CONST, line);
    while (p->status == LS_OK && ls_jskip_name(p, "if")) {
        ls_jnode *choice = ls_jnode_new(p, LS_JN_IF_ELSE, line);
        choice->a = node;
        choice->b = ls_jparse_condition(p);
        if (ls_jskip_name(p, "else"))
            choice->c = ls_jparse_expression(p);
        node = ls_jnode_done(p, choice);
    }
    ls_jparse_leave(p);
    return node;
}

bool ls_jat_tuple_end(const ls_jparser *p)
{
    const ls_jtoken_kind k = p->at->kind;
    return k == LS_JT_END || k == LS_JT_PRINT_END || k == LS_JT_BLOCK_END || ls_jat_op(p, ")") ||
           ls_jat_op(p, "=") || ls_jat_name(p, "in") || ls_jat_name(p, "recursive");
}

ls_jnode *ls_jparse_tuple(ls_jparser *p, bool if_else)
{
    const int line = p->at->line;
    ls_jnode *first = if_else ? ls_jparse_expression(p) : ls_jparse_condition(p);
    if (!ls_jat_op(p, ","))
        return first;
    ls_jnode *node = ls_jnode_new(p, LS_JN_TUPLE, line);
    ls_jnode_add(p, node, first);
    while (p->status == LS_OK && ls_jskip_op(p, ",") && !ls_jat_tuple_end(p))
        ls_jnode_add(p, node, if_else ? ls_jparse_expression(p) : ls_jparse_condition(p));
    return ls_jnode_done(p, node);
}
