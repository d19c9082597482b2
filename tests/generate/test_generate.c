/* test_generate.c - text from language models. Logits computed with caches have the bits of one pass over all
 * tokens, with any threads, ISA levels and cuts of the prompt. stories260K tells its story. Also sampling. */
#include "lockstep/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "generate/of_recipe.h"
#include "lockstep/trainer.h"
#include "support/levels.h"
#include "support/values.h"
#include "step/compile.h"

enum { VOCABULARY = 37, LENGTH = 300 };

/* Grouped queries; heads that are not whole vectors; `tied` or not. More tokens than a block of keys and a
 * chunk of a prompt. */
static ls_decoder_config small(bool tied)
{
    return (ls_decoder_config){ .seq_length = LENGTH,
                                .vocab_size = VOCABULARY,
                                .hidden_size = 24,
                                .mlp_size = 40,
                                .layers = 2,
                                .heads = 6,
                                .kv_heads = 2,
                                .head_dim = 10,
                                .norm_eps = 1e-6,
                                .rope_theta = 1e4,
                                .init_deviation = 0.3,
                                .tied = tied,
                                .qkv_bias = !tied,
                                .block = "Layer" };
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

/* Weights as a trainer begins with them. */
static ls_weights *random_weights(const ls_decoder_config *config)
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

/* The first is not 0, the id of padding: padding that is written to place 0 of the caches would not be seen.
 */
static void make_ids(int32_t ids[LENGTH])
{
    for (int i = 0; i < LENGTH; i++)
        ids[i] = (i * i + 3 * i + 5) % VOCABULARY;
}

/* The logits of all places at once, [LENGTH, VOCABULARY], by the graph that is trained; positions: of
 * documents side by side, or NULL. The caller frees them. */
static float *whole_pass(const ls_decoder_config *config, const ls_weights *w, const int32_t *ids,
                         const int32_t *positions, int isa, const ls_precision *p)
{
    ls_device d;
    ls_plan *plan;
    ls_session *s;
    ls_named_tensor want[64];
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
    value_put(s, "ids", ids, sizeof(int32_t) * (size_t)config->seq_length);
    if (positions)
        value_put(s, "positions", positions, sizeof(int32_t) * (size_t)config->seq_length);
    ASSERT_OK(ls_session_run(s, 0, false));
    ls_type type;
    float *out = value_copy(s, "logits", &type);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    return out;
}

static void check_logits(const float *got, const float *whole, int64_t token, const char *what)
{
    const float *want = whole + token * VOCABULARY;
    for (int i = 0; i < VOCABULARY; i++)
        if (memcmp(&got[i], &want[i], sizeof *got))
            fail_msg("%s: logit %d behind token %lld is %.9g, in one pass %.9g", what, i, (long long)token,
                     (double)got[i], (double)want[i]);
}

/* Several beginnings of the text side by side in a window: each has the logits of the text. */
static void check_packed(const float *whole, const ls_decoder_config *config, const ls_weights *w, int isa,
                         const ls_precision *p)
{
    static const int LENGTHS[] = { 37, 1, 130, 20, 112 };
    ls_decoder_config packed = *config;
    int32_t text[LENGTH], ids[LENGTH], positions[LENGTH];
    packed.packed = true;
    make_ids(text);
    for (int k = 0, at = 0; k < 5; at += LENGTHS[k++])
        for (int i = 0; i < LENGTHS[k]; i++) {
            ids[at + i] = text[i];
            positions[at + i] = i;
        }
    float *logits = whole_pass(&packed, w, ids, positions, isa, p);
    for (int at = 0; at < LENGTH; at++)
        check_logits(logits + at * VOCABULARY, whole, positions[at], "packed");
    free(logits);
}

static void same_bits_as_one_pass(void **state)
{
    static const ls_precision TYPES[] = {
        { LS_PRECISION_DEFAULTS },
        { LS_PRECISION_DEFAULTS, .param = LS_BF16 },
        { LS_PRECISION_DEFAULTS, .param = LS_F16 },
        { LS_PRECISION_DEFAULTS, .param = LS_BF16, .modules = "class:RMSNorm=f32 class:Attention=f16" },
    };
    int32_t ids[LENGTH];
    (void)state;
    make_ids(ids);
    for (int tied = 0; tied < 2; tied++) {
        const ls_decoder_config config = small(tied);
        ls_weights *w = random_weights(&config);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
            for (int k = 0; k < 4; k++) {
                float *whole = whole_pass(&config, w, ids, NULL, isa, &TYPES[k]);
                const float *logits;
                ls_generator *g;
                check_packed(whole, &config, w, isa, &TYPES[k]);
                ASSERT_OK(ls_generator_create(&g, &config, w, .isa = level_name(isa), .threads = 1 + k,
                                              .param = TYPES[k].param, .modules = TYPES[k].modules));
                for (int i = 0; i < LENGTH; i++) { /* one by one */
                    ASSERT_OK(ls_generator_feed(g, ids + i, 1, &logits));
                    check_logits(logits, whole, i, "one by one");
                }
                ASSERT_FAILS(ls_generator_feed(g, ids, 1, &logits), LS_E_USAGE,
                             "300 tokens and 1 more are beyond the context of 300");
                static const int CUTS[] = { LENGTH, 200, 65, 7, 30 };
                for (int c = 0; c < 5; c++) { /* in pieces; what lies in the caches beyond them is not seen */
                    ls_generator_rewind(g, 0);
                    for (int at = 0; at < LENGTH; at = (int)ls_generator_position(g)) {
                        const int n = LENGTH - at < CUTS[c] ? LENGTH - at : CUTS[c];
                        ASSERT_OK(ls_generator_feed(g, ids + at, n, &logits));
                        check_logits(logits, whole, at + n - 1, "in pieces");
                    }
                }
                ls_generator_destroy(&g);
                free(whole);
            }
        ls_weights_close(&w);
    }
}

/* Prompts of many lengths, several at once, with and without beams: each gets the text that it gets alone. */
static void many_prompts(void **state)
{
    enum { PROMPTS = 5, TOKENS = 9 };
    static const int64_t LENGTHS[PROMPTS] = { 40, 1, LENGTH - 1, 67, 3 };
    const ls_decoder_config config = small(false);
    ls_weights *w = random_weights(&config);
    int32_t ids[LENGTH];
    (void)state;
    make_ids(ids);
    for (int beams = 1; beams <= 3; beams += 2)
        for (int at_once = 1; at_once <= 4; at_once++) { /* the last run has fewer than the generator takes */
            ls_generator *one, *several;
            ls_tokens prompts[PROMPTS], alone[PROMPTS] = { 0 }, texts[PROMPTS] = { 0 };
            ls_generate_opts how = { LS_GENERATE_DEFAULTS, .tokens = TOKENS };
            how.sampling.temperature = beams == 1 ? 0.8 : 0;
            for (int p = 0; p < PROMPTS; p++)
                prompts[p] = (ls_tokens){ .ids = ids + p, .n = LENGTHS[p] };
            prompts[2].ids = ids;
            ASSERT_OK(ls_generator_create(&one, &config, w, .threads = 1, .beams = beams));
            ASSERT_OK(
                ls_generator_create(&several, &config, w, .threads = 2, .beams = beams, .prompts = at_once));
            ASSERT_OK(ls_generate_all(one, PROMPTS, prompts, &how, alone));
            ASSERT_OK(ls_generate_all(several, PROMPTS, prompts, &how, texts));
            for (int p = 0; p < PROMPTS; p++) {
                assert_int_equal(texts[p].n, LENGTHS[p] == LENGTH - 1 ? 1 : TOKENS); /* the context is full */
                assert_int_equal(texts[p].n, alone[p].n);
                assert_memory_equal(texts[p].ids, alone[p].ids, sizeof(int32_t) * (size_t)texts[p].n);
                free(texts[p].ids);
                free(alone[p].ids);
            }
            ls_generator_destroy(&one);
            ls_generator_destroy(&several);
        }
    ls_weights_close(&w);
}

static json_t *read_json(char **text, const char *path)
{
    size_t size;
    json_t *j;
    ASSERT_OK(ls_file_read(text, &size, path));
    ASSERT_OK(ls_json_parse(&j, *text, size, path));
    return j;
}

typedef struct story {
    const json_t *ids;
    size_t n;
} story;

static bool next_of_story(void *context, int32_t id)
{
    story *s = context;
    assert_int_equal(id, json_integer_value(json_array_get(s->ids, s->n)));
    return ++s->n < json_array_size(s->ids);
}

static void tells_its_story(void **state)
{
    (void)state;
    const char *data = ls_test_data("stories260K"); /* a trained Llama */
    char *folder = ls_path_join(data, "stories260K"), *path = ls_path_join(folder, "expected.json"), *text;
    json_t *expected = read_json(&text, path);
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
        ls_generator *g;
        ls_generated made;
        const float *logits;
        const int32_t first = 1;
        story s = { .ids = json_object_get(expected, "greedy_ids") };
        ASSERT_OK(ls_generator_open(&g, folder, .isa = level_name(isa), .threads = 2));
        assert_int_equal(ls_generator_places(g), 512);
        ASSERT_OK(ls_generate(g,
                              &(ls_generate_opts){ LS_GENERATE_DEFAULTS, .prompt = &first, .n_prompt = 1,
                                                   .tokens = 500, .on_token = next_of_story, .context = &s },
                              &made));
        assert_int_equal(made.tokens, json_array_size(s.ids));
        assert_int_equal(made.ending, LS_ENDED_CALLER);
        const json_t *known = json_object_get(expected, "logits");
        for (size_t i = 0; i < json_array_size(known); i++) { /* some of the way, computed in f64 */
            const json_t *at = json_array_get(known, i), *want = json_object_get(at, "logits");
            const int64_t position = json_integer_value(json_object_get(at, "position"));
            ls_generator_rewind(g, 0);
            ASSERT_OK(ls_generator_feed(g, &first, 1, &logits));
            for (int64_t k = 0; k < position; k++) {
                const int32_t id = (int32_t)json_integer_value(json_array_get(s.ids, (size_t)k));
                ASSERT_OK(ls_generator_feed(g, &id, 1, &logits));
            }
            for (size_t k = 0; k < json_array_size(want); k++)
                if (fabs((double)logits[k] - json_number_value(json_array_get(want, k))) > 2e-4)
                    fail_msg("position %lld: logit %zu is %.6f, not %.6f", (long long)position, k,
                             (double)logits[k], json_number_value(json_array_get(want, k)));
        }
        ls_generator_destroy(&g);
    }
    json_decref(expected);
    free(text);
    free(path);
    free(folder);
}

static float to_bf16(float x) /* the nearest, of two the even one */
{
    uint32_t u;
    memcpy(&u, &x, 4);
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &u, 4);
    return x;
}

/* Logits are rounded as those of an evaluation are (precision.output). */
static void rounded_logits(void **state)
{
    (void)state;
    const ls_decoder_config config = small(true);
    ls_weights *w = random_weights(&config);
    ls_generator *g, *rounding;
    const float *logits, *rounded;
    ASSERT_OK(ls_generator_create(&g, &config, w, .threads = 1));
    ASSERT_OK(ls_generator_create(&rounding, &config, w, .threads = 1, .output = LS_BF16));
    ASSERT_OK(ls_generator_feed(g, (int32_t[]){ 1, 2, 3 }, 3, &logits));
    ASSERT_OK(ls_generator_feed(rounding, (int32_t[]){ 1, 2, 3 }, 3, &rounded));
    int changed = 0;
    for (int i = 0; i < VOCABULARY; i++) {
        assert_true(rounded[i] == to_bf16(logits[i]));
        changed += rounded[i] != logits[i];
    }
    assert_true(changed > VOCABULARY / 2);
    ls_generator_destroy(&g);
    ls_generator_destroy(&rounding);
    ls_weights_close(&w);
}

/* A model that the library does not have, with a configuration of its own: a generator needs its sizes and
 * its builder, and no more. */
typedef struct foreign_config {
    ls_decoder_config inner;
    int64_t first, *built; /* the smallest number of places, and how many programs were built */
} foreign_config;

static ls_status foreign_decode(ls_graph *g, const ls_generation *m, int64_t prompts, int64_t beams,
                                int64_t tokens)
{
    const foreign_config *f = m->config;
    ls_decoder_config c = f->inner;
    c.seq_length = f->first + m->places;
    ++*f->built;
    return ls_decoder_build_cached(g, &c, prompts, beams, tokens);
}

static void any_model(void **state)
{
    (void)state;
    int64_t built = 0;
    const foreign_config f = { .inner = small(true), .first = 3, .built = &built };
    const ls_generation model = {
        .config = &f, .vocabulary = VOCABULARY, .places = 50, .decode = foreign_decode
    };
    ls_weights *w = random_weights(&f.inner);
    ls_generator *known, *foreign;
    const float *a, *b;
    const ls_generator_opts o = { LS_GENERATOR_DEFAULTS, .threads = 1 };
    ASSERT_OK(ls_generator_create(&known, &f.inner, w, .threads = 1, .places = 50));
    ASSERT_OK(ls_generator_of(&foreign, &model, w, &o));
    assert_int_equal(built, 3); /* decode, and prefill of 32 and of 128 tokens */
    assert_int_equal(ls_generator_places(foreign), 50);
    ASSERT_OK(ls_generator_feed(known, (int32_t[]){ 1, 2, 3 }, 3, &a));
    ASSERT_OK(ls_generator_feed(foreign, (int32_t[]){ 1, 2, 3 }, 3, &b));
    assert_memory_equal(a, b, VOCABULARY * sizeof *a);
    ASSERT_FAILS(ls_generator_read(foreign, (int32_t[]){ 1 }, 1), LS_E_ARG, "does not read sources");
    ls_generator_destroy(&known);
    ls_generator_destroy(&foreign);
    ls_weights_close(&w);
}

/* A wrong argument is an error, and leaves the generator as it was. */
static void refuses(void **state)
{
    (void)state;
    const ls_decoder_config config = small(true);
    ls_weights *w = random_weights(&config);
    ls_generator *g;
    const float *logits;
    ASSERT_OK(ls_generator_create(&g, &config, w, .threads = 1, .places = 9));
    assert_int_equal(ls_generator_places(g), 9);
    ASSERT_FAILS(ls_generator_feed(g, NULL, 0, &logits), LS_E_ARG, "no token");
    ASSERT_FAILS(ls_generator_feed(g, (int32_t[]){ 1, VOCABULARY }, 2, &logits), LS_E_ARG,
                 "token id 37 (number 1 of 2)", "ids 0 to 36");
    ASSERT_FAILS(ls_generator_feed(g, (int32_t[10]){ 0 }, 10, &logits), LS_E_USAGE, "context of 9");
    assert_int_equal(ls_generator_position(g), 0);
    ls_generated made;
    ASSERT_OK(ls_generate(
        g, &(ls_generate_opts){ LS_GENERATE_DEFAULTS, .prompt = (int32_t[]){ 1, 2, 3 }, .n_prompt = 3 },
        &made));
    assert_int_equal(made.ending, LS_ENDED_PLACES);
    assert_int_equal(made.tokens, 6); /* prompt and text fill the 9 places */
    ASSERT_OK(ls_generate(g,
                          &(ls_generate_opts){ LS_GENERATE_DEFAULTS, .prompt = (int32_t[]){ 1, 2, 3 },
                                               .n_prompt = 3, .tokens = 6 },
                          &made));
    assert_int_equal(made.ending, LS_ENDED_TOKENS);
    assert_int_equal(made.tokens, 6);
    ASSERT_OK(ls_generate(
        g, &(ls_generate_opts){ LS_GENERATE_DEFAULTS, .prompt = (int32_t[9]){ 0 }, .n_prompt = 9 }, &made));
    assert_int_equal(made.ending, LS_ENDED_PLACES);
    assert_int_equal(made.tokens, 0);
    ls_generator_destroy(&g);
    ls_weights_close(&w);

    /* what a folder is, when it is not a model's */
    ASSERT_FAILS(ls_generator_open(&g, ls_test_dir()), LS_E_USAGE,
                 "neither a run (no recipe.yaml) nor a model's folder (no config.json)");
    ASSERT_FAILS(ls_generator_open(&g, "/no/where"), LS_E_USAGE,
                 "/no/where: no such folder; give a checkpoint");
    ASSERT_OK(ls_file_write(ls_test_path("config.json"), "{}", 2));
    ASSERT_FAILS(ls_generator_open(&g, ls_test_path("config.json")), LS_E_USAGE, "a file, not a folder");
    ASSERT_FAILS(ls_generator_open(&g, ls_test_dir()), LS_E_UNSUPPORTED,
                 "config.json: has no \"model_type\"");
    ASSERT_FAILS(ls_generator_open(&g, ls_test_dir(), .best = true), LS_E_USAGE, "only a run has a best");
    ASSERT_OK(ls_file_write(ls_test_path("recipe.yaml"), "{}", 2));
    ASSERT_FAILS(ls_generator_open(&g, ls_test_dir()), LS_E_IO, "the run has no checkpoint yet");
}

static int32_t sampled(const float *logits, int64_t n, ls_sampling s, int64_t position)
{
    int32_t id;
    ASSERT_OK(ls_sample(&id, logits, n, &s, position));
    return id;
}

static void samples(void **state)
{
    (void)state;
    enum { N = 8, DRAWS = 20000 };
    const float logits[N] = { 1, 3, -2, 3, 0, 2.5f, -30, 1 };
    int count[N] = { 0 };
    double weight[N], all = 0;
    /* the first of equals */
    assert_int_equal(sampled(logits, N, (ls_sampling){ LS_SAMPLING_DEFAULTS }, 0), 1);
    for (int i = 0; i < N; i++)
        all += weight[i] = exp((double)logits[i] / 0.7);
    for (int k = 0; k < DRAWS; k++)
        count[sampled(logits, N, (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 0.7, .seed = 5 }, k)]++;
    for (int i = 0; i < N; i++)
        if (fabs(count[i] / (double)DRAWS - weight[i] / all) > 0.02)
            fail_msg("id %d came %d times of %d, its probability is %.4f", i, count[i], DRAWS,
                     weight[i] / all);
    for (int k = 0; k < 1000; k++) {
        const int32_t of3 = sampled(logits, N,
                                    (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 5, .top_k = 3 }, k);
        assert_true(of3 == 1 || of3 == 3 || of3 == 5);
        /* 0.34 + 0.34 */
        const int32_t likely = sampled(
            logits, N, (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 1, .top_p = 0.6 }, k);
        assert_true(likely == 1 || likely == 3);
        assert_int_equal(
            sampled(logits, N,
                    (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 1, .top_k = 3, .top_p = 0.3 }, k),
            1);
    }
    /* one of two equals reaches a half */
    for (int k = 0; k < 100; k++)
        assert_int_equal(sampled((float[]){ 2, 2 }, 2,
                                 (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 1, .top_p = 0.5 }, k),
                         0);
    float many[3000]; /* more than are put in order one by one */
    for (int i = 0; i < 3000; i++)
        many[i] = (float)((i * 1237) % 3000) / 300;
    for (int k = 0; k < 200; k++)
        assert_true(
            many[sampled(many, 3000, (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 100, .top_k = 400 },
                         k)] >= 2600.0f / 300);
    /* top_p takes the fewest most likely tokens that reach it together, of equals the first */
    for (int flat = 0; flat < 2; flat++) {
        enum { MANY = 100 };
        float few[MANY];
        double sum = 0, reached = 0;
        int expected = 0, came[MANY] = { 0 };
        for (int i = 0; i < MANY; i++)
            sum += exp((double)(few[i] = flat ? 0 : -0.04f * (float)i));
        while (reached < 0.895 * sum)
            reached += exp((double)few[expected++]);
        for (int k = 0; k < DRAWS; k++)
            came[sampled(few, MANY, (ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = 1, .top_p = 0.895 },
                         k)]++;
        for (int i = 0; i < MANY; i++)
            if ((came[i] > 0) != (i < expected))
                fail_msg("flat %d: id %d came %d times, %d ids belong to top_p", flat, i, came[i], expected);
    }
    int32_t id;
    ASSERT_FAILS(ls_sample(&id, logits, N, &(ls_sampling){ LS_SAMPLING_DEFAULTS, .temperature = -1 }, 0),
                 LS_E_ARG, "temperature -1");
    ASSERT_FAILS(ls_sample(&id, (float[]){ 1, NAN, 2 }, 3, &(ls_sampling){ LS_SAMPLING_DEFAULTS }, 7),
                 LS_E_NUMERIC, "token 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits_as_one_pass),
                                        cmocka_unit_test(many_prompts),
                                        cmocka_unit_test(tells_its_story),
                                        cmocka_unit_test(rounded_logits),
                                        cmocka_unit_test(any_model),
                                        cmocka_unit_test(refuses),
                                        cmocka_unit_test(samples) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
