/* model_decoder.c - the rows of the models that predict the next token: Hugging Face's Llama and Qwen2. The
 * keys of their config.json, and the values of absent keys, are those of transformers 4 and 5
 * (configuration_llama.py, configuration_qwen2.py). */
#include "key_row.h"
#include "model_row.h"
#include "recipe_setting.h"

/* What distinguishes the models: the class of a layer, and whether q, k and v have a bias. */
typedef struct decoder_preset {
    const char *block;
    bool qkv_bias;
} decoder_preset;

static void decoder_config(ls_decoder_config *out, const ls_recipe *r, const void *preset)
{
    const decoder_preset *p = preset;
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
                                .packed = r->data.pack == LS_PACK_DOCUMENTS };
}

static ls_status decoder_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    ls_decoder_config c;
    decoder_config(&c, r, preset);
    return ls_decoder_build(g, &c, batch);
}

static ls_status decoder_generation(ls_generation *out, const ls_recipe *r, const void *preset, ls_arena *a)
{
    ls_decoder_config *c = LS_ARENA_NEW(a, ls_decoder_config);
    LS_TRY(ls_arena_status(a));
    decoder_config(c, r, preset);
    *out = ls_decoder_generation(c);
    return LS_OK;
}

static ls_status decoder_check(const ls_recipe *r)
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
    return LS_OK;
}

/* ---- config.json */

/* Newer files describe positions in rope_parameters, older ones in rope_theta and rope_scaling. */
#define ROPE                                                           \
    LS_CONFIG_READ("rope_parameters.rope_theta", "model.rope_theta"),  \
        LS_CONFIG_READ_OR("rope_theta", "model.rope_theta", "10000"),  \
        LS_CONFIG_READ("rope_scaling.rope_theta", "model.rope_theta"), \
        LS_CONFIG_ONLY("rope_parameters.rope_type", "\"default\""),    \
        LS_CONFIG_ONLY("rope_parameters.partial_rotary_factor", "1"),  \
        LS_CONFIG_ONLY("partial_rotary_factor", "1"),                  \
        LS_CONFIG_ONLY("rope_scaling.rope_type", "\"default\""),       \
        LS_CONFIG_ONLY("rope_scaling.type", "\"default\"")

/* max_position_embeddings has no effect on the model, because plain rotary positions have no limit. It limits
 * generation (setup/folder.c). */
#define DECODER                                                                              \
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "32"),                            \
        LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "32"),                       \
        LS_CONFIG_READ("head_dim", "model.head_dim"),                                        \
        LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "4096"),                       \
        LS_CONFIG_READ_OR("rms_norm_eps", "model.norm_eps", "1e-6"), ROPE,                   \
        LS_CONFIG_READ("tie_word_embeddings", "model.tied"),                                 \
        LS_CONFIG_READ("initializer_range", "model.init_deviation"),                         \
        LS_CONFIG_READ("attention_dropout", "model.attention_dropout"),                      \
        LS_CONFIG_ONLY("hidden_act", "\"silu\" \"swish\""), LS_CONFIG_OFF("attention_bias"), \
        LS_CONFIG_OFF("mlp_bias"), LS_CONFIG_OFF("is_encoder_decoder"),                      \
        LS_CONFIG_OFF("add_cross_attention"), LS_CONFIG_NO_EFFECT("is_decoder"),             \
        LS_CONFIG_ONLY("is_causal", "true"), LS_CONFIG_NO_EFFECT("max_position_embeddings")

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
static const ls_config_key QWEN2_KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "151936"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "22016"),
    LS_CONFIG_READ("num_key_value_heads", "model.kv_heads"),
    DECODER,
    LS_CONFIG_OFF("use_sliding_window"),
    LS_CONFIG_NO_EFFECT("sliding_window"), /* without use_sliding_window these two have no effect */
    LS_CONFIG_NO_EFFECT("max_window_layers"),
    LS_CONFIG_ONLY("layer_types", "\"full_attention\""),
    LS_CONFIG_OFF("use_mrope"),
    LS_CONFIG_END,
};

/* The keys that Llama and Qwen2 share. `usual` is the number of positions of the published models. */
static void write_both(ls_json *j, const ls_recipe *r, int64_t usual)
{
    ls_json_f64(j, "attention_dropout", r->model.attention_dropout);
    ls_json_int(j, "head_dim", ls_recipe_head_dim(r));
    ls_json_text(j, "hidden_act", "silu");
    ls_json_int(j, "hidden_size", r->model.hidden_size);
    ls_json_f64(j, "initializer_range", r->model.init_deviation);
    ls_json_int(j, "intermediate_size", r->model.mlp_size);
    ls_json_int(j, "max_position_embeddings", r->data.seq_length > usual ? r->data.seq_length : usual);
    ls_json_text(j, "model_type", r->model.type);
    ls_json_int(j, "num_attention_heads", r->model.heads);
    ls_json_int(j, "num_hidden_layers", r->model.layers);
    ls_json_int(j, "num_key_value_heads", r->model.kv_heads ? r->model.kv_heads : r->model.heads);
    ls_json_f64(j, "rms_norm_eps", r->model.norm_eps);
    ls_json_f64(j, "rope_theta", r->model.rope_theta);
    ls_json_bool(j, "tie_word_embeddings", r->model.tied);
}

static void write_llama(ls_json *j, const ls_recipe *r)
{
    ls_json_bool(j, "attention_bias", false);
    ls_json_bool(j, "mlp_bias", false);
    write_both(j, r, 2048);
}

static void write_qwen2(ls_json *j, const ls_recipe *r) { write_both(j, r, 32768); }

static const ls_huggingface LLAMA = { .architecture = "LlamaForCausalLM",
                                      .most_tokens = "max_position_embeddings",
                                      .keys = LLAMA_KEYS,
                                      .write = write_llama };
static const ls_huggingface QWEN2 = { .architecture = "Qwen2ForCausalLM",
                                      .most_tokens = "max_position_embeddings",
                                      .keys = QWEN2_KEYS,
                                      .write = write_qwen2 };
static const ls_second_name SECOND[] = { { "lm_head.weight", "model.embed_tokens.weight", true },
                                         { NULL, NULL, false } };

static const ls_key DECODER_ROWS[] = {
    { "model.kv_heads", LS_KEY_INT, AT(model.kv_heads), "0", 0, 10000, .type = "model.type",
      .help = "key and value heads (grouped-query attention); divides `heads`; 0: as many as `heads`" },
    { "model.rope_theta", LS_KEY_REAL, AT(model.rope_theta), "10000", 1, 1e12, .type = "model.type",
      .help = "base of the rotary positions" },
};

extern const ls_model_row ls_llama_row, ls_qwen2_row;
#define DECODER_ROW(word, its_block, its_qkv_bias, its_huggingface)                                         \
    {                                                                                                       \
        .name = word, .preset = &(const decoder_preset){ its_block, its_qkv_bias },                         \
        .keys = "layers heads hidden_size mlp_size vocab_size kv_heads head_dim norm_eps rope_theta"        \
                " tied init_deviation attention_dropout",                                                   \
        OWN_KEYS(DECODER_ROWS), .samples = LS_SAMPLES_TEXT, .build = decoder_build, .check = decoder_check, \
        .generation = decoder_generation, .huggingface = &(its_huggingface), .second_names = SECOND         \
    }
const ls_model_row ls_llama_row = DECODER_ROW("llama", "LlamaDecoderLayer", false, LLAMA);
const ls_model_row ls_qwen2_row = DECODER_ROW("qwen2", "Qwen2DecoderLayer", true, QWEN2);
