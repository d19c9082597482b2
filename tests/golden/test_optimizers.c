/* test_optimizers.c - twenty steps of the small MLP with groups of parameters, Lion and the moving average
 * against PyTorch (tools/golden/optimizers.py): in f64 on ref, where only the order of additions may differ;
 * in f32 on cpu as parts of the largest weight. Lion moves by signs: where the sum of moment and gradient is
 * nearly zero, f32 may take the other one, so its weights may be some steps of 3e-3 apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden/training.h"

enum { STEPS = 20, BATCH = 6, BATCHES = 5 };
static ls_weights *golden;
static training_data data;

static int set_up(void **state)
{
    (void)state;
    ls_weights *mlp = golden_open("mlp");
    data = training_data_of(mlp);
    ls_weights_close(&mlp);
    golden = golden_open("optimizers");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    training_data_release(&data);
    ls_weights_close(&golden);
    return 0;
}

/* layers.0.weight is named by both: it is in the second group, because no earlier one names it */
static const ls_optimizer_group ADAMW_GROUPS[] = {
    { LS_OPTIMIZER_GROUP_DEFAULTS, .match = "pattern:*.bias", .weight_decay = 0 },
    { LS_OPTIMIZER_GROUP_DEFAULTS, .match = "pattern:layers.0.*", .lr_factor = 0.25, .weight_decay = 0.3 },
};
/* AdamW for the head; biases are not matrices */
static const ls_optimizer_group MUON_GROUP = { LS_OPTIMIZER_GROUP_DEFAULTS, .match = "pattern:head.*",
                                               .adamw = true };
static const struct {
    const char *name;
    ls_optimizer optimizer;
    int n_groups;
    double lr, ema, f32;
} CASES[] = {
    { "groups_adamw", { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .weight_decay = 0.1 }, 2, 1e-2, 0.9, 2e-5 },
    { "groups_sgd",
      { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01 },
      2,
      5e-2,
      0,
      2e-5 },
    { "lion",
      { LS_OPTIMIZER_DEFAULTS, .kind = LS_LION, .beta2 = 0.99, .weight_decay = 0.1 },
      0,
      3e-3,
      0.99,
      5e-2 },
    { "muon", { LS_OPTIMIZER_DEFAULTS, .kind = LS_MUON, .weight_decay = 0.1 }, 3, 2e-2, 0, 2e-4 },
    { "adafactor", { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAFACTOR }, 0, 0, 0, 2e-5 },
    { "adafactor_warmup",
      { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAFACTOR, .warmup_init = true, .weight_decay = 0.1,
        .clip_threshold = 0.5 },
      0,
      0,
      0,
      2e-5 },
    { "adafactor_lr",
      { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAFACTOR, .scale_parameter = false, .relative_step = false },
      0,
      1e-2,
      0,
      2e-5 },
};

static void expect_parameters(const char *what, const char *name, const char *kind, ls_trainer *t,
                              double tolerance)
{
    ls_named_tensor p[8];
    const int n = training_parameters(t, p, 8);
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++)
        golden_expect(what, p[i].tensor.data, &p[i].tensor.type,
                      golden_get(golden, "%s.%s.%s", name, kind, p[i].name), tolerance);
    training_release(p, n);
}

static void check(int k, const ls_trainer_opts *base, bool f64)
{
    ls_trainer_opts o = *base;
    const char *name = CASES[k].name;
    const double tolerance = f64 ? 1e-10 : CASES[k].f32;
    o.optimizer = CASES[k].optimizer;
    o.n_groups = CASES[k].n_groups == 3 ? 1 : CASES[k].n_groups; /* 3: MUON_GROUP */
    o.groups = CASES[k].n_groups == 3 ? &MUON_GROUP : ADAMW_GROUPS;
    o.ema_decay = CASES[k].ema;
    ls_trainer *t = training_start(training_build_mlp, &training_mlp, &o);
    char what[96];
    snprintf(what, sizeof what, "%s on %s", name, training_describe(&o));
    double losses[STEPS];
    for (int s = 0; s < STEPS; s++)
        training_steps(t, &data, BATCH, s % BATCHES, 1, CASES[k].lr, &losses[s]);
    training_expect_losses(what, losses, STEPS, golden_get(golden, "%s.losses", name), tolerance * 2);
    expect_parameters(what, name, "weight", t, tolerance);
    if (CASES[k].ema > 0) {
        ASSERT_OK(ls_trainer_exchange_ema(t));
        expect_parameters(what, name, "ema", t, tolerance);
        ASSERT_OK(ls_trainer_exchange_ema(t));
        expect_parameters(what, name, "weight", t, tolerance);
    }
    ls_trainer_destroy(&t);
}

static void against_pytorch(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    const int n = training_levels(levels);
    for (int k = 0; k < (int)(sizeof CASES / sizeof CASES[0]); k++) {
        check(k,
              &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .device = "ref", .param = LS_F64, .output = LS_F64,
                                  .micro_batch = BATCH },
              true);
        for (int l = 0; l < n; l++)
            check(k,
                  &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .isa = ls_isa_name(levels[l]), .threads = 2,
                                      .micro_batch = BATCH / 2, .micro_batches = 2 },
                  false);
    }
}

/* torch.optim.Muon as it is computes its iteration in bf16: its losses are as far from ours as from its own
 * in float64. */
static void muon_of_pytorch_in_bf16(void **state)
{
    (void)state;
    double *exact = golden_values(golden_get(golden, "muon.losses")),
           *rounded = golden_values(golden_get(golden, "muon_bf16.losses"));
    for (int k = 0; k < STEPS; k++)
        assert_true(fabs(exact[k] - rounded[k]) < 1e-2);
    free(exact);
    free(rounded);
}

/* The first step's change of each matrix, of the same direction with either scale: PyTorch's
 * "match_rms_adamw" is 0.2 sqrt(max(rows, cols)), "original" sqrt(max(1, rows / cols)). */
static void scales_of_muon(void **state)
{
    (void)state;
    double changed[2][8][2000];
    ls_named_tensor p[8];
    int n = 0, matrices = 0;
    for (int match = 0; match < 2; match++) {
        ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .device = "ref", .param = LS_F64, .output = LS_F64,
                              .micro_batch = BATCH };
        o.optimizer = (ls_optimizer){ LS_OPTIMIZER_DEFAULTS, .kind = LS_MUON, .match_rms = match };
        ls_trainer *t = training_start(training_build_mlp, &training_mlp, &o);
        double loss;
        n = training_parameters(t, p, 8);
        for (int i = 0; i < n; i++) {
            assert_true(ls_type_count(&p[i].tensor.type) <= 2000);
            memcpy(changed[match][i], p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
        }
        training_release(p, n);
        training_steps(t, &data, BATCH, 0, 1, 1e-2, &loss);
        assert_int_equal(training_parameters(t, p, 8), n);
        for (int i = 0; i < n; i++)
            for (int64_t k = 0; k < ls_type_count(&p[i].tensor.type); k++)
                changed[match][i][k] -= ((const double *)p[i].tensor.data)[k];
        training_release(p, n);
        ls_trainer_destroy(&t);
        for (int i = 0; i < n && match; i++) {
            const double rows = (double)p[i].tensor.type.dims[0], cols = (double)p[i].tensor.type.dims[1],
                         ratio = 0.2 * sqrt(fmax(rows, cols)) / sqrt(fmax(1, rows / cols));
            if (p[i].tensor.type.ndim != 2)
                continue;
            matrices++;
            for (int64_t k = 0; k < ls_type_count(&p[i].tensor.type); k++)
                assert_true(fabs(changed[1][i][k] - ratio * changed[0][i][k]) <= 1e-12);
            assert_true(fabs(changed[0][i][0]) > 1e-9 && fabs(ratio - 1) > 0.1);
        }
    }
    assert_true(matrices > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(against_pytorch), cmocka_unit_test(scales_of_muon),
                                        cmocka_unit_test(muon_of_pytorch_in_bf16) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
