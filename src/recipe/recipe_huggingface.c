/* recipe_huggingface.c - config.json of Hugging Face's model directories: read beside the weights that model.init names, written into checkpoints
 * of the models that Hugging Face knows. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "recipe_fields.h"

/* Where both say the same thing; what is absent there has the recipe's default, which is Hugging Face's too. */
static const struct { const char *theirs, *ours; } SAME[] = {
    { "vocab_size", "model.vocab_size" }, { "hidden_size", "model.hidden_size" }, { "intermediate_size", "model.mlp_size" },
    { "num_hidden_layers", "model.layers" }, { "num_attention_heads", "model.heads" }, { "num_key_value_heads", "model.kv_heads" },
    { "head_dim", "model.head_dim" }, { "rms_norm_eps", "model.norm_eps" }, { "rope_theta", "model.rope_theta" },
    { "tie_word_embeddings", "model.tied" }, { "initializer_range", "model.init_deviation" },
};

static const char *text_of(const ls_recipe_state *state, const char *key)
{
    const ls_yaml *value = state->set[ls_key_find(key)].value;
    return value && value->kind == LS_YAML_SCALAR ? value->text : "";
}

/* A value of config.json, or of rope_parameters, where newer versions keep what concerns positions. */
static const json_t *value_of(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key), *rope = json_object_get(config, "rope_parameters");
    value = value || !rope ? value : json_object_get(rope, key);
    return json_is_null(value) ? NULL : value;
}

/* What would make another model of these weights than ours. */
static ls_status check_supported(const json_t *config, const char *path)
{
    static const char *const OFF[] = { "attention_bias", "mlp_bias", "use_sliding_window" };
    const char *act = json_string_value(json_object_get(config, "hidden_act")), *rope = json_string_value(value_of(config, "rope_type"));
    if (act && strcmp(act, "silu"))
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"hidden_act\" is %s; this version has silu", path, act);
    if (value_of(config, "rope_scaling") || (rope && strcmp(rope, "default")))
        return ls_fail(LS_E_UNSUPPORTED, "%s: the rotary positions are scaled (%s); this version has plain ones", path, rope ? rope : "rope_scaling");
    for (size_t i = 0; i < sizeof OFF / sizeof *OFF; i++)
        if (json_is_true(json_object_get(config, OFF[i])))
            return ls_fail(LS_E_UNSUPPORTED, "%s: \"%s\" is true, which this version does not have", path, OFF[i]);
    if (json_number_value(json_object_get(config, "attention_dropout")) != 0)
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"attention_dropout\" is not 0; this version has no dropout", path);
    return LS_OK;
}

static ls_status apply(ls_recipe_state *state, const json_t *config, const char *path)
{
    const char *type = text_of(state, "model.type"), *theirs = json_string_value(json_object_get(config, "model_type"));
    if (!theirs) /* a checkpoint of a model of our own; its config.json says what the recipe would */
        return LS_OK;
    if (strcmp(theirs, type))
        return ls_fail(LS_E_USAGE, "%s: its \"model_type\" is %s, and the recipe's model.type %s", path, theirs, *type ? type : "(missing)");
    LS_TRY(check_supported(config, path));
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        const json_t *value = value_of(config, SAME[i].theirs);
        if (!value || state->set[ls_key_find(SAME[i].ours)].value)
            continue;
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        ls_status s = text ? ls_recipe_apply_value(state, SAME[i].ours, text, path) : ls_fail(LS_E_MEMORY, "%s: out of memory", path);
        free(text);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_recipe_apply_config(ls_recipe_state *state)
{
    const char *init = text_of(state, "model.init");
    char *path = ls_path_join(init, "config.json"), *text = NULL;
    size_t size = 0;
    json_t *config = NULL;
    ls_status s = LS_OK;
    if (*init && strcmp(init, "random") && ls_dir_exists(init) && ls_file_exists(path)) {
        s = ls_file_read(&text, &size, path);
        if (s == LS_OK)
            s = ls_json_parse(&config, text, size, path);
        if (s == LS_OK)
            s = apply(state, config, ls_arena_strdup(&state->arena, path));
    }
    json_decref(config);
    free(text);
    free(path);
    return s;
}

char *ls_recipe_config_json(const ls_recipe *r)
{
    const bool qwen = r->model.type == LS_MODEL_QWEN2;
    const int64_t usual = qwen ? 32768 : 2048;
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_array(&j, "architectures");
    ls_json_text(&j, NULL, qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
    ls_json_close_array(&j);
    if (!qwen) {
        ls_json_bool(&j, "attention_bias", false);
        ls_json_bool(&j, "mlp_bias", false);
    }
    ls_json_int(&j, "head_dim", r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads);
    ls_json_text(&j, "hidden_act", "silu");
    ls_json_int(&j, "hidden_size", r->model.hidden_size);
    ls_json_f64(&j, "initializer_range", r->model.init_deviation);
    ls_json_int(&j, "intermediate_size", r->model.mlp_size);
    ls_json_int(&j, "max_position_embeddings", r->data.seq_length > usual ? r->data.seq_length : usual);
    ls_json_text(&j, "model_type", ls_model_choice_name(r->model.type));
    ls_json_int(&j, "num_attention_heads", r->model.heads);
    ls_json_int(&j, "num_hidden_layers", r->model.layers);
    ls_json_int(&j, "num_key_value_heads", r->model.kv_heads ? r->model.kv_heads : r->model.heads);
    ls_json_f64(&j, "rms_norm_eps", r->model.norm_eps);
    ls_json_f64(&j, "rope_theta", r->model.rope_theta);
    ls_json_bool(&j, "tie_word_embeddings", r->model.tied);
    ls_json_text(&j, "torch_dtype", "float32");
    ls_json_int(&j, "vocab_size", r->model.vocab_size);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return j.out.data;
}
