/* test_t5.c - small T5s against Hugging Face's, computed in float64: logits, loss and every gradient, on ref
 * in f64 and on cpu in f32 at every level, as built and after the passes of a training step; five steps of a
 * trainer; and the bucket of every distance. */
#include <stdlib.h>
#include <string.h>
#include "device/position.h"
#include "golden/text_model.h"
#include "golden/training.h"
#include "passes/passes.h"
#include "plan/plan.h"


enum { BATCH = 3, SOURCE = 13, TARGET = 7 };
#define SMALL                                                                                              \
    .source_length = SOURCE, .target_length = TARGET, .vocab_size = 37, .hidden_size = 24, .mlp_size = 40, \
    .layers = 2, .buckets = 8, .max_distance = 10, .init_factor = 1, .start_token = 3
static const ls_t5_config relu = { SMALL,         .decoder_layers = 3, .heads = 4,
                                   .head_dim = 6, .norm_eps = 1e-6,    .tied = true };
static const ls_t5_config gated = { SMALL,          .decoder_layers = 2, .heads = 3,
                                    .head_dim = 10, .norm_eps = 1e-5,    .gated = true };

static const ls_t5_config unscaled = {
    SMALL, .decoder_layers = 3, .heads = 4, .head_dim = 6, .norm_eps = 1e-6, .tied = true, .scale_output = -1
};

static ls_status build_t5(ls_graph *g, const void *config, int64_t batch)
{
    return ls_t5_build(g, config, batch);
}

enum { TIED = 5 + 2 * 8 + 3 * 13, UNTIED = 6 + 2 * 9 + 2 * 14 };
static const text_model MODEL = { "t5", build_t5, BATCH, SOURCE, TARGET };
static const text_case CASES[] = { { "relu", &relu, "T5Block", TIED },
                                   { "gated", &gated, "T5Block", UNTIED },
                                   { "unscaled", &unscaled, "T5Block", TIED } };

static void logits_loss_and_gradients(void **state)
{
    (void)state;
    text_model_gradients(&MODEL, 3, CASES, 1e-11);
}

static void trainer_steps(void **state)
{
    (void)state;
    text_model_steps(&MODEL, 2, CASES); /* the golden file has no steps of "unscaled" */
}

static void buckets(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("t5");
    static const ls_position_bias_attrs tables[] = { { .buckets = 32, .max_distance = 128 },
                                                     { .buckets = 8, .max_distance = 10 },
                                                     { .buckets = 64, .max_distance = 256 },
                                                     { .buckets = 20, .max_distance = 100 } };
    for (int i = 0; i < 4; i++)
        for (int both_ways = 0; both_ways < 2; both_ways++) {
            ls_position_bias_attrs a = tables[i];
            a.both = both_ways;
            int32_t *want = golden_values_as(
                golden_get(golden, "bucket.%d.%d.%d", (int)a.buckets, (int)a.max_distance, both_ways),
                LS_I32);
            for (int d = -300; d <= 300; d++)
                if (ls_position_bucket(&a, d) != want[d + 300])
                    fail_msg("distance %d of %d buckets to %d: %d, theirs %d", d, (int)a.buckets,
                             (int)a.max_distance, (int)ls_position_bucket(&a, d), want[d + 300]);
            free(want);
        }
    ls_weights_close(&golden);
}

/* A source of nothing but padding gives numbers, not NaN; and what cannot be is refused with the numbers. */
static void edges(void **state)
{
    (void)state;
    int32_t ids[2 * SOURCE] = { 5 }, targets[2 * TARGET] = { 1, 2, 3 };
    ls_step_result r;
    ls_trainer *t = training_start(
        build_t5, &gated,
        &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 2, .clip_norm = 1 });
    ASSERT_OK(ls_trainer_step(t, ids, targets, 2 * TARGET, 1e-3, &r));
    assert_true(r.loss > 0 && r.loss < 100 && r.grad_norm > 0 && r.grad_norm < 1e6);
    ls_trainer_destroy(&t);
    ls_t5_config start = relu, odd = relu, near = relu;
    start.start_token = 37;
    odd.buckets = 7;
    near.max_distance = 2;
    const struct {
        const ls_t5_config *c;
        const char *says;
    } cases[] = { { &start, "start_token 37 must be ids of a vocabulary of 37" },
                  { &odd, "7 buckets do not part" },
                  { &near, "max_distance 2 is not above 2" } };
    for (int i = 0; i < 3; i++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "t5"));
        assert_int_equal(ls_t5_build(g, cases[i].c, 1), LS_E_SHAPE);
        assert_non_null(strstr(ls_error_message(), cases[i].says));
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(logits_loss_and_gradients),
                                        cmocka_unit_test(trainer_steps), cmocka_unit_test(buckets),
                                        cmocka_unit_test(edges) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
