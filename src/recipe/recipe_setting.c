/* recipe_setting.c - finds settings, and says where they were set. */
#include "recipe_setting.h"

#include <string.h>

#include "base/check.h"
#include "base/field.h"

const ls_setting *ls_recipe_setting(const ls_recipe_state *state, const char *key)
{
    static const ls_setting none = { 0 };
    for (int i = 0; i < LS_KEY_MAX; i++)
        if (state->set[i].key && !strcmp(state->set[i].key, key))
            return &state->set[i];
    return &none;
}

const char *ls_recipe_where(const ls_recipe *r, const char *key)
{
    const char *where = ls_recipe_setting(r->state, key)->where;
    return where ? where : ls_arena_printf(&r->state->arena, "%s: %s (default)", r->state->name, key);
}

ls_status ls_recipe_check_names(const ls_recipe *r, const char *begin)
{
    for (int i = 0; i < LS_KEY_MAX; i++) {
        const ls_setting *set = &r->state->set[i];
        const bool begins = set->value && !strncmp(set->key, begin, strlen(begin)),
                   meant = begins && (set->needed || !set->key[strlen(begin)]);
        const char *name = meant ? ls_yaml_unset(set->value) : NULL;
        if (name)
            return ls_fail(LS_E_USAGE,
                           "%s: environment variable %s is not set, and the run keeps only its name: set it "
                           "as it was, or add --set %s=VALUE",
                           set->where, name, set->key);
    }
    return LS_OK;
}

const char *ls_recipe_where_either(const ls_recipe *r, const char *a, const char *b)
{
    const bool first = ls_recipe_setting(r->state, a)->where || !ls_recipe_setting(r->state, b)->where;
    return ls_recipe_where(r, first ? a : b);
}

/* The key that sets this option of the lower layers. */
static const char *key_of(ls_option f)
{
    static const char *const KEY[LS_FIELD_COUNT] = {
        [LS_FIELD_MESH] = "parallel.mesh",
        [LS_FIELD_DATA] = "parallel.data",
        [LS_FIELD_UNITS] = "parallel.units",
        [LS_FIELD_RESHARD_AFTER_FORWARD] = "parallel.reshard_after_forward",
        [LS_FIELD_GATHER] = "parallel.gather",
        [LS_FIELD_OFFLOAD] = "parallel.offload",
        [LS_FIELD_DEVICE_MEMORY] = "device_memory",
        [LS_FIELD_SYNCHRONIZE] = "parallel.synchronize",
        [LS_FIELD_REDUCE] = "precision.reduce",
        [LS_FIELD_SYNC_BATCH_NORM] = "parallel.sync_batch_norm",
        [LS_FIELD_TENSOR] = "parallel.tensor",
        [LS_FIELD_SEQUENCE] = "parallel.sequence",
        [LS_FIELD_BUCKET_BYTES] = "parallel.bucket",
        [LS_FIELD_DEVICE] = "device",
        [LS_FIELD_FREEZE] = "train.freeze",
        [LS_FIELD_GROUPS] = "optimizer.groups",
        [LS_FIELD_RECOMPUTE] = "parallel.recompute",
        [LS_FIELD_PARAM] = "precision.param",
        [LS_FIELD_MODULES] = "precision.modules",
        [LS_FIELD_CAST_FORWARD_INPUTS] = "precision.cast_forward_inputs",
        [LS_FIELD_PADDING] = "train.drop_last",
        [LS_FIELD_METRICS] = "eval.metrics",
        [LS_FIELD_GLOBAL_BATCH] = "train.global_batch",
        [LS_FIELD_PATH] = "data.path",
        [LS_FIELD_TOKENIZER] = "data.tokenizer",
        [LS_FIELD_END_TOKEN] = "data.end_token",
        [LS_FIELD_SEQ_LENGTH] = "data.seq_length",
        [LS_FIELD_SOURCE] = "data.source",
        [LS_FIELD_TARGET] = "data.target",
        [LS_FIELD_EVAL_FRACTION] = "data.eval_fraction",
        [LS_FIELD_IMAGE_SIZE] = "model.image_size",
        [LS_FIELD_IN_CHANNELS] = "model.in_channels",
        [LS_FIELD_CLASSES] = "model.classes",
        [LS_FIELD_VOCABULARY] = "model.vocab_size",
    };
    LS_CHECK(KEY[f], "no key of a recipe fills the option %s", ls_field_name(f));
    return KEY[f];
}

ls_status ls_recipe_blame(const ls_recipe *r, ls_status s)
{
    const ls_option f = ls_error_field();
    if (s == LS_OK || f == LS_FIELD_NONE)
        return s;
    const char *rest = ls_error_message() + strlen(ls_field_name(f));
    const bool wrong_value = s == LS_E_SHAPE || s == LS_E_UNSUPPORTED;
    return ls_fail(wrong_value ? LS_E_USAGE : s, "%s%s", ls_recipe_where(r, key_of(f)), rest);
}
