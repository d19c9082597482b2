/* model_decoder.c - the rows of the models that predict the next token: Hugging Face's Llama, Qwen2, Qwen3
 * and Mistral. The keys of their config.json, and the values of absent keys, are those of transformers 4 and
 * 5 (configuration_llama.py, ...). */
#include "data_row.h"
#include "model_decoder.h"
#include "recipe_setting.h"

#include <string.h>

static ls_rope_scaling scaling_of(const ls_recipe *r)
{
    const bool llama3 = r->model.rope_scaling == LS_ROPE_LLAMA3;
    return (ls_rope_scaling){ .factor = r->model.rope_scaling ? r->model.rope_factor : 0,
                              .low = llama3 ? r->model.rope_low : 0,
                              .high = llama3 ? r->model.rope_high : 0,
                              .original = llama3 ? r->model.rope_original : 0 };
}

static void decoder_config(ls_decoder_config *out, const ls_recipe *r, const void *preset)
{
    const ls_decoder_preset *p = preset;
    *out = (ls_decoder_config){ .seq_length = r->data.seq_length,
                                .vocab_size = r->model.vocab_size,
                                .hidden_size = r->model.hidden_size,
                                .mlp_size = r->model.mlp_size,
                                .layers = r->model.layers,
                                .heads = r->model.heads,
                                .kv_heads = r->model.kv_heads ? r->model.kv_heads : r->model.heads,
                                .head_dim = ls_recipe_head_dim(r),
                                .norm_eps = r->model.norm_eps,
                                .rope_theta = r->model.rope_theta,
                                .init_deviation = r->model.init_deviation,
                                .attention_dropout = r->model.attention_dropout,
                                .tied = r->model.tied,
                                .qkv_bias = p->qkv_bias,
                                .block = p->block,
                                .packed = ls_recipe_pack(r) == LS_PACK_DOCUMENTS,
                                .rope_scaling = scaling_of(r),
                                .head_norms = p->head_norms,
                                .window = r->model.window,
                                .global_every = p->gemma ? r->model.global_every : 0,
                                .local_theta = r->model.local_theta,
                                .gemma = p->gemma,
                                .query_scalar = p->gemma ? r->model.query_scalar : 0,
                                .whole_norms = p->whole_norms,
                                .mixtral_names = p->mixtral_names };
    if (!p->experts)
        return;
    out->experts = r->model.experts;
    out->experts_per_token = r->model.experts_per_token;
    out->expert_size = p->sizes ? r->model.expert_size : r->model.mlp_size;
    out->experts_every = p->sizes ? r->model.experts_every : 1;
    out->normalize_experts = p->normalize || r->model.normalize_experts;
    out->shared_expert_size = p->shared ? r->model.shared_expert_size : 0;
    out->balance = r->model.balance;
    out->clip_qkv = r->model.clip_qkv;
}

ls_status ls_recipe_decoder_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    ls_decoder_config c;
    decoder_config(&c, r, preset);
    return ls_decoder_build(g, &c, batch);
}

ls_status ls_recipe_decoder_generation(ls_generation *out, const ls_recipe *r, const void *preset,
                                       ls_arena *a)
{
    ls_decoder_config *c = LS_ARENA_NEW(a, ls_decoder_config);
    LS_TRY(ls_arena_status(a));
    decoder_config(c, r, preset);
    *out = ls_decoder_generation(c);
    return LS_OK;
}

ls_status ls_recipe_decoder_check(const ls_recipe *r)
{
    const long long heads = r->model.heads, kv = r->model.kv_heads;
    LS_TRY(ls_recipe_check_heads(r, true));
    if (ls_recipe_head_dim(r) % 2)
        return ls_fail(
            LS_E_USAGE,
            "%s: the width of a head is %lld, and must be even: rotary positions rotate pairs of features",
            ls_recipe_where_either(r, "model.head_dim", "model.heads"), (long long)ls_recipe_head_dim(r));
    if (kv && heads % kv)
        return ls_fail(LS_E_USAGE, "%s: %lld kv_heads do not divide %lld heads",
                       ls_recipe_where_either(r, "model.kv_heads", "model.heads"), kv, heads);
    if (r->model.rope_scaling == LS_ROPE_LLAMA3 && r->model.rope_high <= r->model.rope_low)
        return ls_fail(LS_E_USAGE, "%s: %g is not above model.rope_low, %g",
                       ls_recipe_where_either(r, "model.rope_high", "model.rope_low"), r->model.rope_high,
                       r->model.rope_low);
    return LS_OK;
}

/* ---- config.json */

static const ls_config_key LLAMA_KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "32000"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "11008"),
    LS_CONFIG_READ("num_key_value_heads", "model.kv_heads"),
    DECODER,
    LS_CONFIG_OFF("rope_interleaved"),
    LS_CONFIG_NO_EFFECT("pretraining_tp"),
    LS_CONFIG_NO_EFFECT("max_sequence_length"),
    LS_CONFIG_NO_EFFECT("is_llama_config"),
    LS_CONFIG_END,
};
static const ls_config_key QWEN2_KEYS[] = { LS_CONFIG_READ("num_key_value_heads", "model.kv_heads"),
                                            LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "22016"),
                                            QWEN, LS_CONFIG_END };
static const ls_config_key QWEN3_KEYS[] = { LS_CONFIG_READ_OR("num_key_value_heads", "model.kv_heads", "32"),
                                            LS_CONFIG_READ_OR("head_dim", "model.head_dim", "128"),
                                            LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "22016"),
                                            QWEN, LS_CONFIG_END };
static const ls_config_key MISTRAL_KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "32000"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "14336"),
    LS_CONFIG_READ_OR("num_key_value_heads", "model.kv_heads", "8"),
    DECODER,
    LS_CONFIG_READ_OR("sliding_window", "model.window", "4096"),
    LS_CONFIG_END,
};
static const ls_config_key GEMMA3_KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "262208"),
    LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "2304"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "9216"),
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "26"),
    LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "8"),
    LS_CONFIG_READ_OR("num_key_value_heads", "model.kv_heads", "4"),
    LS_CONFIG_READ_OR("head_dim", "model.head_dim", "256"),
    COMMON,
    LS_CONFIG_READ_OR("tie_word_embeddings", "model.tied", "true"),
    LS_CONFIG_READ_OR("query_pre_attn_scalar", "model.query_scalar", "256"),
    LS_CONFIG_READ_OR("sliding_window", "model.window", "4096"),
    LS_CONFIG_READ_OR("sliding_window_pattern", "model.global_every", "6"),
    LS_CONFIG_NO_EFFECT("_sliding_window_pattern"),
    LS_CONFIG_ONLY("layer_types", "\"full_attention\" \"sliding_attention\""),
    ROPE_IN("rope_parameters.full_attention"),
    LS_CONFIG_READ_OR("rope_theta", "model.rope_theta", "1e6"),
    ROPE_IN("rope_scaling"),
    ROPE_KIND("rope_scaling.type"),
    LS_CONFIG_READ("rope_parameters.sliding_attention.rope_theta", "model.local_theta"),
    LS_CONFIG_READ_OR("rope_local_base_freq", "model.local_theta", "1e4"),
    LS_CONFIG_ONLY("rope_parameters.sliding_attention.rope_type", "\"default\""),
    LS_CONFIG_ONLY("hidden_activation", "\"gelu_pytorch_tanh\""),
    LS_CONFIG_ONLY("attn_logit_softcapping", "null"),
    LS_CONFIG_ONLY("final_logit_softcapping", "null"),
    LS_CONFIG_OFF("use_bidirectional_attention"),
    LS_CONFIG_NO_EFFECT("cache_implementation"),
    LS_CONFIG_END,
};

static const char *kind_of(const json_t *rope)
{
    const char *kind = json_string_value(json_object_get(rope, "rope_type"));
    return kind ? kind : json_string_value(json_object_get(rope, "type"));
}

/* A kind of scaling needs its numbers, as in transformers. */
static ls_status check_numbers(const json_t *rope, const char *name, const char *path)
{
    static const char *const NUMBERS[] = { "factor", "low_freq_factor", "high_freq_factor",
                                           "original_max_position_embeddings" };
    const char *kind = kind_of(rope);
    const int n = !kind || !strcmp(kind, "default") ? 0 : !strcmp(kind, "linear") ? 1 : 4;
    for (int i = 0; i < n; i++)
        if (!json_is_number(json_object_get(rope, NUMBERS[i])))
            return ls_fail(LS_E_FORMAT, "%s: \"%s\" of type %s needs the number \"%s\"", path, name, kind,
                           NUMBERS[i]);
    return LS_OK;
}

ls_status ls_decoder_check_rope(json_t *config, const char *path)
{
    static const char *const NAMES[] = { "rope_parameters", "rope_scaling" };
    for (int i = 0; i < 2; i++) {
        const json_t *rope = json_object_get(config, NAMES[i]),
                     *full = json_object_get(rope, "full_attention"); /* Gemma's */
        LS_TRY(check_numbers(full ? full : rope, NAMES[i], path));
    }
    return LS_OK;
}

/* A window of null is none, and one that is not there that of transformers. */
ls_status ls_decoder_check_window(json_t *config, const char *path)
{
    if (json_is_null(json_object_get(config, "sliding_window")))
        json_object_set_new(config, "sliding_window", json_integer(0));
    return ls_decoder_check_rope(config, path);
}

static bool is_full(const json_t *types, size_t i)
{
    const char *type = json_string_value(json_array_get(types, i));
    return type && !strcmp(type, "full_attention");
}

/* layer_types says which layers see all keys; here it is every so many. */
static ls_status check_gemma3(json_t *config, const char *path)
{
    LS_TRY(ls_decoder_check_window(config, path));
    const json_t *types = json_object_get(config, "layer_types");
    const size_t n = json_array_size(types);
    size_t every = 1;
    while (every <= n && !is_full(types, every - 1))
        every++;
    for (size_t i = 0; i < n; i++)
        if (is_full(types, i) != ((i + 1) % every == 0))
            return ls_fail(
                LS_E_UNSUPPORTED,
                "%s: \"layer_types\": layer %zu does not follow the pattern of the first %zu: this "
                "version has full attention in every n-th layer",
                path, i, every);
    if (n)
        json_object_set_new(config, "sliding_window_pattern", json_integer((json_int_t)every));
    return LS_OK;
}

static void write_scaling(ls_json *j, const ls_recipe *r)
{
    if (!r->model.rope_scaling)
        return;
    ls_json_object(j, "rope_scaling");
    ls_json_text(j, "rope_type", r->model.rope_scaling == LS_ROPE_LLAMA3 ? "llama3" : "linear");
    ls_config_real(j, "factor", r->model.rope_factor);
    if (r->model.rope_scaling == LS_ROPE_LLAMA3) {
        ls_config_real(j, "low_freq_factor", r->model.rope_low);
        ls_config_real(j, "high_freq_factor", r->model.rope_high);
        ls_json_int(j, "original_max_position_embeddings", r->model.rope_original);
    }
    ls_json_close_object(j);
}

/* The keys that all models here share. `usual` is the number of positions of the published models; act NULL:
 * the activation has another key. */
void ls_decoder_write(ls_json *j, const ls_recipe *r, int64_t usual, const char *act)
{
    ls_json_f64(j, "attention_dropout", r->model.attention_dropout);
    ls_json_int(j, "head_dim", ls_recipe_head_dim(r));
    if (act)
        ls_json_text(j, "hidden_act", act);
    ls_json_int(j, "hidden_size", r->model.hidden_size);
    ls_json_f64(j, "initializer_range", r->model.init_deviation);
    ls_json_int(j, "intermediate_size", r->model.mlp_size);
    ls_json_int(j, "max_position_embeddings", r->data.seq_length > usual ? r->data.seq_length : usual);
    ls_json_text(j, "model_type", r->model.type);
    ls_json_int(j, "num_attention_heads", r->model.heads);
    ls_json_int(j, "num_hidden_layers", r->model.layers);
    ls_json_int(j, "num_key_value_heads", r->model.kv_heads ? r->model.kv_heads : r->model.heads);
    ls_json_f64(j, "rms_norm_eps", r->model.norm_eps);
    write_scaling(j, r);
    ls_json_f64(j, "rope_theta", r->model.rope_theta);
    ls_json_bool(j, "tie_word_embeddings", r->model.tied);
}

static void write_llama(ls_json *j, const ls_recipe *r)
{
    ls_json_bool(j, "attention_bias", false);
    ls_json_bool(j, "mlp_bias", false);
    ls_decoder_write(j, r, 2048, "silu");
}

static void write_qwen(ls_json *j, const ls_recipe *r) { ls_decoder_write(j, r, 32768, "silu"); }

/* Without the key, transformers has a window of 4096. */
void ls_decoder_write_window(ls_json *j, const ls_recipe *r)
{
    if (r->model.window)
        ls_json_int(j, "sliding_window", r->model.window);
    else
        ls_json_raw(j, "sliding_window", "null");
}

static void write_mistral(ls_json *j, const ls_recipe *r)
{
    ls_decoder_write(j, r, 32768, "silu");
    ls_decoder_write_window(j, r);
}

static void write_gemma3(ls_json *j, const ls_recipe *r)
{
    ls_decoder_write(j, r, 32768, NULL);
    ls_decoder_write_window(j, r);
    ls_json_text(j, "hidden_activation", "gelu_pytorch_tanh");
    ls_json_int(j, "query_pre_attn_scalar", (int64_t)r->model.query_scalar);
    ls_json_f64(j, "rope_local_base_freq", r->model.local_theta);
    ls_json_array(j, "layer_types");
    for (int64_t i = 0; i < r->model.layers; i++)
        ls_json_text(j, NULL, (i + 1) % r->model.global_every ? "sliding_attention" : "full_attention");
    ls_json_close_array(j);
}

static const ls_huggingface
    LLAMA = HUGGINGFACE("LlamaForCausalLM", LLAMA_KEYS, ls_decoder_check_rope, write_llama),
    QWEN2 = HUGGINGFACE("Qwen2ForCausalLM", QWEN2_KEYS, ls_decoder_check_rope, write_qwen),
    QWEN3 = HUGGINGFACE("Qwen3ForCausalLM", QWEN3_KEYS, ls_decoder_check_rope, write_qwen),
    MISTRAL = HUGGINGFACE("MistralForCausalLM", MISTRAL_KEYS, ls_decoder_check_window, write_mistral),
    GEMMA3 = HUGGINGFACE("Gemma3ForCausalLM", GEMMA3_KEYS, check_gemma3, write_gemma3);
const ls_second_name ls_decoder_second[] = { { "lm_head.weight", "model.embed_tokens.weight", true, NULL },
                                             { NULL, NULL, false, NULL } };

const ls_key ls_decoder_keys[] = {
    { "model.kv_heads", LS_KEY_INT, AT(model.kv_heads), "0", 0, 10000, .type = "model.type",
      .help = "key and value heads (grouped-query attention); divides `heads`; 0: as many as `heads`" },
    { "model.rope_theta", LS_KEY_REAL, AT(model.rope_theta), "10000", 1, 1e12, .type = "model.type",
      .help = "base of the rotary positions" },
    { "model.rope_scaling", LS_KEY_CHOICE, AT(model.rope_scaling), "default",
      WORDS([LS_ROPE_DEFAULT] = "default", [LS_ROPE_LINEAR] = "linear", [LS_ROPE_LLAMA3] = "llama3"),
      .type = "model.type",
      .help = "slower rotations for longer texts: `linear` divides all by `rope_factor`; `llama3` (Llama 3.1 "
              "and later) divides the slow ones and leaves the fast ones" },
    { "model.rope_factor", LS_KEY_REAL, AT(model.rope_factor), "1", 1, 1e6, .type = "model.type",
      NEEDS("model.rope_scaling !default"), .help = "by which `rope_scaling` divides rotations" },
    { "model.rope_low", LS_KEY_REAL, AT(model.rope_low), "1", 0, 1e6, .above = true, .type = "model.type",
      NEEDS("model.rope_scaling llama3"),
      .help = "rotations with fewer whole turns than this in `rope_original` tokens are divided" },
    { "model.rope_high", LS_KEY_REAL, AT(model.rope_high), "4", 0, 1e6, .above = true, .type = "model.type",
      NEEDS("model.rope_scaling llama3"),
      .help = "rotations with more whole turns than this in `rope_original` tokens stay; above `rope_low`" },
    { "model.rope_original", LS_KEY_INT, AT(model.rope_original), "8192", 1, 1e9, .type = "model.type",
      NEEDS("model.rope_scaling llama3"),
      .help = "tokens of the texts that the model was first trained with" },
    { "model.window", LS_KEY_INT, AT(model.window), "0", 0, 1e9, .type = "model.type",
      .help = "tokens that a token sees: itself and those before it; 0: all. gemma3_text: in the layers that "
              "`global_every` leaves" },
    { "model.global_every", LS_KEY_INT, AT(model.global_every), "6", 1, 10000, .type = "model.type",
      .help = "each layer whose number, from 1, is a multiple of this sees all tokens and has `rope_theta`" },
    { "model.local_theta", LS_KEY_REAL, AT(model.local_theta), "10000", 1, 1e12, .type = "model.type",
      .help = "base of the rotary positions in the layers with a window" },
    { "model.query_scalar", LS_KEY_REAL, AT(model.query_scalar), "0", 0, 1e6, .type = "model.type",
      .help = "attention's scores are divided by the square root of it; 0: `head_dim`" },
    { "model.experts", LS_KEY_INT, AT(model.experts), "8", 1, 512, .type = "model.type",
      .help = "MLPs of a layer, of which each token takes `experts_per_token` (docs/text.md); memory is that "
              "of all, arithmetic that of those taken" },
    { "model.experts_per_token", LS_KEY_INT, AT(model.experts_per_token), "2", 1, 512, .type = "model.type",
      .help = "experts that a token goes to: those that the router finds most probable; at most `experts`" },
    { "model.expert_size", LS_KEY_INT, AT(model.expert_size), "128", 1, 1e6, .type = "model.type",
      .help = "width inside an expert; mixtral and olmoe: `mlp_size`" },
    { "model.experts_every", LS_KEY_INT, AT(model.experts_every), "1", 1, 10000, .type = "model.type",
      .help = "each layer whose number, from 1, is a multiple of this has experts; the others have one MLP" },
    { "model.normalize_experts", LS_KEY_BOOL, AT(model.normalize_experts), "false", .type = "model.type",
      .help = "a token's experts count by their probabilities divided by the sum of these; mixtral: always" },
    { "model.shared_expert_size", LS_KEY_INT, AT(model.shared_expert_size), "128", 1, 1e6,
      .type = "model.type", .help = "width of the MLP that every token takes beside its experts" },
    { "model.balance", LS_KEY_REAL, AT(model.balance), "0.001", 0, 1e6, .type = "model.type",
      .help = "factor of the loss `balance`, which spreads the tokens of a sample evenly over experts; 0: it "
              "is a metric of evaluations" },
    { "model.clip_qkv", LS_KEY_REAL, AT(model.clip_qkv), "0", 0, 1e6, .type = "model.type",
      .help = "queries, keys and values are clamped to so much above and below 0; 0: they are not" },
};

extern const ls_model_row ls_llama_row, ls_qwen2_row, ls_qwen3_row, ls_mistral_row, ls_gemma3_row;
const ls_model_row ls_llama_row = DECODER_ROW("llama", "", ls_recipe_decoder_check, LLAMA,
                                              .block = "LlamaDecoderLayer"),
                   ls_qwen2_row = DECODER_ROW("qwen2", "", ls_recipe_decoder_check, QWEN2,
                                              .block = "Qwen2DecoderLayer", .qkv_bias = true),
                   ls_qwen3_row = DECODER_ROW("qwen3", "", ls_recipe_decoder_check, QWEN3,
                                              .block = "Qwen3DecoderLayer", .head_norms = true),
                   ls_mistral_row = DECODER_ROW("mistral", " window", ls_recipe_decoder_check, MISTRAL,
                                                .block = "MistralDecoderLayer"),
                   ls_gemma3_row = DECODER_ROW("gemma3_text", " window global_every local_theta query_scalar",
                                               ls_recipe_decoder_check, GEMMA3, .block = "Gemma3DecoderLayer",
                                               .head_norms = true, .gemma = true);
