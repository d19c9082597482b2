/* model_gpt2.c - the row of Hugging Face's GPT2LMHeadModel. The keys of its config.json, and the values of
 * absent keys, are those of transformers 4 and 5 (configuration_gpt2.py). */
#include "data_row.h"
#include "model_row.h"
#include "recipe_setting.h"

static void config_of(ls_gpt2_config *out, const ls_recipe *r)
{
    *out = (ls_gpt2_config){ .seq_length = r->data.seq_length,
                             .positions = r->model.positions,
                             .vocab_size = r->model.vocab_size,
                             .hidden_size = r->model.hidden_size,
                             .mlp_size = r->model.mlp_size,
                             .layers = r->model.layers,
                             .heads = r->model.heads,
                             .norm_eps = r->model.norm_eps,
                             .init_deviation = r->model.init_deviation,
                             .dropout = r->model.dropout,
                             .attention_dropout = r->model.attention_dropout,
                             .tied = r->model.tied,
                             .packed = ls_recipe_pack(r) == LS_PACK_DOCUMENTS };
}

static ls_status gpt2_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    (void)preset;
    ls_gpt2_config c;
    config_of(&c, r);
    return ls_gpt2_build(g, &c, batch);
}

static ls_status gpt2_generation(ls_generation *out, const ls_recipe *r, const void *preset, ls_arena *a)
{
    ls_gpt2_config *c = LS_ARENA_NEW(a, ls_gpt2_config);
    (void)preset;
    LS_TRY(ls_arena_status(a));
    config_of(c, r);
    *out = ls_gpt2_generation(c);
    return LS_OK;
}

static ls_status gpt2_check(const ls_recipe *r)
{
    LS_TRY(ls_recipe_check_heads(r, false));
    if (r->data.seq_length > r->model.positions)
        return ls_fail(LS_E_USAGE, "%s: %lld tokens, and the model has %lld positions; set data.seq_length",
                       ls_recipe_where_either(r, "data.seq_length", "model.positions"),
                       (long long)r->data.seq_length, (long long)r->model.positions);
    return LS_OK;
}

/* ---- config.json */

static const ls_config_key KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "50257"),
    LS_CONFIG_READ_OR("n_positions", "model.positions", "1024"),
    LS_CONFIG_READ_OR("n_embd", "model.hidden_size", "768"),
    LS_CONFIG_READ_OR("n_layer", "model.layers", "12"),
    LS_CONFIG_READ_OR("n_head", "model.heads", "12"),
    { "n_inner", "model.mlp_size", .absent = "4", .times = "model.hidden_size" },
    LS_CONFIG_READ_OR("layer_norm_epsilon", "model.norm_eps", "1e-5"),
    LS_CONFIG_READ("initializer_range", "model.init_deviation"),
    LS_CONFIG_READ_OR("resid_pdrop", "model.dropout", "0.1"),
    LS_CONFIG_READ_OR("attn_pdrop", "model.attention_dropout", "0.1"),
    LS_CONFIG_READ_OR("tie_word_embeddings", "model.tied", "true"),
    LS_CONFIG_NO_EFFECT("embd_pdrop"), /* is resid_pdrop: check_config */
    LS_CONFIG_ONLY("activation_function", "\"gelu_new\" \"gelu_pytorch_tanh\""),
    LS_CONFIG_ONLY("scale_attn_weights", "true"),
    LS_CONFIG_OFF("scale_attn_by_inverse_layer_idx"),
    LS_CONFIG_OFF("add_cross_attention"),
    LS_CONFIG_OFF("is_encoder_decoder"),
    LS_CONFIG_NO_EFFECT("is_decoder"),
    LS_CONFIG_NO_EFFECT("reorder_and_upcast_attn"), /* the order in which the same product is scaled */
    LS_CONFIG_NO_EFFECT("n_ctx"),
    LS_CONFIG_NO_EFFECT("summary_type"), /* heads for other tasks */
    LS_CONFIG_NO_EFFECT("summary_use_proj"),
    LS_CONFIG_NO_EFFECT("summary_activation"),
    LS_CONFIG_NO_EFFECT("summary_proj_to_labels"),
    LS_CONFIG_NO_EFFECT("summary_first_dropout"),
    LS_CONFIG_END,
};

static double dropout_of(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_is_number(value) ? json_number_value(value) : 0.1;
}

/* One key of the recipe is both probabilities of dropout. */
static ls_status check_config(json_t *config, const char *path)
{
    if (dropout_of(config, "embd_pdrop") != dropout_of(config, "resid_pdrop"))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: \"embd_pdrop\" is %g and \"resid_pdrop\" %g: this version has one probability "
                       "for both; give them the same value",
                       path, dropout_of(config, "embd_pdrop"), dropout_of(config, "resid_pdrop"));
    return LS_OK;
}

static void write_config(ls_json *j, const ls_recipe *r)
{
    ls_json_text(j, "activation_function", "gelu_new");
    ls_config_real(j, "attn_pdrop", r->model.attention_dropout);
    ls_config_real(j, "embd_pdrop", r->model.dropout);
    ls_json_f64(j, "initializer_range", r->model.init_deviation);
    ls_json_f64(j, "layer_norm_epsilon", r->model.norm_eps);
    ls_json_text(j, "model_type", "gpt2");
    ls_json_int(j, "n_embd", r->model.hidden_size);
    ls_json_int(j, "n_head", r->model.heads);
    ls_json_int(j, "n_inner", r->model.mlp_size);
    ls_json_int(j, "n_layer", r->model.layers);
    ls_json_int(j, "n_positions", r->model.positions);
    ls_config_real(j, "resid_pdrop", r->model.dropout);
    ls_json_bool(j, "tie_word_embeddings", r->model.tied);
}

static const ls_huggingface GPT2 = { .architecture = "GPT2LMHeadModel",
                                     .most_tokens = "n_positions",
                                     .keys = KEYS,
                                     .prefix = "transformer.",
                                     .check = check_config,
                                     .write = write_config };
static const ls_second_name SECOND[] = { { "lm_head.weight", "transformer.wte.weight", true, NULL },
                                         /* masks of causal attention, in older files */
                                         { "transformer.h.*.attn.bias", NULL, false, NULL },
                                         { "transformer.h.*.attn.masked_bias", NULL, false, NULL },
                                         { NULL, NULL, false, NULL } };

extern const ls_model_row ls_gpt2_row;
const ls_model_row ls_gpt2_row = {
    .name = "gpt2",
    .keys = "layers heads hidden_size mlp_size vocab_size norm_eps positions tied init_deviation dropout "
            "attention_dropout",
    .samples = LS_SAMPLES_TEXT,
    .build = gpt2_build,
    .check = gpt2_check,
    .generation = gpt2_generation,
    .huggingface = &GPT2,
    .transposed = true,
    .second_names = SECOND
};
