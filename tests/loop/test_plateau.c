/* test_plateau.c - schedule plateau cuts the rate where PyTorch's ReduceLROnPlateau does. */
#include <math.h>

#include "loop/plateau.h"
#include "support/support.h"

static ls_recipe recipe_of(ls_metric_mode mode)
{
    ls_recipe r = { .checkpoint = { .best = { .metric = "eval_loss", .mode = mode } } };
    r.optimizer.lr = 0.8;
    r.schedule.type = LS_SCHED_PLATEAU;
    r.schedule.gamma = 0.25;
    r.schedule.patience = 1;
    r.schedule.min_lr = 0.02;
    r.schedule.threshold = 0.1;
    return r;
}

/* The numbers are those of ReduceLROnPlateau(factor=0.25, patience=1, min_lr=0.02, threshold=0.1). */
static void as_pytorch(void **state)
{
    (void)state;
    const double values[] = { 4, 3.7, 3.5, 3.3, 3.3, 3.2, NAN, 3, 3, 3, 2.6, 2.6, 2.6, 2.6, 2.6 },
                 rates[] = { 0.8,  0.8,  0.8,  0.8,  0.2,  0.2,  0.05, 0.05,
                             0.05, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02 };
    const ls_recipe r = recipe_of(LS_MODE_MIN);
    ls_run_metrics m = { .plateau_value = NAN };
    ls_schedule s = { .kind = LS_SCHED_PLATEAU, .gamma = 0.25, .min_lr = 0.02 };
    for (int i = 0; i < 15; i++) {
        const int64_t before = m.plateau_cuts;
        const bool cut = ls_plateau_note(&m, &r, true, values[i]);
        assert_int_equal(cut, m.plateau_cuts - before);
        assert_false(ls_plateau_note(&m, &r, false, 100)); /* an epoch without evaluation */
        s.cuts = m.plateau_cuts;
        assert_true(fabs(ls_schedule_rate(&s, 0.8, 7) - rates[i]) < 1e-15);
    }
    assert_int_equal(m.plateau_cuts, 3); /* at the least rate nothing more is cut */
}

static void larger_is_better(void **state)
{
    (void)state;
    ls_recipe r = recipe_of(LS_MODE_MAX);
    ls_run_metrics m = { .plateau_value = NAN };
    const double values[] = { 0.5, 0.56, 0.6, 0.61, 0.62 };
    for (int i = 0; i < 5; i++)
        assert_int_equal(ls_plateau_note(&m, &r, true, values[i]), i == 3);
    r.schedule.type = LS_SCHED_CONSTANT;
    for (int i = 0; i < 5; i++)
        assert_false(ls_plateau_note(&m, &r, true, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_pytorch), cmocka_unit_test(larger_is_better) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
