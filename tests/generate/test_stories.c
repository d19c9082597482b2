/* test_stories.c - a trained Llama (stories260K, in LOCKSTEP_DATA): its most likely story, and the
 * probabilities of its tokens, are those of a computation in float64 that is stored beside its weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "lockstep/models.h"
#include "lockstep/trainer.h"
#include "support/levels.h"
#include "support/support.h"

enum { MAX_TOKENS = 512 };
static const ls_decoder_config stories = { .vocab_size = 512,
                                           .hidden_size = 64,
                                           .mlp_size = 172,
                                           .layers = 5,
                                           .heads = 8,
                                           .kv_heads = 4,
                                           .head_dim = 8,
                                           .norm_eps = 1e-5,
                                           .rope_theta = 1e4,
                                           .init_deviation = 0.02,
                                           .tied = true,
                                           .block = "LlamaDecoderLayer" };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

static char *file_of(const char *data, const char *name)
{
    char *folder = ls_path_join(data, "stories260K"), *path = ls_path_join(folder, name);
    free(folder);
    return path;
}

/* The story as ids and what comes after each; returns how many. */
static int read_story(const char *path, int32_t ids[MAX_TOKENS], int32_t targets[MAX_TOKENS],
                      double *mean_loss)
{
    char *text;
    size_t size;
    json_t *j;
    ASSERT_OK(ls_file_read(&text, &size, path));
    ASSERT_OK(ls_json_parse(&j, text, size, path));
    const json_t *greedy = json_object_get(j, "greedy_ids");
    const int n = (int)json_array_size(greedy);
    assert_in_range(n, 1, MAX_TOKENS);
    ids[0] = 1; /* begins a story */
    for (int i = 0; i < n; i++) {
        targets[i] = (int32_t)json_integer_value(json_array_get(greedy, (size_t)i));
        if (i + 1 < n)
            ids[i + 1] = targets[i];
    }
    *mean_loss = json_real_value(json_object_get(j, "mean_nll_of_greedy_path"));
    json_decref(j);
    free(text);
    return n;
}

static void tells_its_story(void **state)
{
    (void)state;
    const char *data = ls_test_data("stories260K"); /* a trained Llama */
    char *file = file_of(data, "model.safetensors"), *expected = file_of(data, "expected.json");
    int32_t ids[MAX_TOKENS], targets[MAX_TOKENS], predicted[MAX_TOKENS];
    float loss[MAX_TOKENS];
    double mean_loss;
    ls_decoder_config config = stories;
    config.seq_length = read_story(expected, ids, targets, &mean_loss);
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa)) {
        ls_trainer *t;
        ls_weights *w;
        ASSERT_OK(ls_trainer_create(&t, build, &config, .isa = level_name(isa), .threads = 2,
                                    .micro_batch = 1, .eval_only = true));
        ASSERT_OK(ls_trainer_init(t, 0));
        ASSERT_OK(ls_weights_open(&w, file));
        ASSERT_OK(ls_trainer_load(t, w));
        ls_weights_close(&w);
        ASSERT_OK(ls_trainer_eval(t, ids, targets, loss, predicted, NULL));
        double sum = 0;
        for (int64_t i = 0; i < config.seq_length; i++) {
            assert_int_equal(predicted[i], targets[i]);
            sum += (double)loss[i];
        }
        assert_true(fabs(sum / (double)config.seq_length - mean_loss) < 1e-5);
        ls_trainer_destroy(&t);
    }
    free(file);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(tells_its_story) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
