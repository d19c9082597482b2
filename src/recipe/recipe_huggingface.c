/* recipe_huggingface.c - config.json: reads that of Hugging Face in the folder that model.init names, and
 * writes that of a checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/find.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/elements.h"
#include "lockstep/tokenizer.h"
#include "data_row.h"
#include "model_row.h"
#include "recipe_fields.h"
#include "recipe_read.h"
#include "recipe_use.h"

static const char *huggingface_text_of(const ls_recipe_state *state, const char *key)
{
    const ls_yaml *value = state->set[ls_key_find(key)].value;
    return value && value->kind == LS_YAML_SCALAR ? value->text : "";
}

/* "a.b" is the key b of the object a. NULL: the file lacks the key, or its value is null. */
static const json_t *value_of(const json_t *config, const char *key)
{
    const char *point = strchr(key, '.');
    char first[64] = "";
    if (point && point - key < (ptrdiff_t)sizeof first)
        memcpy(first, key, (size_t)(point - key));
    const json_t *inner = json_object_get(config, first), *value = point && json_is_object(inner)
                                                                       ? value_of(inner, point + 1)
                                                                       : json_object_get(config, key);
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
    const ls_status s = ls_fail(LS_E_UNSUPPORTED, "%s: \"%s\" is %.60s; this version has only %s", path,
                                k->theirs, text ? text : "?", k->only);
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

const char *const LS_CONFIG_FREE[] = {
    /* where the file comes from, and types in memory */
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "dtype",
    "model_type",
    "name_or_path",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    /* how a call computes and what it returns */
    "chunk_size_feed_forward",
    "gradient_checkpointing",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "tf_legacy_loss",
    "use_cache",
    /* heads for other tasks */
    "finetuning_task",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "task_specific_params",
    /* generation */
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "eos_token_id",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "pad_token_id",
    "penalty_alpha",
    "prefix",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "unk_token_id",
    NULL,
};

/* In the object rope_parameters `prefix` is "rope_parameters.". *inner becomes true when the key names an
 * object whose keys have rows of their own. */
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

/* Weights of bitsandbytes say in their own tensors what they are (ckpt/nf4.h). */
static ls_status check_quantized(const json_t *value, const char *path)
{
    const char *method = json_string_value(json_object_get(value, "quant_method"));
    if (method && !strcmp(method, "bitsandbytes") && !json_is_true(json_object_get(value, "load_in_8bit")))
        return LS_OK;
    return ls_fail(LS_E_UNSUPPORTED,
                   "%s: quantization_config: the weights are quantised by %.40s; only NF4 of bitsandbytes is "
                   "read: take the weights that are not quantised",
                   path, method ? method : "an unknown method");
}

static ls_status check_known(const ls_config_key *keys, const json_t *object, const char *prefix,
                             const char *path)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        bool inner;
        if (json_is_null(value))
            continue;
        if (!*prefix && !strcmp(key, "quantization_config")) {
            LS_TRY(check_quantized(value, path));
            continue;
        }
        if (!is_known(keys, prefix, key, &inner) || (inner && !json_is_object(value)))
            return ls_fail(
                LS_E_UNSUPPORTED,
                "%s: \"%s%s\" is a key that this version does not know, so the model may "
                "compute something that this version does not; if the key has no effect, delete it from the "
                "file",
                path, prefix, key);
        char deeper[96];
        snprintf(deeper, sizeof deeper, "%s%s.", prefix, key);
        if (inner)
            LS_TRY(check_known(keys, value, deeper, path));
    }
    return LS_OK;
}

/* Refuses a file whose model differs from ours: an unknown key, or a value that a row does not allow. */
static ls_status check_keys(const ls_config_key *keys, const json_t *config, const char *path)
{
    for (const ls_config_key *k = keys; k->theirs; k++)
        if (k->only)
            LS_TRY(check_value(value_of(config, k->theirs), k, path));
    return check_known(keys, config, "", path);
}

static bool says_tied(const ls_config_key *keys, const json_t *config)
{
    for (const ls_config_key *k = keys; k->theirs; k++)
        if (k->ours && !strcmp(k->ours, "model.tied")) {
            const json_t *value = value_of(config, k->theirs);
            return value ? json_is_true(value) : k->absent && !strcmp(k->absent, "true");
        }
    return false;
}

/* The name of a head that lies beside the table that it is said to be, with other values; NULL: there is
 * none. */
static const char *own_head(const ls_weights *w, const ls_model_row *m)
{
    for (const ls_second_name *n = m->second_names; n && n->name; n++) {
        const ls_weight *head = ls_weights_find(w, n->name),
                        *table = n->if_tied ? ls_weights_find(w, n->same_as) : NULL;
        if (head && table && head->loadable && table->loadable && !ls_weight_equal(head, table))
            return n->name;
    }
    return NULL;
}

/* config.json says that the head is the embedding's table, and the weights have both, with different values:
 * they count, as in transformers 5. The value's origin says so. Weights that cannot be opened are refused
 * when they are loaded. */
static ls_status apply_own_head(ls_recipe_state *state, const ls_model_row *m, const json_t *config,
                                const char *path)
{
    ls_weights *w = NULL;
    if (!says_tied(m->huggingface->keys, config) || state->set[ls_key_find("model.tied")].value)
        return LS_OK;
    char *folder = ls_sys_strndup(path, (size_t)(strrchr(path, '/') - path));
    const char *head = folder && ls_weights_open(&w, folder) == LS_OK ? own_head(w, m) : NULL;
    ls_weights_close(&w);
    free(folder);
    if (!head)
        return LS_OK;
    const char *origin = ls_arena_printf(&state->arena, "%s" LS_RECIPE_UNTIED, path);
    LS_TRY(ls_arena_status(&state->arena));
    LS_TRY(ls_recipe_apply_value(state, "model.tied", "false", origin));
    for (const ls_config_key *k = m->huggingface->untied; k && k->theirs; k++)
        if (!value_of(config, k->theirs) && !state->set[ls_key_find(k->ours)].value)
            LS_TRY(ls_recipe_apply_value(state, k->ours, k->absent, path));
    return LS_OK;
}

/* The value of a key that the file lacks, malloc'ed. */
static char *absent_value(const ls_recipe_state *state, const ls_config_key *k)
{
    const long long times = k->times ? strtoll(huggingface_text_of(state, k->times), NULL, 10) : 0;
    char text[32];
    if (!k->times)
        return ls_sys_strdup(k->absent);
    snprintf(text, sizeof text, "%lld", times < 1 << 30 ? strtoll(k->absent, NULL, 10) * times : times);
    return ls_sys_strdup(text);
}

/* The tokenizer of the folder, where the recipe reads texts and names none. */
static ls_status apply_tokenizer(ls_recipe_state *state, const char *folder, const char *path)
{
    const char *init = huggingface_text_of(state, "model.init"),
               *type = huggingface_text_of(state, "data.type");
    char *by_name = NULL, *there = NULL;
    const ls_data_row *data = LS_DATA;
    while (data->name && strcmp(data->name, type))
        data++;
    if (!data->name || !ls_words_have(data->keys, "tokenizer") ||
        state->set[ls_key_find("data.tokenizer")].value)
        return LS_OK;
    ls_status s = ls_find(&by_name, init, ls_tokenizer_file);
    if (s == LS_OK)
        s = ls_tokenizer_file(&there, folder); /* (of a run it is that of its newest checkpoint) */
    if (s == LS_OK && (by_name || there))
        s = ls_recipe_apply_value(state, "data.tokenizer", by_name ? init : folder, path);
    free(by_name);
    free(there);
    return s;
}

static ls_status apply(ls_recipe_state *state, json_t *config, const char *path)
{
    const char *type = huggingface_text_of(state, "model.type"),
               *model = json_string_value(json_object_get(config, "model_type"));
    if (!model) /* a checkpoint of another model, whose config.json is a recipe */
        return LS_OK;
    if (*type && strcmp(model, type))
        return ls_fail(LS_E_USAGE,
                       "%s: its \"model_type\" is %s, and the recipe's model.type %s; leave "
                       "model.type out, and the file says it",
                       path, model, type);
    const ls_model_row *m = ls_model_row_find(model);
    char list[LS_MODEL_LIST];
    if (!m || !m->huggingface)
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: \"model_type\" is %s; of the Hugging Face models this version reads %s", path,
                       model, ls_model_list(list, ls_model_is_huggingfaces));
    if (!*type)
        LS_TRY(ls_recipe_apply_value(state, "model.type", model, path));
    const ls_config_key *keys = m->huggingface->keys;
    LS_TRY(check_keys(keys, config, path));
    if (m->huggingface->check)
        LS_TRY(m->huggingface->check(config, path));
    LS_TRY(apply_own_head(state, m, config, path));
    for (int pass = 0; pass < 2; pass++) /* first the keys of the file, then those that it lacks */
        for (const ls_config_key *k = keys; k->theirs; k++) {
            const json_t *value = value_of(config, k->theirs);
            if (!k->ours || (pass ? !k->absent : !value) || state->set[ls_key_find(k->ours)].value)
                continue;
            char *text = pass ? absent_value(state, k)
                              : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
            ls_status s = text ? ls_recipe_apply_value(state, k->ours, text, path)
                               : ls_fail(LS_E_MEMORY, "%s: out of memory", path);
            free(text);
            LS_TRY(s);
        }
    return LS_OK;
}

/* Of an adapter, too. *folder becomes that of its base, if it has no config.json itself. */
static ls_status apply_adapter_of(ls_recipe_state *state, char **folder)
{
    char *base = NULL;
    LS_TRY(ls_recipe_apply_adapter(state, *folder));
    if (ls_file_in(*folder, "config.json"))
        return LS_OK;
    LS_TRY(ls_recipe_find_base(&base, *folder, huggingface_text_of(state, "checkpoint.base")));
    free(*folder);
    *folder = base;
    return LS_OK;
}

ls_status ls_recipe_apply_config(ls_recipe_state *state)
{
    const char *init = huggingface_text_of(state, "model.init");
    char *folder = NULL, *text = NULL;
    size_t size = 0;
    json_t *config = NULL;
    if (*init && strcmp(init, "random"))
        LS_TRY(ls_init_find(&folder, init));
    const char *moved = huggingface_text_of(state, "checkpoint.base");
    if (!folder && *moved)
        LS_TRY(ls_init_find(&folder, moved));
    ls_status s = folder && ls_adapter_is(folder) ? apply_adapter_of(state, &folder) : LS_OK;
    char *path = folder ? ls_path_join(folder, "config.json") : NULL;
    if (s == LS_OK && folder)
        s = ls_sys_have(path);
    if (s == LS_OK && path && ls_dir_exists(folder) && ls_file_exists(path)) {
        s = ls_file_read(&text, &size, path);
        if (s == LS_OK)
            s = ls_json_parse(&config, text, size, path);
        if (s == LS_OK)
            s = apply(state, config, ls_arena_strdup(&state->arena, path));
        if (s == LS_OK && json_object_get(config, "model_type"))
            s = apply_tokenizer(state, folder, ls_arena_strdup(&state->arena, path));
    }
    json_decref(config);
    free(text);
    free(path);
    free(folder);
    return s;
}

static void write_huggingfaces(ls_json *j, const ls_recipe *r, const ls_huggingface *h,
                               const int32_t *end_token)
{
    ls_json_array(j, "architectures");
    ls_json_text(j, NULL, h->architecture_of ? h->architecture_of(r) : h->architecture);
    ls_json_close_array(j);
    if (end_token)
        ls_json_int(j, "eos_token_id", *end_token);
    h->write(j, r);
    ls_json_text(j, "torch_dtype", "float32");
    ls_json_int(j, "vocab_size", r->model.vocab_size);
}

/* Writes a key of the recipe under its last name. The YAML of numbers and lists is JSON, too; words are
 * quoted. */
static void add_key(ls_json *j, const ls_recipe *r, const char *key)
{
    const ls_key *k = ls_key_named(key);
    const char *dot = strrchr(key, '.'), *name = dot ? dot + 1 : key;
    ls_str value = { 0 };
    if (ls_key_is_named(k))
        ls_named_print(k, r, true, &value);
    else
        ls_key_record(k, r, &value);
    const char *text = ls_str_text(&value);
    if (ls_key_is_named(k) || k->kind == LS_KEY_TREE || text[0] == '[' || text[0] == '-' ||
        (text[0] >= '0' && text[0] <= '9'))
        ls_json_raw(j, name, text);
    else
        ls_json_text(j, name, text);
    ls_str_inherit(&j->out, &value);
    ls_str_release(&value);
}

/* Whether config.json has the key: one with an effect on the model; names of nothing are left out. */
static bool stored(const ls_key *k, const ls_recipe *r)
{
    ls_str value = { 0 };
    bool is = k->config && ls_key_applies(k, r);
    for (const char *const *need = k->needs; is && need && *need; need++)
        is = ls_key_condition(*need, r);
    if (is && k->kind == LS_KEY_PORTS) {
        ls_key_print(k, r, &value);
        is = strcmp(ls_str_text(&value), "{}") != 0;
    }
    ls_str_release(&value);
    return is;
}

static void write_own(ls_json *j, const ls_recipe *r)
{
    ls_json_object(j, "model");
    for (int i = 0; i < ls_key_count(); i++)
        if (stored(ls_key_at(i), r))
            add_key(j, r, ls_key_at(i)->key);
    ls_json_close_object(j);
    if ((ls_recipe_samples(r) == LS_SAMPLES_FIELDS || r->model.outputs.n) &&
        ls_key_applies(ls_key_named("loss"), r))
        add_key(j, r, "loss");
    static const char *const DATA[] = { "data.train", "data.eval", "data.missing", "data.config",
                                        "data.mean",  "data.std",  "data.ignore",  NULL };
    ls_json_object(j, "data");
    add_key(j, r, "data.type");
    for (const char *const *k = DATA; *k; k++)
        if (ls_key_applies(ls_key_named(*k), r))
            add_key(j, r, *k);
    ls_json_close_object(j);
}

char *ls_recipe_config_json(const ls_recipe *r, const int32_t *end_token)
{
    const ls_model_row *m = ls_recipe_model(r);
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    if (m->huggingface)
        write_huggingfaces(&j, r, m->huggingface, end_token);
    else
        write_own(&j, r);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    return ls_str_take(&j.out);
}
