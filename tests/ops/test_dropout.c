/* test_dropout.c - what dropout drops: the right number of elements. Whether an element is dropped is
 * independent of its neighbours and of the same element of another sample, step or layer. Tolerances are five
 * standard deviations of independent draws. */
#include <math.h>
#include <stdlib.h>

#include "cases.h"
#include "support/support.h"

enum { SAMPLES = 16, ELEMENTS = 4096, N = SAMPLES * ELEMENTS };

/* The mask, 0 or 1, of SAMPLES samples: numbers first, first + apart, .. of a step. */
static void draw(uint8_t mask[N], double p, uint64_t purpose, int64_t seed, int64_t step, int64_t first,
                 int64_t apart)
{
    ls_device d;
    const char *name = getenv("LOCKSTEP_DEVICE");
    ASSERT_OK(ls_device_open(&d, name ? name : "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    static float x[N], y[N];
    int64_t key[3], places[2] = { first, apart };
    for (int i = 0; i < N; i++)
        x[i] = 1;
    const ls_type number = LS_SCALAR(LS_I64), pair = LS_TYPE(LS_I64, 2), triple = LS_TYPE(LS_I64, 3),
                  all = LS_TYPE(LS_F32, SAMPLES, ELEMENTS);
    const ls_tensor in[] = { ls_tensor_of(&seed, &number), ls_tensor_of(&step, &number),
                             ls_tensor_of(places, &pair) },
                    k = ls_tensor_of(key, &triple);
    const ls_tensor result = ls_tensor_of(y, &all);
    run_op(&d, "random_key", NULL, 3, in, 1, &k);
    run_op(&d, "dropout", &(ls_dropout_attrs){ .p = p, .purpose = purpose }, 2,
           (ls_tensor[]){ ls_tensor_of(x, &all), k }, 1, &result);
    for (int i = 0; i < N; i++) {
        mask[i] = y[i] != 0;
        assert_true(y[i] == (mask[i] ? (float)(1 / (1 - p)) : 0.0f));
    }
}

/* Correlation of n pairs of elements, both kept with probability 1 - p. */
static void expect_independent(const char *what, const uint8_t *a, const uint8_t *b, int64_t n, double p)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (a[i] - (1 - p)) * (b[i] - (1 - p)) / (p * (1 - p));
    if (!(fabs(sum / (double)n) < 5 / sqrt((double)n)))
        fail_msg("%s: correlation %g over %lld pairs", what, sum / (double)n, (long long)n);
}

static void the_right_share(void **state)
{
    (void)state;
    static const double ps[] = { 0.001, 0.1, 0.5, 0.9 };
    static uint8_t mask[N];
    for (int k = 0; k < 4; k++) {
        int64_t kept = 0;
        draw(mask, ps[k], 7, 3, 11, 0, 1);
        for (int i = 0; i < N; i++)
            kept += mask[i];
        if (!(fabs((double)kept - N * (1 - ps[k])) < 5 * sqrt(N * ps[k] * (1 - ps[k]))))
            fail_msg("p %g: %lld of %d are kept", ps[k], (long long)kept, N);
    }
}

static void neighbours_say_nothing(void **state)
{
    (void)state;
    static uint8_t mask[N];
    static const int apart[] = { 1, 2, 3, 7, 8, 9, 15, 16, 32, 63, 64, 65, 128, 512, ELEMENTS, 2 * ELEMENTS };
    draw(mask, 0.3, 7, 3, 11, 0, 1);
    for (size_t k = 0; k < sizeof apart / sizeof apart[0]; k++)
        expect_independent("neighbours", mask, mask + apart[k], N - apart[k], 0.3);
}

static void other_masks_say_nothing(void **state)
{
    (void)state;
    static uint8_t one[N], other[N];
    draw(one, 0.3, 7, 3, 11, 0, 1);
    static const struct {
        const char *what;
        uint64_t purpose;
        int64_t seed, step, first;
    } CASES[] = {
        { "another layer", 8, 3, 11, 0 },         { "another seed", 7, 4, 11, 0 },
        { "the next step", 7, 3, 12, 0 },         { "other samples", 7, 3, 11, SAMPLES },
        { "seed and step swapped", 7, 11, 3, 0 },
    };
    for (size_t k = 0; k < sizeof CASES / sizeof CASES[0]; k++) {
        draw(other, 0.3, CASES[k].purpose, CASES[k].seed, CASES[k].step, CASES[k].first, 1);
        expect_independent(CASES[k].what, one, other, N, 0.3);
    }
}

/* Sample 6 of the step is the fourth of 0, 2, 4, .. and the third of 4, 5, 6, .. */
static void a_sample_has_its_mask_wherever_it_is(void **state)
{
    (void)state;
    static uint8_t even[N], from_four[N];
    draw(even, 0.3, 7, 3, 11, 0, 2);
    draw(from_four, 0.3, 7, 3, 11, 4, 1);
    assert_memory_equal(even + 3 * ELEMENTS, from_four + 2 * ELEMENTS, ELEMENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_share),
        cmocka_unit_test(neighbours_say_nothing),
        cmocka_unit_test(other_masks_say_nothing),
        cmocka_unit_test(a_sample_has_its_mask_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
