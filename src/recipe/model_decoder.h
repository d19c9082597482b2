/* model_decoder.h - what the rows of the models that predict the next token share: model_decoder.c has those
 * whose tokens all go through the same layers, model_experts.c those with a mixture of experts. */
#pragma once
#include "key_row.h"
#include "model_row.h"

/* What distinguishes the models. */
typedef struct ls_decoder_preset {
    const char *block; /* the class of a layer */
    /* of ls_decoder_config */
    bool qkv_bias, head_norms, gemma, whole_norms, mixtral_names;
    bool experts;   /* it has them */
    bool sizes;     /* they have a width of their own, expert_size, and not every layer need have them */
    bool shared;    /* every token also takes an MLP of shared_expert_size */
    bool normalize; /* always; else the recipe says it */
} ls_decoder_preset;

ls_status ls_recipe_decoder_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch);
ls_status ls_recipe_decoder_generation(ls_generation *out, const ls_recipe *r, const void *preset,
                                       ls_arena *a);
ls_status ls_recipe_decoder_check(const ls_recipe *r);

/* ---- config.json */

/* A kind of scaling needs its numbers, as in transformers; with `window`, a window of null is none. */
ls_status ls_decoder_check_rope(json_t *config, const char *path);
ls_status ls_decoder_check_window(json_t *config, const char *path);
/* The keys that all models here share. `usual` is the number of positions of the published models; act NULL:
 * the activation has another key. */
void ls_decoder_write(ls_json *j, const ls_recipe *r, int64_t usual, const char *act);
void ls_decoder_write_window(ls_json *j, const ls_recipe *r); /* sliding_window, or null */

/* Newer files describe positions in rope_parameters, older ones in rope_theta and rope_scaling. */
#define ROPE_IN(object)                                                                       \
    LS_CONFIG_READ(object ".rope_theta", "model.rope_theta"), ROPE_KIND(object ".rope_type"), \
        LS_CONFIG_READ(object ".factor", "model.rope_factor"),                                \
        LS_CONFIG_READ(object ".low_freq_factor", "model.rope_low"),                          \
        LS_CONFIG_READ(object ".high_freq_factor", "model.rope_high"),                        \
        LS_CONFIG_READ(object ".original_max_position_embeddings", "model.rope_original")
#define ROPE_KIND(key)                                                                             \
    {                                                                                              \
        .theirs = (key), .ours = "model.rope_scaling", .only = "\"default\" \"linear\" \"llama3\"" \
    }
#define ROPE                                                                                        \
    ROPE_IN("rope_parameters"), LS_CONFIG_READ_OR("rope_theta", "model.rope_theta", "10000"),       \
        ROPE_IN("rope_scaling"), ROPE_KIND("rope_scaling.type"), ROPE_KIND("rope_parameters.type"), \
        LS_CONFIG_ONLY("rope_parameters.partial_rotary_factor", "1"),                               \
        LS_CONFIG_ONLY("partial_rotary_factor", "1")

/* max_position_embeddings has no effect on the model, because rotary positions have no limit. It limits
 * generation (setup/folder.c). */
#define COMMON                                                                                           \
    LS_CONFIG_READ("head_dim", "model.head_dim"),                                                        \
        LS_CONFIG_READ_OR("rms_norm_eps", "model.norm_eps", "1e-6"),                                     \
        LS_CONFIG_READ("initializer_range", "model.init_deviation"),                                     \
        LS_CONFIG_READ("attention_dropout", "model.attention_dropout"), LS_CONFIG_OFF("attention_bias"), \
        LS_CONFIG_OFF("mlp_bias"), LS_CONFIG_OFF("is_encoder_decoder"),                                  \
        LS_CONFIG_OFF("add_cross_attention"), LS_CONFIG_NO_EFFECT("is_decoder"),                         \
        LS_CONFIG_ONLY("is_causal", "true"), LS_CONFIG_NO_EFFECT("max_position_embeddings")
#define DECODER                                                              \
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "32"),            \
        LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "32"),       \
        LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "4096"), ROPE, \
        LS_CONFIG_READ("tie_word_embeddings", "model.tied"),                 \
        LS_CONFIG_ONLY("hidden_act", "\"silu\" \"swish\""), COMMON

/* Without use_sliding_window, sliding_window and max_window_layers have no effect. */
#define QWEN                                                                                           \
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "151936"), DECODER,                            \
        LS_CONFIG_OFF("use_sliding_window"), LS_CONFIG_NO_EFFECT("sliding_window"),                    \
        LS_CONFIG_NO_EFFECT("max_window_layers"), LS_CONFIG_ONLY("layer_types", "\"full_attention\""), \
        LS_CONFIG_OFF("use_mrope")

#define HUGGINGFACE(its_class, its_keys, its_check, its_write)                                 \
    {                                                                                          \
        .architecture = its_class, .most_tokens = "max_position_embeddings", .keys = its_keys, \
        .check = its_check, .write = its_write                                                 \
    }
enum { LS_DECODER_KEYS = 19 };
extern const ls_key ls_decoder_keys[LS_DECODER_KEYS];
extern const ls_second_name ls_decoder_second[];
#define DECODER_ROW(word, its_keys, its_recipe_check, its_huggingface, ...)                          \
    {                                                                                                \
        .name = word, .preset = &(const ls_decoder_preset){ __VA_ARGS__ },                           \
        .keys = "layers heads hidden_size mlp_size vocab_size kv_heads head_dim norm_eps rope_theta" \
                " rope_scaling rope_factor rope_low rope_high rope_original tied init_deviation"     \
                " attention_dropout" its_keys,                                                       \
        .own = ls_decoder_keys, .n_own = LS_DECODER_KEYS, .samples = LS_SAMPLES_TEXT,                \
        .build = ls_recipe_decoder_build, .check = its_recipe_check,                                 \
        .generation = ls_recipe_decoder_generation, .huggingface = &(its_huggingface),               \
        .second_names = ls_decoder_second                                                            \
    }
