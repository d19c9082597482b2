/* yaml_map.c - a map of names of one's own: as JSON, and with one value replaced. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/json.h"
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

static void add(ls_json *j, const char *key, const ls_yaml *n)
{
    const ls_yaml *v = ls_yaml_real(n);
    const bool plain = v->kind == LS_YAML_SCALAR && !v->quoted;
    if (v->kind == LS_YAML_MAP) {
        ls_json_object(j, key);
        for (const ls_yaml *c = v->child; c; c = c->next)
            add(j, c->key, c);
        ls_json_close_object(j);
    } else if (v->kind == LS_YAML_LIST) {
        ls_json_array(j, key);
        for (const ls_yaml *c = v->child; c; c = c->next)
            add(j, NULL, c);
        ls_json_close_array(j);
    } else if (plain && (!strcmp(v->text, "true") || !strcmp(v->text, "false"))) {
        ls_json_bool(j, key, v->text[0] == 't');
    } else if (!plain || !add_number(j, key, v->text)) {
        ls_json_text(j, key, v->text);
    }
}

void ls_yaml_json(ls_str *out, const ls_yaml *n)
{
    ls_json j = { 0 };
    add(&j, NULL, n);
    ls_str_append(out, &j.out);
    ls_str_release(&j.out);
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
