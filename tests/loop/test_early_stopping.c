/* test_early_stopping.c - which epochs count as an improvement, and when training ends. */
#include <math.h>
#include <string.h>

#include "loop/early_stopping.h"
#include "support/support.h"

enum { PATIENCE = 2 };

static ls_recipe recipe_of(ls_metric_mode mode, double min_delta)
{
    ls_recipe r = { .checkpoint = { .best = { .metric = "eval_auc", .mode = mode } } };
    r.train.early_stopping.patience = PATIENCE;
    r.train.early_stopping.min_delta = min_delta;
    return r;
}

static const double UNMEASURED = -1234;

/* How many of the epochs are trained; the last ends training. */
static int epochs(const ls_recipe *r, int n, const double *values, ls_run_metrics *m)
{
    *m = (ls_run_metrics){ .stop_value = NAN };
    for (int i = 0; i < n; i++) {
        const bool measured = values[i] != UNMEASURED;
        ls_early_stopping_note(m, r, measured, measured ? values[i] : NAN);
        if (ls_early_stopping_due(m, r))
            return i + 1;
    }
    return n;
}
#define EPOCHS(r, m, ...) \
    epochs(r, (int)(sizeof(double[]){ __VA_ARGS__ } / sizeof(double)), (double[]){ __VA_ARGS__ }, m)

static void improvements(void **state)
{
    (void)state;
    ls_run_metrics m;
    char text[200];
    const ls_recipe least = recipe_of(LS_MODE_MIN, 0.25), most = recipe_of(LS_MODE_MAX, 0),
                    never = { .train = { .epochs = 1 } };
    /* an improvement begins the count anew */
    assert_int_equal(EPOCHS(&least, &m, 4, 5, 3, 5, 2, 5, 5, 1), 7);
    assert_true(m.stop_value == 2 && m.stop_waited == PATIENCE);
    ls_early_stopping_text(text, sizeof text, &m, &least);
    assert_string_equal(text,
                        "early stopping: eval_auc has not improved by more than 0.25 for 2 epochs; the best "
                        "value is 2");
    /* by more than min_delta, not by as much */
    assert_int_equal(EPOCHS(&least, &m, 4, 3.75, 3.75, 1), 3);
    assert_int_equal(EPOCHS(&least, &m, 4, 3.75, 3.5, 3.5, 3.5, 1), 5);
    /* equal is not better, also with min_delta 0; larger is better */
    assert_int_equal(EPOCHS(&most, &m, 1, 1, 1, 5), 3);
    assert_int_equal(EPOCHS(&most, &m, 1, 2, 1, 3, 2, 4), 6);
    assert_int_equal(EPOCHS(&never, &m, 1, 1, 1, 1), 4);
}

static void undefined_values(void **state)
{
    (void)state;
    ls_run_metrics m;
    char text[200];
    const ls_recipe r = recipe_of(LS_MODE_MAX, 0);
    /* an epoch without an evaluation does not count */
    assert_int_equal(EPOCHS(&r, &m, 1, UNMEASURED, UNMEASURED, UNMEASURED, 0.5, UNMEASURED, 0.5, 2), 7);
    /* an undefined value is not an improvement, first or later */
    assert_int_equal(EPOCHS(&r, &m, NAN, UNMEASURED, NAN, 1), 3);
    ls_early_stopping_text(text, sizeof text, &m, &r);
    assert_string_equal(text, "early stopping: eval_auc has been undefined for 2 epochs");
    assert_int_equal(EPOCHS(&r, &m, NAN, 1, NAN, 2, NAN, NAN, 3), 6);
    assert_true(m.stop_value == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(improvements), cmocka_unit_test(undefined_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
