/* test_convnext.c - a small ConvNeXt against PyTorch: the loss and every gradient of a step, five steps of
 * AdamW, on ref in f64 and on cpu at every level; and how often stochastic depth drops a branch. */
#include <math.h>
#include <stdlib.h>

#include "golden/training.h"

static const ls_convnext_config SMALL = { .image_size = 64,
                                          .in_channels = 1,
                                          .classes = 7,
                                          .depths = { 1, 2, 1, 1 },
                                          .widths = { 8, 12, 16, 24 },
                                          .mean = 0.5,
                                          .std = 0.5 };
enum { PARAMETERS = 2 + 2 + 5 * 9 + 3 * 4 + 4 };

static ls_weights *golden;
static training_data data;

static int set_up(void **state)
{
    (void)state;
    golden = golden_open("convnext");
    data = training_data_of(golden);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    training_data_release(&data);
    ls_weights_close(&golden);
    return 0;
}

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_convnext_build(g, config, batch);
}

static void check(const ls_trainer_opts *o, double gradients, double losses_within)
{
    const char *what = training_describe(o);
    double losses[5];
    ls_trainer *t = training_start(build, &SMALL, o);
    training_steps(t, &data, 2, 0, 1, 0.0, losses);
    training_expect_losses(what, losses, 1, golden_get(golden, "f64.loss"), losses_within);
    assert_int_equal(t->compiled.units.n_slots, PARAMETERS);
    for (int i = 0; i < PARAMETERS; i++) {
        ls_named_tensor g = training_gradient(t, i);
        golden_expect_scaled(what, g.tensor.data, &g.tensor.type, golden_get(golden, "f64.grad.%s", g.name),
                             gradients, golden_scalar(golden, "f64.grad_max.%s", g.name));
        training_release(&g, 1);
    }
    ls_trainer_destroy(&t);
    t = training_start(build, &SMALL, o);
    training_steps(t, &data, 2, 0, 5, 1e-3, losses);
    training_expect_losses(what, losses, 5, golden_get(golden, "f64.losses"), losses_within);
    ls_trainer_destroy(&t);
}

#define ADAMW .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.05 }

static void on_ref(void **state)
{
    (void)state;
    check(&(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .device = "ref", .param = LS_F64, .output = LS_F64,
                              .micro_batch = 2, ADAMW },
          1e-10, 1e-9);
}

static void on_cpu(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    const int n = training_levels(levels);
    for (int l = 0; l < n; l++) {
        check(&(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]), .threads = 1,
                                  .micro_batch = 2, ADAMW },
              1e-5, 1e-4);
        check(&(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]), .threads = 2,
                                  .micro_batch = 1, .micro_batches = 2, .recompute = "class:CNBlock", ADAMW },
              1e-5, 1e-4);
    }
}

/* With probability 0.5 the blocks lose their branch with 0, 1/8, 1/4, 3/8 and 1/2, so a sample has one of 16
 * losses while the weights stay. That nothing is dropped has probability 7/8 * 3/4 * 5/8 * 1/2; without
 * stochastic depth it would be the only outcome. */
static void stochastic_depth(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    ls_convnext_config c = SMALL;
    c.stochastic_depth = 0.5;
    ls_trainer *t = training_start(
        build, &c, &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 1, ADAMW });
    double seen[17];
    int times[17] = { 0 }, n = 0, most = 0;
    for (int k = 0; k < STEPS; k++) {
        double loss;
        training_steps(t, &data, 1, 0, 1, 0.0, &loss);
        int i = 0;
        while (i < n && seen[i] != loss)
            i++;
        assert_true(i < 17);
        if (i == n)
            seen[n++] = loss;
        times[i]++;
        most = times[i] > most ? times[i] : most;
    }
    ls_trainer_destroy(&t);
    assert_in_range(n, 14, 16); /* the rarest has probability 1/8 * 1/4 * 3/8 * 1/2 */
    const double kept = 7.0 / 8 * 3 / 4 * 5 / 8 / 2;
    assert_true(fabs((double)most / STEPS - kept) < 4 * sqrt(kept * (1 - kept) / STEPS));
}

static void refuses(void **state)
{
    (void)state;
    ls_graph *g;
    ls_convnext_config c = SMALL;
    c.image_size = 31;
    ASSERT_OK(ls_graph_create(&g, "convnext"));
    ASSERT_FAILS(ls_convnext_build(g, &c, 1), LS_E_SHAPE, "image_size 31 is below 32");
    c.image_size = 64;
    c.depths[2] = 0;
    ASSERT_FAILS(ls_convnext_build(g, &c, 1), LS_E_SHAPE, "stage 3 has 0 blocks");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(on_ref), cmocka_unit_test(on_cpu),
                                        cmocka_unit_test(stochastic_depth), cmocka_unit_test(refuses) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
