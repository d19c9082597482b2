/* test_t5.c - a T5 that writes token by token has the bits of one pass over source and target, whatever
 * threads, levels, types, sources beside it and room for a longer source; random choice; what is refused. */
#include "lockstep/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/trainer.h"
#include "step/compile.h"
#include "support/levels.h"
#include "support/values.h"

enum { VOCABULARY = 37, SOURCE = 70, TARGET = 80, READ = 66 };

static ls_t5_config small(bool gated)
{
    return (ls_t5_config){ .source_length = SOURCE,
                           .target_length = TARGET,
                           .vocab_size = VOCABULARY,
                           .hidden_size = 24,
                           .mlp_size = 40,
                           .layers = 2,
                           .decoder_layers = 3,
                           .heads = 3,
                           .head_dim = 10,
                           .buckets = 8,
                           .max_distance = 20,
                           .norm_eps = 1e-6,
                           .init_factor = 1,
                           .gated = gated,
                           .tied = !gated,
                           .dropout = 0.1,
                           .start_token = 3 };
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_t5_build(g, config, batch);
}

/* Weights as a trainer begins with them. */
static ls_weights *random_weights(const ls_t5_config *config)
{
    ls_trainer *t;
    ls_weights *w;
    const char *path = ls_test_path("model.safetensors");
    ASSERT_OK(ls_trainer_create(&t, build, config, .threads = 1, .micro_batch = 1, .eval_only = true));
    ASSERT_OK(ls_trainer_init(t, 7));
    ASSERT_OK(ls_trainer_save(t, path));
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

/* Of the source READ tokens, the rest is padding; of the target all. */
static void make_ids(int32_t source[SOURCE], int32_t target[TARGET])
{
    for (int i = 0; i < SOURCE; i++)
        source[i] = i < READ ? 1 + (i * i + 3 * i) % (VOCABULARY - 1) : 0;
    for (int i = 0; i < TARGET; i++)
        target[i] = 1 + (i * i + 5 * i + 2) % (VOCABULARY - 1);
}

/* The logits of every place of the target, [TARGET, VOCABULARY], by the graph that is trained. The caller
 * frees them. */
static float *whole_pass(const ls_t5_config *config, const ls_weights *w, const int32_t *source,
                         const int32_t *target, int isa, const ls_precision *p)
{
    ls_device d;
    ls_plan *plan;
    ls_session *s;
    ls_named_tensor want[96];
    int64_t n = 0;
    ASSERT_OK(ls_device_open(&d, "cpu",
                             &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(isa), .threads = 2 }));
    ASSERT_OK(ls_compile_inference(&plan, "whole", build, config, 1, p, &d, NULL));
    ASSERT_OK(ls_session_create(&s, 1, &plan, NULL));
    for (int i = 0; i < plan->graph->n_nodes; i++)
        if (!strcmp(plan->graph->nodes[i]->op->name, "param")) {
            want[n].name = ((const ls_source_attrs *)plan->graph->nodes[i]->attrs)->name;
            const ls_type type = value_type(s, want[n].name);
            want[n++].tensor = ls_tensor_of(malloc(ls_type_bytes(&type)), &type);
        }
    ASSERT_OK(ls_weights_load(w, n, want, .convert = true));
    for (int64_t i = 0; i < n; i++) {
        value_put(s, want[i].name, want[i].tensor.data, ls_type_bytes(&want[i].tensor.type));
        free(want[i].tensor.data);
    }
    value_put(s, "ids", source, sizeof(int32_t) * SOURCE);
    value_put(s, "targets", target, sizeof(int32_t) * TARGET);
    ASSERT_OK(ls_session_run(s, 0, false));
    ls_type type;
    float *out = value_copy(s, "logits", &type);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    return out;
}

static void same_bits_as_one_pass(void **state)
{
    static const ls_precision TYPES[] = {
        { LS_PRECISION_DEFAULTS },
        { LS_PRECISION_DEFAULTS, .param = LS_BF16 },
        { LS_PRECISION_DEFAULTS, .param = LS_F16 },
        { LS_PRECISION_DEFAULTS, .param = LS_BF16, .modules = "class:T5LayerNorm=f32 class:T5LayerFF=f32" },
    };
    int32_t source[SOURCE], target[TARGET];
    (void)state;
    make_ids(source, target);
    for (int gated = 0; gated < 2; gated++) {
        const ls_t5_config config = small(gated);
        ls_weights *w = random_weights(&config);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
            for (int k = 0; k < 4; k++) {
                float *whole = whole_pass(&config, w, source, target, isa, &TYPES[k]);
                const float *logits;
                ls_generator *g;
                ASSERT_OK(ls_generator_create_t5(&g, &config, w, .isa = level_name(isa), .threads = 1 + k % 3,
                                                 .param = TYPES[k].param, .modules = TYPES[k].modules,
                                                 .source = SOURCE + 58 * (k % 3)));
                ASSERT_OK(ls_generator_read(g, source, READ));
                for (int i = 0; i < TARGET; i++) {
                    ASSERT_OK(ls_generator_feed(g, i ? &target[i - 1] : &(int32_t){ 3 }, 1, &logits));
                    for (int c = 0; c < VOCABULARY; c++)
                        if (memcmp(&logits[c], &whole[i * VOCABULARY + c], sizeof *logits))
                            fail_msg("level %d, %s: logit %d behind token %d is %.9g, in one pass %.9g", isa,
                                     ls_dtype_name(TYPES[k].param), c, i, (double)logits[c],
                                     (double)whole[i * VOCABULARY + c]);
                }
                ls_generator_destroy(&g);
                free(whole);
            }
        ls_weights_close(&w);
    }
}

/* Several sources at once, each with random choices of its own seed. */
static void random_texts(void **state)
{
    (void)state;
    const ls_t5_config config = small(true);
    int32_t source[SOURCE], target[TARGET];
    ls_tokens sources[3], texts[3] = { 0 };
    ls_weights *w = random_weights(&config);
    ls_generate_opts how = { LS_GENERATE_DEFAULTS, .tokens = 12 };
    ls_generator *g, *one;
    make_ids(source, target);
    for (int i = 0; i < 3; i++)
        sources[i] = (ls_tokens){ .ids = source + i, .n = 20 + i };
    how.sampling.temperature = 1;
    how.sampling.seed = 5;
    ASSERT_OK(ls_generator_create_t5(&g, &config, w, .threads = 2, .prompts = 2));
    ASSERT_OK(ls_generate_all(g, 3, sources, &how, texts));
    ASSERT_OK(ls_generator_create_t5(&one, &config, w, .threads = 1));
    for (int i = 0; i < 3; i++) {
        ls_tokens alone[1] = { 0 };
        how.sampling.seed = 5 + (uint64_t)i;
        ASSERT_OK(ls_generate_all(one, 1, &sources[i], &how, alone));
        assert_int_equal(texts[i].n, 12);
        assert_int_equal(alone[0].n, 12);
        assert_memory_equal(alone[0].ids, texts[i].ids, 12 * sizeof(int32_t));
        free(alone[0].ids);
        free(texts[i].ids);
    }
    ls_generator_destroy(&g);
    ls_generator_destroy(&one);
    ls_weights_close(&w);
}

static void refuses(void **state)
{
    (void)state;
    const ls_t5_config config = small(false);
    int32_t source[SOURCE], target[TARGET];
    const float *logits;
    ls_weights *w = random_weights(&config);
    ls_generator *g;
    ls_generated made;
    make_ids(source, target);
    ASSERT_FAILS(ls_generator_create_t5(&g, &config, w, .beams = 0), LS_E_ARG, "both must be positive");
    ASSERT_OK(ls_generator_create_t5(&g, &config, w, .threads = 1, .source = 30, .places = 5));
    assert_int_equal(ls_generator_places(g), 5);
    ASSERT_FAILS(ls_generator_feed(g, target, 1, &logits), LS_E_ARG, "reads a source before");
    ASSERT_FAILS(ls_generator_read(g, source, 31), LS_E_USAGE, "a source of 31 tokens is too long",
                 "reads 30");
    ASSERT_FAILS(ls_generator_read(g, (int32_t[]){ VOCABULARY }, 1), LS_E_ARG, "token id 37");
    ASSERT_OK(ls_generator_read(g, source, 30));
    ASSERT_FAILS(ls_generator_feed(g, target, 6, &logits), LS_E_USAGE, "beyond the context of 5");
    ls_generate_opts how = { LS_GENERATE_DEFAULTS, .prompt = source, .n_prompt = 30 };
    ASSERT_OK(ls_generate(g, &how, &made));
    assert_int_equal(made.ending, LS_ENDED_PLACES);
    assert_int_equal(made.tokens, 5);
    how.length_penalty = 1.0 / 0.0;
    ASSERT_FAILS(ls_generate(g, &how, &made), LS_E_ARG, "length_penalty");
    ls_generator_destroy(&g);

    ASSERT_OK(ls_generator_create_t5(&g, &config, w, .threads = 1, .beams = 2));
    ASSERT_FAILS(ls_generator_feed(g, target, 1, &logits), LS_E_ARG, "1 prompts and 2 beams");
    how.length_penalty = 1;
    how.sampling.temperature = 1;
    ASSERT_FAILS(ls_generate(g, &how, &made), LS_E_ARG, "beam search does not sample");
    ls_generator_destroy(&g);
    ASSERT_OK(ls_generator_create_t5(&g, &config, w, .threads = 1, .beams = 20));
    how.sampling.temperature = 0;
    ASSERT_FAILS(ls_generate(g, &how, &made), LS_E_ARG, "too many for a vocabulary of 37");
    ls_generator_destroy(&g);
    ls_weights_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_one_pass),
        cmocka_unit_test(random_texts),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
