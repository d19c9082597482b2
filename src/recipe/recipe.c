/* recipe.c - loads a recipe: its settings become checked values. */
#include <stdlib.h>
#include <string.h>
#include "base/argument.h"
#include "base/file.h"
#include "base/sys.h"
#include "recipe_check.h"
#include "recipe_fields.h"
#include "recipe_read.h"
#include "recipe_use.h"
#include "shared_model.h"

static ls_status recipe_missing(const ls_recipe_state *state, const ls_key *k)
{
    ls_str words = { 0 };
    ls_key_words(&words, k);
    ls_status s = ls_fail(LS_E_USAGE, "%s: %s is missing; every recipe needs it (one of %s)", state->name,
                          k->key, ls_str_text(&words));
    ls_str_release(&words);
    return s;
}

/* A key of another model, data set, optimizer or schedule is an error. */
static ls_status refuse_foreign(const ls_recipe *r, const ls_recipe_state *state, const ls_key *k,
                                const char *where)
{
    const int row = ls_key_find(k->type);
    ls_str is = { 0 }, types = { 0 };
    ls_key_print(ls_key_at(row), r, &is);
    ls_key_types(&types, k);
    const ls_setting *set = &state->set[row];
    ls_status s = ls_fail(LS_E_USAGE, "%s: this key is for %s%s, but the recipe says %s %s (%s)", where,
                          k->type, ls_str_text(&types), k->type, ls_str_text(&is),
                          set->value ? set->origin : "default");
    ls_str_release(&types);
    ls_str_release(&is);
    return s;
}

/* Reads the values of all settings. The first pass reads the keys that every recipe has; "model.type" is one
 * of them. The second pass reads the keys that depend on such a type. */
static ls_status resolve(ls_recipe_state *state, ls_recipe *r)
{
    *r = (ls_recipe){ .state = state };
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < ls_key_count(); i++) {
            const ls_key *k = ls_key_at(i);
            const ls_setting *set = &state->set[i];
            if ((k->type != NULL) != pass)
                continue;
            if (!k->fallback && !set->value)
                return recipe_missing(state, k);
            if (set->value && pass && !ls_key_applies(k, r))
                return refuse_foreign(r, state, k, set->where);
            const ls_status s = set->value ? ls_key_read(k, r, set->value, &state->arena, set->where)
                                           : ls_key_default(k, r, &state->arena);
            if (s == LS_E_USAGE && set->value && set->value->kind == LS_YAML_SCALAR)
                return ls_hint_value(k, set->value->text, set->where, s);
            if (s == LS_E_USAGE && set->value && !strcmp(k->key, "loss"))
                return ls_hint_loss(set->value, set->where, s, &state->arena);
            LS_TRY(s);
        }
    return ls_recipe_check(r);
}

static ls_status apply_sets(ls_recipe_state *state, int n, const char *const *sets)
{
    for (int i = 0; i < n; i++) {
        const char *equals = strchr(sets[i], '=');
        if (!equals)
            return ls_fail(LS_E_USAGE, "--set %s: write --set section.key=value", sets[i]);
        const char *key = ls_arena_printf(&state->arena, "%.*s", (int)(equals - sets[i]), sets[i]);
        LS_TRY(ls_recipe_apply_value(state, key, equals + 1, "--set"));
    }
    return LS_OK;
}

static void state_destroy(ls_recipe_state *state)
{
    ls_shared_model_close(&state->module);
    ls_arena_release(&state->arena);
    free(state);
}

static ls_status recipe_load(ls_recipe **out, const char *text, size_t size, const char *name, int n_sets,
                             const char *const *sets, bool record, bool needs_init)
{
    *out = NULL;
    ls_recipe_state *state = ls_sys_calloc(1, sizeof *state);
    ls_recipe *r = ls_sys_calloc(1, sizeof *r);
    if (!state || !r) {
        free(state);
        free(r);
        return ls_fail(LS_E_MEMORY, "%s: out of memory", name);
    }
    ls_arena_init(&state->arena);
    state->name = ls_arena_strdup(&state->arena, name);
    state->record = record;
    ls_status s;
    LS_TRY_TO(s, text ? ls_recipe_apply_text(state, text, size, name) : ls_recipe_apply_file(state, name),
              fail);
    LS_TRY_TO(s, apply_sets(state, n_sets, sets), fail);
    /* the recipe of a run already has the keys that config.json set */
    if (!record || !state->set[ls_key_find("model.hidden_size")].value)
        LS_TRY_TO(s, ls_recipe_apply_config(state), fail);
    LS_TRY_TO(s, resolve(state, r), fail);
    if (needs_init)
        LS_TRY_TO(s, ls_recipe_check_init(r, false), fail);
    LS_TRY_TO(s, ls_arena_status(&state->arena), fail);
    *out = r;
    return LS_OK;
fail:
    s = ls_arena_outcome(&state->arena, s);
    state_destroy(state);
    free(r);
    return s;
}

ls_status ls_recipe_load(ls_recipe **out, const char *path_or_name, int n_sets, const char *const *sets)
{
    LS_ARG(out);
    LS_ARG(path_or_name);
    if (n_sets)
        LS_ARG(sets);
    return recipe_load(out, NULL, 0, path_or_name, n_sets, sets, false, true);
}

ls_status ls_recipe_load_to_continue(ls_recipe **out, const char *path_or_name, int n_sets,
                                     const char *const *sets)
{
    return recipe_load(out, NULL, 0, path_or_name, n_sets, sets, false, false);
}

ls_status ls_recipe_load_text(ls_recipe **out, const char *text, size_t size, const char *name, int n_sets,
                              const char *const *sets)
{
    LS_ARG(out);
    if (size)
        LS_ARG(text);
    LS_ARG(name);
    if (n_sets)
        LS_ARG(sets);
    return recipe_load(out, text ? text : "", size, name, n_sets, sets, false, true);
}

ls_status ls_recipe_load_record(ls_recipe **out, const char *text, size_t size, const char *name, int n_sets,
                                const char *const *sets)
{
    LS_ARG(out);
    if (size)
        LS_ARG(text);
    LS_ARG(name);
    if (n_sets)
        LS_ARG(sets);
    return recipe_load(out, text ? text : "", size, name, n_sets, sets, true, false);
}

ls_status ls_recipe_load_run(ls_recipe **out, const char *dir, int n_sets, const char *const *sets)
{
    LS_ARG(out);
    LS_ARG(dir);
    if (n_sets)
        LS_ARG(sets);
    char *path = ls_path_join(dir, "recipe.yaml");
    ls_status s = recipe_load(out, NULL, 0, path, n_sets, sets, true, false);
    free(path);
    return s;
}

void ls_recipe_destroy(ls_recipe **r)
{
    if (!r)
        return;
    if (!*r)
        return;
    state_destroy((*r)->state);
    free(*r);
    *r = NULL;
}

/* Called after settings were changed with status `s`. Resolves the recipe again, or restores the settings
 * `before` when that fails. */
static ls_status changed(ls_recipe *r, const ls_setting before[LS_KEY_MAX], ls_status s)
{
    ls_recipe next;
    if (s == LS_OK)
        s = resolve(r->state, &next);
    s = ls_arena_outcome(&r->state->arena, s); /* values that there was no memory for are empty */
    if (s == LS_OK)
        *r = next;
    else
        memcpy(r->state->set, before, sizeof r->state->set);
    return s;
}

ls_status ls_recipe_set(ls_recipe *r, const char *key, const char *yaml_value, const char *origin)
{
    LS_ARG(r);
    LS_ARG(key);
    LS_ARG(yaml_value);
    LS_ARG(origin);
    ls_setting before[LS_KEY_MAX];
    memcpy(before, r->state->set, sizeof before);
    return changed(r, before, ls_recipe_apply_value(r->state, key, yaml_value, origin));
}

ls_status ls_recipe_reset(ls_recipe *r, const char *const *keys)
{
    LS_ARG(r);
    LS_ARG(keys);
    ls_setting before[LS_KEY_MAX];
    memcpy(before, r->state->set, sizeof before);
    for (; *keys; keys++) {
        const int row = ls_key_find(*keys);
        if (row < 0)
            return changed(r, before, ls_fail(LS_E_USAGE, "%s: unknown key", *keys));
        r->state->set[row] = (ls_setting){ 0 };
    }
    return changed(r, before, LS_OK);
}
