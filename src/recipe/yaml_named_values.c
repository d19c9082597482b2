/* yaml_named_values.c - a map of names of one's own: as JSON, as a record, and with one value replaced. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/find.h"
#include "base/json.h"
#include "base/sys.h"
#include "yaml_tree.h"

/* Digits alone stay as they are, so that no whole number is rounded; 1e-3 and .5 are written as JSON has
 * them. */
static bool add_number(ls_json *j, const char *key, const char *text)
{
    char *end;
    const char *digits = text + (*text == '-');
    if (!*digits || strspn(digits, "0123456789+-.eE") != strlen(digits) || *digits == '-' || *digits == '+')
        return false;
    const double x = ls_strtod(text, &end);
    if (*end || !isfinite(x))
        return false;
    if (strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 19 &&
        (*digits != '0' || !digits[1]))
        ls_json_raw(j, key, text);
    else
        ls_json_f64(j, key, x);
    return true;
}

static bool is_number(const char *text)
{
    ls_json j = { 0 };
    const bool is = add_number(&j, NULL, text);
    ls_str_release(&j.out);
    return is;
}

/* "DIR/all.csv:COLUMN" is one, too. */
static bool is_path(const char *text)
{
    const char *slash = strrchr(text, '/'), *colon = strchr(slash ? slash : text, ':');
    char *file = ls_sys_strndup(text, colon ? (size_t)(colon - text) : strlen(text)), *found = NULL;
    const bool is = file && ls_find(&found, file, ls_find_any) == LS_OK && found;
    free(file);
    free(found);
    return is;
}

/* Whether files get the text by the names of its variables. */
static bool map_by_name(const ls_yaml *v)
{
    static const char *const WORDS[] = { "", "~", "null", "true", "false" };
    bool word = false;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        word = word || !strcmp(v->text, WORDS[i]);
    return v->source && !word && !is_number(v->text) && !is_path(v->text);
}

static void add_recorded(ls_json *j, const char *key, const ls_yaml *v, bool sealed)
{
    ls_str text = { 0 };
    const char *rest = v->text;
    for (const char *p; (p = strstr(rest, "${")); rest = p + 2) {
        ls_str_add_n(&text, rest, (size_t)(p - rest));
        ls_str_add(&text, "$${");
    }
    ls_str_add(&text, rest);
    ls_json_text(j, key, !map_by_name(v) ? ls_str_text(&text) : sealed ? v->sealed : v->source);
    ls_str_inherit(&j->out, &text);
    ls_str_release(&text);
}

typedef enum form { VALUES, NAMES, SEALED } form;

static void map_add(ls_json *j, const char *key, const ls_yaml *n, form as)
{
    const ls_yaml *v = ls_yaml_real(n);
    const bool plain = v->kind == LS_YAML_SCALAR && !v->quoted;
    if (v->kind == LS_YAML_MAP) {
        ls_json_object(j, key);
        for (const ls_yaml *c = v->child; c; c = c->next)
            map_add(j, c->key, c, as);
        ls_json_close_object(j);
    } else if (v->kind == LS_YAML_LIST) {
        ls_json_array(j, key);
        for (const ls_yaml *c = v->child; c; c = c->next)
            map_add(j, NULL, c, as);
        ls_json_close_array(j);
    } else if (plain && (!strcmp(v->text, "true") || !strcmp(v->text, "false"))) {
        ls_json_bool(j, key, v->text[0] == 't');
    } else if (!plain || !add_number(j, key, v->text)) {
        if (as == VALUES)
            ls_json_text(j, key, v->text);
        else
            add_recorded(j, key, v, as == SEALED);
    }
}

void ls_yaml_json(ls_str *out, const ls_yaml *n)
{
    ls_json j = { 0 };
    map_add(&j, NULL, n, VALUES);
    ls_str_append(out, &j.out);
    ls_str_release(&j.out);
}

void ls_yaml_record(ls_str *out, const ls_yaml *n, bool sealed)
{
    ls_json j = { 0 };
    map_add(&j, NULL, n, sealed ? SEALED : NAMES);
    ls_str_append(out, &j.out);
    ls_str_release(&j.out);
}

bool ls_yaml_has_names(const ls_yaml *n)
{
    const ls_yaml *v = ls_yaml_real(n);
    if (v->kind == LS_YAML_SCALAR)
        return map_by_name(v);
    for (const ls_yaml *c = v->child; c; c = c->next)
        if (ls_yaml_has_names(c))
            return true;
    return false;
}

bool ls_yaml_differs(const ls_yaml *n)
{
    const ls_yaml *v = ls_yaml_real(n);
    bool any = v->differs;
    for (const ls_yaml *c = v->child; c && !any; c = c->next)
        any = ls_yaml_differs(c);
    return any;
}

const char *ls_yaml_unset(const ls_yaml *n)
{
    const ls_yaml *v = ls_yaml_real(n);
    const char *name = v->unset;
    for (const ls_yaml *c = v->child; c && !name; c = c->next)
        name = ls_yaml_unset(c);
    return name;
}

void ls_yaml_keep_names(ls_yaml *n, const ls_yaml *before)
{
    if (n->kind == LS_YAML_SCALAR && before->kind == LS_YAML_SCALAR && !strcmp(n->text, before->text)) {
        n->env = before->env;
        n->source = before->source;
        n->sealed = before->sealed;
        n->unset = before->unset;
        n->differs = before->differs;
    }
    if (n->kind != before->kind || n->same)
        return;
    const ls_yaml *b = before->child;
    for (ls_yaml *c = n->child; c; c = c->next) {
        if (n->kind == LS_YAML_MAP)
            for (b = before->child; b && strcmp(b->key, c->key);)
                b = b->next;
        if (b)
            ls_yaml_keep_names(c, ls_yaml_real(b));
        b = b ? b->next : NULL;
    }
}

const ls_yaml *ls_yaml_at(const ls_yaml *map, const char *path)
{
    const size_t n = strcspn(path, ".");
    const ls_yaml *c = map && ls_yaml_real(map)->kind == LS_YAML_MAP ? ls_yaml_real(map)->child : NULL;
    while (c && (strlen(c->key) != n || strncmp(c->key, path, n)))
        c = c->next;
    return c && path[n] ? ls_yaml_at(c, path + n + 1) : c;
}

ls_yaml *ls_yaml_with(ls_arena *a, const ls_yaml *map, const char *path, const ls_yaml *value)
{
    const char *dot = strchr(path, '.');
    const char *name = ls_arena_printf(a, "%.*s", (int)(dot ? (size_t)(dot - path) : strlen(path)), path);
    ls_yaml *all = LS_ARENA_NEW(a, ls_yaml), *last = NULL;
    if (!all)
        return NULL;
    all->kind = LS_YAML_MAP;
    bool placed = false;
    const ls_yaml *old = map && map->kind == LS_YAML_MAP ? map->child : NULL;
    while (old || !placed) {
        const bool here = !old || !strcmp(old->key, name);
        ls_yaml *one = LS_ARENA_NEW(a, ls_yaml);
        const ls_yaml *inner = here && dot ? ls_yaml_with(a, old ? ls_yaml_real(old) : NULL, dot + 1, value)
                                           : NULL;
        if (!one || (here && dot && !inner))
            return NULL;
        *one = !here ? *old : dot ? *inner : *value;
        one->key = here ? name : old->key;
        one->next = NULL;
        placed |= here;
        *(last ? &last->next : &all->child) = one;
        last = one;
        old = old ? old->next : NULL;
    }
    return all;
}
