/* test_evaluate.c - evaluation over ranks. Every sample counts once; the bits are the same with any number of
 * ranks; if a loss is not finite, all ranks return the same message. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/small_vit.h"
#include "golden/training.h"
#include "lockstep/group.h"
#include "step/evaluate.h"
#include "step/trainer.h"

enum { SAMPLES = 70, PIXELS = 64, MOST = 8, CLASSES = 5 };
static const ls_vit_config VIT = { SMALL_VIT, .layers = 1, .mlp_size = 16 };
static int reads[SAMPLES]; /* how often each sample was read; atomic */

static ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    uint8_t *image = to[0];
    (void)set;
    __atomic_add_fetch(&reads[i], 1, __ATOMIC_RELAXED);
    *(int32_t *)to[1] = (int32_t)(i % 5);
    for (int k = 0; k < PIXELS; k++)
        image[k] = (uint8_t)((uint32_t)(i * PIXELS + k) * 2654435761u >> 24);
    return LS_OK;
}

static const ls_field FIELDS[] = {
    { .name = "images", .type = { LS_U8, 3, { 1, 8, 8 } } },
    { .name = "labels", .type = { .dtype = LS_I32 }, .below = 5, .ignorable = true },
};
static const ls_dataset SET = { .name = "test",
                                .source = "test",
                                .split = LS_SPLIT_EVAL,
                                .n = SAMPLES,
                                .n_fields = 2,
                                .fields = FIELDS,
                                .read = read_sample };

typedef struct rank {
    pthread_t thread;
    ls_group *group;
    int64_t batch;
    bool trains; /* the trainer has the programs of a step, for micro-batches of 8 */
    float bias;  /* of class 3 */
    int tp;      /* ranks that compute the same samples; of the mesh dp x tp */
    ls_eval_result result;
    int64_t pairs[CLASSES * CLASSES]; /* its confusion matrix */
    ls_status status;
    char message[512];
} rank;

static ls_status evaluate(rank *r)
{
    ls_trainer *t;
    ls_named_tensor p[32];
    LS_TRY(ls_trainer_create(&t, training_build_vit, &VIT, .micro_batch = r->trains ? 8 : r->batch,
                             .eval_batch = r->trains ? r->batch : 0, .threads = 1, .eval_only = !r->trains));
    ls_status s = ls_trainer_init(t, 5);
    int n = training_parameters(t, p, 32);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; !strncmp(p[i].name, "heads.head.", 11) && k < ls_type_count(&p[i].tensor.type);
             k++) /* it starts with zeros */
            ((float *)p[i].tensor.data)[k] = !strcmp(p[i].name, "heads.head.bias") && k == 3
                                                 ? r->bias
                                                 : 0.1f * (float)(k % 7 - 3);
    if (s == LS_OK)
        s = training_set(t, p, n);
    training_release(p, n);
    t->group = r->group; /* the program is a lone rank's: only the split is dealt */
    t->compiled.parallel.mesh = (ls_mesh){
        .n = 2, .axes = { { "dp", (r->group ? ls_group_size(r->group) : 1) / r->tp }, { "tp", r->tp } }
    };
    t->compiled.parallel.rank = r->group ? ls_group_rank(r->group) : 0;
    if (s == LS_OK)
        s = ls_evaluate(t, &SET, NULL, NULL, &r->result);
    if (r->result.confusions.n == 1)
        memcpy(r->pairs, r->result.confusions.at[0].counts, sizeof r->pairs);
    ls_eval_result_release(&r->result); /* its plain numbers stay */
    ls_trainer_destroy(&t);
    return s;
}

static void *run(void *context)
{
    rank *r = context;
    r->status = evaluate(r);
    strncpy(r->message, ls_error_message(), sizeof r->message - 1);
    ls_group_destroy(&r->group);
    return NULL;
}

static void run_ranks(rank *r, int ranks, int tp, int64_t batch, bool trains, float bias)
{
    ls_group *groups[MOST];
    ASSERT_OK(ls_group_threads(groups, ranks));
    for (int i = 0; i < ranks; i++) {
        r[i] = (rank){ .group = groups[i], .batch = batch, .trains = trains, .bias = bias, .tp = tp };
        assert_int_equal(pthread_create(&r[i].thread, NULL, run, &r[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(r[i].thread, NULL);
}

/* A metric of the whole micro-batch: how far each image's brightness is from the mean of all. */
static ls_status build_mixing(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    const ls_value images = ls_input(g, "images", LS_TYPE(LS_U8, batch, 1, 8, 8)),
                   labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch)),
                   x = ls_reshape(g, ls_normalize_pixels(g, images, 0.5, 0.5), batch, 64),
                   light = ls_mean(g, x, 1, true);
    ls_loss(g, "loss", ls_cross_entropy(g, ls_linear(g, "fc", x, 5), labels), 1, LS_BY_VALID, "labels");
    ls_measure(g, "distance", ls_abs(g, ls_sub(g, light, ls_mean(g, light, 0, true))), LS_MEAN, LS_BY_SAMPLE,
               NULL);
    return ls_graph_finish(g);
}

static void padding_must_not_change_a_metric(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_eval_result whole, halves;
    const int64_t batches[] = { SAMPLES / 2 + 1, SAMPLES, 1 };
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(ls_trainer_create(&t, build_mixing, NULL, .micro_batch = batches[i], .threads = 1,
                                    .eval_only = true));
        ASSERT_OK(ls_trainer_init(t, 5));
        if (i == 0)
            ASSERT_FAILS(ls_evaluate(t, &SET, NULL, NULL, &halves), LS_E_USAGE, "evaluation of 70 samples",
                         "test_evaluate.c:", "\"distance\"", "micro-batches that divide the samples");
        else
            ASSERT_OK(ls_evaluate(t, &SET, NULL, NULL, i == 1 ? &whole : &halves));
        ls_trainer_destroy(&t);
    }
    assert_true(ls_metric_list_find(&whole.metrics, "distance") > 0);
    assert_true(ls_metric_list_find(&halves.metrics, "distance") == 0);
    ls_eval_result_release(&whole);
    ls_eval_result_release(&halves);
}

/* Every sample is one pair of its class and the predicted one. */
static void check_pairs(const rank *r, const rank *alone)
{
    int64_t right = 0;
    for (int is = 0; is < CLASSES; is++) {
        int64_t rows = 0;
        for (int said = 0; said < CLASSES; said++)
            rows += r->pairs[is * CLASSES + said];
        assert_int_equal(rows, SAMPLES / CLASSES);
        right += r->pairs[is * CLASSES + is];
    }
    assert_int_equal(right, r->result.correct);
    assert_memory_equal(r->pairs, alone->pairs, sizeof r->pairs);
}

static void the_same_bits_on_any_number_of_ranks(void **state)
{
    (void)state;
    static const int counts[] = { 1, 2, 3, 4, 8 };
    /* of 1: with 3, 4 or 8 ranks some last batches are padding wholly; of 70: most of every one is */
    static const int64_t batches[] = { 1, 7, 70 };
    rank alone = { .batch = 16, .bias = 0.25f, .tp = 1 };
    ASSERT_OK(evaluate(&alone));
    assert_int_equal(alone.result.samples, SAMPLES);
    assert_true(alone.result.loss > 0.5 && alone.result.loss < 5);
    for (int k = 0; k < 5; k++)
        for (int j = 0; j < 3; j++) {
            rank r[MOST];
            memset(reads, 0, sizeof reads);
            run_ranks(r, counts[k], 1, batches[j], k < 2, 0.25f);
            for (int i = 0; i < counts[k]; i++) {
                if (r[i].status != LS_OK)
                    fail_msg("%d ranks, rank %d: %s", counts[k], i, r[i].message);
                assert_true(r[i].result.loss == alone.result.loss &&
                            r[i].result.accuracy == alone.result.accuracy);
                assert_int_equal(r[i].result.samples, SAMPLES);
                assert_int_equal(r[i].result.correct, alone.result.correct);
                check_pairs(&r[i], &alone);
            }
            for (int i = 0; i < SAMPLES; i++) /* a batch that is padding wholly has one sample again */
                assert_true(reads[i] >= 1 && (reads[i] == 1 || SAMPLES % (counts[k] * batches[j])));
        }
}

/* Axis tp reads the same samples several times, and they count once. */
static void ranks_of_a_tensor_axis_count_once(void **state)
{
    (void)state;
    rank alone = { .batch = 16, .bias = 0.25f, .tp = 1 };
    ASSERT_OK(evaluate(&alone));
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        rank r[MOST];
        memset(reads, 0, sizeof reads);
        run_ranks(r, ranks, 2, 7, false, 0.25f);
        for (int i = 0; i < ranks; i++) {
            if (r[i].status != LS_OK)
                fail_msg("%d ranks, rank %d: %s", ranks, i, r[i].message);
            assert_true(r[i].result.loss == alone.result.loss &&
                        r[i].result.accuracy == alone.result.accuracy);
            assert_int_equal(r[i].result.samples, SAMPLES);
            assert_int_equal(r[i].result.count, alone.result.count);
            assert_int_equal(r[i].result.correct, alone.result.correct);
            check_pairs(&r[i], &alone);
        }
        for (int i = 0; i < SAMPLES; i++)
            assert_int_equal(reads[i], 2);
    }
}

/* Samples of class 3 have an infinite loss; sample 3 is the first of them, on whichever rank. */
static void every_rank_names_the_same_wild_sample(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++) {
        rank r[MOST];
        run_ranks(r, ranks, 1, 7, false, -INFINITY);
        for (int i = 0; i < ranks; i++) {
            assert_int_equal(r[i].status, LS_E_NUMERIC);
            ASSERT_CONTAINS(r[i].message, "the loss of sample 3 is inf");
        }
    }
}

/* Neither the losses of evaluations nor the weights of the steps between them change with the batch. */
static void a_batch_of_its_own_beside_steps(void **state)
{
    (void)state;
    static const int64_t batches[] = { 0, 3, 70 };
    double losses[3][3];
    float weights[3][64];
    for (int k = 0; k < 3; k++) {
        ls_trainer *t;
        ls_eval_result e;
        ls_loader *loader;
        ls_loader_step b;
        ls_step_result r;
        bool done;
        const ls_order order = { .n = SAMPLES, .global_batch = 16, .micro_batch = 8, .drop_last = true };
        ASSERT_OK(ls_trainer_create(&t, training_build_vit, &VIT, .micro_batch = 8, .micro_batches = 2,
                                    .eval_batch = batches[k], .threads = 1));
        ASSERT_OK(ls_trainer_init(t, 5));
        ASSERT_OK(ls_loader_create(&loader, &SET, &order, .epochs = 1));
        for (int step = 0; step < 3; step++) {
            ASSERT_OK(ls_evaluate(t, &SET, NULL, NULL, &e));
            losses[k][step] = e.loss;
            ls_eval_result_release(&e);
            ASSERT_OK(ls_loader_next(loader, &b, &done));
            ASSERT_OK(ls_trainer_step_from(t, &b, 0.1, &r));
        }
        const ls_tensor bias = ls_tensor_of(weights[k], &LS_TYPE(LS_F32, CLASSES));
        ASSERT_OK(ls_trainer_get(t, "heads.head.bias", &bias));
        ls_loader_destroy(&loader);
        ls_trainer_destroy(&t);
        assert_memory_equal(losses[k], losses[0], sizeof losses[k]);
        assert_memory_equal(weights[k], weights[0], sizeof *weights[k] * CLASSES);
    }
    assert_true(losses[0][1] != losses[0][0]);
}

static void padding_of_an_evaluation_is_refused_early(void **state)
{
    (void)state;
    ls_trainer *t;
    for (int64_t batch = 7; batch < 9; batch++) {
        ASSERT_OK(
            ls_trainer_create(&t, build_mixing, NULL, .micro_batch = 16, .eval_batch = batch, .threads = 1));
        if (batch == 7)
            ASSERT_OK(ls_evaluate_check(t, &SET));
        else
            ASSERT_FAILS(ls_evaluate_check(t, &SET), LS_E_USAGE, "evaluation of 70 samples, 8 at once");
        ls_trainer_destroy(&t);
    }
    ASSERT_FAILS(ls_trainer_create(&t, build_mixing, NULL, .eval_batch = -1), LS_E_USAGE, "eval_batch -1");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(padding_must_not_change_a_metric),
                                        cmocka_unit_test(the_same_bits_on_any_number_of_ranks),
                                        cmocka_unit_test(ranks_of_a_tensor_axis_count_once),
                                        cmocka_unit_test(a_batch_of_its_own_beside_steps),
                                        cmocka_unit_test(padding_of_an_evaluation_is_refused_early),
                                        cmocka_unit_test(every_rank_names_the_same_wild_sample) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
