/* test_exact.c - sums without rounding: against integers, in any order and any division, at both ends of the
 * range, and rounded once. */
#include <math.h>
#include <string.h>

#include "base/exact.h"
#include "base/rng.h"
#include "support/support.h"

static double sum_of(const double *x, int n)
{
    ls_exact e = { 0 };
    for (int i = 0; i < n; i++)
        ls_exact_add(&e, x[i]);
    return ls_exact_value(&e);
}
#define SUM(...) \
    sum_of((const double[]){ __VA_ARGS__ }, (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)))

static void nothing_is_lost(void **state)
{
    (void)state;
    assert_true(SUM(0.0) == 0 && SUM(1.5) == 1.5 && SUM(-1.5) == -1.5 && SUM(0x1p-1074) == 0x1p-1074);
    assert_true(SUM(1e308, 1.0, -1e308) == 1);
    assert_true(SUM(1e300, 0x1p-1074, -1e300) == 0x1p-1074);
    assert_true(SUM(-0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, -0x1p-1000) == -0x1p-1000);
    assert_true(SUM(1.0, 0x1p-53) == 1); /* a tie, to even */
    assert_true(SUM(1.0, 0x1p-53, 0x1p-1074) == 1 + 0x1p-52 && SUM(1.0, 0x1p-53, -0x1p-1074) == 1);
    assert_true(SUM(1 + 0x1p-52, 0x1p-53) == 1 + 0x1p-51);
    assert_true(SUM(-1.0, -0x1p-53, -0x1p-200) == -1 - 0x1p-52);
    /* what decides the tie, at every distance: in the three highest digits, and below them */
    for (int e = -100; e <= 100; e++)
        for (int below = 54; below < 200; below += 3)
            assert_true(SUM(ldexp(1, e), ldexp(1, e - 53), ldexp(1, e - below)) == ldexp(1 + 0x1p-52, e));
    assert_true(SUM(0x1.8p-1074 * 0 + 3e-323, 5e-324, -3e-323) == 5e-324);
}

static void any_order_and_any_parts(void **state)
{
    (void)state;
    enum { N = 3000 };
    static double x[N];
    const ls_rng_key key = ls_rng_key_of(7, 3);
    __int128 units = 0;
    for (int i = 0; i < N; i++) {
        const int64_t k = (int64_t)ls_rng_below(key, (uint64_t)i, (uint64_t)1 << 40) - ((int64_t)1 << 39);
        x[i] = ldexp((double)k, (int)ls_rng_below(key, (uint64_t)(N + i), 40) - 60);
        units += (__int128)ldexp(x[i], 60);
    }
    const double want = ldexp((double)units, -60), all = sum_of(x, N);
    assert_true(all == want);
    for (int parts = 2; parts <= 7; parts++) {
        ls_exact total = { 0 };
        for (int p = 0; p < parts; p++) {
            ls_exact part = { 0 };
            for (int i = N - 1; i >= 0; i--)
                if (i % parts == p)
                    ls_exact_add(&part, x[i]);
            ls_exact_merge(&total, &part);
        }
        assert_true(ls_exact_value(&total) == want);
    }
}

/* More terms than a digit holds without carrying. */
static void carries(void **state)
{
    (void)state;
    ls_exact e = { 0 };
    ls_exact_add(&e, 0x1.fffffffffffffp0);
    e.terms = ((int64_t)1 << 30) - 2;
    ls_exact_add(&e, 0x1.fffffffffffffp0);
    assert_int_equal(e.terms, ((int64_t)1 << 30) - 1);
    ls_exact_add(&e, 1);
    assert_int_equal(e.terms, 0);
    for (int i = 0; i + 1 < LS_EXACT_DIGITS; i++)
        assert_true(e.digit[i] >= 0 && e.digit[i] >> 32 == 0);
    assert_true(ls_exact_value(&e) == 0x1.fffffffffffffp1 + 1);
}

/* x[0] + x[1] + ... as a sum, times a factor, beside what cancels it */
static void a_sum_times_a_factor(void **state)
{
    (void)state;
    ls_exact x = { 0 }, e = { 0 };
    ls_exact_add(&x, -1e200);
    ls_exact_add(&x, 0x1p-300);
    ls_exact_add(&x, -2);
    ls_exact_add_scaled(&e, &x, 0x1.0000000000001p-1);
    ls_exact_add(&e, 0.5 * 1e200);
    ls_exact_add(&e, 0x1p-53 * 1e200);
    assert_true(ls_exact_value(&e) == -0x1.0000000000001p0);
    ls_exact_add(&e, 0x1.0000000000001p0);
    assert_true(ls_exact_value(&e) == 0x1.0000000000001p-301);
    ls_exact_add_scaled(&e, &x, 0);
    ls_exact_add_scaled(&e, &(ls_exact){ 0 }, 7);
    assert_true(ls_exact_value(&e) == 0x1.0000000000001p-301);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_sum_times_a_factor),
                                        cmocka_unit_test(nothing_is_lost),
                                        cmocka_unit_test(any_order_and_any_parts),
                                        cmocka_unit_test(carries) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
