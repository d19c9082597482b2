/* test_order.c - the order of samples: a permutation for each epoch, dealt to steps and micro-batches. */
#include "files.h"

#include "data/known.h"

static void test_permutation(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 300; n += 37) {
        ls_order o = {
            .n = n, .global_batch = 1, .micro_batch = 1, .seed = 5, .shuffle = true, .drop_last = true
        };
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            char *seen = calloc(1, (size_t)n);
            for (int64_t p = 0; p < n; p++) {
                int64_t i = ls_order_index(&o, epoch, p);
                assert_in_range(i, 0, n - 1);
                assert_int_equal(seen[i]++, 0);
            }
            free(seen);
        }
    }
}

static int differences(const ls_order *a, int64_t epoch_a, const ls_order *b, int64_t epoch_b)
{
    int d = 0;
    for (int64_t p = 0; p < a->n; p++)
        d += ls_order_index(a, epoch_a, p) != ls_order_index(b, epoch_b, p);
    return d;
}

static void test_seed_and_epoch_matter(void **state)
{
    (void)state;
    ls_order a = { .n = 1000, .global_batch = 10, .micro_batch = 10, .seed = 1, .shuffle = true }, b = a,
             plain = a;
    b.seed = 2;
    plain.shuffle = false;
    assert_int_equal(differences(&a, 3, &a, 3), 0);
    assert_true(differences(&a, 0, &a, 1) > 950);
    assert_true(differences(&a, 0, &b, 0) > 950);
    assert_true(differences(&a, 0, &b, 1) > 950);
    assert_true(differences(&a, 0, &plain, 0) > 950);
    for (int64_t p = 0; p < 1000; p++)
        assert_int_equal(ls_order_index(&plain, 7, p), p);
}

/* With blocks, micro-batch m of a step is the same for any number of micro-batches in a step. */
static void test_blocks(void **state)
{
    (void)state;
    const ls_order one = { .n = 11, .global_batch = 4, .micro_batch = 4, .blocks = true },
                   two = { .n = 11, .global_batch = 8, .micro_batch = 4, .blocks = true };
    for (int64_t k = 0; k < 4; k++)
        for (int64_t row = 0; row < 4; row++) {
            const int64_t at = 4 * k + row, i = at < 11 ? at : -1;
            assert_int_equal(ls_order_sample(&one, 0, k, 0, row), i);
            assert_int_equal(ls_order_sample(&two, 0, k / 2, k % 2, row), i);
        }
}

/* These exact orders are promised: a run resumed with a later version must see the same samples. */
static void test_golden(void **state)
{
    (void)state;
    ls_order o = {
        .n = 60000, .global_batch = 128, .micro_batch = 128, .seed = 0, .shuffle = true, .drop_last = true
    };
    const int64_t expect[8] = { 37592, 8040, 21703, 4067, 42342, 53234, 4336, 23141 };
    for (int i = 0; i < 8; i++)
        assert_int_equal(ls_order_index(&o, i / 4, i % 4), expect[i]);
}

static void test_deal(void **state)
{
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        ls_order o = {
            .n = 50, .global_batch = 12, .micro_batch = 3, .seed = 9, .shuffle = shuffle, .drop_last = true
        };
        assert_ok(ls_order_check(&o));
        assert_int_equal(ls_order_steps(&o), 4);
        for (int64_t step = 0; step < 4; step++)
            for (int64_t m = 0; m < 4; m++)
                for (int64_t row = 0; row < 3; row++)
                    assert_int_equal(ls_order_sample(&o, 2, step, m, row),
                                     ls_order_index(&o, 2, step * 12 + m + 4 * row));
        o.drop_last = false;
        assert_int_equal(ls_order_steps(&o), 5);
        assert_int_equal(ls_order_samples(&o, 3), 12);
        assert_int_equal(ls_order_samples(&o, 4), 2);
        int padding = 0;
        for (int64_t m = 0; m < 4; m++)
            for (int64_t row = 0; row < 3; row++) {
                int64_t position = 48 + m + 4 * row, s = ls_order_sample(&o, 2, 4, m, row);
                assert_int_equal(s, position < 50 ? ls_order_index(&o, 2, position) : -1);
                padding += s < 0;
            }
        assert_int_equal(padding, 10);
    }
    ls_order exact = { .n = 24, .global_batch = 12, .micro_batch = 12 };
    assert_int_equal(ls_order_steps(&exact), 2);
    exact.steps = 1; /* an epoch ends earlier, */
    assert_int_equal(ls_order_steps(&exact), 1);
    exact.steps = 3; /* or not */
    assert_int_equal(ls_order_steps(&exact), 2);
    assert_int_equal(ls_order_samples(&exact, 1), 12);
    assert_int_equal(ls_order_samples(&exact, 2), 0);
}

static void test_refused(void **state)
{
    (void)state;
    ls_order o = { .n = 50, .global_batch = 12, .micro_batch = 5 };
    assert_fails(LS_E_USAGE, ls_order_check(&o), "micro_batch 5", "global_batch 12");
    o.micro_batch = 0;
    assert_fails(LS_E_USAGE, ls_order_check(&o), "at least 1", "micro_batch 0");
    o = (ls_order){ .n = 50, .global_batch = 64, .micro_batch = 64, .drop_last = true };
    assert_fails(LS_E_USAGE, ls_order_check(&o), "50 samples", "drop_last: false");
    o.drop_last = false;
    assert_ok(ls_order_check(&o));
    assert_int_equal(ls_order_steps(&o), 1);
    o.n = 0;
    assert_fails(LS_E_USAGE, ls_order_check(&o), "no samples", "");
}

static void test_fill(void **state)
{
    (void)state;
    char *dir = make_folder();
    write_set(dir, 10, 1, 2, 3, 10, false);
    ls_dataset *set;
    assert_ok(ls_dataset_open(&set, "mnist", LS_SPLIT_TRAIN, .path = dir));
    ls_order o = { .n = 10, .global_batch = 4, .micro_batch = 2 };
    uint8_t images[2 * 6 + 1];
    int32_t labels[3] = { 0, 0, 77 };
    memset(images, 0xee, sizeof images);
    assert_ok(ls_order_fill(&o, set, 0, 1, 1,
                            (void *const[]){ images, labels })); /* positions 4..7, of these 5 and 7 */
    assert_int_equal(labels[0], 5);
    assert_int_equal(labels[1], 7);
    assert_int_equal(labels[2], 77);
    for (int p = 0; p < 6; p++) {
        assert_int_equal(images[p], 5 + p);
        assert_int_equal(images[6 + p], 7 + p);
    }
    assert_int_equal(images[12], 0xee);
    /* positions 9 and 11: one sample, one padding */
    assert_ok(ls_order_fill(&o, set, 0, 2, 1, (void *const[]){ images, labels }));
    assert_int_equal(labels[0], 9);
    assert_int_equal(labels[1], LS_IGNORE_LABEL);
    for (int p = 0; p < 6; p++) /* padding is the picture of another sample of the step */
        assert_int_equal(images[6 + p], 9 + p);
    ls_dataset_close(&set);
    remove_tree(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation), cmocka_unit_test(test_seed_and_epoch_matter),
        cmocka_unit_test(test_golden),      cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_deal),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
