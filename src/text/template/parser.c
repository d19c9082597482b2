/* parser.c - tokens, names and nodes for both halves of the parser. */
#include "base/c_locale.h"
#include "parser.h"

enum { BUCKETS = 1024, RECURSION = 4 * LS_TEMPLATE_DEPTH };

struct ls_jname {
    struct ls_jname *next;
    bool assigned;
    char text[];
};

void ls_jparse_fail(ls_jparser *p, const ls_jtoken *at, ls_status s, const char *format, ...)
{
    const int line = at ? at->line : p->at->line;
    p->at = p->end;
    if (p->status != LS_OK)
        return;
    char text[600];
    va_list args;
    va_start(args, format);
    ls_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->status = ls_jwrong(p->t->name, line, s, "%s", text);
}

bool ls_jparse_enter(ls_jparser *p)
{
    if (++p->depth > RECURSION)
        ls_jparse_fail(p, NULL, LS_E_UNSUPPORTED, "blocks or expressions are nested more than %d deep",
                       LS_TEMPLATE_DEPTH);
    return p->status == LS_OK;
}

void ls_jparse_leave(ls_jparser *p) { p->depth--; }

static void *room(ls_jparser *p, size_t bytes)
{
    void *m = ls_arena_alloc(&p->t->arena, bytes);
    if (!m && p->status == LS_OK) {
        p->status = ls_arena_status(&p->t->arena);
        p->at = p->end;
    }
    return m;
}

ls_jnode *ls_jnode_new(ls_jparser *p, ls_jnode_kind kind, int line)
{
    ls_jnode *node = p->status == LS_OK ? room(p, sizeof *node) : NULL;
    if (!node) {
        p->none = (ls_jnode){ .kind = LS_JN_CONST };
        return &p->none;
    }
    node->kind = kind;
    node->line = line;
    return node;
}

void ls_jnode_add(ls_jparser *p, ls_jnode *node, ls_jnode *item)
{
    if (p->status != LS_OK)
        return;
    if (node->n >= 4 ? (node->n & (node->n - 1)) == 0 : node->n == 0) { /* full: 4, 8, 16, ... */
        ls_jnode **items = room(p, sizeof *items * (size_t)(node->n ? 2 * node->n : 4));
        if (!items)
            return;
        if (node->n)
            memcpy(items, node->items, sizeof *items * (size_t)node->n);
        node->items = items;
    }
    node->items[node->n++] = item;
}

static void grow_above(ls_jnode *node, const ls_jnode *below)
{
    if (below && below->height >= node->height)
        node->height = below->height + 1;
}

ls_jnode *ls_jnode_done(ls_jparser *p, ls_jnode *node)
{
    if (p->status != LS_OK)
        return node;
    node->height = 1;
    grow_above(node, node->a);
    grow_above(node, node->b);
    grow_above(node, node->c);
    grow_above(node, node->test);
    for (int i = 0; i < node->n; i++) {
        grow_above(node, node->items[i]);
        if (node->values)
            grow_above(node, node->values[i]);
    }
    if (node->height > LS_TEMPLATE_DEPTH) {
        const ls_jtoken at = { .line = node->line };
        ls_jparse_fail(p, &at, LS_E_UNSUPPORTED, "blocks or expressions are nested more than %d deep",
                       LS_TEMPLATE_DEPTH);
    }
    return node;
}

const char *ls_jname(ls_jparser *p, const char *text, bool assigned)
{
    uint32_t h = 2166136261u;
    for (const char *c = text; *c; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    if (!p->names)
        p->names = room(p, BUCKETS * sizeof *p->names);
    if (!p->names)
        return "";
    struct ls_jname **bucket = &p->names[h % BUCKETS];
    struct ls_jname *name = *bucket;
    while (name && strcmp(name->text, text) != 0)
        name = name->next;
    if (!name) {
        name = room(p, sizeof *name + strlen(text) + 1);
        if (!name)
            return "";
        strcpy(name->text, text);
        name->next = *bucket;
        *bucket = name;
    }
    name->assigned |= assigned;
    return name->text;
}

bool ls_jname_assigned(const char *name)
{
    return ((const struct ls_jname *)(name - offsetof(struct ls_jname, text)))->assigned;
}

void ls_jskip(ls_jparser *p) { p->at += p->at < p->end; }

bool ls_jat_op(const ls_jparser *p, const char *op)
{
    return p->at->kind == LS_JT_OPERATOR && strcmp(p->at->op, op) == 0;
}

bool ls_jat_name(const ls_jparser *p, const char *name)
{
    return p->at->kind == LS_JT_NAME && strcmp(p->at->text, name) == 0;
}

bool ls_jskip_op(ls_jparser *p, const char *op)
{
    const bool there = ls_jat_op(p, op);
    p->at += there;
    return there;
}

bool ls_jskip_name(ls_jparser *p, const char *name)
{
    const bool there = ls_jat_name(p, name);
    p->at += there;
    return there;
}

/* What stands there, for messages. */
static void fail_expected(ls_jparser *p, const char *what)
{
    const ls_jtoken *t = p->at;
    if (t->kind == LS_JT_NAME || t->kind == LS_JT_STRING)
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "%s is expected, and not '%.*s'", what,
                       (int)(t->n < 40 ? t->n : 40), t->text);
    else if (t->kind == LS_JT_OPERATOR)
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "%s is expected, and not '%s'", what, t->op);
    else
        ls_jparse_fail(p, NULL, LS_E_FORMAT, "%s is expected", what);
}

void ls_jexpect_op(ls_jparser *p, const char *op)
{
    char quoted[8];
    ls_snprintf(quoted, sizeof quoted, "'%s'", op);
    if (!ls_jskip_op(p, op))
        fail_expected(p, quoted);
}

const char *ls_jexpect_any_name(ls_jparser *p, bool assigned)
{
    if (p->at->kind == LS_JT_NAME)
        return ls_jname(p, p->at++->text, assigned);
    fail_expected(p, "a name");
    return "";
}
