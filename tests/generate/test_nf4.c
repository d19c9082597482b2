/* test_nf4.c - a model of 4 bits that transformers and bitsandbytes wrote (tests/golden/nf4_llama) has the
 * logits, bit for bit, of the model that the library quantises from the same weights. */
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "ckpt/checkpoint.h"
#include "generate/of_recipe.h"
#include "models/generation.h"
#include "support/nf4_numbers.h"
#include "support/support.h"

enum { VOCABULARY = 37, TOKENS = 50 };

static const ls_decoder_config LLAMA = { .seq_length = TOKENS,
                                         .vocab_size = VOCABULARY,
                                         .hidden_size = 64,
                                         .mlp_size = 128,
                                         .layers = 1,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 16,
                                         .norm_eps = 1e-6,
                                         .rope_theta = 1e4,
                                         .init_deviation = 0.02,
                                         .tied = true,
                                         .block = "LlamaDecoderLayer" };

/* The weights that the folder was made of: tools/golden/nf4.py says how. */
static ls_weights *plain_weights(const ls_weights *names)
{
    const int n = (int)ls_weights_count(names);
    ls_named_tensor all[16];
    const char *path = ls_test_path("plain.safetensors");
    ls_weights *w;
    assert_int_equal(n, 11);
    for (int k = 0; k < n; k++) { /* in the order of names */
        const ls_weight *of = ls_weights_at(names, k);
        const ls_type type = { .dtype = LS_F32,
                               .ndim = of->type.ndim,
                               .dims = { of->type.dims[0], of->type.dims[1] } };
        const int64_t count = ls_type_count(&type);
        int before = 0;
        for (int i = 0; i < n; i++)
            before += strcmp(ls_weights_at(names, i)->name, of->name) < 0;
        float *data = malloc(sizeof *data * (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            const float x = nf4_number(((uint64_t)before << 20) + (uint64_t)i);
            data[i] = ls_from_bf16(ls_to_bf16(strstr(of->name, "norm") ? 1.0F + x : x));
        }
        all[k] = (ls_named_tensor){ of->name, ls_tensor_of(data, &type) };
    }
    ASSERT_OK(ls_weights_save(path, n, all));
    for (int k = 0; k < n; k++)
        free(all[k].tensor.data);
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

static void logits_of(float all[TOKENS][VOCABULARY], const ls_weights *w, bool nf4, ls_dtype type)
{
    ls_generation how = ls_decoder_generation(&LLAMA);
    ls_generator *g;
    how.nf4 = nf4;
    ASSERT_OK(ls_generator_of(&g, &how, w,
                              &(ls_generator_opts){ LS_GENERATOR_DEFAULTS, .threads = 2, .param = type }));
    for (int32_t i = 0; i < TOKENS; i++) {
        const int32_t id = (7 * i * i + 3) % VOCABULARY;
        const float *logits;
        ASSERT_OK(ls_generator_feed(g, &id, 1, &logits));
        memcpy(all[i], logits, sizeof all[i]);
    }
    ls_generator_destroy(&g);
}

static void the_same_logits(void **state)
{
    (void)state;
    static float theirs[TOKENS][VOCABULARY], ours[TOKENS][VOCABULARY], numbers[TOKENS][VOCABULARY];
    ls_weights *w;
    ASSERT_OK(ls_weights_open(&w, LS_TEST_SOURCE_DIR "/tests/golden/nf4_llama"));
    ls_weights *plain = plain_weights(w);
    for (int k = 0; k < 2; k++) {
        const ls_dtype type = k ? LS_BF16 : LS_F32;
        logits_of(theirs, w, true, type);
        logits_of(ours, plain, true, type);
        assert_memory_equal(theirs, ours, sizeof ours);
        logits_of(numbers, w, false, type); /* the numbers that the codes stand for */
        assert_memory_equal(theirs, numbers, sizeof numbers);
        logits_of(ours, plain, false, type);
        assert_memory_not_equal(theirs, ours, sizeof ours);
    }
    ls_weights_close(&plain);
    ls_weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_logits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
