/* samples.h - what every argument of a public function may be: sample_TYPE. For the tests that walk the
 * functions, which include it once each (tools/public_functions.awk makes the calls). */
#pragma once
#include <unistd.h>

#include "support/small_vit.h"
#include "golden/training.h"
#include "lockstep/lockstep.h"
#include "lockstep/tokenizer.h"
#include "support/support.h"

static const ls_vit_config VIT = { SMALL_VIT, .layers = 1, .mlp_size = 16 };
static const ls_convnext_config CONVNEXT = {
    .image_size = 32, .in_channels = 1, .classes = 3, .depths = { 1, 1, 1, 1 }, .widths = { 4, 4, 4, 4 }
};
static const ls_unet_config UNET = { .input = { "x", { LS_F32, 3, { 1, 4, 4 } } },
                                     .output = { "y", { LS_F32, 2, { 4, 4 } } },
                                     .channels = 2,
                                     .levels = 1 };
static const ls_bert_config BERT = { .n_inputs = 1,
                                     .inputs = (const ls_port[]){ { "ids", { LS_I32, 1, { 4 } } } },
                                     .vocab_size = 9,
                                     .hidden_size = 8,
                                     .mlp_size = 8,
                                     .layers = 1,
                                     .heads = 2,
                                     .positions = 4,
                                     .token_types = 1,
                                     .norm_eps = 1e-6,
                                     .n_outputs = 1,
                                     .outputs = (const ls_port[]){ { "kind", { LS_F32, 1, { 3 } } } } };
static const ls_decoder_config DECODER = { .seq_length = 8,
                                           .vocab_size = 260,
                                           .hidden_size = 16,
                                           .mlp_size = 16,
                                           .layers = 1,
                                           .heads = 2,
                                           .kv_heads = 2,
                                           .head_dim = 8,
                                           .norm_eps = 1e-6,
                                           .rope_theta = 1e4,
                                           .init_deviation = 0.02,
                                           .tied = true,
                                           .block = "LlamaDecoderLayer" };

static char buffer[1 << 16];
static struct samples {
    ls_graph *graph;
    ls_value value;
    ls_group *group;
    ls_trainer *trainer;
    ls_predictor *predictor;
    ls_live *live;
    ls_weights *weights;
    ls_generator *generator;
    ls_dataset *set;
    ls_loader *loader;
    ls_tokenizer *tokenizer;
    ls_text_stream *stream;
    ls_recipe *recipe;
    ls_run *run;
    ls_result *result;
    ls_order order;
} s;
static void *out; /* where constructors put what they make */

static ls_status build_decoder(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

static void make_samples(void)
{
    ls_trainer *t;
    ASSERT_OK(ls_graph_create(&s.graph, "sample"));
    s.value = ls_input(s.graph, "input", LS_TYPE(LS_F32, 2, 4));
    ASSERT_OK(ls_group_self(&s.group));
    ASSERT_OK(ls_trainer_create(&s.trainer, training_build_vit, &VIT, .threads = 1, .micro_batch = 2,
                                .padding = true));
    ASSERT_OK(ls_trainer_init(s.trainer, 1));
    ASSERT_OK(ls_predictor_of(&s.predictor, s.trainer));
    ASSERT_OK(ls_live_open(&s.live, s.trainer, .capacity = 4, .hold_out = 2));
    ASSERT_OK(ls_trainer_create(&t, build_decoder, &DECODER, .threads = 1, .micro_batch = 1));
    ASSERT_OK(ls_trainer_init(t, 1));
    ASSERT_OK(ls_trainer_save(t, "decoder.safetensors"));
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_weights_open(&s.weights, "decoder.safetensors"));
    ASSERT_OK(ls_generator_create(&s.generator, &DECODER, s.weights, .threads = 1));
    ASSERT_OK(ls_dataset_open(&s.set, "shapes", LS_SPLIT_TRAIN));
    s.order = (ls_order){ .n = s.set->n, .global_batch = 2, .micro_batch = 1 };
    ASSERT_OK(ls_loader_create(&s.loader, s.set, &s.order));
    ASSERT_OK(ls_tokenizer_open(&s.tokenizer, "bytes"));
    ASSERT_OK(ls_text_stream_create(&s.stream, s.tokenizer));
    ASSERT_OK(ls_recipe_load(&s.recipe, ls_recipe_bundled(0, NULL, NULL), 0, NULL));
    ASSERT_OK(ls_run_open(&s.run, "runs", "sample", NULL));
    ASSERT_OK(ls_result_read(&s.result, ls_run_where(s.run)->path));
}

static void drop_samples(void)
{
    ls_graph_destroy(&s.graph);
    ls_group_destroy(&s.group);
    ls_predictor_destroy(&s.predictor);
    ls_live_close(&s.live);
    ls_trainer_destroy(&s.trainer);
    ls_generator_destroy(&s.generator);
    ls_weights_close(&s.weights);
    ls_loader_destroy(&s.loader);
    ls_dataset_close(&s.set);
    ls_text_stream_destroy(&s.stream);
    ls_tokenizer_close(&s.tokenizer);
    ls_recipe_destroy(&s.recipe);
    ls_result_free(&s.result);
    ls_run_finish(&s.run, LS_OK, NULL);
}

#define sample_int64_t 1
#define sample_int 1
#define sample_int32_t 1
#define sample_uint64_t 1
#define sample_size_t 1
#define sample_double 1
#define sample_bool true
#define sample_char_p ((char *)"x")
#define sample_char_array buffer
#define sample_char_p_p ((void *)&(const char *){ "x" })
#define sample_void_p ((void *)buffer)
#define sample_void_p_p ((void *const[]){ buffer, buffer })
#define sample_ls_weigh LS_BY_VALID
#define sample_ls_resize LS_RESIZE_BILINEAR
#define sample_ls_how LS_MEAN
#define sample_ls_metric_kind LS_ACCURACY
#define sample_int_p ((int *)buffer)
#define sample_int32_t_p ((int32_t *)buffer)
#define sample_int64_t_p ((int64_t *)buffer)
#define sample_size_t_p ((size_t *)buffer)
#define sample_float_p ((float *)buffer)
#define sample_float_p_p ((void *)&out)
#define sample_bool_p ((bool *)buffer)
#define sample_uint8_t_p ((uint8_t *)buffer)
#define sample_ls_axis_role LS_ROLE_TENSOR
#define sample_ls_value s.value
#define sample_ls_value_p &s.value
#define sample_ls_graph_p s.graph
#define sample_ls_group_p s.group
#define sample_ls_trainer_p s.trainer
#define sample_ls_predictor_p s.predictor
#define sample_ls_live_p s.live
#define sample_ls_live_numbers_p ((ls_live_numbers *)(void *)buffer)
#define sample_ls_weights_p s.weights
#define sample_ls_weight_p ls_weights_at(s.weights, 0)
#define sample_ls_generator_p s.generator
#define sample_ls_dataset_p s.set
#define sample_ls_loader_p s.loader
#define sample_ls_tokenizer_p s.tokenizer
#define sample_ls_text_stream_p s.stream
#define sample_ls_recipe_p s.recipe
#define sample_ls_run_p s.run
#define sample_ls_result_p s.result
#define sample_ls_order_p &s.order
#define sample_ls_mesh_p                \
    &(ls_mesh)                          \
    {                                   \
        .n = 1, .axes = { { "dp", 1 } } \
    }
#define sample_ls_parallel_p \
    &(ls_parallel) { LS_PARALLEL_DEFAULTS }
#define sample_ls_share_p \
    &(ls_share) { 0 }
#define sample_ls_split LS_SPLIT_TRAIN
#define sample_ls_array_field_p \
    &(ls_array_field) { .field = "x", .file = "nowhere.npy", .as = LS_F32 }
#define sample_ls_task_config_p \
    &(ls_task_config) { 0 }
#define sample_ls_loss_kind LS_LOSS_MSE
#define sample_ls_scaling \
    (ls_scaling) { s.value, s.value }
#define sample_ls_dtype LS_F32
#define sample_ls_dtype_p \
    &(ls_dtype) { LS_F32 }
#define sample_ls_reduction LS_REDUCE_SUM
#define sample_ls_status LS_E_ARG
#define sample_ls_type LS_TYPE(LS_F32, 2, 4)
#define sample_ls_type_p &LS_TYPE(LS_F32, 2, 4)
#define sample_ls_tensor_p                \
    &(ls_tensor)                          \
    {                                     \
        buffer, LS_TYPE(LS_F32, 1), { 1 } \
    }
#define sample_ls_named_tensor_p \
    &(ls_named_tensor) { "x", ls_tensor_of(buffer, &LS_TYPE(LS_F32, 1)) }
#define sample_ls_init ((ls_init){ 0 })
#define sample_ls_lora_opts_p \
    &(ls_lora_opts) { LS_LORA_DEFAULTS }
#define sample_ls_schedule_p \
    &(ls_schedule) { 0 }
#define sample_ls_array_p \
    &(ls_array) { "x", LS_TYPE(LS_F32, 1), { 0 }, ls_tensor_of(buffer, &LS_TYPE(LS_F32, 1)) }
#define sample_ls_run_contents_p \
    &(ls_run_contents) { .trainer = s.trainer }
#define sample_ls_metric_p \
    &(ls_metric) { "x", 1 }
#define sample_ls_image_p \
    &(ls_image) { 1, 1, 1, (uint8_t *)buffer }
#define sample_ls_picture_p                                                              \
    &(ls_picture)                                                                        \
    {                                                                                    \
        "x", "", 1, 1, 1, 1, 1, &(ls_picture_cell) { (uint8_t *)buffer, NULL, NULL, -1 } \
    }
#define sample_ls_loader_step_p \
    &(ls_loader_step) { 0 }
#define sample_ls_step_result_p \
    &(ls_step_result) { 0 }
#define sample_ls_text_range_p \
    &(ls_text_range) { 0, 1 }
#define sample_ls_text_ranges_p \
    &(ls_text_ranges) { 0 }
#define sample_ls_tokens_p \
    &(ls_tokens) { 0 }
#define sample_ls_update_unit_p \
    &(ls_update_unit) { .name = "x", .type = LS_TYPE(LS_F32, 64), .via = LS_F32 }
#define sample_ls_build_fn training_build_vit
#define sample_ls_vit_config_p &VIT
#define sample_ls_decoder_config_p &DECODER
#define sample_ls_gpt2_config_p ((ls_gpt2_config *)buffer)
#define sample_ls_rope_scaling_p \
    &(ls_rope_scaling) { 0 }
#define sample_ls_resnet_config_p &training_resnet
#define sample_ls_convnext_config_p &CONVNEXT
#define sample_ls_unet_config_p &UNET
#define sample_ls_mlp_config_p &training_mlp
#define sample_ls_bert_config_p &BERT
#define sample_ls_t5_config_p ((ls_t5_config *)buffer)
#define sample_ls_generated_p \
    &(ls_generated) { 0 }
#define sample_ls_generate_opts_p \
    &(ls_generate_opts) { LS_GENERATE_DEFAULTS, .prompt = (int32_t *)buffer, .n_prompt = 1 }
#define sample_ls_sampling_p \
    &(ls_sampling) { LS_SAMPLING_DEFAULTS }
#define sample_ls_arrays_save_opts_p \
    &(ls_arrays_save_opts) { LS_ARRAYS_SAVE_DEFAULTS }
#define sample_ls_arrays_load_opts_p \
    &(ls_arrays_load_opts) { LS_ARRAYS_LOAD_DEFAULTS }
#define sample_ls_dataset_options_p \
    &(ls_dataset_options) { LS_DATASET_DEFAULTS }
#define sample_ls_text_options_p \
    &(ls_text_options) { LS_TEXT_DEFAULTS }
#define sample_ls_images_options_p \
    &(ls_images_options) { LS_IMAGES_DEFAULTS }
#define sample_ls_pairs_options_p \
    &(ls_pairs_options) { LS_PAIRS_DEFAULTS }
#define sample_ls_loader_options_p \
    &(ls_loader_options) { LS_LOADER_DEFAULTS }
#define sample_ls_generator_opts_p \
    &(ls_generator_opts) { LS_GENERATOR_DEFAULTS }
#define sample_ls_conv_opts_p \
    &(ls_conv_opts) { LS_CONV_DEFAULTS }
#define sample_ls_pool_opts_p        \
    &(ls_pool_opts)                  \
    {                                \
        { 2, 2 }, { 2, 2 }, { 0, 0 } \
    }
#define sample_ls_linear_opts_p \
    &(ls_linear_opts) { LS_LINEAR_DEFAULTS }
#define sample_ls_conv2d_opts_p \
    &(ls_conv2d_opts) { LS_CONV2D_DEFAULTS }
#define sample_ls_recurrent_opts_p \
    &(ls_recurrent_opts) { LS_RECURRENT_DEFAULTS }
#define sample_ls_batch_norm_opts_p \
    &(ls_batch_norm_opts) { LS_BATCH_NORM_DEFAULTS }
#define sample_ls_update_opts_p \
    &(ls_update_opts) { LS_UPDATE_DEFAULTS }
#define sample_ls_run_opts_p \
    &(ls_run_opts) { LS_RUN_DEFAULTS }
#define sample_ls_run_profile_opts_p \
    &(ls_run_profile_opts) { LS_RUN_PROFILE_DEFAULTS }
#define sample_ls_report_opts_p \
    &(ls_report_opts) { LS_REPORT_DEFAULTS }
#define sample_ls_trainer_opts_p \
    &(ls_trainer_opts) { LS_TRAINER_DEFAULTS }
#define sample_ls_predictor_opts_p \
    &(ls_predictor_opts) { LS_PREDICTOR_DEFAULTS }
#define sample_ls_live_opts_p \
    &(ls_live_opts) { LS_LIVE_DEFAULTS }
#define sample_ls_weights_load_opts_p \
    &(ls_weights_load_opts) { LS_WEIGHTS_LOAD_DEFAULTS }
#define sample_ls_weights_export_opts_p \
    &(ls_weights_export_opts) { LS_WEIGHTS_EXPORT_DEFAULTS }
#define sample_ls_graph_p_p ((ls_graph **)&out)
#define sample_ls_group_p_p ((ls_group **)&out)
#define sample_ls_trainer_p_p ((ls_trainer **)&out)
#define sample_ls_predictor_p_p ((ls_predictor **)&out)
#define sample_ls_live_p_p ((ls_live **)&out)
#define sample_ls_arrays_saving_p_p ((ls_arrays_saving **)&out)
#define sample_ls_weights_p_p ((ls_weights **)&out)
#define sample_ls_generator_p_p ((ls_generator **)&out)
#define sample_ls_dataset_p_p ((ls_dataset **)&out)
#define sample_ls_loader_p_p ((ls_loader **)&out)
#define sample_ls_tokenizer_p_p ((ls_tokenizer **)&out)
#define sample_ls_text_stream_p_p ((ls_text_stream **)&out)
#define sample_ls_recipe_p_p ((ls_recipe **)&out)
#define sample_ls_result_p_p ((ls_result **)&out)
#define sample_ls_run_p_p (&s.run)
