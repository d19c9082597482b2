/* test_huggingface_keys.c - the tables of config.json's keys: every key is read, or held to its values, or
 * has no effect; there is no other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "recipe/model_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_read.h"
#include "support/support.h"

/* Not by ls_file_write, which waits for the disk: there are hundreds. */
static void write_config(const char *json)
{
    FILE *f = fopen(ls_test_path("config.json"), "w");
    assert_true(f && fputs(json, f) >= 0 && fclose(f) == 0);
}

/* What a recipe of this type takes from a config.json with these members, as it stands in a table of
 * settings. */
static ls_status take(ls_recipe_state *state, const char *type, const char *members)
{
    char text[600], json[600];
    snprintf(json, sizeof json, "{\"model_type\": \"%s\"%s%s}", type, *members ? ", " : "", members);
    write_config(json);
    snprintf(text, sizeof text, "model: {type: %s, init: %s}\n", type, ls_test_dir());
    *state = (ls_recipe_state){ .name = "here" };
    ASSERT_OK(ls_recipe_apply_text(state, text, strlen(text), "here.yaml"));
    return ls_recipe_apply_config(state);
}

static char *settings(const ls_recipe_state *state)
{
    ls_str s = { 0 };
    for (int i = 0; i < ls_key_count(); i++)
        if (state->set[i].value)
            ls_str_printf(&s, "%s %s\n", ls_key_at(i)->key, state->set[i].value->text);
    return s.data;
}

/* "a.b": value as the members of a JSON object */
static const char *member(char out[200], const char *key, const char *value)
{
    const char *point = strchr(key, '.');
    char inner[200];
    if (point && strcmp(key, "transformers.js_config"))
        snprintf(out, 200, "\"%.*s\": {%.180s}", (int)(point - key), key, member(inner, point + 1, value));
    else
        snprintf(out, 200, "\"%s\": %s", key, value);
    return out;
}

static void expect_taken(const char *type, const ls_config_key *k, const char *value)
{
    char buffer[200];
    ls_recipe_state state;
    ASSERT_OK(take(&state, type, member(buffer, k->theirs, value)));
    const ls_yaml *taken = state.set[ls_key_find(k->ours)].value;
    if (!taken || strncmp(taken->text, value + (*value == '"'), strlen(taken->text)))
        fail_msg("%s: %s is not taken by %s, which is %s", type, buffer, k->ours,
                 taken ? taken->text : "not set");
    ls_arena_release(&state.arena);
}

static void expect_no_effect(const char *type, const char *key, const char *value)
{
    char buffer[200];
    ls_recipe_state without, with;
    ASSERT_OK(take(&without, type, ""));
    ASSERT_OK(take(&with, type, member(buffer, key, value)));
    char *a = settings(&without), *b = settings(&with);
    if (strcmp(a, b))
        fail_msg("%s: %s changes %s to %s", type, buffer, a, b);
    free(a);
    free(b);
    ls_arena_release(&without.arena);
    ls_arena_release(&with.arena);
}

static void expect_refused(const char *type, const char *key, const char *value)
{
    char buffer[200], says[120];
    ls_recipe_state state;
    if (take(&state, type, member(buffer, key, value)) == LS_OK)
        fail_msg("%s: taken: %s", type, buffer);
    snprintf(says, sizeof says, "config.json: \"%s\" is ", key);
    ASSERT_CONTAINS(ls_error_message(), says);
    ls_arena_release(&state.arena);
}

/* A key that must agree with another one, or whose null is a value. */
static bool is_special(const char *type, const char *key)
{
    return (!strcmp(type, "gpt2") && (!strcmp(key, "embd_pdrop") || !strcmp(key, "resid_pdrop"))) ||
           (!strcmp(key, "sliding_window") && strncmp(type, "qwen", 4)) ||
           !strcmp(key, "router_aux_loss_coef");
}

static void expect_row(const char *type, const ls_config_key *k)
{
    const ls_key *ours = k->ours ? ls_key_named(k->ours) : NULL;
    if (ours && ours->kind == LS_KEY_CHOICE)
        expect_taken(type, k,
                     !k->only                    ? "true"
                     : strstr(k->only, "llama3") ? "\"default\""
                                                 : "\"gated-gelu\"");
    else if (ours && ours->kind == LS_KEY_BOOL)
        expect_taken(type, k, k->absent ? "false" : "true");
    else if (ours)
        expect_taken(type, k, ours->kind == LS_KEY_REAL ? "0.25" : "48");
    if (k->only)
        expect_refused(type, k->theirs, "\"another\"");
    if (!ours && !k->only && strcmp(k->theirs, "pad_token_id"))
        expect_no_effect(type, k->theirs, "12");
    expect_no_effect(type, k->theirs, "null");
}

static void every_key_is_read_or_refused(void **state)
{
    (void)state;
    static const char *const TYPES[] = { "llama",       "qwen2",   "qwen3",     "mistral",
                                         "gemma3_text", "mixtral", "qwen2_moe", "qwen3_moe",
                                         "olmoe",       "gpt2",    "t5" };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        const char *type = TYPES[i];
        const bool t5 = !strcmp(type, "t5");
        for (const ls_config_key *k = ls_model_row_find(type)->huggingface->keys; k->theirs; k++)
            if (!is_special(type, k->theirs))
                expect_row(type, k);
        for (const char *const *key = LS_CONFIG_FREE; *key; key++)
            if (strcmp(*key, "model_type") &&
                (!t5 || (strcmp(*key, "pad_token_id") && strcmp(*key, "decoder_start_token_id"))))
                expect_no_effect(type, *key, "{\"any\": 12}");
        expect_refused(type, "no_such_key", "false");
        expect_refused(type, "", "{}");
        expect_no_effect(type, "no_such_key", "null");
    }
    ls_recipe_state both; /* what stands in rope_parameters wins, wherever it stands in the file */
    ASSERT_OK(take(&both, "llama", "\"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 700}"));
    assert_string_equal(both.set[ls_key_find("model.rope_theta")].value->text, "700");
    ls_arena_release(&both.arena);
}

/* Values that follow from others, and windows of null. */
static void derived_values(void **state)
{
    (void)state;
    static const struct {
        const char *type, *members, *key, *value;
    } cases[] = {
        { "gpt2", "", "model.mlp_size", "3072" },
        { "gpt2", "\"n_embd\": 24, \"n_inner\": null", "model.mlp_size", "96" },
        { "gpt2", "\"n_inner\": 40", "model.mlp_size", "40" },
        { "gpt2", "\"embd_pdrop\": 0.25, \"resid_pdrop\": 0.25", "model.dropout", "0.25" },
        { "mistral", "", "model.window", "4096" },
        { "mistral", "\"sliding_window\": null", "model.window", "0" },
        { "mistral", "\"sliding_window\": 12", "model.window", "12" },
        { "gemma3_text", "", "model.global_every", "6" },
        { "gemma3_text",
          "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"]",
          "model.global_every", "2" },
        { "gemma3_text", "\"layer_types\": [\"sliding_attention\", \"sliding_attention\"]",
          "model.global_every", "3" },
        { "qwen3", "", "model.head_dim", "128" },
        { "mixtral", "\"num_local_experts\": 3", "model.experts", "3" },
        { "qwen3_moe", "\"num_local_experts\": 3", "model.experts", "3" },
        { "mixtral", "\"router_aux_loss_coef\": 0.25", "model.balance", "0.0" },
        { "mixtral", "\"router_aux_loss_coef\": 0.25, \"output_router_logits\": true", "model.balance",
          "0.25" },
        { "olmoe", "\"output_router_logits\": true", "model.balance", "0.01" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_recipe_state taken;
        ASSERT_OK(take(&taken, cases[i].type, cases[i].members));
        assert_string_equal(taken.set[ls_key_find(cases[i].key)].value->text, cases[i].value);
        ls_arena_release(&taken.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_key_is_read_or_refused),
                                        cmocka_unit_test(derived_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
