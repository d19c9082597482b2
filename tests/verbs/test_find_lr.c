/* test_find_lr.c - the rule that chooses a learning rate, on curves whose answer is known. */
#include <math.h>
#include "support/support.h"
#include "verbs/find_lr.h"

enum { N = 81 };
static double rate[N], loss[N], smooth[N];

/* Rates 1e-6 to 1e2. The loss falls around 1e-2 as a sigmoid of the logarithm, which is steepest there, and
 * rises again from 1 on. */
static void make(double fall, double noise)
{
    for (int i = 0; i < N; i++) {
        rate[i] = pow(10, -6 + 0.1 * i);
        const double x = log10(rate[i]);
        loss[i] = 2 - fall / (1 + exp(-6 * (x + 2))) + (x > 0 ? x * x : 0) + (i % 2 ? noise : -noise);
    }
    ls_rate_smooth(smooth, loss, N);
}

static void steepest_descent(void **state)
{
    (void)state;
    make(1, 0.02);
    const ls_rate_choice c = ls_rate_choose(rate, smooth, N);
    assert_true(c.at >= 38 && c.at <= 42); /* 1e-2 is step 40: the window does not move it */
    assert_float_equal(c.steepest, rate[c.at], 0);
    assert_true(c.lowest > 0.1 && c.lowest <= 1.3);
    assert_false(c.ended);
}

static void a_range_that_ends_too_early(void **state)
{
    (void)state;
    make(1, 0);
    const ls_rate_choice c = ls_rate_choose(rate, smooth, 42);
    assert_true(c.at > 30);
    assert_true(c.ended);
}

static void no_descent(void **state)
{
    (void)state;
    make(0, 0.02);
    assert_int_equal(ls_rate_choose(rate, smooth, N).at, -1);
    assert_int_equal(ls_rate_choose(rate, smooth, 1).at, -1);
    assert_int_equal(ls_rate_choose(rate, smooth, 0).at, -1);
}

static void smoothing_keeps_straight_lines(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++)
        loss[i] = 3 - 0.01 * i;
    ls_rate_smooth(smooth, loss, N);
    for (int i = 0; i < N; i++)
        assert_float_equal(smooth[i], loss[i], 1e-12); /* also at both ends */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(steepest_descent),
                                        cmocka_unit_test(a_range_that_ends_too_early),
                                        cmocka_unit_test(no_descent),
                                        cmocka_unit_test(smoothing_keeps_straight_lines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
