/* model_t5.c - the row of Hugging Face's T5ForConditionalGeneration. The keys of its config.json, and the
 * values of absent keys, are those of transformers 4 and 5 (configuration_t5.py). */
#include "key_row.h"
#include "model_row.h"
#include "recipe_setting.h"

#include <string.h>

static void config_of(ls_t5_config *out, const ls_recipe *r)
{
    *out = (ls_t5_config){ .source_length = r->data.source_length,
                           .target_length = r->data.target_length,
                           .vocab_size = r->model.vocab_size,
                           .hidden_size = r->model.hidden_size,
                           .mlp_size = r->model.mlp_size,
                           .layers = r->model.layers,
                           .decoder_layers = r->model.decoder_layers ? r->model.decoder_layers
                                                                     : r->model.layers,
                           .heads = r->model.heads,
                           .head_dim = ls_recipe_head_dim(r),
                           .buckets = r->model.position_buckets,
                           .max_distance = r->model.position_distance,
                           .norm_eps = r->model.norm_eps,
                           .init_factor = r->model.init_factor,
                           .gated = r->model.feed_forward == LS_FEED_FORWARD_GATED_GELU,
                           .tied = r->model.tied,
                           .scale_output = r->model.scale_output == LS_SCALE_OUTPUT_TRUE    ? 1
                                           : r->model.scale_output == LS_SCALE_OUTPUT_FALSE ? -1
                                                                                            : 0,
                           .dropout = r->model.dropout,
                           .pad_token = 0 /* the data set pads sources with it */,
                           .start_token = r->model.start_token };
}

static ls_status t5_build(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch)
{
    (void)preset;
    ls_t5_config c;
    config_of(&c, r);
    return ls_t5_build(g, &c, batch);
}

static ls_status t5_generation(ls_generation *out, const ls_recipe *r, const void *preset, ls_arena *a)
{
    ls_t5_config *c = LS_ARENA_NEW(a, ls_t5_config);
    (void)preset;
    LS_TRY(ls_arena_status(a));
    config_of(c, r);
    *out = ls_t5_generation(c);
    return LS_OK;
}

static ls_status t5_check(const ls_recipe *r)
{
    const long long buckets = r->model.position_buckets, far = r->model.position_distance;
    LS_TRY(ls_recipe_check_heads(r, true));
    if (buckets % 2)
        return ls_fail(LS_E_USAGE,
                       "%s: %lld is odd, and must be even: half of the buckets are for later tokens",
                       ls_recipe_where(r, "model.position_buckets"), buckets);
    if (far <= buckets / 2)
        return ls_fail(
            LS_E_USAGE, "%s: %lld must be above %lld, because smaller distances have a bucket each",
            ls_recipe_where_either(r, "model.position_distance", "model.position_buckets"), far, buckets / 2);
    if (r->model.start_token >= r->model.vocab_size)
        return ls_fail(LS_E_USAGE, "%s: token id %lld is out of range: the vocabulary has ids 0 to %lld",
                       ls_recipe_where_either(r, "model.start_token", "model.vocab_size"),
                       (long long)r->model.start_token, (long long)r->model.vocab_size - 1);
    return LS_OK;
}

/* ---- config.json */

static const ls_config_key KEYS[] = {
    LS_CONFIG_READ_OR("vocab_size", "model.vocab_size", "32128"),
    LS_CONFIG_READ_OR("d_model", "model.hidden_size", "512"),
    LS_CONFIG_READ_OR("d_kv", "model.head_dim", "64"),
    LS_CONFIG_READ_OR("d_ff", "model.mlp_size", "2048"),
    LS_CONFIG_READ_OR("num_layers", "model.layers", "6"),
    LS_CONFIG_READ("num_decoder_layers", "model.decoder_layers"),
    LS_CONFIG_READ_OR("num_heads", "model.heads", "8"),
    LS_CONFIG_READ("relative_attention_num_buckets", "model.position_buckets"),
    LS_CONFIG_READ("relative_attention_max_distance", "model.position_distance"),
    LS_CONFIG_READ("layer_norm_epsilon", "model.norm_eps"),
    LS_CONFIG_READ("initializer_factor", "model.init_factor"),
    { "feed_forward_proj", "model.feed_forward", .only = "\"relu\" \"gated-gelu\"" },
    LS_CONFIG_ONLY("dense_act_fn",
                   "\"relu\" \"gelu_new\""), /* this and the next must agree with feed_forward_proj */
    LS_CONFIG_ONLY("is_gated_act", "false true"),
    LS_CONFIG_READ_OR("tie_word_embeddings", "model.tied", "true"),
    LS_CONFIG_READ("scale_decoder_outputs", "model.scale_output"),
    LS_CONFIG_READ_OR("dropout_rate", "model.dropout", "0.1"),
    LS_CONFIG_READ("decoder_start_token_id", "model.start_token"),
    LS_CONFIG_ONLY("pad_token_id", "0"), /* data.type pairs pads sources with it */
    LS_CONFIG_ONLY("is_encoder_decoder", "true"),
    LS_CONFIG_OFF("is_decoder"),
    LS_CONFIG_OFF("add_cross_attention"),
    LS_CONFIG_OFF("tie_encoder_decoder"),
    LS_CONFIG_NO_EFFECT("classifier_dropout"),
    LS_CONFIG_NO_EFFECT("n_positions"),
    LS_CONFIG_NO_EFFECT("output_past"),
    LS_CONFIG_END,
};

/* A newer config.json also has the keys that transformers derives from feed_forward_proj. transformers uses
 * them, so they must agree with it. */
static ls_status check_config(json_t *config, const char *path)
{
    const char *mlp = json_string_value(json_object_get(config, "feed_forward_proj"));
    const char *act = json_string_value(json_object_get(config, "dense_act_fn"));
    const json_t *gated = json_object_get(config, "is_gated_act");
    const bool want = mlp && !strcmp(mlp, "gated-gelu");
    if ((act && strcmp(act, want ? "gelu_new" : "relu")) ||
        (json_is_boolean(gated) && json_is_true(gated) != want))
        return ls_fail(LS_E_UNSUPPORTED,
                       "%s: \"feed_forward_proj\" is %s, \"dense_act_fn\" %s, \"is_gated_act\" %s: this "
                       "version has relu with relu and false, and gated-gelu with gelu_new and true",
                       path, mlp ? mlp : "missing", act ? act : "missing",
                       !gated                ? "missing"
                       : json_is_true(gated) ? "true"
                                             : "false");
    return LS_OK;
}

/* transformers 5 writes tie_word_embeddings true for every T5. A T5 v1.1 has a head of its own; it is
 * recognized by weights of the head that are not the table's. It scales unless scale_decoder_outputs is
 * false. */
static const ls_config_key UNTIED[] = {
    LS_CONFIG_READ_OR("scale_decoder_outputs", "model.scale_output", "true"), LS_CONFIG_END
};

static void write_config(ls_json *j, const ls_recipe *r)
{
    ls_json_int(j, "d_ff", r->model.mlp_size);
    ls_json_int(j, "d_kv", ls_recipe_head_dim(r));
    ls_json_int(j, "d_model", r->model.hidden_size);
    ls_json_int(j, "decoder_start_token_id", r->model.start_token);
    ls_config_real(j, "dropout_rate", r->model.dropout);
    ls_json_text(j, "feed_forward_proj",
                 r->model.feed_forward == LS_FEED_FORWARD_RELU ? "relu" : "gated-gelu");
    ls_config_real(j, "initializer_factor", r->model.init_factor);
    ls_json_bool(j, "is_encoder_decoder", true);
    ls_config_real(j, "layer_norm_epsilon", r->model.norm_eps);
    ls_json_text(j, "model_type", "t5");
    ls_json_int(j, "num_decoder_layers", r->model.decoder_layers ? r->model.decoder_layers : r->model.layers);
    ls_json_int(j, "num_heads", r->model.heads);
    ls_json_int(j, "num_layers", r->model.layers);
    ls_json_int(j, "pad_token_id", 0);
    ls_json_int(j, "relative_attention_max_distance", r->model.position_distance);
    ls_json_int(j, "relative_attention_num_buckets", r->model.position_buckets);
    const ls_scale_output scale = r->model.scale_output;
    ls_json_bool(j, "scale_decoder_outputs",
                 scale == LS_SCALE_OUTPUT_AUTO ? r->model.tied : scale == LS_SCALE_OUTPUT_TRUE);
    ls_json_bool(j, "tie_word_embeddings", r->model.tied);
}

static const ls_huggingface T5 = { .architecture = "T5ForConditionalGeneration",
                                   .most_tokens = "n_positions",
                                   .keys = KEYS,
                                   .check = check_config,
                                   .untied = UNTIED,
                                   .write = write_config };
static const ls_second_name SECOND[] = {
    { "encoder.embed_tokens.weight", "shared.weight", false, NULL },
    { "decoder.embed_tokens.weight", "shared.weight", false, NULL },
    { "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", NULL, false,
      NULL }, /* published files have it; no layer uses it */
    { "lm_head.weight", "shared.weight", true, NULL },
    { NULL, NULL, false, NULL },
};

static const ls_key T5_ROWS[] = {
    { "model.decoder_layers", LS_KEY_INT, AT(model.decoder_layers), "0", 0, 10000, .type = "model.type",
      .help = "blocks of the decoder; 0: `layers`" },
    { "model.feed_forward", LS_KEY_CHOICE, AT(model.feed_forward), "relu",
      WORDS([LS_FEED_FORWARD_RELU] = "relu", [LS_FEED_FORWARD_GATED_GELU] = "gated-gelu"),
      .type = "model.type", .help = "a block's MLP: `relu` (the first T5) or `gated-gelu` (T5 v1.1)" },
    { "model.position_buckets", LS_KEY_INT, AT(model.position_buckets), "32", 4, 1e6, .type = "model.type",
      .help = "number of buckets of relative positions; even" },
    { "model.position_distance", LS_KEY_INT, AT(model.position_distance), "128", 2, 1e9, .type = "model.type",
      .help = "distances from here on share one bucket; greater than position_buckets / 2" },
    { "model.init_factor", LS_KEY_REAL, AT(model.init_factor), "1", 0, 100, .above = true,
      .type = "model.type", .help = "factor of the standard deviations of initial weights" },
    { "model.scale_output", LS_KEY_CHOICE, AT(model.scale_output), "auto",
      WORDS([LS_SCALE_OUTPUT_AUTO] = "auto", [LS_SCALE_OUTPUT_TRUE] = "true",
            [LS_SCALE_OUTPUT_FALSE] = "false"),
      .type = "model.type",
      .help = "multiply the input of the output layer by hidden_size^-0.5; `auto`: if `tied`" },
    { "model.start_token", LS_KEY_INT, AT(model.start_token), "0", 0, 1e9, .type = "model.type",
      .help = "first token id of the decoder" },
};

extern const ls_model_row ls_t5_row;
const ls_model_row ls_t5_row = {
    .name = "t5",
    .keys = "layers heads hidden_size mlp_size vocab_size head_dim norm_eps tied decoder_layers feed_forward "
            "position_buckets position_distance init_factor scale_output start_token dropout "
            "tokens beams no_repeat length_penalty samples",
    OWN_KEYS(T5_ROWS),
    .samples = LS_SAMPLES_PAIRS,
    .build = t5_build,
    .check = t5_check,
    .generation = t5_generation,
    .huggingface = &T5,
    .second_names = SECOND
};
