/* test_weighted_set.c - weights of classes as a field, and samples that are drawn by weights. */
#include <math.h>

#include "data/order.h"
#include "data/weighted_set.h"
#include "support/support.h"

enum { N = 8 };
static const int32_t LABELS[N] = { 0, 0, 2, 0, LS_IGNORE_LABEL, 2, 0, 0 };
static const float WEIGHTS[N] = { 0, 1, 0.5F, 0, 2, 0.25F, 0.25F, 0 };

static ls_dataset *set_of(const float *weights)
{
    ls_dataset *set = NULL;
    const ls_type kind = LS_TYPE(LS_I32, N), weight = LS_TYPE(LS_F32, N);
    const ls_tensor labels = ls_tensor_of((void *)LABELS, &kind), w = ls_tensor_of((void *)weights, &weight);
    ASSERT_OK(ls_dataset_put(&set, "kind", &labels));
    ASSERT_OK(ls_dataset_put(&set, "w", &w));
    return set;
}

static void classes_are_balanced(void **state)
{
    (void)state;
    ls_dataset *set = set_of(WEIGHTS);
    int64_t counts[4] = { 0 };
    double w[4];
    ASSERT_OK(ls_class_counts(set, 0, 4, counts));
    assert_true(counts[0] == 5 && !counts[1] && counts[2] == 2 && !counts[3]);
    ls_class_balance(4, counts, w); /* scikit-learn: 7 / (2 * 5), 7 / (2 * 2) */
    assert_true(w[0] == 0.7 && w[2] == 1.75 && w[1] == 0 && w[3] == 0);
    ASSERT_OK(ls_weighted_open(&set, "kind", "kind.class_weight", "kind.class_weights", 4, w));
    assert_int_equal(set->n_fields, 4);
    for (int64_t i = 0; i < N; i++) {
        float got = -1, alone = -1, all[4];
        int32_t label = 7;
        ASSERT_OK(set->read(set, i, (void *[]){ &label, NULL, &got, NULL }));
        ASSERT_OK(set->read(set, i, (void *[]){ NULL, NULL, &alone, all }));
        for (int c = 0; c < 4; c++)
            assert_true(all[c] == (float)w[c]);
        assert_true(label == LABELS[i] && got == alone);
        assert_true(got == (label < 0 ? 0 : (float)w[label]));
    }
    assert_null(ls_dataset_draws(set));
    ASSERT_FAILS(ls_weighted_open(&set, "w", "x", NULL, 4, w), LS_E_SHAPE, "no field \"w\" of classes");
    assert_null(set);
}

/* How often each sample is drawn in `epochs` epochs. */
static void draw(const ls_dataset *set, int64_t epochs, int64_t count[N])
{
    const ls_order o = { .n = N,
                         .global_batch = 4,
                         .micro_batch = 2,
                         .seed = 3,
                         .shuffle = true,
                         .draws = ls_dataset_draws(set) };
    for (int64_t e = 0; e < epochs; e++)
        for (int64_t p = 0; p < N; p++) {
            const int64_t i = ls_order_index(&o, e, p);
            assert_in_range(i, 0, N - 1);
            assert_int_equal(ls_order_index(&o, e, p), i);
            count[i]++;
        }
    /* a sample that comes twice in an epoch changes in two ways */
    assert_true(ls_order_draw(&o, 0, 1, 0, 0, 0) != ls_order_draw(&o, 0, 1, 0, 0, 1));
    assert_true(ls_order_draw(&o, 0, 1, 0, 1, 0) != ls_order_draw(&o, 0, 1, 1, 0, 0));
}

static void samples_are_drawn(void **state)
{
    (void)state;
    enum { EPOCHS = 5000, ALL = EPOCHS * N };
    ls_dataset *set = set_of(WEIGHTS);
    int64_t by_weight[N] = { 0 }, by_class[N] = { 0 };
    ASSERT_OK(ls_draws_open(&set, "w", false));
    draw(set, EPOCHS, by_weight);
    for (int i = 0; i < N; i++) { /* 4 standard deviations */
        const double p = WEIGHTS[i] / 4.0, d = 4 * sqrt(ALL * p * (1 - p));
        assert_true(fabs((double)by_weight[i] - ALL * p) <= d);
    }
    ls_dataset_close(&set);
    set = set_of(WEIGHTS);
    ASSERT_OK(ls_draws_open(&set, "kind", true));
    draw(set, EPOCHS, by_class);
    for (int i = 0; i < N; i++) {
        const double p = LABELS[i] < 0 ? 0 : LABELS[i] ? 0.25 : 0.1, d = 4 * sqrt(ALL * p * (1 - p));
        assert_true(fabs((double)by_class[i] - ALL * p) <= d);
    }
    ls_dataset_close(&set);
}

/* These draws are promised: a run resumed with a later version must see the same samples. */
static void the_draws_stay(void **state)
{
    (void)state;
    const double sums[4] = { 1, 3, 6, 10 };
    const ls_order o = {
        .n = 4, .global_batch = 2, .micro_batch = 2, .seed = 0, .shuffle = true, .draws = sums
    };
    const int64_t want[12] = { 3, 3, 3, 2, 3, 2, 2, 0, 2, 0, 3, 3 };
    for (int i = 0; i < 12; i++)
        assert_int_equal(ls_order_index(&o, i / 4, i % 4), want[i]);
}

static void refused(void **state)
{
    (void)state;
    const float negative[N] = { 0, 1, -1 }, nothing[N] = { 0 };
    const struct {
        const float *weights;
        const char *field;
        bool balance;
        ls_status status;
        const char *says;
    } cases[] = {
        { negative, "w", false, LS_E_NUMERIC, "field w, sample 2: -1; weights are" },
        { nothing, "w", false, LS_E_NUMERIC, "the sum of all weights is 0" },
        { nothing, "kind", false, LS_E_SHAPE, "no field kind with a number for each sample" },
        { nothing, "w", true, LS_E_SHAPE, "no field w with a class for each sample" },
        { nothing, "z", true, LS_E_SHAPE, "no field z" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_dataset *set = set_of(cases[i].weights);
        ASSERT_FAILS(ls_draws_open(&set, cases[i].field, cases[i].balance), cases[i].status, cases[i].says);
        assert_null(set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_balanced),
        cmocka_unit_test(samples_are_drawn),
        cmocka_unit_test(the_draws_stay),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
