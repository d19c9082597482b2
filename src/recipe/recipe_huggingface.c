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

static const char *text_of(const ls_recipe_state *state, const char *key)
{
    const ls_yaml *value = state->set[ls_key_find(key)].value;
    return value && value->kind == LS_YAML_SCALAR ? value->text : "";
}

/* "a.b" is the key b of the object a. NULL: not there, or null, which says nothing. */
static const json_t *value_of(const json_t *config, const char *key)
{
    const char *point = strchr(key, '.');
    char first[64] = "";
    if (point && point - key < (ptrdiff_t)sizeof first)
        memcpy(first, key, (size_t)(point - key));
    const json_t *inner = json_object_get(config, first), *value;
    value = json_is_object(inner) ? json_object_get(inner, point + 1) : json_object_get(config, key);
    return json_is_null(value) ? NULL : value;
}

static bool is_one_of(const json_t *value, const char *only)
{
    size_t flags = JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, n = strlen(only);
    bool is = false;
    while (n && !is) {
        json_error_t end;
        json_t *one = json_loadb(only, n, flags, &end);
        is = json_is_number(one) && json_is_number(value) ? json_number_value(one) == json_number_value(value)
                                                          : json_equal(one, value);
        json_decref(one);
        only += end.position;
        only += strspn(only, " ");
        n = strlen(only);
    }
    return is;
}

static ls_status refuse_value(const json_t *value, const ls_config_key *k, const char *path)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const ls_status s = ls_fail(LS_E_UNSUPPORTED, "%s: \"%s\" is %.60s; this version has only %s", path, k->theirs,
                                text ? text : "?", k->only);
    free(text);
    return s;
}

static ls_status check_value(const json_t *value, const ls_config_key *k, const char *path)
{
    if (!json_is_array(value))
        return !value || is_one_of(value, k->only) ? LS_OK : refuse_value(value, k, path);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!is_one_of(json_array_get(value, i), k->only))
            return refuse_value(json_array_get(value, i), k, path);
    return LS_OK;
}

/* prefix: "rope_parameters." in that object. *inner: the key is that of an object whose keys have rows. */
static bool is_known(const ls_config_key *keys, const char *prefix, const char *key, bool *inner)
{
    char name[96];
    bool known = false;
    *inner = false;
    for (const char *const *free_key = LS_CONFIG_FREE; *free_key && !*prefix && !known; free_key++)
        known = !strcmp(*free_key, key);
    snprintf(name, sizeof name, "%s%s", prefix, key);
    const size_t n = strlen(name);
    for (const ls_config_key *k = keys; k->theirs && !known; k++) {
        *inner = !strncmp(k->theirs, name, n) && k->theirs[n] == '.';
        known = !strcmp(k->theirs, name) || *inner;
    }
    return known;
}

static ls_status check_known(const ls_config_key *keys, const json_t *object, const char *prefix, const char *path)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        bool inner;
        if (json_is_null(value))
            continue;
        if (!is_known(keys, prefix, key, &inner) || (inner && !json_is_object(value)))
            return ls_fail(LS_E_UNSUPPORTED, "%s: \"%s%s\" is a key that this version does not know, so the model may "
                           "compute something else than this version would; if the key changes nothing, delete it "
                           "from the file", path, prefix, key);
        char deeper[96];
        snprintf(deeper, sizeof deeper, "%s.", key);
        if (inner)
            LS_TRY(check_known(keys, value, deeper, path));
    }
    return LS_OK;
}

/* What transformers derives from feed_forward_proj stands in newer files, too, and would win. */
static ls_status check_t5(const json_t *config, const char *path)
{
    const char *mlp = json_string_value(value_of(config, "feed_forward_proj"));
    const char *act = json_string_value(value_of(config, "dense_act_fn"));
    const json_t *gated = value_of(config, "is_gated_act");
    const bool want = mlp && !strcmp(mlp, "gated-gelu");
    if ((act && strcmp(act, want ? "gelu_new" : "relu")) || (gated && json_is_true(gated) != want))
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"feed_forward_proj\" is %s, \"dense_act_fn\" %s, \"is_gated_act\" %s: this "
                       "version has relu with relu and false, and gated-gelu with gelu_new and true", path,
                       mlp ? mlp : "missing", act ? act : "missing",
                       !gated ? "missing" : json_is_true(gated) ? "true" : "false");
    return LS_OK;
}

/* What would make another model of these weights than ours. */
static ls_status check_keys(const ls_config_key *keys, const json_t *config, const char *path)
{
    for (const ls_config_key *k = keys; k->theirs; k++)
        if (k->only)
            LS_TRY(check_value(value_of(config, k->theirs), k, path));
    return check_known(keys, config, "", path);
}

static ls_status apply(ls_recipe_state *state, const json_t *config, const char *path)
{
    const char *type = text_of(state, "model.type"), *model = json_string_value(json_object_get(config, "model_type"));
    if (!model) /* a checkpoint of a model of our own; its config.json says what the recipe would */
        return LS_OK;
    if (strcmp(model, type))
        return ls_fail(LS_E_USAGE, "%s: its \"model_type\" is %s, and the recipe's model.type %s", path, model, *type ? type : "(missing)");
    const ls_config_key *keys = ls_config_keys(model);
    if (!keys)
        return ls_fail(LS_E_UNSUPPORTED, "%s: \"model_type\" is %s; of Hugging Face's models this version reads llama, "
                       "qwen2 and t5", path, model);
    LS_TRY(check_keys(keys, config, path));
    if (!strcmp(model, "t5"))
        LS_TRY(check_t5(config, path));
    for (int pass = 0; pass < 2; pass++) /* what the file says, then what its silence does */
        for (const ls_config_key *k = keys; k->theirs; k++) {
            const json_t *value = value_of(config, k->theirs);
            if (!k->ours || (pass ? !k->absent : !value) || state->set[ls_key_find(k->ours)].value)
                continue;
            char *text = pass ? strdup(k->absent) : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
            ls_status s = text ? ls_recipe_apply_value(state, k->ours, text, path)
                               : ls_fail(LS_E_MEMORY, "%s: out of memory", path);
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
    const ls_scale_output scale = r->model.scale_output;
    ls_json_bool(j, "scale_decoder_outputs", scale == LS_SCALE_OUTPUT_AUTO ? r->model.tied : scale == LS_SCALE_OUTPUT_TRUE);
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
