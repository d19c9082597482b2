/* model_experts.c - the rows of the models that predict the next token with a mixture of experts: Hugging
 * Face's Mixtral, Qwen2-MoE, Qwen3-MoE and OLMoE. The keys of their config.json, and the values of absent
 * keys, are those of transformers 4 and 5 (configuration_mixtral.py, ...). */
#include "data_row.h"
#include "model_decoder.h"
#include "recipe_setting.h"

static ls_status experts_check(const ls_recipe *r)
{
    LS_TRY(ls_recipe_decoder_check(r));
    if (r->model.experts_per_token > r->model.experts)
        return ls_fail(LS_E_USAGE, "%s: a token cannot go to %lld experts of %lld",
                       ls_recipe_where_either(r, "model.experts_per_token", "model.experts"),
                       (long long)r->model.experts_per_token, (long long)r->model.experts);
    return LS_OK;
}

/* ---- config.json */

/* Files name the number of experts in one of two ways. */
#define EXPERTS(published, per_token)                                                   \
    LS_CONFIG_READ_OR("num_experts", "model.experts", published),                       \
        LS_CONFIG_READ("num_local_experts", "model.experts"),                           \
        LS_CONFIG_READ_OR("num_experts_per_tok", "model.experts_per_token", per_token), \
        LS_CONFIG_READ("router_aux_loss_coef", "model.balance"),                        \
        LS_CONFIG_NO_EFFECT("output_router_logits") /* says whether the loss has it: check_balance */
#define SIZES(width)                                                             \
    LS_CONFIG_READ_OR("moe_intermediate_size", "model.expert_size", width),      \
        LS_CONFIG_READ_OR("decoder_sparse_step", "model.experts_every", "1"),    \
        LS_CONFIG_READ_OR("norm_topk_prob", "model.normalize_experts", "false"), \
        LS_CONFIG_NO_EFFECT("mlp_only_layers") /* check_sizes */

static const ls_config_key MIXTRAL_KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "32000"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "14336"),
    LS_CONFIG_READ_OR("num_key_value_heads", "model.kv_heads", "8"),
    LS_CONFIG_READ_OR("rms_norm_eps", "model.norm_eps", "1e-5"),
    ROPE_IN("rope_parameters"),
    LS_CONFIG_READ_OR("rope_theta", "model.rope_theta", "1e6"),
    DECODER,
    EXPERTS("8", "2"),
    LS_CONFIG_READ_OR("sliding_window", "model.window", "0"),
    LS_CONFIG_ONLY("router_jitter_noise", "0"),
    LS_CONFIG_END,
};
static const ls_config_key QWEN3_MOE_KEYS[] = {
    LS_CONFIG_READ_OR("num_key_value_heads", "model.kv_heads", "4"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "6144"),
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "24"),
    LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "2048"),
    EXPERTS("128", "8"),
    SIZES("768"),
    QWEN,
    LS_CONFIG_END,
};
static const ls_config_key QWEN2_MOE_KEYS[] = {
    LS_CONFIG_READ_OR("num_key_value_heads", "model.kv_heads", "16"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "5632"),
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "24"),
    LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "16"),
    LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "2048"),
    LS_CONFIG_READ_OR("shared_expert_intermediate_size", "model.shared_expert_size", "5632"),
    LS_CONFIG_ONLY("qkv_bias", "true"),
    EXPERTS("60", "4"),
    SIZES("1408"),
    QWEN,
    LS_CONFIG_END,
};
static const ls_config_key OLMOE_KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "50304"),
    LS_CONFIG_READ_OR("intermediate_size", "model.mlp_size", "2048"),
    LS_CONFIG_READ_OR("num_hidden_layers", "model.layers", "16"),
    LS_CONFIG_READ_OR("num_attention_heads", "model.heads", "16"),
    LS_CONFIG_READ("num_key_value_heads", "model.kv_heads"),
    LS_CONFIG_READ_OR("hidden_size", "model.hidden_size", "2048"),
    LS_CONFIG_READ_OR("rms_norm_eps", "model.norm_eps", "1e-5"),
    DECODER,
    EXPERTS("64", "8"),
    LS_CONFIG_READ_OR("norm_topk_prob", "model.normalize_experts", "false"),
    LS_CONFIG_READ("clip_qkv", "model.clip_qkv"),
    LS_CONFIG_END,
};

/* transformers adds the loss only if a model returns what its routers compute. */
static ls_status check_balance(json_t *config, const char *path)
{
    if (!json_is_true(json_object_get(config, "output_router_logits")))
        json_object_set_new(config, "router_aux_loss_coef", json_real(0));
    return ls_decoder_check_window(config, path);
}

/* OLMoE's is ten times that of the others. */
static ls_status check_olmoe(json_t *config, const char *path)
{
    if (!json_object_get(config, "router_aux_loss_coef"))
        json_object_set_new(config, "router_aux_loss_coef", json_real(0.01));
    return check_balance(config, path);
}

static ls_status check_sizes(json_t *config, const char *path)
{
    if (json_array_size(json_object_get(config, "mlp_only_layers")))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: \"mlp_only_layers\" names layers without experts: this version has experts in "
                       "each layer whose number is a multiple of \"decoder_sparse_step\"",
                       path);
    return check_balance(config, path);
}

static void write_experts(ls_json *j, const ls_recipe *r, const char *number)
{
    ls_decoder_write(j, r, 32768, "silu");
    ls_json_int(j, number, r->model.experts);
    ls_json_int(j, "num_experts_per_tok", r->model.experts_per_token);
    ls_json_bool(j, "output_router_logits", r->model.balance > 0);
    ls_config_real(j, "router_aux_loss_coef", r->model.balance);
}

static void write_mixtral(ls_json *j, const ls_recipe *r)
{
    write_experts(j, r, "num_local_experts");
    ls_decoder_write_window(j, r);
}

static void write_sizes(ls_json *j, const ls_recipe *r)
{
    write_experts(j, r, "num_experts");
    ls_json_int(j, "moe_intermediate_size", r->model.expert_size);
    ls_json_int(j, "decoder_sparse_step", r->model.experts_every);
    ls_json_bool(j, "norm_topk_prob", r->model.normalize_experts);
}

static void write_qwen2_moe(ls_json *j, const ls_recipe *r)
{
    write_sizes(j, r);
    ls_json_bool(j, "qkv_bias", true);
    ls_json_int(j, "shared_expert_intermediate_size", r->model.shared_expert_size);
}

static void write_olmoe(ls_json *j, const ls_recipe *r)
{
    write_experts(j, r, "num_experts");
    ls_json_bool(j, "norm_topk_prob", r->model.normalize_experts);
    if (r->model.clip_qkv > 0)
        ls_config_real(j, "clip_qkv", r->model.clip_qkv);
}

static const ls_huggingface MIXTRAL = HUGGINGFACE("MixtralForCausalLM", MIXTRAL_KEYS, check_balance,
                                                  write_mixtral),
                            QWEN2_MOE = HUGGINGFACE("Qwen2MoeForCausalLM", QWEN2_MOE_KEYS, check_sizes,
                                                    write_qwen2_moe),
                            QWEN3_MOE = HUGGINGFACE("Qwen3MoeForCausalLM", QWEN3_MOE_KEYS, check_sizes,
                                                    write_sizes),
                            OLMOE = HUGGINGFACE("OlmoeForCausalLM", OLMOE_KEYS, check_olmoe, write_olmoe);

extern const ls_model_row ls_mixtral_row, ls_qwen2_moe_row, ls_qwen3_moe_row, ls_olmoe_row;
#define EXPERT_KEYS " experts experts_per_token balance"
#define SIZE_KEYS EXPERT_KEYS " expert_size experts_every normalize_experts"
const ls_model_row ls_mixtral_row = DECODER_ROW("mixtral", " window" EXPERT_KEYS, experts_check, MIXTRAL,
                                                .block = "MixtralDecoderLayer", .experts = true,
                                                .normalize = true, .mixtral_names = true),
                   ls_qwen2_moe_row = DECODER_ROW("qwen2_moe", SIZE_KEYS " shared_expert_size", experts_check,
                                                  QWEN2_MOE, .block = "Qwen2MoeDecoderLayer",
                                                  .qkv_bias = true, .experts = true, .sizes = true,
                                                  .shared = true),
                   ls_qwen3_moe_row = DECODER_ROW("qwen3_moe", SIZE_KEYS, experts_check, QWEN3_MOE,
                                                  .block = "Qwen3MoeDecoderLayer", .head_norms = true,
                                                  .experts = true, .sizes = true),
                   ls_olmoe_row = DECODER_ROW("olmoe", EXPERT_KEYS " normalize_experts clip_qkv",
                                              experts_check, OLMOE, .block = "OlmoeDecoderLayer",
                                              .whole_norms = true, .experts = true);
