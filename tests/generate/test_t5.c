/* test_t5.c - a T5 writes what transformers' generate writes: 20 sources, a T5 with one table and a
 * gated one with a head of its own, greedily and with beams; alone and many at once. Its logits have the bits
 * of the whole pass over source and target. */
#include "lockstep/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "device/device.h"
#include "execute/session.h"
#include "step/compile.h"
#include "support/support.h"

enum { PROMPTS = 20, END = 1 };
static const char *const MODELS[] = { "t5_relu", "t5_gated" };

typedef struct golden {
    char *text;
    json_t *json;
    ls_tokens prompts[PROMPTS];
    int64_t tokens;
} golden;

static char *path_of(const char *name) { return ls_path_join(LS_TEST_SOURCE_DIR "/tests/golden", name); }

static golden golden_open(void)
{
    golden g = { 0 };
    size_t size;
    char *path = path_of("generate.json");
    ASSERT_OK(ls_file_read(&g.text, &size, path));
    ASSERT_OK(ls_json_parse(&g.json, g.text, size, path));
    const json_t *prompts = json_object_get(g.json, "prompts");
    assert_int_equal(json_array_size(prompts), PROMPTS);
    for (int p = 0; p < PROMPTS; p++) {
        const json_t *ids = json_array_get(prompts, (size_t)p);
        g.prompts[p].n = (int64_t)json_array_size(ids);
        g.prompts[p].ids = malloc(sizeof(int32_t) * json_array_size(ids));
        for (size_t i = 0; i < json_array_size(ids); i++)
            g.prompts[p].ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    }
    g.tokens = json_integer_value(json_object_get(g.json, "new_tokens"));
    free(path);
    return g;
}

static void golden_close(golden *g)
{
    for (int p = 0; p < PROMPTS; p++)
        free(g->prompts[p].ids);
    json_decref(g->json);
    free(g->text);
}

static void expect(const char *model, const char *way, const golden *g, int p, const int32_t *ids, int64_t n)
{
    const json_t *want = json_array_get(json_object_get(json_object_get(g->json, model), way), (size_t)p);
    for (int64_t i = 0; i < n || i < (int64_t)json_array_size(want); i++) {
        const int64_t id = i < (int64_t)json_array_size(want)
                               ? (int64_t)json_integer_value(json_array_get(want, (size_t)i))
                               : -1;
        if (id != (i < n ? ids[i] : -1))
            fail_msg("%s, %s, source %d: token %lld is %d, transformers' %lld (-1: the end)", model, way, p,
                     (long long)i, i < n ? ids[i] : -1, (long long)id);
    }
}

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
      { LS_GENERATE_DEFAULTS, .length_penalty = 0.6, .early_stopping = LS_EARLY_STOPPING_NEVER } },
};
enum { N_WAYS = sizeof WAYS / sizeof *WAYS };

static void as_transformers(void **state)
{
    (void)state;
    static const int32_t ENDS[] = { END };
    golden g = golden_open();
    for (int m = 0; m < 2; m++)
        for (int w = 0; w < N_WAYS; w++)
            for (int at_once = 1; at_once <= 7; at_once += 6) {
                char *folder = path_of(MODELS[m]);
                ls_generate_opts how = WAYS[w].how;
                ls_tokens texts[PROMPTS] = { 0 };
                ls_generator *t5;
                how.tokens = g.tokens;
                how.ends = ENDS;
                how.n_ends = 1;
                ASSERT_OK(ls_generator_open(&t5, folder, .threads = 2, .source = 48, .places = g.tokens,
                                            .prompts = at_once, .beams = WAYS[w].beams));
                ASSERT_OK(ls_generate_all(t5, PROMPTS, g.prompts, &how, texts));
                for (int p = 0; p < PROMPTS; p++) {
                    expect(MODELS[m], WAYS[w].name, &g, p, texts[p].ids, texts[p].n);
                    free(texts[p].ids);
                }
                ls_generator_destroy(&t5);
                free(folder);
            }
    golden_close(&g);
}

typedef struct text {
    int32_t ids[64];
    int64_t n;
} text;

static bool add(void *context, int32_t id)
{
    text *t = context;
    t->ids[t->n++] = id;
    return true;
}

/* One prompt, token by token; with beams the text comes at the end. */
static void one_by_one(void **state)
{
    (void)state;
    static const int32_t ENDS[] = { END };
    golden g = golden_open();
    char *folder = path_of(MODELS[1]);
    for (int w = 0; w < N_WAYS; w += 2) {
        ls_generator *t5;
        ASSERT_OK(ls_generator_open(&t5, folder, .threads = 1, .places = g.tokens, .beams = WAYS[w].beams));
        for (int p = 0; p < PROMPTS; p++) {
            text made = { .n = 0 };
            ls_generated r;
            ls_generate_opts how = WAYS[w].how;
            how.prompt = g.prompts[p].ids;
            how.n_prompt = g.prompts[p].n;
            how.tokens = g.tokens;
            how.ends = ENDS;
            how.n_ends = 1;
            how.on_token = add;
            how.context = &made;
            ASSERT_OK(ls_generate(t5, &how, &r));
            assert_int_equal(r.tokens, made.n);
            assert_int_equal(r.ending, made.n < g.tokens ? LS_ENDED_TOKEN : LS_ENDED_TOKENS);
            expect(MODELS[1], WAYS[w].name, &g, p, made.ids, made.n);
        }
        ls_generator_destroy(&t5);
    }
    free(folder);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_transformers),
        cmocka_unit_test(one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
