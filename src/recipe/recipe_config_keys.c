/* recipe_config_keys.c - every key of config.json that this version knows, for each model of Hugging Face's that it
 * reads. A key is read, or must have one of the values that are computed here, or changes nothing that a model
 * computes. Any other key is refused. Names, meanings and defaults are those of transformers 4 and 5
 * (configuration_NAME.py, configuration_utils.py). */
#include <string.h>
#include "recipe_fields.h"

/* Rows: read; read, with the value of a file that has not got it; must be one of these; a bool that must be off; changes nothing. */
#define READ_OR(key, ours, absent) { key, ours, absent, NULL }
#define READ(key, ours) { key, ours, NULL, NULL }
#define ONLY(key, values) { key, NULL, NULL, values }
#define OFF(key) ONLY(key, "false")
#define FREE(key) { key, NULL, NULL, NULL }
#define END { NULL, NULL, NULL, NULL }

/* Newer files keep what concerns positions in rope_parameters, older ones in rope_theta and rope_scaling. */
#define ROPE \
    READ("rope_parameters.rope_theta", "model.rope_theta"), READ_OR("rope_theta", "model.rope_theta", "10000"), \
    READ("rope_scaling.rope_theta", "model.rope_theta"), ONLY("rope_parameters.rope_type", "\"default\""), \
    ONLY("rope_parameters.partial_rotary_factor", "1"), ONLY("partial_rotary_factor", "1"), \
    ONLY("rope_scaling.rope_type", "\"default\""), ONLY("rope_scaling.type", "\"default\"")

/* max_position_embeddings: a length for generation (train/folder.c); plain rotary positions have none. */
#define DECODER \
    READ_OR("num_hidden_layers", "model.layers", "32"), READ_OR("num_attention_heads", "model.heads", "32"), \
    READ("head_dim", "model.head_dim"), READ_OR("hidden_size", "model.hidden_size", "4096"), \
    READ_OR("rms_norm_eps", "model.norm_eps", "1e-6"), ROPE, READ("tie_word_embeddings", "model.tied"), \
    READ("initializer_range", "model.init_deviation"), READ("attention_dropout", "model.attention_dropout"), \
    ONLY("hidden_act", "\"silu\" \"swish\""), OFF("attention_bias"), OFF("mlp_bias"), \
    OFF("is_encoder_decoder"), OFF("add_cross_attention"), FREE("is_decoder"), ONLY("is_causal", "true"), \
    FREE("max_position_embeddings")

static const ls_config_key LLAMA[] = {
    READ_OR("vocab_size", "model.vocab_size", "32000"),
    READ_OR("intermediate_size", "model.mlp_size", "11008"),
    READ("num_key_value_heads", "model.kv_heads"),
    DECODER,
    OFF("rope_interleaved"),
    FREE("pretraining_tp"),
    FREE("max_sequence_length"),
    FREE("is_llama_config"),
    END,
};
static const ls_config_key QWEN2[] = {
    READ_OR("vocab_size", "model.vocab_size", "151936"),
    READ_OR("intermediate_size", "model.mlp_size", "22016"),
    READ("num_key_value_heads", "model.kv_heads"),
    DECODER,
    OFF("use_sliding_window"),
    FREE("sliding_window"), /* without use_sliding_window these two say nothing */
    FREE("max_window_layers"),
    ONLY("layer_types", "\"full_attention\""),
    OFF("use_mrope"),
    END,
};
static const ls_config_key T5[] = {
    READ_OR("vocab_size", "model.vocab_size", "32128"),
    READ_OR("d_model", "model.hidden_size", "512"),
    READ_OR("d_kv", "model.head_dim", "64"),
    READ_OR("d_ff", "model.mlp_size", "2048"),
    READ_OR("num_layers", "model.layers", "6"),
    READ("num_decoder_layers", "model.decoder_layers"),
    READ_OR("num_heads", "model.heads", "8"),
    READ("relative_attention_num_buckets", "model.position_buckets"),
    READ("relative_attention_max_distance", "model.position_distance"),
    READ("layer_norm_epsilon", "model.norm_eps"),
    READ("initializer_factor", "model.init_factor"),
    { "feed_forward_proj", "model.feed_forward", .only = "\"relu\" \"gated-gelu\"" },
    ONLY("dense_act_fn", "\"relu\" \"gelu_new\""), /* this and the next must agree with feed_forward_proj */
    ONLY("is_gated_act", "false true"),
    READ_OR("tie_word_embeddings", "model.tied", "true"),
    READ("scale_decoder_outputs", "model.scale_output"),
    READ_OR("dropout_rate", "model.dropout", "0.1"),
    READ("decoder_start_token_id", "model.start_token"),
    ONLY("pad_token_id", "0"), /* data.type pairs fills sources up with it */
    ONLY("is_encoder_decoder", "true"),
    OFF("is_decoder"),
    OFF("add_cross_attention"),
    OFF("tie_encoder_decoder"),
    FREE("classifier_dropout"),
    FREE("n_positions"),
    FREE("output_past"),
    END,
};

static const struct { const char *model; const ls_config_key *keys; } FAMILIES[] = {
    { "llama", LLAMA }, { "qwen2", QWEN2 }, { "t5", T5 },
};

const ls_config_key *ls_config_keys(const char *model_type)
{
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        if (!strcmp(FAMILIES[i].model, model_type))
            return FAMILIES[i].keys;
    return NULL;
}

const char *const LS_CONFIG_FREE[] = {
    /* where the file comes from, and types in memory */
    "_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "dtype",
    "model_type", "name_or_path", "tokenizer_class", "torch_dtype", "torchscript", "transformers.js_config",
    "transformers_version", "unsloth_fixed", "unsloth_version", "use_bfloat16",
    /* how a call computes and what it returns */
    "chunk_size_feed_forward", "gradient_checkpointing", "output_attentions", "output_hidden_states", "return_dict",
    "tf_legacy_loss", "use_cache",
    /* heads for other tasks */
    "finetuning_task", "id2label", "label2id", "num_labels", "problem_type", "task_specific_params",
    /* generation */
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "cls_token_id", "decoder_start_token_id",
    "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "encoder_repetition_penalty",
    "eos_token_id", "epsilon_cutoff", "eta_cutoff", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens", "min_length", "min_new_tokens",
    "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores", "pad_token_id",
    "penalty_alpha", "prefix", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
    "sep_token_id", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p", "unk_token_id", NULL,
};
