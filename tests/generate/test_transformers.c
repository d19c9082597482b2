/* test_transformers.c - a generator makes the texts that transformers' generate makes: of a T5 with one
 * table, a gated T5 with a head of its own, and a Qwen2, for 20 prompts each, greedily and with beams; alone
 * and many at once, as a list and token by token; by one process and by ranks that split the layers. Of a
 * model of each other family greedily. */
#include "lockstep/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "support/ranks.h"
#include "support/support.h"

enum { PROMPTS = 20, TOKENS = 24 };

typedef struct model {
    const char *name;
    int32_t end;
    bool is_t5;
    int ways; /* of WAYS */
} model;
static const model MODELS[] = { { "t5_relu", 1, true, 6 },
                                { "t5_gated", 1, true, 6 },
                                { "language", 10, false, 6 },
                                { "small/llama", 1, false, 1 },
                                { "small/qwen3", 1, false, 1 },
                                { "small/mistral", 1, false, 1 },
                                { "small/gemma3_text", 1, false, 1 },
                                { "small/mixtral", 1, false, 1 },
                                { "small/qwen2_moe", 1, false, 1 },
                                { "small/qwen3_moe", 1, false, 1 },
                                { "small/olmoe", 1, false, 1 },
                                { "small/gpt2", 1, false, 1 } };
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static const struct {
    const char *name;
    int64_t beams;
    ls_generate_opts how;
} WAYS[] = {
    { "greedy", 1, { LS_GENERATE_DEFAULTS } },
    { "greedy.ngram", 1, { LS_GENERATE_DEFAULTS, .no_repeat = 2, .least = 5 } },
    { "beams", 4, { LS_GENERATE_DEFAULTS } },
    { "beams.long",
      4,
      { LS_GENERATE_DEFAULTS, .length_penalty = 2, .early_stopping = LS_EARLY_STOPPING_TRUE, .no_repeat = 3,
        .least = 6 } },
    { "beams.short", 4, { LS_GENERATE_DEFAULTS, .length_penalty = -0.5 } },
    { "beams.never",
      3,
      { LS_GENERATE_DEFAULTS, .length_penalty = 2, .early_stopping = LS_EARLY_STOPPING_NEVER } },
};
_Static_assert(sizeof WAYS / sizeof *WAYS == 6, "MODELS counts them");

static char *path_of(const char *name) { return ls_path_join(LS_TEST_SOURCE_DIR "/tests/golden", name); }

static json_t *golden; /* of all tests */
static char *golden_text;

static int begin(void **state)
{
    (void)state;
    size_t size;
    char *path = path_of("generate.json");
    ASSERT_OK(ls_file_read(&golden_text, &size, path));
    ASSERT_OK(ls_json_parse(&golden, golden_text, size, path));
    free(path);
    return 0;
}

static int end(void **state)
{
    (void)state;
    json_decref(golden);
    free(golden_text);
    return 0;
}

static ls_tokens ids_of(const json_t *list)
{
    ls_tokens t = { .n = (int64_t)json_array_size(list) };
    t.ids = malloc(sizeof *t.ids * (size_t)(t.n + 1));
    for (int64_t i = 0; i < t.n; i++)
        t.ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return t;
}

/* Prompt p of the model, or the text that transformers makes of it in this way. */
static ls_tokens golden_ids(const model *m, const char *what, int p)
{
    const json_t *list = json_object_get(json_object_get(golden, m->name), what);
    assert_int_equal(json_array_size(list), PROMPTS);
    return ids_of(json_array_get(list, (size_t)p));
}

static void expect(const model *m, const char *way, int p, const int32_t *ids, int64_t n)
{
    ls_tokens want = golden_ids(m, way, p);
    for (int64_t i = 0; i < n || i < want.n; i++) {
        const int32_t here = i < n ? ids[i] : -1, there = i < want.n ? want.ids[i] : -1;
        if (here != there)
            fail_msg("%s, %s, prompt %d: token %lld is %d, that of transformers %d (-1: the text ended)",
                     m->name, way, p, (long long)i, here, there);
    }
    free(want.ids);
}

static ls_generator *open_model(const model *m, int way, int64_t prompts, int threads)
{
    ls_generator *g;
    char *folder = path_of(m->name);
    ASSERT_OK(ls_generator_open(&g, folder, .threads = threads, .source = 48,
                                .places = m->is_t5 ? TOKENS : 160, .prompts = prompts,
                                .beams = WAYS[way].beams));
    free(folder);
    return g;
}

static ls_generate_opts options(const model *m, int way)
{
    ls_generate_opts how = WAYS[way].how;
    how.tokens = TOKENS;
    how.ends = &m->end;
    how.n_ends = 1;
    return how;
}

static void many_at_once(void **state)
{
    (void)state;
    for (int k = 0; k < N_MODELS; k++)
        for (int w = 0; w < MODELS[k].ways; w++)
            for (int at_once = 1; at_once <= 7; at_once += 6) {
                const ls_generate_opts how = options(&MODELS[k], w);
                ls_tokens prompts[PROMPTS], texts[PROMPTS] = { 0 };
                ls_generator *g = open_model(&MODELS[k], w, at_once, 2);
                for (int p = 0; p < PROMPTS; p++)
                    prompts[p] = golden_ids(&MODELS[k], "prompts", p);
                ASSERT_OK(ls_generate_all(g, PROMPTS, prompts, &how, texts));
                for (int p = 0; p < PROMPTS; p++) {
                    expect(&MODELS[k], WAYS[w].name, p, texts[p].ids, texts[p].n);
                    free(texts[p].ids);
                    free(prompts[p].ids);
                }
                ls_generator_destroy(&g);
            }
}

typedef struct text {
    int32_t ids[TOKENS];
    int64_t n, most;
} text;

static bool add(void *context, int32_t id)
{
    text *t = context;
    assert_true(t->n < TOKENS);
    t->ids[t->n++] = id;
    return t->n < t->most;
}

/* With beams the text comes at the end. */
static void token_by_token(void **state)
{
    (void)state;
    for (int k = 0; k < N_MODELS; k++)
        for (int w = 0; w < MODELS[k].ways; w += 2) {
            ls_generator *g = open_model(&MODELS[k], w, 1, 1);
            for (int p = 0; p < PROMPTS; p++) {
                text made = { .most = TOKENS + 1 };
                ls_generated r;
                ls_tokens prompt = golden_ids(&MODELS[k], "prompts", p);
                ls_generate_opts how = options(&MODELS[k], w);
                how.prompt = prompt.ids;
                how.n_prompt = prompt.n;
                how.on_token = add;
                how.context = &made;
                ASSERT_OK(ls_generate(g, &how, &r));
                assert_int_equal(r.tokens, made.n);
                assert_int_equal(r.ending, made.n < TOKENS ? LS_ENDED_TOKEN : LS_ENDED_TOKENS);
                expect(&MODELS[k], WAYS[w].name, p, made.ids, made.n);
                if (r.tokens > 1) { /* enough after one */
                    made = (text){ .most = 1 };
                    ASSERT_OK(ls_generate(g, &how, &r));
                    assert_int_equal(r.ending, LS_ENDED_CALLER);
                    assert_int_equal(made.n, 1);
                }
                free(prompt.ids);
            }
            ls_generator_destroy(&g);
        }
}

/* ---- over ranks */

typedef struct split {
    const model *m;
    int way;
    const char *folder;
    ls_tokens prompts[PROMPTS], texts[8][PROMPTS]; /* of each rank */
    size_t bytes;                                  /* of a generator of rank 0 */
} split;

static ls_status generate_on(ls_group *g, void *context)
{
    split *s = context;
    ls_generator *made;
    const ls_generate_opts how = options(s->m, s->way);
    LS_TRY(ls_generator_open(&made, s->folder, .threads = 1, .source = 48,
                             .places = s->m->is_t5 ? TOKENS : 160, .prompts = 7, .beams = WAYS[s->way].beams,
                             .group = g));
    if (ls_group_rank(g) == 0)
        s->bytes = ls_generator_bytes(made);
    const ls_status status = ls_generate_all(made, PROMPTS, s->prompts, &how, s->texts[ls_group_rank(g)]);
    ls_generator_destroy(&made);
    return status;
}

static void layers_are_split(void **state)
{
    (void)state;
    static const struct {
        int model, ranks;
    } CASES[] = { { 0, 2 }, { 0, 4 }, { 2, 2 }, { 4, 2 }, { 6, 2 }, { 7, 2 } };
    for (size_t k = 0; k < sizeof CASES / sizeof CASES[0]; k++)
        for (int w = 0; w < MODELS[CASES[k].model].ways; w++) {
            const model *m = &MODELS[CASES[k].model];
            split s = { .m = m, .way = w, .folder = path_of(m->name) };
            for (int p = 0; p < PROMPTS; p++)
                s.prompts[p] = golden_ids(m, "prompts", p);
            ASSERT_OK(run_ranks(CASES[k].ranks, generate_on, &s));
            ls_generator *whole = open_model(m, w, 7, 1);
            assert_true(s.bytes < ls_generator_bytes(whole)); /* of which a rank has a part */
            ls_generator_destroy(&whole);
            for (int r = 0; r < CASES[k].ranks; r++)
                for (int p = 0; p < PROMPTS; p++) {
                    expect(m, WAYS[w].name, p, s.texts[r][p].ids, s.texts[r][p].n);
                    free(s.texts[r][p].ids);
                }
            for (int p = 0; p < PROMPTS; p++)
                free(s.prompts[p].ids);
            free((char *)s.folder);
        }
    split s = { .m = &MODELS[1], .folder = path_of("t5_gated") }; /* of 3 heads */
    assert_true(run_ranks(2, generate_on, &s) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "the 2 ranks of axis tp do not divide");
    free((char *)s.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(many_at_once), cmocka_unit_test(token_by_token),
                                        cmocka_unit_test(layers_are_split) };
    return cmocka_run_group_tests(tests, begin, end);
}
