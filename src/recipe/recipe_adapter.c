/* recipe_adapter.c - the folder of an adapter that model.init names: where its base is, and the keys of
 * train.lora that it sets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/c_locale.h"
#include "base/find.h"
#include "base/str.h"
#include "ckpt/adapter.h"
#include "recipe_read.h"
#include "recipe_use.h"

ls_status ls_recipe_find_base(char **out, const char *dir, const char *named)
{
    ls_adapter adapter = { .base = "" };
    ls_arena a;
    ls_arena_init(&a);
    *out = NULL;
    ls_status s = *named ? LS_OK : ls_arena_outcome(&a, ls_adapter_read(&adapter, &a, dir));
    const char *name = *named ? named : adapter.base;
    ls_str places = { 0 };
    if (s == LS_OK && *name)
        s = ls_init_find(out, name);
    if (s == LS_OK && !*out) {
        ls_find_places(&places, name);
        s = ls_fail(LS_E_USAGE,
                    "%s: the base of this %s is %s%s%s%s; name it with --base FOLDER, or with "
                    "--set checkpoint.base=FOLDER",
                    dir, ls_part_is(dir) ? "checkpoint" : "adapter",
                    *name ? name : "not named in its adapter_config.json",
                    *name ? ", which is not there" : "", places.len ? ": looked " : "", ls_str_text(&places));
    }
    if (s == LS_OK && ls_adapter_is(*out)) {
        s = ls_fail(LS_E_USAGE,
                    "%s: the base of this %s, %s, is an adapter itself: merge that one first "
                    "(lockstep export --merge)",
                    dir, ls_part_is(dir) ? "checkpoint" : "adapter", *out);
        free(*out);
        *out = NULL;
    }
    ls_str_release(&places);
    ls_arena_release(&a);
    return s;
}

/* Sets a key that nobody has set. */
static ls_status lora_set(ls_recipe_state *state, const char *key, const char *value, const char *path)
{
    return state->set[ls_key_find(key)].value ? LS_OK : ls_recipe_apply_value(state, key, value, path);
}

static ls_status check_rank(const ls_recipe_state *state, int64_t rank, const char *path)
{
    const ls_setting *set = &state->set[ls_key_find("train.lora.rank")];
    const bool other = set->value && set->value->kind == LS_YAML_SCALAR && atoll(set->value->text) != rank;
    return other ? ls_fail(LS_E_USAGE,
                           "%s: %s, and the adapters of %s have rank %lld: leave the key out, and the "
                           "file says it",
                           set->where, set->value->text, path, (long long)rank)
                 : LS_OK;
}

static ls_status apply_adapter(ls_recipe_state *state, const ls_adapter *x, const ls_weights *w,
                               const char *path)
{
    char number[64];
    ls_arena *a = &state->arena;
    LS_TRY(check_rank(state, x->rank, path));
    snprintf(number, sizeof number, "%lld", (long long)x->rank);
    LS_TRY(lora_set(state, "train.lora.rank", number, path));
    ls_snprintf(number, sizeof number, "%.17g", x->alpha);
    LS_TRY(lora_set(state, "train.lora.alpha", number, path));
    ls_snprintf(number, sizeof number, "%.17g", x->dropout);
    LS_TRY(lora_set(state, "train.lora.dropout", number, path));
    LS_TRY(lora_set(state, "train.lora.rslora", x->rslora ? "true" : "false", path));
    LS_TRY(lora_set(state, "train.lora.targets", ls_arena_printf(a, "\"%s\"", x->targets), path));
    return lora_set(state, "train.lora.save", ls_arena_printf(a, "\"%s\"", ls_adapter_modules(a, w)), path);
}

ls_status ls_recipe_apply_adapter(ls_recipe_state *state, const char *dir)
{
    ls_adapter x;
    ls_weights *w = NULL;
    const char *path = ls_arena_printf(&state->arena, "%s/" LS_ADAPTER_CONFIG, dir);
    LS_TRY(ls_adapter_read(&x, &state->arena, dir));
    LS_TRY(ls_weights_open(&w, dir));
    const ls_status s = apply_adapter(state, &x, w, path);
    ls_weights_close(&w);
    return s;
}
