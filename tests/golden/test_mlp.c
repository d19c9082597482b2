/* test_mlp.c - the small MLP against PyTorch: every gradient of the first step, and five steps of every
 * optimizer; in f64 on ref, where only the order of additions may differ, and in f32 on cpu at every level of
 * this machine. */
#include <stdio.h>
#include <string.h>
#include "golden/training.h"

static ls_weights *golden;
static training_data data;

static int set_up(void **state)
{
    (void)state;
    golden = golden_open("mlp");
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

static void check_gradients(const char *act, const ls_mlp_config *config, const ls_trainer_opts *o,
                            double tolerance)
{
    ls_trainer *t = training_start(training_build_mlp, config, o);
    char what[96];
    snprintf(what, sizeof what, "%s on %s", act, training_describe(o));
    double loss;
    training_steps(t, &data, 6, 0, 1, 0.0, &loss);
    training_expect_losses(what, &loss, 1, golden_get(golden, "f64.%s.loss", act), tolerance * 2);
    for (int i = 0; i < t->compiled.units.n_slots; i++) {
        ls_named_tensor g = training_gradient(t, i);
        golden_expect(what, g.tensor.data, &g.tensor.type, golden_get(golden, "f64.%s.grad.%s", act, g.name),
                      tolerance);
        training_release(&g, 1);
    }
    assert_int_equal(t->compiled.units.n_slots, 6);
    ls_trainer_destroy(&t);
}

static void gradients(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ls_mlp_activation act;
    } ACTS[] = { { "relu", LS_MLP_ACT_RELU },
                 { "gelu", LS_MLP_ACT_GELU },
                 { "gelu_tanh", LS_MLP_ACT_GELU_TANH },
                 { "tanh", LS_MLP_ACT_TANH },
                 { "sigmoid", LS_MLP_ACT_SIGMOID },
                 { "silu", LS_MLP_ACT_SILU },
                 { "leaky_relu", LS_MLP_ACT_LEAKY_RELU },
                 { "elu", LS_MLP_ACT_ELU } };
    ls_isa levels[LS_ISA_COUNT];
    int n = training_levels(levels);
    for (size_t a = 0; a < sizeof ACTS / sizeof *ACTS; a++) {
        ls_mlp_config config = training_mlp;
        config.act = ACTS[a].act;
        check_gradients(ACTS[a].name, &config,
                        &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .device = "ref", .param = LS_F64,
                                            .output = LS_F64, .micro_batch = 6 },
                        1e-12);
        for (int l = 0; l < n; l++)
            check_gradients(ACTS[a].name, &config,
                            &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]),
                                                .threads = 2, .micro_batch = 6 },
                            1e-6);
    }
}

static const struct {
    const char *name;
    ls_optimizer optimizer;
    double lr, clip;
} OPTIMIZERS[] = {
    { "adam", { LS_OPTIMIZER_DEFAULTS }, 1e-2, 0 },
    { "adam_l2", { LS_OPTIMIZER_DEFAULTS, .weight_decay = 0.1 }, 1e-2, 0 },
    { "adamw",
      { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6,
        .weight_decay = 0.1 },
      1e-2,
      0 },
    { "sgd", { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD }, 0.1, 0 },
    { "sgd_nesterov",
      { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01 },
      0.1,
      0 },
    { "sgd_dampening", { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.8, .dampening = 0.3 }, 0.1, 0 },
    { "adam_clip", { LS_OPTIMIZER_DEFAULTS }, 1e-2, 0.05 },
};

/* Adam divides by the root of squared gradients: where a gradient is nearly zero, f32's noise in it is a
 * visible part of the step. So f32 weights are compared as parts of the largest weight, at 2e-5, ten times
 * what PyTorch's own f32 shows against its f64. */
static void check_optimizer(int k, const ls_trainer_opts *base, double tolerance)
{
    ls_trainer_opts o = *base;
    const char *name = OPTIMIZERS[k].name;
    o.optimizer = OPTIMIZERS[k].optimizer;
    o.clip_norm = OPTIMIZERS[k].clip;
    ls_trainer *t = training_start(training_build_mlp, &training_mlp, &o);
    char what[96];
    snprintf(what, sizeof what, "%s on %s", name, training_describe(&o));
    double losses[5];
    training_steps(t, &data, 6, 0, 5, OPTIMIZERS[k].lr, losses);
    training_expect_losses(what, losses, 5, golden_get(golden, "f64.%s.losses", name), tolerance);
    ls_named_tensor p[8];
    int n = training_parameters(t, p, 8);
    for (int i = 0; i < n; i++)
        golden_expect(what, p[i].tensor.data, &p[i].tensor.type,
                      golden_get(golden, "f64.%s.weight.%s", name, p[i].name), tolerance);
    training_release(p, n);
    ls_trainer_destroy(&t);
}

static void optimizers(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    int n = training_levels(levels);
    for (int k = 0; k < (int)(sizeof OPTIMIZERS / sizeof OPTIMIZERS[0]); k++) {
        check_optimizer(k,
                        &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .device = "ref", .param = LS_F64,
                                            .output = LS_F64, .micro_batch = 6 },
                        1e-10);
        for (int l = 0; l < n; l++)
            for (int m = 1; m <= 3; m++) /* micro-batches of 6, 3 and 2 */
                check_optimizer(k,
                                &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]),
                                                    .threads = 2, .micro_batch = 6 / m, .micro_batches = m },
                                2e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(gradients), cmocka_unit_test(optimizers) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
