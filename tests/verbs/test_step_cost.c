/* test_step_cost.c - a step on a device whose memory is its own also needs the time of copies to it and from
 * it. */
#include "support/support.h"
#include "verbs/step_cost.h"

static void copies_take_time(void **state)
{
    (void)state;
    const ls_calibration machine = { .device = "emulated",
                                     .arch = "avx2",
                                     .threads = 1,
                                     .flops = 1e11,
                                     .gemm_efficiency = 0.5,
                                     .bytes_cache = 1e11,
                                     .bytes_memory = 1e10,
                                     .to_device = 2e9,
                                     .to_host = 1e9 };
    const char *const sets[] = { "model.layers=1", "workers=2", "threads=1", "isa=avx2", "device=emulated" };
    const ls_recipe_arg recipe = { .name = "vit-fashion-mnist", .n_sets = 5, .sets = sets };
    ls_compiled_recipe c;
    ls_step_cost cost;
    ASSERT_OK(ls_compiled_recipe_make(&c, &recipe, 0, NULL));
    ls_compiled_release(&c.step);
    ASSERT_OK(ls_compile(&c.step, ls_recipe_build, c.recipe, &c.setup.trainer, &machine));
    c.calibration = &machine;
    ls_step_cost_of(&cost, &c);
    const ls_transfers *t = &cost.transfers;
    assert_true(t->inputs > 0 && t->results > 0 && t->operands > 0);
    assert_float_equal(cost.copying,
                       (t->inputs + t->results) / 2e9 + (t->outputs + t->operands + t->states) / 1e9, 1e-12);
    assert_float_equal(cost.seconds, ls_compiled_seconds(&c.step) + cost.copying, 1e-12);
    c.calibration = NULL;
    ls_step_cost_of(&cost, &c);
    assert_float_equal(cost.copying, 0, 0);
    ls_compiled_recipe_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(copies_take_time) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
