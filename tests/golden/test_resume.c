/* test_resume.c - training that PyTorch began is continued: from directories of torch.distributed.checkpoint
 * with a model and its optimizer (tests/golden/dcp_resume*, tools/golden/dcp.py), losses and weights of the
 * next steps are PyTorch's own. In f64 on ref, where only the order of additions may differ, and in f32 on
 * cpu; on any number of ranks. What does not fit is refused, and nothing is changed. */
#include <stdlib.h>
#include <string.h>

#include "golden/training.h"
#include "step/state.h"
#include "support/ranks.h"

#define GOLDEN LS_TEST_SOURCE_DIR "/tests/golden/dcp_resume"

enum { BATCH = 6, STEPS = 5 };
static ls_weights *golden;
static training_data data;

static int set_up(void **state)
{
    (void)state;
    ls_weights *mlp = golden_open("mlp");
    golden = golden_open("dcp_resume");
    data = training_data_of(mlp);
    ls_weights_close(&mlp);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    training_data_release(&data);
    ls_weights_close(&golden);
    return 0;
}

static ls_trainer_opts options(bool f64)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = BATCH,
                          .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_ADAMW, .beta1 = 0.8, .beta2 = 0.95,
                                         .eps = 1e-6, .weight_decay = 0.1 } };
    ls_isa levels[LS_ISA_COUNT];
    if (f64) {
        o.device = "ref";
        o.param = o.output = LS_F64;
    } else {
        o.isa = ls_isa_name(levels[training_levels(levels) - 1]);
    }
    return o;
}

static ls_trainer *trainer(const ls_trainer_opts *o)
{
    ls_mlp_config config = training_mlp;
    config.act = LS_MLP_ACT_GELU;
    return training_start(training_build_mlp, &config, o);
}

static void goes_on(const char *what, ls_trainer *t, double losses_within, double weights_within)
{
    double losses[STEPS];
    training_steps(t, &data, BATCH, 0, STEPS, 1e-2, losses);
    training_expect_losses(what, losses, STEPS, golden_get(golden, "losses"), losses_within);
    ls_named_tensor p[8];
    const int n = training_parameters(t, p, 8);
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++)
        golden_expect(what, p[i].tensor.data, &p[i].tensor.type, golden_get(golden, "weight.%s", p[i].name),
                      weights_within);
    training_release(p, n);
}

static void from_two_ranks_of_fsdp2(void **state)
{
    (void)state;
    for (int f64 = 0; f64 < 2; f64++)
        for (int m = 1; m <= 2; m++) {
            ls_trainer_opts o = options(f64);
            o.micro_batch = BATCH / m;
            o.micro_batches = m;
            ls_trainer *t = trainer(&o);
            ASSERT_OK(ls_trainer_load_checkpoint(t, GOLDEN));
            goes_on(training_describe(&o), t, f64 ? 1e-12 : 1e-6, f64 ? 1e-10 : 1e-6);
            ls_trainer_destroy(&t);
        }
}

/* States by number, all in one object of the program's; and in flat names beside another model. */
static void by_other_names(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *prefix;
        bool numbered;
    } OTHERS[] = { { GOLDEN "_app", NULL, true },
                   { GOLDEN "_app", "app", true },
                   { GOLDEN "_flat", "trainer.", false } };
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        const ls_trainer_opts o = options(true);
        ls_trainer *t = trainer(&o);
        ls_dcp_state s;
        ASSERT_OK(ls_dcp_state_open(&s, OTHERS[i].dir, OTHERS[i].prefix));
        ASSERT_OK(ls_trainer_load_dcp(t, &s, 0));
        assert_int_equal(s.numbered, OTHERS[i].numbered);
        assert_int_equal(s.steps, 3);
        int betas = 0;
        for (int64_t k = 0; k < s.n; k++)
            if (!strcmp(s.settings[k].is.name, "betas")) {
                assert_true(s.settings[k].is.kind == LS_DCP_PAIR && s.settings[k].is.a == 0.8 &&
                            s.settings[k].is.b == 0.95);
                betas++;
            }
        assert_int_equal(betas,
                         OTHERS[i].numbered ? 1 : 6); /* of each group; flat names have one a parameter */
        ls_dcp_state_release(&s);
        goes_on(OTHERS[i].dir, t, 1e-12, 1e-10);
        ls_trainer_destroy(&t);
    }
}

typedef struct over_ranks {
    int ranks;
    double losses[STEPS];
} over_ranks;

static ls_status rank(ls_group *g, void *context)
{
    over_ranks *r = context;
    ls_mlp_config config = training_mlp;
    ls_trainer_opts o = options(true);
    ls_trainer *t;
    const int me = ls_group_rank(g), n = r->ranks;
    config.act = LS_MLP_ACT_GELU;
    o.micro_batch = BATCH / n;
    o.micro_batches = n;
    o.group = g;
    o.parallel.rank = me;
    o.parallel.mesh = (ls_mesh){ .n = 1, .axes = { { "dp", n } } };
    o.parallel.data = LS_DATA_FSDP;
    LS_TRY(ls_trainer_create_with(&t, training_build_mlp, &config, &o));
    ls_status s = ls_trainer_load_checkpoint(t, GOLDEN);
    for (int k = 0; k < STEPS && s == LS_OK; k++) {
        uint8_t images[BATCH * 16];
        int32_t labels[BATCH];
        for (int i = 0; i < BATCH / n; i++) {
            const int at = k * BATCH + i * n + me;
            memcpy(images + 16 * i, data.images + 16 * at, 16);
            labels[i] = data.labels[at];
        }
        ls_step_result step;
        s = ls_trainer_step(t, images, labels, BATCH, 1e-2, &step);
        if (me == 0)
            r->losses[k] = step.loss;
    }
    ls_trainer_destroy(&t);
    return s;
}

static void on_any_number_of_ranks(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        over_ranks r = { .ranks = ranks };
        ASSERT_OK(run_ranks(ranks, rank, &r));
        training_expect_losses("ranks", r.losses, STEPS, golden_get(golden, "losses"), 1e-12);
    }
}

static void refused(const ls_trainer_opts *o, const char *dir, const char *prefix, ls_status code,
                    const char *says, const char *more)
{
    ls_trainer *t = trainer(o);
    ls_dcp_state s;
    ls_status got = ls_dcp_state_open(&s, dir, prefix);
    if (got == LS_OK)
        got = ls_trainer_load_dcp(t, &s, 0);
    ASSERT_FAILS(got, code, dir, says, more);
    ls_dcp_state_release(&s);
    double losses[1], before[1];
    training_steps(t, &data, BATCH, 0, 1, 1e-2, losses); /* nothing was changed */
    ls_trainer_destroy(&t);
    t = trainer(o);
    training_steps(t, &data, BATCH, 0, 1, 1e-2, before);
    assert_true(losses[0] == before[0]);
    ls_trainer_destroy(&t);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    ls_trainer_opts o = options(true);
    refused(&o, GOLDEN "_flat", "trainr.", LS_E_USAGE, "the prefix trainr.", "\"ema\", \"trainer\"");
    refused(&o, GOLDEN "_flat", "ema.", LS_E_SHAPE, "does not fit the model", "decay");
    refused(&o, LS_TEST_SOURCE_DIR "/tests/golden/dcp_toy", NULL, LS_E_SHAPE, "does not fit the model",
            "net1");
    o.optimizer = (ls_optimizer){ LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.9 };
    refused(&o, GOLDEN, NULL, LS_E_SHAPE, "keeps exp_avg", "another optimizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_two_ranks_of_fsdp2),
        cmocka_unit_test(by_other_names),
        cmocka_unit_test(on_any_number_of_ranks),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
