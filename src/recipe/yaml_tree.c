/* yaml_tree.c - makes the tree of yaml_tree.h from the events of libyaml. No other file uses libyaml. */
#include "base/sys.h"
#include "yaml_tree.h"
#include <string.h>
#include <yaml.h>

typedef struct anchor {
    const char *name;
    ls_yaml *node;
    struct anchor *next;
} anchor;

typedef struct reader {
    yaml_parser_t parser;
    ls_arena *arena;
    const char *name, *text, *end;
    anchor *anchors; /* of finished nodes only, so an alias cannot name a node that contains it */
    int nodes;
} reader;

const ls_yaml *ls_yaml_real(const ls_yaml *n) { return n && n->same ? n->same : n; }

static int line_of(const yaml_mark_t *mark) { return (int)mark->line + 1; }

static const char *begin_of(const reader *r, size_t line)
{
    const char *begin = r->text;
    for (; line && begin < r->end; begin++)
        line -= *begin == '\n';
    return begin;
}

static bool has_variable(const reader *r, size_t line)
{
    const char *begin = begin_of(r, line), *end = memchr(begin, '\n', (size_t)(r->end - begin));
    return memmem(begin, (size_t)((end ? end : r->end) - begin), "${", 2);
}

static const char *hint(const reader *r, const yaml_mark_t *mark)
{
    const char *at = begin_of(r, mark->line);
    while (at < r->end && *at == ' ')
        at++;
    if (at < r->end && *at == '\t')
        return ": a tab; indent with spaces";
    return has_variable(r, mark->line) ? "; inside {...} a value with ${NAME} stands in quotes" : "";
}

static ls_status syntax_error(const reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const yaml_mark_t *mark = p->problem_mark.line || p->problem_mark.column ? &p->problem_mark
                                                                             : &p->context_mark;
    if (p->error == YAML_MEMORY_ERROR)
        return ls_fail(LS_E_MEMORY, "%s: out of memory while reading YAML", r->name);
    if (p->error == YAML_MEMORY_ERROR)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", r->name);
    if (p->error == YAML_READER_ERROR)
        return ls_fail(LS_E_USAGE, "%s: not YAML: %s at byte %zu", r->name,
                       p->problem ? p->problem : "unreadable text", p->problem_offset);
    return ls_fail(LS_E_USAGE, "%s:%d: not YAML: %s%s%s (column %d)%s", r->name, line_of(mark),
                   p->context ? p->context : "", p->context ? ", " : "",
                   p->problem ? p->problem : "syntax error", (int)mark->column + 1, hint(r, mark));
}

static ls_status next_event(reader *r, yaml_event_t *e)
{
    return yaml_parser_parse(&r->parser, e) ? LS_OK : syntax_error(r);
}

static ls_status read_node(reader *r, yaml_event_t *e, int depth, ls_yaml **out);

/* Text of a scalar event. A NUL byte is an error, because callers take C strings. */
static ls_status scalar_text(const reader *r, const yaml_event_t *e, const char **out)
{
    const char *text = (const char *)e->data.scalar.value;
    if (strlen(text) != e->data.scalar.length)
        return ls_fail(LS_E_USAGE, "%s:%d: a value contains a NUL byte", r->name, line_of(&e->start_mark));
    *out = ls_arena_dup(r->arena, text, e->data.scalar.length + 1);
    return ls_sys_have(*out);
}

static ls_status read_list(reader *r, ls_yaml *n, int depth)
{
    for (ls_yaml **tail = &n->child;; tail = &(*tail)->next) {
        yaml_event_t e;
        LS_TRY(next_event(r, &e));
        if (e.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&e);
            return LS_OK;
        }
        LS_TRY(read_node(r, &e, depth + 1, tail));
    }
}

static ls_status read_map(reader *r, ls_yaml *n, int depth)
{
    for (ls_yaml **tail = &n->child;; tail = &(*tail)->next) {
        yaml_event_t e;
        LS_TRY(next_event(r, &e));
        if (e.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&e);
            return LS_OK;
        }
        int line = line_of(&e.start_mark);
        const char *key = NULL;
        ls_status s = e.type == YAML_SCALAR_EVENT
                          ? scalar_text(r, &e, &key)
                          : ls_fail(LS_E_USAGE, "%s:%d: a key must be a plain word", r->name, line);
        yaml_event_delete(&e);
        LS_TRY(s);
        for (const ls_yaml *c = n->child; c; c = c->next)
            if (!strcmp(c->key, key))
                return ls_fail(LS_E_USAGE, "%s:%d: key '%s' is given twice, first in line %d", r->name, line,
                               key, c->key_line);
        LS_TRY(next_event(r, &e));
        LS_TRY(read_node(r, &e, depth + 1, tail));
        (*tail)->key = key;
        (*tail)->key_line = line;
    }
}

static ls_status read_alias(reader *r, const yaml_event_t *e, ls_yaml *n)
{
    const char *name = (const char *)e->data.alias.anchor;
    for (const anchor *a = r->anchors; a; a = a->next)
        if (!strcmp(a->name, name)) {
            n->same = a->node;
            return LS_OK;
        }
    return ls_fail(LS_E_USAGE, "%s:%d: alias *%s: nothing before it has the anchor &%s", r->name, n->line,
                   name, name);
}

/* Releases `e`. read_map looks for a duplicate key in the list of siblings: at most 1e7 comparisons for 5,000
 * nodes. */
static ls_status read_node(reader *r, yaml_event_t *e, int depth, ls_yaml **out)
{
    ls_status s = LS_OK;
    ls_yaml *n = LS_ARENA_NEW(r->arena, ls_yaml);
    const char *name = NULL;
    *out = n;
    if (!n) {
        yaml_event_delete(e);
        return ls_sys_have(n);
    }
    n->line = line_of(&e->start_mark);
    if (depth > LS_YAML_MAX_DEPTH)
        s = ls_fail(LS_E_USAGE, "%s:%d: nested deeper than %d levels", r->name, n->line, LS_YAML_MAX_DEPTH);
    else if (++r->nodes > LS_YAML_MAX_NODES)
        s = ls_fail(LS_E_USAGE, "%s:%d: more than %d values: this is not a recipe", r->name, n->line,
                    LS_YAML_MAX_NODES);
    if (s != LS_OK) {
        yaml_event_delete(e);
        return s;
    }
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        n->kind = LS_YAML_SCALAR;
        n->quoted = e->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
                    e->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
        s = scalar_text(r, e, &n->text);
        name = (const char *)e->data.scalar.anchor;
        break;
    case YAML_ALIAS_EVENT: s = read_alias(r, e, n); break;
    case YAML_SEQUENCE_START_EVENT:
        n->kind = LS_YAML_LIST;
        name = (const char *)e->data.sequence_start.anchor;
        break;
    case YAML_MAPPING_START_EVENT:
        n->kind = LS_YAML_MAP;
        name = (const char *)e->data.mapping_start.anchor;
        break;
    default: s = ls_fail(LS_E_USAGE, "%s:%d: a value is missing", r->name, n->line);
    }
    name = name ? ls_arena_strdup(r->arena, name) : NULL;
    yaml_event_type_t type = e->type;
    yaml_event_delete(e);
    LS_TRY(s);
    if (type == YAML_SEQUENCE_START_EVENT)
        LS_TRY(read_list(r, n, depth));
    else if (type == YAML_MAPPING_START_EVENT)
        LS_TRY(read_map(r, n, depth));
    if (name) {
        anchor *a = LS_ARENA_NEW(r->arena, anchor);
        LS_TRY(ls_sys_have(a));
        *a = (anchor){ .name = name, .node = n, .next = r->anchors };
        r->anchors = a;
    }
    return LS_OK;
}

static ls_status read_stream(reader *r, ls_yaml **out)
{
    for (bool started = false;;) {
        yaml_event_t e;
        LS_TRY(next_event(r, &e));
        switch (e.type) {
        case YAML_STREAM_END_EVENT: yaml_event_delete(&e); return LS_OK;
        case YAML_DOCUMENT_START_EVENT:
            if (started) {
                int line = line_of(&e.start_mark);
                yaml_event_delete(&e);
                return ls_fail(LS_E_USAGE, "%s:%d: a second document begins here; a recipe is one", r->name,
                               line);
            }
            started = true;
            yaml_event_delete(&e);
            LS_TRY(next_event(r, &e));
            LS_TRY(read_node(r, &e, 0, out));
            break;
        default: /* stream start, document end */ yaml_event_delete(&e);
        }
    }
}

ls_status ls_yaml_parse(ls_yaml **out, ls_arena *a, const char *text, size_t size, const char *name)
{
    *out = NULL;
    if (size > LS_YAML_MAX_BYTES)
        return ls_fail(LS_E_USAGE, "%s: %zu bytes is too large for a recipe (limit %d)", name, size,
                       LS_YAML_MAX_BYTES);
    reader r = { .arena = a, .name = name, .text = text, .end = text + size };
    if (!yaml_parser_initialize(&r.parser))
        return ls_fail(LS_E_MEMORY, "%s: out of memory while reading YAML", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    ls_status s = read_stream(&r, out);
    yaml_parser_delete(&r.parser);
    return s;
}
