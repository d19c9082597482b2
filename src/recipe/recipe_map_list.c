/* recipe_map_list.c - the value of a key: one of recipe_value.c's, or a list of maps of such values, as
 * optimizer.groups: `[{match: "pattern:*bias",
 * optimizer.groups: `[{match: "pattern:*bias", weight_decay: 0}, ...]`. The members of a map are rows as
 * those of the table of keys, so they are read, checked and printed alike. */
#include <stdlib.h>
#include <string.h>

#include "recipe_fields.h"

/* The count of the list, and map i of it. */
static int64_t *count_of(const ls_key *k, const void *r) { return (int64_t *)((uintptr_t)r + k->offset); }
static ls_recipe *map_at(const ls_key *k, const void *r, int64_t i)
{
    return (ls_recipe *)((uintptr_t)(count_of(k, r) + 1) + (size_t)i * k->maps->size);
}

static ls_status unknown(const ls_key *k, const char *where, const char *key)
{
    ls_str all = { 0 };
    for (const ls_key *m = k->maps->members; m->key; m++)
        ls_str_printf(&all, "%s%s", m == k->maps->members ? "" : ", ", m->key);
    const ls_status s = ls_fail(LS_E_USAGE, "%s: no key '%s' here, only %s", where, key, ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

static const ls_yaml *child_named(const ls_yaml *map, const char *key)
{
    for (const ls_yaml *c = map->child; c; c = c->next)
        if (!strcmp(c->key, key))
            return ls_yaml_real(c);
    return NULL;
}

static ls_status read_map(const ls_key *k, ls_recipe *to, const ls_yaml *map, ls_arena *a, const char *where)
{
    for (const ls_yaml *c = map->child; c; c = c->next) {
        const ls_key *m = k->maps->members;
        while (m->key && strcmp(m->key, c->key))
            m++;
        if (!m->key)
            return unknown(k, where, c->key);
    }
    memcpy(to, k->maps->init, k->maps->size);
    for (const ls_key *m = k->maps->members; m->key; m++) {
        const ls_yaml *v = child_named(map, m->key);
        const char *place = ls_arena_printf(a, "%s: %s", where, m->key);
        LS_TRY(ls_arena_status(a));
        if (v)
            LS_TRY(ls_value_read(m, to, v, a, place));
        else if (!m->fallback)
            return ls_fail(LS_E_USAGE, "%s is missing, as in %s", place, k->maps->example);
    }
    return LS_OK;
}

static ls_status read_list(const ls_key *k, ls_recipe *r, const ls_yaml *value, ls_arena *a,
                           const char *where)
{
    int64_t *n = count_of(k, r);
    *n = 0;
    if (value->kind != LS_YAML_LIST)
        return ls_fail(LS_E_USAGE, "%s: a list such as %s is needed here", where, k->maps->example);
    for (const ls_yaml *c = value->child; c; c = c->next) {
        const ls_yaml *map = ls_yaml_real(c);
        if (*n == LS_RECIPE_LIST)
            return ls_fail(LS_E_USAGE, "%s: more than %d entries", where, LS_RECIPE_LIST);
        if (map->kind != LS_YAML_MAP)
            return ls_fail(LS_E_USAGE, "%s: a list such as %s is needed here", where, k->maps->example);
        LS_TRY(read_map(k, map_at(k, r, *n), map, a, where));
        ++*n;
    }
    return LS_OK;
}

static void print_map(const ls_key *k, const ls_recipe *map, ls_str *out)
{
    const char *between = "";
    ls_str_add(out, "{");
    for (const ls_key *m = k->maps->members; m->key; m++) {
        ls_str is = { 0 }, usual = { 0 };
        ls_value_print(m, map, &is);
        if (m->fallback)
            ls_value_print(m, k->maps->init, &usual);
        if (!m->fallback || strcmp(ls_str_text(&is), ls_str_text(&usual))) {
            ls_str_printf(out, "%s%s: ", between, m->key);
            ls_str_append(out, &is);
            between = ", ";
        }
        ls_str_release(&is);
        ls_str_release(&usual);
    }
    ls_str_add(out, "}");
}

static void print_list(const ls_key *k, const ls_recipe *r, ls_str *out)
{
    ls_str_add(out, "[");
    for (int64_t i = 0; i < *count_of(k, r); i++) {
        ls_str_add(out, i ? ", " : "");
        print_map(k, map_at(k, r, i), out);
    }
    ls_str_add(out, "]");
}

ls_status ls_key_read(const ls_key *k, ls_recipe *r, const ls_yaml *value, ls_arena *a, const char *where)
{
    return (k->kind == LS_KEY_MAPS ? read_list : ls_value_read)(k, r, value, a, where);
}

void ls_key_print(const ls_key *k, const ls_recipe *r, ls_str *out)
{
    (k->kind == LS_KEY_MAPS ? print_list : ls_value_print)(k, r, out);
}

ls_status ls_key_default(const ls_key *k, ls_recipe *r, ls_arena *a)
{
    ls_yaml scalar = { .kind = LS_YAML_SCALAR, .text = k->fallback }, *value = &scalar;
    if (*k->fallback == '[' || *k->fallback == '{')
        LS_TRY(ls_yaml_parse(&value, a, k->fallback, strlen(k->fallback), k->key));
    return ls_key_read(k, r, value, a, k->key);
}
