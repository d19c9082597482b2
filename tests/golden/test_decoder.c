/* test_decoder.c - small language models against Hugging Face's, computed in float64: logits, loss and every
 * gradient, on ref in f64 and on cpu in f32 at every level, as built and after the passes of a training step;
 * and five steps of a trainer. */
#include <stdlib.h>
#include <string.h>
#include "golden/text_model.h"
#include "golden/training.h"
#include "passes/passes.h"
#include "plan/plan.h"

enum { BATCH = 3, TOKENS = 9 };
#define SMALL                                                                                           \
    .seq_length = TOKENS, .vocab_size = 37, .hidden_size = 24, .mlp_size = 40, .layers = 2, .heads = 4, \
    .init_deviation = 0.02
static const ls_decoder_config qwen2 = { SMALL,
                                         .kv_heads = 2,
                                         .head_dim = 6,
                                         .norm_eps = 1e-6,
                                         .rope_theta = 1e6,
                                         .tied = true,
                                         .qkv_bias = true,
                                         .block = "Qwen2DecoderLayer" };
#define LLAMA SMALL, .kv_heads = 1, .head_dim = 8, .norm_eps = 1e-5, .block = "LlamaDecoderLayer"
static const ls_decoder_config llama = { LLAMA, .rope_theta = 1e4 },
                               linear = { LLAMA, .rope_theta = 1e4, .rope_scaling = { .factor = 2.5 } },
                               llama3 = { LLAMA, .rope_theta = 100,
                                          .rope_scaling = { 8, .low = 1, .high = 4, .original = 16 } };
static const ls_decoder_config qwen3 = { SMALL,
                                         .kv_heads = 2,
                                         .head_dim = 10,
                                         .norm_eps = 1e-6,
                                         .rope_theta = 1e6,
                                         .tied = true,
                                         .head_norms = true,
                                         .block = "Qwen3DecoderLayer" };
#define MISTRAL_SIZES SMALL, .kv_heads = 2, .head_dim = 6, .norm_eps = 1e-5, .rope_theta = 1e4
#define MISTRAL MISTRAL_SIZES, .block = "MistralDecoderLayer"
static const ls_decoder_config mistral = { MISTRAL }, window = { MISTRAL, .window = 3 };
static const ls_decoder_config gemma3 = { SMALL,
                                          .kv_heads = 2,
                                          .head_dim = 10,
                                          .norm_eps = 1e-6,
                                          .rope_theta = 1e6,
                                          .rope_scaling = { .factor = 8 },
                                          .tied = true,
                                          .head_norms = true,
                                          .gemma = true,
                                          .window = 4,
                                          .global_every = 2,
                                          .local_theta = 1e4,
                                          .query_scalar = 7,
                                          .block = "Gemma3DecoderLayer" };
#define EXPERTS                                                                                      \
    SMALL, .kv_heads = 2, .norm_eps = 1e-6, .rope_theta = 1e6, .experts = 6, .experts_per_token = 3, \
           .expert_size = 10
static const ls_decoder_config mixtral = { MISTRAL_SIZES,
                                           .block = "MixtralDecoderLayer",
                                           .experts = 4,
                                           .experts_per_token = 2,
                                           .expert_size = 40,
                                           .experts_every = 1,
                                           .normalize_experts = true,
                                           .balance = 0.25,
                                           .mixtral_names = true },
                               qwen2_moe = { EXPERTS,
                                             .head_dim = 6,
                                             .experts_every = 2,
                                             .shared_expert_size = 20,
                                             .qkv_bias = true,
                                             .block = "Qwen2MoeDecoderLayer" },
                               qwen3_moe = { EXPERTS,
                                             .head_dim = 10,
                                             .tied = true,
                                             .experts_every = 1,
                                             .normalize_experts = true,
                                             .head_norms = true,
                                             .block = "Qwen3MoeDecoderLayer" },
                               olmoe = { MISTRAL_SIZES,          .experts = 6,
                                         .experts_per_token = 3, .expert_size = 10,
                                         .experts_every = 1,     .whole_norms = true,
                                         .clip_qkv = 0.9,        .block = "OlmoeDecoderLayer" };
static const ls_gpt2_config gpt2 = { .seq_length = TOKENS,
                                     .positions = 12,
                                     .vocab_size = 37,
                                     .hidden_size = 24,
                                     .mlp_size = 40,
                                     .layers = 2,
                                     .heads = 4,
                                     .norm_eps = 1e-5,
                                     .init_deviation = 0.02,
                                     .tied = true };

static ls_status build_decoder(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}
static ls_status build_gpt2(ls_graph *g, const void *config, int64_t batch)
{
    return ls_gpt2_build(g, config, batch);
}

static const text_model MODEL = { "decoder", build_decoder, BATCH, TOKENS, TOKENS },
                        GPT2 = { "decoder", build_gpt2, BATCH, TOKENS, TOKENS };
static const text_case CASES[] = { { "qwen2", &qwen2, "Qwen2DecoderLayer", 2 + 2 * 12 },
                                   { "llama", &llama, "LlamaDecoderLayer", 3 + 2 * 9 },
                                   { "linear", &linear, "LlamaDecoderLayer", 3 + 2 * 9 },
                                   { "llama3", &llama3, "LlamaDecoderLayer", 3 + 2 * 9 },
                                   { "qwen3", &qwen3, "Qwen3DecoderLayer", 2 + 2 * 11 },
                                   { "mistral", &mistral, "MistralDecoderLayer", 3 + 2 * 9 },
                                   { "window", &window, "MistralDecoderLayer", 3 + 2 * 9 },
                                   { "mixtral", &mixtral, "MixtralDecoderLayer", 3 + 2 * (7 + 3 * 4) },
                                   { "qwen2_moe", &qwen2_moe, "Qwen2MoeDecoderLayer", 3 + 12 + 14 + 3 * 6 },
                                   { "qwen3_moe", &qwen3_moe, "Qwen3MoeDecoderLayer", 2 + 2 * (9 + 3 * 6) },
                                   { "olmoe", &olmoe, "OlmoeDecoderLayer", 3 + 2 * (9 + 3 * 6) },
                                   { "gemma3", &gemma3, "Gemma3DecoderLayer", 2 + 2 * 13 } };
enum { N_CASES = sizeof CASES / sizeof *CASES };
static const text_case GPT2_CASE = { "gpt2", &gpt2, "GPT2Block", 4 + 2 * 12 };

static void logits_loss_and_gradients(void **state)
{
    (void)state;
    text_model_gradients(&MODEL, N_CASES, CASES, 1e-12);
    text_model_gradients(&GPT2, 1, &GPT2_CASE, 1e-12);
}

/* README.md of this folder: 5 targets of the first batch are -100; the other batches have none. */
static void masked_targets(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("decoder");
    int32_t *targets = golden_values_as(golden_get(golden, "targets"), LS_I32);
    for (int k = 0; k < 5; k++) {
        int masked = 0;
        for (int i = 0; i < BATCH * TOKENS; i++)
            masked += targets[k * BATCH * TOKENS + i] == -100;
        assert_int_equal(masked, k ? 0 : 5);
    }
    free(targets);
    ls_weights_close(&golden);
}

static void trainer_steps(void **state)
{
    (void)state;
    /* of each builder, one with a tied head, and Gemma's norms */
    text_model_steps(&MODEL, 2, CASES);
    text_model_steps(&MODEL, 1, CASES + N_CASES - 1);
    const char *device = getenv("LOCKSTEP_DEVICE");
    if (!device || strcmp(device, "cuda") != 0) /* (which has no kernels for experts) */
        text_model_steps(&MODEL, 1, CASES + N_CASES - 3);
    text_model_steps(&GPT2, 1, &GPT2_CASE);
}

/* An id that the vocabulary has not cannot come from the loader; it stops the step, with the op's name. */
static void unknown_ids(void **state)
{
    (void)state;
    int32_t ids[TOKENS] = { 1, 2, 37 }, targets[TOKENS] = { 0 };
    ls_step_result r;
    ls_trainer *t = training_start(build_decoder, &llama,
                                   &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 1 });
    ASSERT_FAILS(ls_trainer_step(t, ids, targets, TOKENS, 1e-3, &r), LS_E_NUMERIC, "embedding");
    ls_trainer_destroy(&t);
}

/* What cannot be is refused with the numbers. */
static void refused(void **state)
{
    (void)state;
    ls_decoder_config odd = qwen2, heads = qwen2;
    odd.head_dim = 5;
    heads.kv_heads = 3;
    const struct {
        const ls_decoder_config *c;
        const char *says;
    } cases[] = { { &odd, "head_dim 5 must be even" },
                  { &heads, "heads 4 is not a multiple of kv_heads 3" } };
    for (int i = 0; i < 2; i++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "decoder"));
        assert_int_equal(ls_decoder_build(g, cases[i].c, 1), LS_E_SHAPE);
        assert_non_null(strstr(ls_error_message(), cases[i].says));
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(logits_loss_and_gradients),
                                        cmocka_unit_test(trainer_steps), cmocka_unit_test(unknown_ids),
                                        cmocka_unit_test(refused), cmocka_unit_test(masked_targets) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
