/* recipe_huggingface.c - config.json of Hugging Face's model directories: read beside the weights that model.init names, written into checkpoints
 * of the models that Hugging Face knows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/find.h"
#include "base/json.h"
#include "recipe_fields.h"

/* Where both say the same thing: their key, ours. What is absent there has the recipe's default, which is Hugging Face's too where no third word says that it
 * is not. */
static const char *const DECODER[][3] = {
    { "vocab_size", "model.vocab_size" }, { "hidden_size", "model.hidden_size" }, { "intermediate_size", "model.mlp_size" },
    { "num_hidden_layers", "model.layers" }, { "num_attention_heads", "model.heads" }, { "num_key_value_heads", "model.kv_heads" },
    { "head_dim", "model.head_dim" }, { "rms_norm_eps", "model.norm_eps" }, { "rope_theta", "model.rope_theta" },
    { "tie_word_embeddings", "model.tied" }, { "initializer_range", "model.init_deviation" },
    { "attention_dropout", "model.attention_dropout" }, { NULL },
};
static const char *const T5[][3] = {
    { "vocab_size", "model.vocab_size", "32128" }, { "d_model", "model.hidden_size", "512" }, { "d_kv", "model.head_dim", "64" }, { "d_ff", "model.mlp_size", "2048" },
    { "num_layers", "model.layers", "6" }, { "num_decoder_layers", "model.decoder_layers" }, { "num_heads", "model.heads", "8" },
    { "relative_attention_num_buckets", "model.position_buckets" }, { "relative_attention_max_distance", "model.position_distance" },
    { "layer_norm_epsilon", "model.norm_eps" }, { "initializer_factor", "model.init_factor" }, { "feed_forward_proj", "model.feed_forward" },
    { "tie_word_embeddings", "model.tied", "true" }, { "dropout_rate", "model.dropout", "0.1" }, { "decoder_start_token_id", "model.start_token" }, { NULL },
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

static ls_status check_t5(const json_t *config, const char *path)
{
    const char *mlp = json_string_value(json_object_get(config, "feed_forward_proj"));
    if (mlp && strcmp(mlp, "relu") && strcmp(mlp, "gated-gelu"))
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"feed_forward_proj\" is %s; this version has relu and gated-gelu", path, mlp);
    if (json_integer_value(json_object_get(config, "pad_token_id")) != 0)
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"pad_token_id\" is not 0, with which data.type pairs fills sources up", path);
    if (json_is_false(json_object_get(config, "is_encoder_decoder")))
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"is_encoder_decoder\" is false; this version has T5 with both", path);
    return LS_OK;
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
    return LS_OK;
}

static ls_status apply(ls_recipe_state *state, const json_t *config, const char *path)
{
    const char *type = text_of(state, "model.type"), *model = json_string_value(json_object_get(config, "model_type"));
    if (!model) /* a checkpoint of a model of our own; its config.json says what the recipe would */
        return LS_OK;
    if (strcmp(model, type))
        return ls_fail(LS_E_USAGE, "%s: its \"model_type\" is %s, and the recipe's model.type %s", path, model, *type ? type : "(missing)");
    const bool t5 = !strcmp(type, "t5");
    LS_TRY((t5 ? check_t5 : check_supported)(config, path));
    for (const char *const (*k)[3] = t5 ? T5 : DECODER; **k; k++) {
        const char *theirs = (*k)[0], *ours = (*k)[1], *absent = (*k)[2];
        const json_t *value = value_of(config, theirs);
        if ((!value && !absent) || state->set[ls_key_find(ours)].value)
            continue;
        char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : strdup(absent);
        ls_status s = text ? ls_recipe_apply_value(state, ours, text, path) : ls_fail(LS_E_MEMORY, "%s: out of memory", path);
        free(text);
        LS_TRY(s);
    }
    return LS_OK;
}

ls_status ls_recipe_apply_config(ls_recipe_state *state)
{
    const char *init = text_of(state, "model.init");
    char *folder = *init && strcmp(init, "random") ? ls_find(init, ls_find_any) : NULL, *path = folder ? ls_path_join(folder, "config.json") : NULL, *text = NULL;
    size_t size = 0;
    json_t *config = NULL;
    ls_status s = LS_OK;
    if (path && ls_dir_exists(folder) && ls_file_exists(path)) {
        s = ls_file_read(&text, &size, path);
        if (s == LS_OK)
            s = ls_json_parse(&config, text, size, path);
        if (s == LS_OK)
            s = apply(state, config, ls_arena_strdup(&state->arena, path));
    }
    json_decref(config);
    free(text);
    free(path);
    free(folder);
    return s;
}

/* With a point: transformers takes no integer for a float here. */
static void add_real(ls_json *j, const char *key, double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.1f", x);
    if (x == floor(x) && x < 1e6)
        ls_json_raw(j, key, text);
    else
        ls_json_f64(j, key, x);
}

static void t5_json(ls_json *j, const ls_recipe *r)
{
    ls_json_int(j, "d_ff", r->model.mlp_size);
    ls_json_int(j, "d_kv", r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads);
    ls_json_int(j, "d_model", r->model.hidden_size);
    ls_json_int(j, "decoder_start_token_id", r->model.start_token);
    add_real(j, "dropout_rate", r->model.dropout);
    ls_json_text(j, "feed_forward_proj", r->model.feed_forward == LS_FEED_FORWARD_RELU ? "relu" : "gated-gelu");
    add_real(j, "initializer_factor", r->model.init_factor);
    ls_json_bool(j, "is_encoder_decoder", true);
    add_real(j, "layer_norm_epsilon", r->model.norm_eps);
    ls_json_text(j, "model_type", "t5");
    ls_json_int(j, "num_decoder_layers", r->model.decoder_layers ? r->model.decoder_layers : r->model.layers);
    ls_json_int(j, "num_heads", r->model.heads);
    ls_json_int(j, "num_layers", r->model.layers);
    ls_json_int(j, "pad_token_id", 0);
    ls_json_int(j, "relative_attention_max_distance", r->model.position_distance);
    ls_json_int(j, "relative_attention_num_buckets", r->model.position_buckets);
    ls_json_bool(j, "tie_word_embeddings", r->model.tied);
}

static void decoder_json(ls_json *j, const ls_recipe *r)
{
    const bool qwen = r->model.type == LS_MODEL_QWEN2;
    const int64_t usual = qwen ? 32768 : 2048;
    if (!qwen) {
        ls_json_bool(j, "attention_bias", false);
        ls_json_bool(j, "mlp_bias", false);
    }
    ls_json_f64(j, "attention_dropout", r->model.attention_dropout);
    ls_json_int(j, "head_dim", r->model.head_dim ? r->model.head_dim : r->model.hidden_size / r->model.heads);
    ls_json_text(j, "hidden_act", "silu");
    ls_json_int(j, "hidden_size", r->model.hidden_size);
    ls_json_f64(j, "initializer_range", r->model.init_deviation);
    ls_json_int(j, "intermediate_size", r->model.mlp_size);
    ls_json_int(j, "max_position_embeddings", r->data.seq_length > usual ? r->data.seq_length : usual);
    ls_json_text(j, "model_type", ls_model_choice_name(r->model.type));
    ls_json_int(j, "num_attention_heads", r->model.heads);
    ls_json_int(j, "num_hidden_layers", r->model.layers);
    ls_json_int(j, "num_key_value_heads", r->model.kv_heads ? r->model.kv_heads : r->model.heads);
    ls_json_f64(j, "rms_norm_eps", r->model.norm_eps);
    ls_json_f64(j, "rope_theta", r->model.rope_theta);
    ls_json_bool(j, "tie_word_embeddings", r->model.tied);
}

char *ls_recipe_config_json(const ls_recipe *r)
{
    const bool t5 = r->model.type == LS_MODEL_T5;
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_array(&j, "architectures");
    ls_json_text(&j, NULL, t5 ? "T5ForConditionalGeneration" : r->model.type == LS_MODEL_QWEN2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
    ls_json_close_array(&j);
    (t5 ? t5_json : decoder_json)(&j, r);
    ls_json_text(&j, "torch_dtype", "float32");
    ls_json_int(&j, "vocab_size", r->model.vocab_size);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return j.out.data;
}
