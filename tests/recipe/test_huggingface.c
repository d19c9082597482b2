/* test_huggingface.c - config.json of Hugging Face's models: which keys a recipe takes from it, what is
 * refused, and that a written file reads back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "lockstep/weights.h"
#include "recipe/model_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_read.h"
#include "support/support.h"

/* Qwen2.5-0.5B's, as published but for its order. */
#define QWEN2                                                                                               \
    "\"architectures\": [\"Qwen2ForCausalLM\"], \"attention_dropout\": 0.0, \"bos_token_id\": 151643, "     \
    "\"hidden_act\": \"silu\", \"hidden_size\": 896,"                                                       \
    "\"initializer_range\": 0.02, \"intermediate_size\": 4864, \"max_window_layers\": 24, \"model_type\": " \
    "\"qwen2\", \"num_attention_heads\": 14,"                                                               \
    "\"num_hidden_layers\": 24, \"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-06, \"sliding_window\": "  \
    "32768, \"tie_word_embeddings\": true,"                                                                 \
    "\"use_sliding_window\": false, \"rope_scaling\": null, \"vocab_size\": 151936"
/* t5-base's, as published but for what is for other tasks: much that it has it does not say. */
#define T5                                                                                                   \
    "\"architectures\": [\"T5ForConditionalGeneration\"], \"d_ff\": 3072, \"d_kv\": 64, \"d_model\": 768, "  \
    "\"decoder_start_token_id\": 0,"                                                                         \
    "\"dropout_rate\": 0.1, \"eos_token_id\": 1, \"initializer_factor\": 1.0, \"is_encoder_decoder\": "      \
    "true, \"layer_norm_epsilon\": 1e-06,"                                                                   \
    "\"model_type\": \"t5\", \"n_positions\": 512, \"num_heads\": 12, \"num_layers\": 12, \"output_past\": " \
    "true, \"pad_token_id\": 0,"                                                                             \
    "\"relative_attention_num_buckets\": 32, \"vocab_size\": 32128"
#define LLAMA \
    "\"model_type\": \"llama\", \"hidden_size\": 64, \"num_attention_heads\": 8, \"attention_bias\": false"

/* Not by ls_file_write, which waits for the disk: there are hundreds. */
static void write_config(const char *json)
{
    FILE *f = fopen(ls_test_path("config.json"), "w");
    assert_true(f && fputs(json, f) >= 0 && fclose(f) == 0);
}

static ls_status load(ls_recipe **r, const char *model, const char *set)
{
    char text[600];
    snprintf(text, sizeof text, "model: {%s, init: %s}\ndata: {type: %s, train_text: a, tokenizer: bytes}\n",
             model, ls_test_dir(), strstr(model, "t5") ? "pairs" : "text");
    return ls_recipe_load_text(r, text, strlen(text), "here.yaml", set != NULL, &set);
}

static void a_recipe_takes_what_it_does_not_say(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{" QWEN2 ", \"rope_theta\": 1000000.0}",
        "{" QWEN2 ", \"rope_parameters\": {\"rope_theta\": 1000000.0, \"rope_type\": \"default\"}}"
    };
    for (int i = 0; i < 2; i++) {
        ls_recipe *r;
        write_config(configs[i]);
        ASSERT_OK(load(&r, "type: qwen2, layers: 3", "model.mlp_size=40"));
        assert_true(r->model.hidden_size == 896 && r->model.heads == 14 && r->model.kv_heads == 2 &&
                    r->model.vocab_size == 151936 && r->model.tied);
        assert_true(r->model.norm_eps == 1e-6 && r->model.rope_theta == 1e6 &&
                    r->model.init_deviation == 0.02 && r->model.head_dim == 0);
        assert_true(r->model.layers == 3 && r->model.mlp_size == 40); /* said */
        assert_string_equal(ls_recipe_origin(r, "model.hidden_size"), ls_test_path("config.json"));
        assert_string_equal(ls_recipe_origin(r, "model.layers"), "here.yaml:1");
        ls_recipe_destroy(&r);
    }
}

/* Even what the model is. */
static void the_file_says_the_type(void **state)
{
    (void)state;
    static const char *const configs[] = { "{" QWEN2 "}", "{" LLAMA "}" }, *const types[] = { "qwen2",
                                                                                              "llama" };
    for (int i = 0; i < 2; i++) {
        ls_recipe *r;
        write_config(configs[i]);
        ASSERT_OK(load(&r, "layers: 3", NULL));
        assert_string_equal(r->model.type, types[i]);
        assert_string_equal(ls_recipe_origin(r, "model.type"), ls_test_path("config.json"));
        ls_recipe_destroy(&r);
    }
    ls_recipe *r = NULL;
    write_config("{\"model_type\": \"phi3\"}");
    ASSERT_FAILS(load(&r, "layers: 3", NULL), LS_E_UNSUPPORTED, "\"model_type\" is phi3");
    write_config("{\"layers\": 2}");
    ASSERT_FAILS(load(&r, "layers: 3", NULL), LS_E_USAGE, "model.type is missing");
}

static void and_a_t5(void **state)
{
    (void)state;
    ls_recipe *r;
    write_config("{" T5 "}");
    ASSERT_OK(load(&r, "type: t5, layers: 3", "model.mlp_size=40"));
    assert_true(r->model.hidden_size == 768 && r->model.heads == 12 && r->model.head_dim == 64 &&
                r->model.vocab_size == 32128 && r->model.tied);
    assert_true(r->model.norm_eps == 1e-6 && r->model.init_factor == 1 && r->model.position_buckets == 32 &&
                r->model.position_distance == 128);
    assert_true(r->model.feed_forward == LS_FEED_FORWARD_RELU && r->model.decoder_layers == 0 &&
                r->model.start_token == 0);
    assert_true(r->model.layers == 3 && r->model.mlp_size == 40 && r->model.dropout == 0.1); /* said */
    ls_recipe_destroy(&r);
    write_config("{" T5 ", \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false, "
                 "\"num_decoder_layers\": 2, \"relative_attention_max_distance\": 64}");
    ASSERT_OK(load(&r, "type: t5", NULL));
    assert_true(r->model.feed_forward == LS_FEED_FORWARD_GATED_GELU && !r->model.tied &&
                r->model.decoder_layers == 2 && r->model.position_distance == 64);
    ls_recipe_destroy(&r);
    write_config("{\"model_type\": \"t5\"}"); /* t5-small, which is what transformers makes of nothing */
    ASSERT_OK(load(&r, "type: t5", NULL));
    assert_true(r->model.hidden_size == 512 && r->model.heads == 8 && r->model.head_dim == 64 &&
                r->model.layers == 6 && r->model.mlp_size == 2048 && r->model.tied);
    ls_recipe_destroy(&r);
}

static void other_models_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *config, *says;
    } cases[] = {
        { "type: llama", "{" QWEN2 "}", "its \"model_type\" is qwen2, and the recipe's model.type llama" },
        { "type: llama", "{" LLAMA ", \"hidden_act\": \"gelu\"}",
          "\"hidden_act\" is \"gelu\"; this version has only \"silu\"" },
        { "type: llama", "{" LLAMA ", \"mlp_bias\": true}", "\"mlp_bias\" is true" },
        { "type: llama", "{" LLAMA ", \"attention_dropout\": 1.0}", "config.json model.attention_dropout" },
        { "type: llama", "{" LLAMA ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}",
          "\"rope_scaling.type\" is \"dynamic\"; this version has only \"default\" \"linear\" \"llama3\"" },
        { "type: llama", "{" LLAMA ", \"rope_scaling\": {\"type\": \"linear\"}}",
          "\"rope_scaling\" of type linear needs the number \"factor\"" },
        { "type: llama", "{" LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8.0}}",
          "\"rope_parameters\" of type llama3 needs the number \"low_freq_factor\"" },
        { "type: llama",
          "{" LLAMA ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
          "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}}",
          "needs the number \"original_max_position_embeddings\"" },
        { "type: qwen3", "{\"model_type\": \"qwen3\", \"use_sliding_window\": true}",
          "\"use_sliding_window\" is true" },
        { "type: gemma3_text", "{\"model_type\": \"gemma3_text\", \"final_logit_softcapping\": 30.0}",
          "\"final_logit_softcapping\" is 30.0; this version has only null" },
        { "type: gemma3_text",
          "{\"model_type\": \"gemma3_text\", \"layer_types\": [\"sliding_attention\", \"full_attention\", "
          "\"full_attention\"]}",
          "layer 2 does not follow the pattern of the first 2" },
        { "type: gpt2", "{\"model_type\": \"gpt2\", \"resid_pdrop\": 0.0}",
          "\"embd_pdrop\" is 0.1 and \"resid_pdrop\" 0: this version has one probability" },
        { "type: gpt2", "{\"model_type\": \"gpt2\", \"n_positions\": 100}",
          "512 tokens, and the model has 100 positions" },
        { "type: gpt2", "{\"model_type\": \"gpt2\", \"n_head\": 5}",
          "5 heads do not divide hidden_size 768" },
        { "type: llama", "{" LLAMA ", \"num_hidden_layers\": \"many\"}", "config.json model.layers" },
        { "type: llama", "{", "config.json" },
        { "type: t5", "{" LLAMA "}", "its \"model_type\" is llama, and the recipe's model.type t5" },
        { "type: t5", "{" T5 ", \"feed_forward_proj\": \"gated-silu\"}",
          "\"feed_forward_proj\" is \"gated-silu\"; this version has only \"relu\" \"gated-gelu\"" },
        { "type: t5", "{\"model_type\": \"t5\", \"pad_token_id\": 3}",
          "\"pad_token_id\" is 3; this version has only 0" },
        { "type: t5", "{\"model_type\": \"t5\", \"is_encoder_decoder\": false}",
          "\"is_encoder_decoder\" is false" },
        { "type: t5", "{" T5 ", \"dense_act_fn\": \"gelu_new\"}",
          "\"feed_forward_proj\" is missing, \"dense_act_fn\" gelu_new, \"is_gated_act\" missing" },
        { "type: t5", "{" T5 ", \"feed_forward_proj\": \"gated-gelu\", \"is_gated_act\": false}",
          "\"is_gated_act\" false: this version has relu" },
        { "type: qwen2", "{" QWEN2 ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
          "\"layer_types\" is \"sliding_attention\"" },
        { "type: qwen2", "{" QWEN2 ", \"quantization_config\": {\"bits\": 4}}",
          "quantization_config: the weights are quantised by an unknown method; only NF4 of bitsandbytes" },
        { "type: llama", "{" LLAMA ", \"rope_parameters\": {\"factor\": 2.0}}",
          "no effect with model.rope_scaling default" },
        { "type: llama", "{" LLAMA ", \"rope_parameters\": {\"beta_fast\": 2.0}}",
          "\"rope_parameters.beta_fast\" is a key that this version does not know" },
        { "type: gemma3_text",
          "{\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"full_attention\": {\"beta\": 2.0}}}",
          "\"rope_parameters.full_attention.beta\" is a key that this version does not know" },
        { "type: llama", "{" LLAMA ", \"rope_scaling\": 2}",
          "\"rope_scaling\" is a key that this version does not know" },
        { "type: qwen3_moe", "{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [1]}",
          "\"mlp_only_layers\" names layers without experts" },
        { "type: qwen3_moe", "{\"model_type\": \"qwen3_moe\", \"num_experts\": 4}",
          "a token cannot go to 8 experts of 4" },
        { "type: mixtral", "{\"model_type\": \"mixtral\", \"router_jitter_noise\": 0.5}",
          "\"router_jitter_noise\" is 0.5; this version has only 0" },
        { "type: mixtral", "{\"model_type\": \"mixtral\", \"num_local_experts\": 0}",
          "model.experts: 0 is out of range" },
        { "type: llama", "{\"model_type\": \"deepseek_v3\"}", "its \"model_type\" is deepseek_v3" },
        { "type: vit", "{\"model_type\": \"vit\"}",
          "of the Hugging Face models this version reads llama, qwen2, qwen3, mistral, gemma3_text, "
          "mixtral, qwen2_moe, qwen3_moe, olmoe, gpt2, t5" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_recipe *r = NULL;
        write_config(cases[i].config);
        if (load(&r, cases[i].model, NULL) == LS_OK)
            fail_msg("taken: %s", cases[i].config);
        ASSERT_CONTAINS(ls_error_message(), cases[i].says);
        assert_null(r);
    }
}

/* As transformers 5.23.0 writes them, with every key that it has; and the published ones. */
static void files_of_transformers_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *model, *config;
    } cases[] = {
        { "type: t5", "{\"architectures\": [\"T5ForConditionalGeneration\"], \"classifier_dropout\": 0.0, "
                      "\"d_ff\": 24, \"d_kv\": 8, \"d_model\": 16,"
                      "\"dense_act_fn\": \"gelu_new\", \"dropout_rate\": 0.1, \"dtype\": \"float32\", "
                      "\"eos_token_id\": 1, \"feed_forward_proj\": \"gated-gelu\","
                      "\"initializer_factor\": 1.0, \"is_decoder\": false, \"is_encoder_decoder\": true, "
                      "\"is_gated_act\": true, \"layer_norm_epsilon\": 1e-06,"
                      "\"model_type\": \"t5\", \"num_decoder_layers\": 2, \"num_heads\": 2, \"num_layers\": "
                      "2, \"pad_token_id\": 0,"
                      "\"relative_attention_max_distance\": 128, \"relative_attention_num_buckets\": 32, "
                      "\"scale_decoder_outputs\": false,"
                      "\"tie_word_embeddings\": true, \"transformers_version\": \"5.23.0\", \"use_cache\": "
                      "true, \"vocab_size\": 31}" },
        { "type: llama", "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, "
                         "\"attention_dropout\": 0.0, \"bos_token_id\": 1,"
                         "\"dtype\": \"float32\", \"eos_token_id\": 2, \"head_dim\": 8, \"hidden_act\": "
                         "\"silu\", \"hidden_size\": 16, \"initializer_range\": 0.02,"
                         "\"intermediate_size\": 24, \"max_position_embeddings\": 2048, \"mlp_bias\": false, "
                         "\"model_type\": \"llama\", \"num_attention_heads\": 2,"
                         "\"num_hidden_layers\": 1, \"num_key_value_heads\": 2, \"pad_token_id\": null, "
                         "\"pretraining_tp\": 1, \"rms_norm_eps\": 1e-06,"
                         "\"rope_parameters\": {\"rope_theta\": 10000.0, \"rope_type\": \"default\"}, "
                         "\"tie_word_embeddings\": false,"
                         "\"transformers_version\": \"5.23.0\", \"use_cache\": true, \"vocab_size\": 31, "
                         "\"output_hidden_states\": false, \"return_dict\": true,"
                         "\"chunk_size_feed_forward\": 0, \"is_encoder_decoder\": false, \"id2label\": "
                         "{\"0\": \"LABEL_0\"}, \"label2id\": {\"LABEL_0\": 0},"
                         "\"problem_type\": null, \"_name_or_path\": \"\", \"output_attentions\": false}" },
    };
    for (int i = 0; i < 2; i++) {
        ls_recipe *r;
        write_config(cases[i].config);
        ASSERT_OK(load(&r, cases[i].model, NULL));
        assert_true(r->model.tied == !i && (i || r->model.scale_output == LS_SCALE_OUTPUT_FALSE));
        char *json = ls_recipe_config_json(r, NULL);
        if (!i)
            ASSERT_CONTAINS(json, "\"scale_decoder_outputs\":false");
        free(json);
        ls_recipe_destroy(&r);
    }
    static const struct {
        const char *type, *folder;
    } published[] = { { "qwen2", "qwen2.5" },
                      { "qwen2", "qwen2.5/qwen2-1.5b-instruct" },
                      { "t5", "t5-base" },
                      { "llama", "stories260K" } };
    for (int i = 0; i < 4; i++) {
        char text[600], *folder = ls_path_join(ls_test_data(published[i].folder), published[i].folder);
        ls_recipe_state of = { .name = "here" };
        snprintf(text, sizeof text, "model: {type: %s, init: %s}\n", published[i].type, folder);
        ASSERT_OK(ls_recipe_apply_text(&of, text, strlen(text), "here.yaml"));
        ASSERT_OK(ls_recipe_apply_config(&of));
        assert_non_null(of.set[ls_key_find("model.hidden_size")].value);
        ls_arena_release(&of.arena);
        free(folder);
    }
}

/* Published files of models with experts, with every key that they have. */
static void experts_of_published_files(void **state)
{
    (void)state;
#define PUBLISHED                                                                                       \
    "\"attention_bias\": false, \"attention_dropout\": 0.0, \"bos_token_id\": 1, \"eos_token_id\": 2, " \
    "\"hidden_act\": \"silu\", \"initializer_range\": 0.02, \"tie_word_embeddings\": false, "           \
    "\"torch_dtype\": \"bfloat16\", \"transformers_version\": \"4.51.0\", \"use_cache\": true, "        \
    "\"output_router_logits\": false, \"router_aux_loss_coef\": 0.001, \"rope_theta\": 1000000.0, "     \
    "\"max_position_embeddings\": 32768, \"sliding_window\": null, \"num_attention_heads\": 32, "       \
    "\"hidden_size\": 2048, \"num_hidden_layers\": 2, \"num_key_value_heads\": 4, \"vocab_size\": 1000, "
    static const struct {
        const char *type, *members;
        int64_t experts, per_token, size;
    } cases[] = {
        { "mixtral",
          "{\"architectures\": [\"MixtralForCausalLM\"], \"model_type\": \"mixtral\", " PUBLISHED
          "\"intermediate_size\": 14336, \"num_experts_per_tok\": 2, \"num_local_experts\": 8, "
          "\"rms_norm_eps\": 1e-05}",
          8, 2, 0 },
        { "qwen3_moe",
          "{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"model_type\": \"qwen3_moe\", " PUBLISHED
          "\"decoder_sparse_step\": 1, \"head_dim\": 128, \"intermediate_size\": 6144, "
          "\"max_window_layers\": 48, \"mlp_only_layers\": [], \"moe_intermediate_size\": 768, "
          "\"norm_topk_prob\": true, \"num_experts\": 128, \"num_experts_per_tok\": 8, "
          "\"rms_norm_eps\": 1e-06, \"rope_scaling\": null, \"use_sliding_window\": false}",
          128, 8, 768 },
        { "olmoe",
          "{\"architectures\": [\"OlmoeForCausalLM\"], \"model_type\": \"olmoe\", " PUBLISHED
          "\"clip_qkv\": null, \"intermediate_size\": 1024, \"norm_topk_prob\": false, "
          "\"num_experts\": 64, \"num_experts_per_tok\": 8, \"rms_norm_eps\": 1e-05, "
          "\"rope_scaling\": null}",
          64, 8, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char type[32];
        ls_recipe *r;
        snprintf(type, sizeof type, "type: %s", cases[i].type);
        write_config(cases[i].members);
        ASSERT_OK(load(&r, type, NULL));
        assert_true(r->model.experts == cases[i].experts &&
                    r->model.experts_per_token == cases[i].per_token && r->model.balance == 0 &&
                    (!cases[i].size || r->model.expert_size == cases[i].size));
        ls_recipe_destroy(&r);
    }
}

/* transformers 5 writes tie_word_embeddings true for a T5 v1.1, too, whose head the weights tell. */
static void heads_of_saved_t5s(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *set;
        bool tied;
    } cases[] = { { "t5_relu", "model.dropout=0", true },
                  { "t5_gated", "model.dropout=0", false },
                  { "t5_gated", "model.tied=true", true } };
    for (int i = 0; i < 3; i++) {
        char text[600];
        ls_recipe *r;
        snprintf(text, sizeof text, "model: {type: t5, init: %s/tests/golden/%s}\ndata: {type: pairs, %s}\n",
                 LS_TEST_SOURCE_DIR, cases[i].folder,
                 "train_text: none, source: a, target: b, tokenizer: bytes");
        ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "here.yaml", 1, &cases[i].set));
        assert_int_equal(r->model.tied, cases[i].tied);
        assert_int_equal(r->model.scale_output == LS_SCALE_OUTPUT_FALSE, i > 0);
        ls_recipe_destroy(&r);
    }
}

/* config.json says tied, and the weights have a head beside the table. */
static void heads_beside_a_table(void **state)
{
    (void)state;
    static const struct {
        const char *model, *table, *config;
        int scale; /* of a head that differs; 0: the model has no such key */
    } cases[] = {
        { "type: qwen2, layers: 1", "model.embed_tokens.weight", "{" QWEN2 "}", 0 },
        { "type: llama, layers: 1", "model.embed_tokens.weight", "{" LLAMA ", \"tie_word_embeddings\": true}",
          0 },
        { "type: t5, dropout: 0", "shared.weight", "{" T5 "}", LS_SCALE_OUTPUT_TRUE },
        { "type: t5, dropout: 0", "shared.weight", "{" T5 ", \"tie_word_embeddings\": true}",
          LS_SCALE_OUTPUT_TRUE },
        { "type: t5, dropout: 0", "shared.weight", "{" T5 ", \"scale_decoder_outputs\": false}",
          LS_SCALE_OUTPUT_FALSE },
    };
    float values[2][6] = { { 1, 2, 3, 4, 5, 6 }, { 1, 2, 3, 4, 5, 6 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int differ = 0; differ < 2; differ++) {
            ls_recipe *r;
            values[1][5] = differ ? 7 : 6;
            const ls_named_tensor t[] = { { cases[i].table, ls_tensor_of(values[0], &LS_TYPE(LS_F32, 3, 2)) },
                                          { "lm_head.weight",
                                            ls_tensor_of(values[1], &LS_TYPE(LS_F32, 3, 2)) } };
            ASSERT_OK(ls_weights_save_dir(ls_test_dir(), 0, 2, t));
            write_config(cases[i].config);
            ASSERT_OK(load(&r, cases[i].model, NULL));
            assert_int_equal(r->model.tied, !differ);
            assert_int_equal(strstr(ls_recipe_origin(r, "model.tied"), "a head of their own") != NULL,
                             differ);
            if (cases[i].scale && differ)
                assert_int_equal(r->model.scale_output, cases[i].scale);
            ls_recipe_destroy(&r);
            ASSERT_OK(load(&r, cases[i].model, "model.tied=true")); /* as the user says */
            assert_true(r->model.tied);
            ls_recipe_destroy(&r);
        }
    assert_int_equal(unlink(ls_test_path("model.safetensors")), 0);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    static const char *const models[] = {
        "type: qwen2, vocab_size: 321, layers: 3, heads: 4, kv_heads: 2, hidden_size: 24, mlp_size: 40, "
        "norm_eps: 1e-5, tied: true",
        "type: llama, vocab_size: 321, layers: 2, heads: 3, head_dim: 10, rope_theta: 12345.5, "
        "init_deviation: 0.125, attention_dropout: 0.25"
    };
    for (int i = 0; i < 2; i++) {
        ls_recipe *r, *again;
        write_config("{}"); /* no word of a model's type: nothing is taken */
        ASSERT_OK(load(&r, models[i], NULL));
        char *json = ls_recipe_config_json(r, NULL);
        write_config(json);
        ASSERT_OK(load(&again, i ? "type: llama" : "type: qwen2", NULL));
        char *second = ls_recipe_config_json(again, NULL);
        assert_string_equal(json, second);
        assert_int_equal(again->model.heads / again->model.kv_heads, i ? 1 : 2);
        assert_true(again->model.attention_dropout == (i ? 0.25 : 0));
        assert_true(again->model.head_dim == (i ? 10 : 6) && again->model.tied == !i &&
                    again->model.mlp_size == r->model.mlp_size);
        free(json);
        free(second);
        ls_recipe_destroy(&r);
        ls_recipe_destroy(&again);
    }
    static const char *const others[] = {
        "type: llama, rope_scaling: llama3, rope_factor: 8, rope_low: 1, rope_high: 4.5, rope_original: 8192",
        "type: qwen2, rope_scaling: linear, rope_factor: 2.5",
        "type: qwen3, head_dim: 20, tied: true",
        "type: mistral, window: 12",
        "type: mistral, kv_heads: 1",
        ("type: gemma3_text, window: 12, global_every: 3, layers: 4, local_theta: 500, query_scalar: 7, "
         "rope_scaling: linear, rope_factor: 8"),
        "type: mixtral, experts: 5, experts_per_token: 3, balance: 0.125, window: 7",
        ("type: qwen2_moe, experts: 5, experts_per_token: 3, expert_size: 24, experts_every: 2, "
         "shared_expert_size: 40, balance: 0"),
        "type: qwen3_moe, normalize_experts: true, balance: 0.5",
        "type: olmoe, normalize_experts: true, clip_qkv: 8",
        "type: gpt2, positions: 600, dropout: 0.25, attention_dropout: 0.125, norm_eps: 1e-5",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ls_recipe *said, *read;
        char type[32];
        write_config("{}");
        ASSERT_OK(load(&said, others[i], NULL));
        char *first = ls_recipe_config_json(said, NULL);
        write_config(first);
        snprintf(type, sizeof type, "type: %s", said->model.type);
        ASSERT_OK(load(&read, type, NULL));
        char *second = ls_recipe_config_json(read, NULL);
        assert_string_equal(first, second);
        assert_true(said->model.window == read->model.window &&
                    said->model.rope_scaling == read->model.rope_scaling &&
                    said->model.rope_original == read->model.rope_original &&
                    said->model.global_every == read->model.global_every &&
                    said->model.positions == read->model.positions);
        assert_true(said->model.experts == read->model.experts &&
                    said->model.experts_per_token == read->model.experts_per_token &&
                    said->model.expert_size == read->model.expert_size &&
                    said->model.experts_every == read->model.experts_every &&
                    said->model.shared_expert_size == read->model.shared_expert_size &&
                    said->model.normalize_experts == read->model.normalize_experts &&
                    said->model.clip_qkv == read->model.clip_qkv &&
                    (!said->model.balance || said->model.balance == read->model.balance));
        free(first);
        free(second);
        ls_recipe_destroy(&said);
        ls_recipe_destroy(&read);
    }
    static const char T5_SAID[] =
        "type: t5, vocab_size: 321, layers: 2, decoder_layers: 3, heads: 4, head_dim: 10, hidden_size: 24, "
        "mlp_size: 40, tied: true, norm_eps: 1e-5, dropout: 0.25,"
        "feed_forward: gated-gelu, position_buckets: 8, position_distance: 20, init_factor: 0.5, "
        "start_token: 2, scale_output: false";
    ls_recipe *r, *again;
    write_config("{}");
    ASSERT_OK(load(&r, T5_SAID, NULL));
    char *json = ls_recipe_config_json(r, NULL);
    write_config(json);
    ASSERT_OK(load(&again, "type: t5", NULL));
    char *second = ls_recipe_config_json(again, NULL);
    assert_string_equal(json, second);
    assert_true(again->model.decoder_layers == 3 && again->model.head_dim == 10 && again->model.tied &&
                again->model.feed_forward == LS_FEED_FORWARD_GATED_GELU);
    assert_true(again->model.position_buckets == 8 && again->model.position_distance == 20 &&
                again->model.init_factor == 0.5 && again->model.dropout == 0.25 &&
                again->model.start_token == 2);
    assert_true(again->model.scale_output == LS_SCALE_OUTPUT_FALSE);
    free(json);
    free(second);
    ls_recipe_destroy(&r);
    ls_recipe_destroy(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recipe_takes_what_it_does_not_say),
        cmocka_unit_test(the_file_says_the_type),
        cmocka_unit_test(and_a_t5),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(files_of_transformers_are_taken),
        cmocka_unit_test(experts_of_published_files),
        cmocka_unit_test(heads_of_saved_t5s),
        cmocka_unit_test(heads_beside_a_table),
        cmocka_unit_test(what_is_written_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
