/* module_keys.c - the keys of a module. Its rows become rows of keys (recipe_fields.h), so a value is read,
 * checked and refused as that of a key of a built-in model. */
#include "module_keys.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

typedef struct kind {
    ls_key_kind as;
    size_t size, align; /* of the member */
} kind;

static const kind KINDS[] = {
    [LS_MODULE_INT] = { LS_KEY_INT, sizeof(int64_t), alignof(int64_t) },
    [LS_MODULE_FLOAT] = { LS_KEY_REAL, sizeof(double), alignof(double) },
    [LS_MODULE_BOOL] = { LS_KEY_BOOL, sizeof(bool), alignof(bool) },
    [LS_MODULE_TEXT] = { LS_KEY_TEXT, sizeof(char *), alignof(char *) },
    [LS_MODULE_CHOICE] = { LS_KEY_CHOICE, sizeof(int), alignof(int) },
};

/* Whether one of two paths is the other, or leads to it: "encoder" and "encoder.layers". */
static bool paths_meet(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (!*a && (!*b || *b == '.')) || (!*b && *a == '.');
}

/* Whether the key is names with dots between them. */
static bool is_path(const char *key)
{
    const size_t n = strcspn(key, ".");
    return n > 0 && (!key[n] || is_path(key + n + 1));
}

/* What is wrong with row i; NULL: nothing. */
static const char *fault_of(const ls_module_key *rows, int i, size_t settings)
{
    const ls_module_key *k = &rows[i];
    const bool number = k->kind == LS_MODULE_INT || k->kind == LS_MODULE_FLOAT;
    if (!is_path(k->key))
        return "a key is a name, or names with dots between them";
    if ((unsigned)k->kind >= sizeof KINDS / sizeof *KINDS)
        return "its kind is not one of ls_module_kind";
    if (k->offset % KINDS[k->kind].align || k->offset > settings ||
        settings - k->offset < KINDS[k->kind].size)
        return "its offset is not that of a member of the settings, whose size the module says";
    if (!k->help || !*k->help)
        return "its help must be set";
    if (number && !(k->least <= k->most))
        return "least must not be greater than most";
    if (k->kind == LS_MODULE_CHOICE && (!k->words || !k->words[0]))
        return "a choice needs words";
    for (int j = 0; j < i; j++)
        if (paths_meet(rows[j].key, k->key))
            return "another row has the same key, or a part of its path";
    return NULL;
}

/* The default as a recipe would have it. */
static ls_yaml default_of(const ls_key *k)
{
    return (ls_yaml){ .kind = LS_YAML_SCALAR,
                      .text = k->fallback,
                      .quoted = k->kind == LS_KEY_TEXT,
                      .place = "default ",
                      .origin = "default" };
}

static ls_status check_row(const ls_module_map *m, const char *where, const ls_module_key *rows, int i,
                           ls_arena *a)
{
    const ls_key *k = &m->rows[i];
    const char *wrong = fault_of(rows, i, m->settings);
    if (wrong)
        return ls_fail(LS_E_USAGE, "%s: %s: the row of its key %s: %s", where, m->module, k->key, wrong);
    void *settings = k->fallback ? ls_sys_calloc(1, m->settings) : NULL;
    if (!k->fallback)
        return LS_OK;
    LS_TRY(ls_sys_have(settings));
    const ls_yaml value = default_of(k);
    const ls_status s = ls_value_read(k, settings, &value, a, "default");
    free(settings);
    return s == LS_OK ? LS_OK : ls_fail_in(s, "%s: %s: the row of its key %s", where, m->module, k->key);
}

ls_status ls_module_map_make(ls_module_map *out, const char *key, const char *module, const char *where,
                             const ls_module_key *rows, size_t settings, ls_arena *a)
{
    int n = 0;
    while (rows && rows[n].key)
        n++;
    ls_key *keys = LS_ARENA_ARRAY(a, ls_key, n + 1);
    *out = (ls_module_map){ .key = key, .module = module, .n = n, .rows = keys, .settings = settings };
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < n; i++) {
        const ls_module_key *k = &rows[i];
        keys[i] = (ls_key){ .key = k->key,
                            .offset = k->offset,
                            .fallback = k->by_default,
                            .min = k->least,
                            .max = k->most,
                            .words = k->words,
                            .help = k->help };
        if ((unsigned)k->kind < sizeof KINDS / sizeof *KINDS)
            keys[i].kind = KINDS[k->kind].as;
        LS_TRY(check_row(out, where, rows, i, a));
    }
    return LS_OK;
}

/* "mine.yaml:3: model.config.hidden" */
static const char *where_of(const ls_module_map *m, const ls_recipe *r, const ls_yaml *at, const char *path)
{
    ls_arena *a = &r->state->arena;
    return at && at->place ? ls_arena_printf(a, "%s%s.%s", at->place, m->key, path)
                           : ls_arena_printf(a, "%s.%s", ls_recipe_where(r, m->key), path);
}

static ls_status unknown_key(const ls_module_map *m, const char *where, const char *path)
{
    const char *names[LS_KEY_MAX] = { NULL };
    const int n = m->n < LS_KEY_MAX ? m->n : LS_KEY_MAX;
    ls_str all = { 0 };
    for (int i = 0; i < n; i++) {
        names[i] = m->rows[i].key;
        ls_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = ls_nearest_name(path, names, n);
    const ls_status s = ls_fail(LS_E_USAGE, "%s: %s has no such key%s%s%s (%s%s)", where, m->module,
                                near ? "; did you mean " : "", near ? near : "", near ? "?" : "",
                                n ? "it has " : "it has none", ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

/* Refuses what no row names. `prefix`: the path of `map`, "" or "encoder.". */
static ls_status check_known(const ls_module_map *m, const ls_recipe *r, const ls_yaml *map,
                             const char *prefix)
{
    for (const ls_yaml *c = ls_yaml_real(map)->child; c; c = c->next) {
        const char *path = ls_arena_printf(&r->state->arena, "%s%s", prefix, c->key);
        const size_t n = strlen(path);
        int i = 0;
        while (i < m->n && strcmp(m->rows[i].key, path) &&
               (strncmp(m->rows[i].key, path, n) || m->rows[i].key[n] != '.'))
            i++;
        LS_TRY(ls_arena_status(&r->state->arena));
        if (i == m->n)
            return unknown_key(m, where_of(m, r, c, path), path);
        if (!m->rows[i].key[n])
            continue;
        if (ls_yaml_real(c)->kind != LS_YAML_MAP)
            return ls_fail(LS_E_USAGE, "%s: keys are needed here, such as {%s: ...}", where_of(m, r, c, path),
                           m->rows[i].key + n + 1);
        LS_TRY(check_known(m, r, c, ls_arena_printf(&r->state->arena, "%s.", path)));
    }
    return LS_OK;
}

static ls_status read_row(void *settings, const ls_yaml **all, const ls_module_map *m, const ls_key *k,
                          const ls_recipe *r, const ls_yaml *map)
{
    ls_arena *a = &r->state->arena;
    const ls_yaml *set = ls_yaml_at(map, k->key), usual = default_of(k);
    const char *where = where_of(m, r, set, k->key);
    LS_TRY(ls_arena_status(a));
    if (!set && !k->fallback)
        return ls_fail(LS_E_USAGE, "%s: %s needs this key: %s", where, m->module, k->help);
    LS_TRY(ls_value_read(k, settings, set ? ls_yaml_real(set) : &usual, a, where));
    *all = ls_yaml_with(a, *all, k->key, set ? set : &usual);
    return ls_arena_status(a);
}

ls_status ls_module_map_read(void **settings, const ls_yaml **all, const ls_module_map *m, const ls_recipe *r)
{
    const ls_yaml *map = ls_recipe_setting(r->state, m->key)->value;
    *settings = NULL;
    *all = LS_ARENA_NEW(&r->state->arena, ls_yaml);
    LS_TRY(ls_arena_status(&r->state->arena));
    ((ls_yaml *)(uintptr_t)*all)->kind = LS_YAML_MAP;
    if (map)
        LS_TRY(check_known(m, r, map, ""));
    void *filled = m->n ? ls_sys_calloc(1, m->settings) : NULL;
    if (m->n)
        LS_TRY(ls_sys_have(filled));
    ls_status s = LS_OK;
    for (int i = 0; i < m->n && s == LS_OK; i++)
        s = read_row(filled, all, m, &m->rows[i], r, map);
    if (s == LS_OK)
        *settings = filled;
    else
        free(filled);
    return s;
}
