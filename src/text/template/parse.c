/* parse.c - statements, and the template as a whole. */
#include "parser.h"

static ls_jnode *body(ls_jparser *p, const char *const *ends);
static ls_jnode *until(ls_jparser *p, const char *end) { return body(p, (const char *const[]){ end, NULL }); }

static void block_end(ls_jparser *p)
{
    if (p->at->kind == LS_JT_BLOCK_END)
        ls_jskip(p);
    else if (p->at->kind == LS_JT_NAME)
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "%%} is expected, and not '%s'", p->at->text);
    else
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "%%} is expected");
}

/* A name that is assigned to, or NAME.NAME. */
static ls_jnode *target_name(ls_jparser *p, bool attribute_too)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_NAME, p->at->line);
    const ls_jtoken *at = p->at;
    if (ls_jat_name(p, "true") || ls_jat_name(p, "false") || ls_jat_name(p, "none"))
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "'%s' cannot be assigned to", at->text);
    if (attribute_too && at->kind == LS_JT_NAME && at[1].kind == LS_JT_OPERATOR && at[1].op[0] == '.') {
        node->name = ls_jexpect_any_name(p, false);
        ls_jskip(p);
        ls_jnode *member = ls_jnode_new(p, LS_JN_ATTRIBUTE, at->line);
        member->a = ls_jnode_done(p, node);
        member->name = ls_jexpect_any_name(p, false);
        return ls_jnode_done(p, member);
    }
    node->name = ls_jexpect_any_name(p, true);
    return ls_jnode_done(p, node);
}

/* What is assigned to: a name, a tuple, or NAME.NAME. */
static ls_jnode *assigned(ls_jparser *p, bool attribute_too)
{
    const int line = p->at->line;
    const bool bracket = ls_jskip_op(p, "(");
    ls_jnode *first = target_name(p, attribute_too);
    if (ls_jat_op(p, ",")) {
        ls_jnode *node = ls_jnode_new(p, LS_JN_TUPLE, line);
        ls_jnode_add(p, node, first);
        while (p->status == LS_OK && ls_jskip_op(p, ",") && !ls_jat_tuple_end(p))
            ls_jnode_add(p, node, target_name(p, attribute_too));
        first = ls_jnode_done(p, node);
    }
    if (bracket)
        ls_jexpect_op(p, ")");
    return first;
}

static ls_jnode *for_loop(ls_jparser *p, int line)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_FOR, line);
    node->name = ls_jname(p, "loop", true);
    node->a = assigned(p, false);
    if (!ls_jskip_name(p, "in"))
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "'in' is expected");
    node->b = ls_jparse_tuple(p, false);
    if (ls_jskip_name(p, "if"))
        node->test = ls_jparse_expression(p);
    if (ls_jat_name(p, "recursive"))
        ls_jparse_fail(p, NULL, LS_E_UNSUPPORTED, "recursive loops are not supported");
    block_end(p);
    p->loops++;
    node->c = body(p, (const char *const[]){ "else", "endfor", NULL });
    p->loops--;
    if (ls_jskip_name(p, "else")) {
        block_end(p);
        ls_jnode_add(p, node, until(p, "endfor"));
    }
    ls_jskip(p);
    return ls_jnode_done(p, node);
}

static ls_jnode *choice(ls_jparser *p, int line)
{
    static const char *const ENDS[] = { "elif", "else", "endif", NULL };
    ls_jnode *node = ls_jnode_new(p, LS_JN_IF, line);
    do {
        ls_jnode_add(p, node, ls_jparse_tuple(p, false));
        block_end(p);
        ls_jnode_add(p, node, body(p, ENDS));
    } while (ls_jskip_name(p, "elif"));
    if (ls_jskip_name(p, "else")) {
        block_end(p);
        node->c = until(p, "endif");
    }
    ls_jskip(p);
    return ls_jnode_done(p, node);
}

static ls_jnode *filters(ls_jparser *p)
{
    ls_jnode *node = ls_jparse_filter(p, NULL);
    while (p->status == LS_OK && ls_jskip_op(p, "|"))
        node = ls_jparse_filter(p, node);
    return node;
}

static ls_jnode *assignment(ls_jparser *p, int line)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_SET, line);
    node->a = assigned(p, true);
    if (ls_jskip_op(p, "=")) {
        node->b = ls_jparse_tuple(p, true);
        return ls_jnode_done(p, node);
    }
    node->kind = LS_JN_SET_BLOCK;
    if (ls_jskip_op(p, "|"))
        node->b = filters(p);
    block_end(p);
    node->c = until(p, "endset");
    ls_jskip(p);
    return ls_jnode_done(p, node);
}

static ls_jnode *macro(ls_jparser *p, int line)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_MACRO, line);
    node->name = ls_jexpect_any_name(p, true);
    ls_jexpect_op(p, "(");
    ls_jnode *defaults = ls_jnode_new(p, LS_JN_LIST, line);
    bool optional = false;
    while (p->status == LS_OK && !ls_jskip_op(p, ")")) {
        if (node->n)
            ls_jexpect_op(p, ",");
        ls_jnode *parameter = ls_jnode_new(p, LS_JN_NAME, p->at->line);
        parameter->name = ls_jexpect_any_name(p, true);
        ls_jnode_add(p, node, parameter);
        const bool has = ls_jskip_op(p, "=");
        if (optional && !has)
            ls_jparse_fail(p, NULL, LS_E_FORMAT,
                           "a parameter without a default stands behind one with a default");
        optional |= has;
        ls_jnode_add(p, defaults, has ? ls_jparse_expression(p) : NULL);
    }
    if (p->status == LS_OK)
        node->values = defaults->items;
    block_end(p);
    const int loops = p->loops;
    p->loops = 0;
    p->macros++;
    node->c = until(p, "endmacro");
    p->macros--;
    p->loops = loops;
    ls_jskip(p);
    return ls_jnode_done(p, node);
}

static ls_jnode *jump(ls_jparser *p, ls_jnode_kind kind, const ls_jtoken *at)
{
    if (!p->loops)
        ls_jparse_fail(p, at, LS_E_FORMAT, "'%s' stands outside of a loop", at->text);
    return ls_jnode_done(p, ls_jnode_new(p, kind, at->line));
}

static ls_jnode *statement(ls_jparser *p)
{
    const ls_jtoken *at = p->at;
    const int line = at->line;
    if (ls_jskip_name(p, "for"))
        return for_loop(p, line);
    if (ls_jskip_name(p, "if"))
        return choice(p, line);
    if (ls_jskip_name(p, "set"))
        return assignment(p, line);
    if (ls_jskip_name(p, "macro"))
        return macro(p, line);
    if (ls_jskip_name(p, "break"))
        return jump(p, LS_JN_BREAK, at);
    if (ls_jskip_name(p, "continue"))
        return jump(p, LS_JN_CONTINUE, at);
    ls_jnode *node = ls_jnode_new(p, LS_JN_GENERATION, line);
    if (ls_jskip_name(p, "generation")) {
        p->t->generation = true;
        const int loops = p->loops;
        p->loops = 0;
        block_end(p);
        node->c = until(p, "endgeneration");
        p->loops = loops;
        ls_jskip(p);
    } else if (ls_jskip_name(p, "filter")) {
        node->kind = LS_JN_FILTERED;
        node->b = filters(p);
        block_end(p);
        node->c = until(p, "endfilter");
        ls_jskip(p);
    } else if (at->kind != LS_JT_NAME) {
        ls_jparse_fail(p, at, LS_E_FORMAT, "the name of a block is expected behind {%%");
    } else if (strncmp(at->text, "end", 3) == 0 || ls_jat_name(p, "else") || ls_jat_name(p, "elif")) {
        ls_jparse_fail(p, at, LS_E_FORMAT, "{%% %s %%} ends nothing here", at->text);
    } else {
        ls_jparse_fail(p, at, LS_E_UNSUPPORTED, "{%% %s %%} is not known here", at->text);
    }
    return ls_jnode_done(p, node);
}

static bool at_one_of(const ls_jparser *p, const char *const *names)
{
    for (; *names; names++)
        if (ls_jat_name(p, *names))
            return true;
    return false;
}

static ls_jnode *data(ls_jparser *p)
{
    ls_jnode *node = ls_jnode_new(p, LS_JN_DATA, p->at->line);
    struct {
        ls_jtext text;
        ls_jpiece piece;
    } *t = ls_arena_alloc(&p->t->arena, sizeof *t);
    if (t) {
        t->piece.end = p->at->n;
        t->text = (ls_jtext){ .bytes = p->at->text, .n = p->at->n, .pieces = &t->piece, .n_pieces = 1 };
        node->constant = ls_jtext_value(&t->text);
    }
    ls_jskip(p);
    return ls_jnode_done(p, node);
}

/* Statements up to a block that `ends` names: the parser stands at the name. NULL: up to the template's end.
 */
static ls_jnode *body(ls_jparser *p, const char *const *ends)
{
    const int line = ends ? p->at[-1].line : 1; /* of the %} before the body */
    ls_jnode *node = ls_jnode_new(p, LS_JN_BODY, line);
    ls_jparse_enter(p);
    while (p->status == LS_OK) {
        if (p->at->kind == LS_JT_DATA) {
            ls_jnode_add(p, node, data(p));
        } else if (p->at->kind == LS_JT_PRINT) {
            ls_jnode *print = ls_jnode_new(p, LS_JN_PRINT, p->at->line);
            ls_jskip(p);
            print->a = ls_jparse_tuple(p, true);
            if (p->at->kind == LS_JT_PRINT_END)
                ls_jskip(p);
            else if (p->at->kind == LS_JT_NAME)
                ls_jparse_fail(p, NULL, LS_E_FORMAT, "}} is expected, and not '%s'", p->at->text);
            else
                ls_jparse_fail(p, NULL, LS_E_FORMAT, "}} is expected");
            ls_jnode_add(p, node, ls_jnode_done(p, print));
        } else if (p->at->kind == LS_JT_BLOCK) {
            ls_jskip(p);
            if (ends && at_one_of(p, ends))
                break;
            ls_jnode_add(p, node, statement(p));
            block_end(p);
        } else {
            while (ends && ends[1])
                ends++;
            const ls_jtoken at = { .line = line };
            if (ends)
                ls_jparse_fail(p, &at, LS_E_FORMAT, "the block that begins here has no {%% %s %%}", *ends);
            break;
        }
    }
    ls_jparse_leave(p);
    return ls_jnode_done(p, node);
}

ls_status ls_jparse(struct ls_template *t, const char *text, size_t n)
{
    ls_jtokens tokens;
    LS_TRY(ls_jlex(&tokens, &t->arena, text, n, t->name));
    ls_jparser p = { .t = t, .at = tokens.tokens, .end = tokens.tokens + tokens.n - 1 };
    t->body = body(&p, NULL);
    if (p.status == LS_OK)
        ls_jcheck_calls(&p);
    if (p.status == LS_OK)
        p.status = ls_arena_status(&t->arena);
    return p.status;
}
