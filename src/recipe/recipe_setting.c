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

const ls_option_key LS_OPTION_KEYS[] = {
    { "mesh", "parallel.mesh" },
    { "data", "parallel.data" },
    { "units", "parallel.units" },
    { "reshard_after_forward", "parallel.reshard_after_forward" },
    { "gather", "parallel.gather" },
    { "offload", "parallel.offload" },
    { "device_memory", "device_memory" },
    { "synchronize", "parallel.synchronize" },
    { "schedule", "parallel.schedule" },
    { "stages", "parallel.stages" },
    { "chunks", "parallel.chunks" },
    { "reduce", "precision.reduce" },
    { "sync_batch_norm", "parallel.sync_batch_norm" },
    { "tensor", "parallel.tensor" },
    { "sequence", "parallel.sequence" },
    { "slices", "parallel.slices" },
    { "bucket_bytes", "parallel.bucket" },
    { "device", "device" },
    { "freeze", "train.freeze" },
    { "targets", "train.lora.targets" },
    { "groups", "optimizer.groups" },
    { "recompute", "parallel.recompute" },
    { "param", "precision.param" },
    { "modules", "precision.modules" },
    { "cast_forward_inputs", "precision.cast_forward_inputs" },
    { "padding", "train.drop_last" },
    { "metrics", "eval.metrics" },
    { "global_batch", "train.global_batch" },
    { "path", "data.path" },
    { "tokenizer", "data.tokenizer" },
    { "end_token", "data.end_token" },
    { "seq_length", "data.seq_length" },
    { "too_long", "data.too_long" },
    { "template", "data.template" },
    { "source", "data.source" },
    { "target", "data.target" },
    { "eval_fraction", "data.eval_fraction" },
    { "image_size", "model.image_size" },
    { "in_channels", "model.in_channels" },
    { "classes", "model.classes" },
    { "vocabulary", "model.vocab_size" },
    { NULL, NULL },
};

static const char *key_of(const char *option)
{
    const ls_option_key *k = LS_OPTION_KEYS;
    while (k->option && strcmp(k->option, option) != 0)
        k++;
    LS_CHECK(k->option, "no key of a recipe fills the option %s", option);
    return k->key;
}

ls_status ls_recipe_blame(const ls_recipe *r, ls_status s)
{
    const char *option = ls_error_field();
    if (s == LS_OK || !option)
        return s;
    const char *rest = ls_error_message() + strlen(option);
    const bool wrong_value = s == LS_E_SHAPE || s == LS_E_UNSUPPORTED;
    const int64_t rank = r->train.lora.rank;
    const bool saves = !strcmp(option, "freeze") && rank && !*r->train.freeze;
    return ls_fail(wrong_value ? LS_E_USAGE : s, "%s%s",
                   ls_recipe_where(r, saves ? "train.lora.save" : key_of(option)), rest);
}
