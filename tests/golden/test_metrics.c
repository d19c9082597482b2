/* test_metrics.c - metrics of predictions against targets (ls_measure_against) against the formulas of
 * torchmetrics and scikit-learn in f64 (tools/golden/metrics.py), on 1, 2 and 4 ranks with a ragged last
 * batch: the same bits on all of them. */
#include <math.h>
#include <string.h>

#include "golden/golden.h"
#include "lockstep/data.h"
#include "lockstep/nn.h"
#include "step/evaluate.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { SAMPLES = 22, OUT = 3, MOST = 20 };

static ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    (void)set;
    for (int k = 0; k < OUT && to[0]; k++) /* samples 1, 2 and 3 have the same score */
        ((double *)to[0])[k] = golden_formula("metrics.y", (!k && (i == 1 || i == 2) ? 3 : i) * OUT + k, 1,
                                              0);
    for (int k = 0; k < OUT && to[1]; k++)
        ((double *)to[1])[k] = golden_formula("metrics.t", i * OUT + k, 1, 0);
    if (to[2])
        *(float *)to[2] = i == 3 ? 0 : (float)golden_formula("metrics.w", i, 1, 1);
    if (to[3])
        *(int32_t *)to[3] = i == 5 ? LS_IGNORE_LABEL : (int32_t)(i * 7 % OUT);
    return LS_OK;
}

static const ls_field FIELDS[] = {
    { .name = "y", .type = { LS_F64, 1, { OUT } } },
    { .name = "t", .type = { LS_F64, 1, { OUT } } },
    { .name = "w", .type = { LS_F32, 0, { 0 } } },
    { .name = "labels", .type = { LS_I32, 0, { 0 } }, .below = OUT, .ignorable = true },
};
static const ls_dataset SET = {
    .name = "formulas", .source = "test", .n = SAMPLES, .n_fields = 4, .fields = FIELDS, .read = read_sample
};

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value one = ls_param(g, "one", LS_TYPE(LS_F32, OUT), (ls_init){ .kind = LS_INIT_ONE }),
             y = ls_mul(g, ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT)), one),
             t = ls_input(g, "t", LS_TYPE(LS_F32, batch, OUT)),
             labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch));
    ls_input(g, "w", LS_TYPE(LS_F32, batch));
    ls_value score = ls_slice(g, y, 1, 0, 1),
             good = ls_gt(g, ls_slice(g, t, 1, 0, 1), ls_fill(g, LS_SCALAR(LS_F32), 0));
    ls_wide_begin(g);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, y, t)), 1, LS_BY_ELEMENT, NULL);
    ls_wide_end(g);
    ls_measure_against(g, "accuracy", LS_ACCURACY, y, labels, LS_BY_VALID, "labels");
    ls_measure_against(g, "f1", LS_F1, y, labels, LS_BY_VALID, "labels");
    ls_measure_against(g, "perplexity", LS_PERPLEXITY, y, labels, LS_BY_VALID, "labels");
    ls_measure_against(g, "rmse", LS_RMSE, y, t, LS_BY_ELEMENT, NULL);
    ls_measure_against(g, "rmse_weighted", LS_RMSE, y, t, LS_BY_FIELD, "w");
    ls_measure_against(g, "mae", LS_MAE, y, t, LS_BY_ELEMENT, NULL);
    ls_measure_against(g, "r2", LS_R2, y, t, LS_BY_ELEMENT, NULL);
    ls_measure_against(g, "r2_weighted", LS_R2, y, t, LS_BY_FIELD, "w");
    ls_measure_against(g, "r2_far", LS_R2, ls_add_const(g, y, 1024), ls_add_const(g, t, 1024), LS_BY_SAMPLE,
                       NULL);
    ls_measure_against(g, "right", LS_ACCURACY, score, good, LS_BY_ELEMENT, NULL);
    ls_measure_against(g, "f1_of_scores", LS_F1, score, good, LS_BY_SAMPLE, NULL);
    ls_measure_against(g, "auc", LS_AUC, ls_reshape(g, score, batch), good, LS_BY_SAMPLE, NULL);
    return ls_graph_finish(g);
}

typedef struct job {
    int n;
    ls_metric metrics[MOST];
    char names[MOST][64];
} job;

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer *t;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS };
    o.device = "ref";
    o.threads = 1;
    o.micro_batch = 3;
    o.micro_batches = 4;
    o.param = o.output = o.parallel.reduce = LS_F64;
    o.eval_only = true;
    o.parallel.mesh.axes[0].size = ls_group_size(g);
    o.parallel.rank = ls_group_rank(g);
    o.parallel.data = LS_DATA_DDP;
    o.group = g;
    ls_metric mine[MOST];
    int n;
    LS_TRY(ls_trainer_create_with(&t, build, NULL, &o));
    ls_status s = ls_trainer_init(t, 0);
    LS_TRY_TO(s, s, end);
    LS_TRY_TO(s, ls_trainer_evaluate(t, &SET, mine, MOST, &n), end);
    for (int i = 0; i < n && ls_group_rank(g) == 0; i++) {
        j->metrics[i] = mine[i];
        strcpy(j->names[i], mine[i].name);
        j->n = n;
    }
end:
    ls_trainer_destroy(&t);
    return s;
}

static void pytorchs_values_on_any_ranks(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("metrics");
    job first = { 0 };
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        job j = { 0 };
        double area = NAN, bound = NAN;
        ASSERT_OK(run_ranks(ranks, rank, &j));
        assert_int_equal(j.n, 14);
        assert_string_equal(j.names[0], "loss");
        for (int i = 1; i < j.n; i++) {
            const double x = j.metrics[i].value;
            const char *name = j.names[i];
            if (!strcmp(name, "auc_bound")) {
                bound = x;
                continue;
            }
            golden_expect(name, &x, &LS_TYPE(LS_F64, 1), golden_get(golden, "%s", name), 1e-12);
            area = strcmp(name, "auc") ? area : x;
        }
        /* a tie that full scores have, too, is in the bound */
        assert_true(bound > 0 && bound < 0.05 && area > 0.2 && area < 0.8);
        if (ranks == 1)
            first = j;
        for (int i = 0; i < j.n; i++)
            assert_true(j.metrics[i].value == first.metrics[i].value);
    }
    ls_weights_close(&golden);
}

/* ---- targets of bce between 0 and 1: those above a half are class 1 */

/* (most are predicted as class 1, so that another threshold cannot gain as many as it loses) */
static const float SOFT[][2] = { { 1, 0.6f }, { 1, 0.55f },  { 1, 0.5f },  { 1, 0.45f }, { 1, 0.4f },
                                 { 1, 0.3f }, { -1, 0.01f }, { -1, 0.6f }, { 1, 1 },     { -1, 0 } };
enum { N_SOFT = sizeof SOFT / sizeof *SOFT, SOFT_RIGHT = 5 };

static ls_status read_soft(const ls_dataset *set, int64_t i, void *const *to)
{
    (void)set;
    for (int k = 0; k < 2; k++)
        if (to[k])
            *(float *)to[k] = SOFT[i][k];
    return LS_OK;
}

static ls_status build_soft(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value one = ls_param(g, "one", LS_TYPE(LS_F32, 1), (ls_init){ .kind = LS_INIT_ONE }),
             y = ls_mul(g, ls_input(g, "y", LS_TYPE(LS_F32, batch, 1)), one),
             t = ls_input(g, "t", LS_TYPE(LS_F32, batch, 1));
    ls_loss(g, "mse", ls_square(g, ls_sub(g, y, t)), 1, LS_BY_ELEMENT, NULL);
    ls_measure_against(g, "right", LS_ACCURACY, y, t, LS_BY_ELEMENT, NULL);
    return ls_graph_finish(g);
}

static void soft_targets_have_a_class(void **state)
{
    (void)state;
    static const ls_field fields[] = { { .name = "y", .type = { LS_F32, 1, { 1 } } },
                                       { .name = "t", .type = { LS_F32, 1, { 1 } } } };
    const ls_dataset set = {
        .name = "soft", .source = "test", .n = N_SOFT, .n_fields = 2, .fields = fields, .read = read_soft
    };
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .device = "ref", .threads = 1, .micro_batch = 5,
                          .eval_only = true };
    ls_trainer *t;
    ls_metric metrics[MOST];
    int n;
    ASSERT_OK(ls_trainer_create_with(&t, build_soft, NULL, &o));
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_OK(ls_trainer_evaluate(t, &set, metrics, MOST, &n));
    assert_string_equal(metrics[n - 1].name, "right");
    assert_float_equal(metrics[n - 1].value, (double)SOFT_RIGHT / N_SOFT, 1e-12);
    ls_trainer_destroy(&t);
}

/* ---- mistakes, each with its message */

typedef enum mistake {
    SHAPES,
    NO_LOGITS,
    NO_SCORE,
    INTEGERS,
    WEIGHTED,
    NO_KIND,
    ROW_KEY,
    LOSS_NAME,
    OTHER_LOSS,
    SIGNS,
    BOUND_TWICE,
    MISTAKES
} mistake;

static ls_status build_wrong(ls_graph *g, const void *config, int64_t batch)
{
    ls_value y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT)),
             labels = ls_input(g, "labels", LS_TYPE(LS_I32, batch)),
             w = ls_input(g, "w", LS_TYPE(LS_F32, batch));
    const mistake m = *(const mistake *)config;
    ls_loss(g, m == OTHER_LOSS ? "loss" : "mse", ls_square(g, y), 1, LS_BY_ELEMENT, NULL);
    switch (m) {
    case SHAPES: ls_measure_against(g, "m", LS_RMSE, y, w, LS_BY_ELEMENT, NULL); break;
    case NO_LOGITS: ls_measure_against(g, "m", LS_PERPLEXITY, w, labels, LS_BY_VALID, "labels"); break;
    case NO_SCORE: ls_measure_against(g, "m", LS_AUC, y, labels, LS_BY_VALID, "labels"); break;
    case INTEGERS: ls_measure_against(g, "m", LS_MAE, labels, labels, LS_BY_ELEMENT, NULL); break;
    case WEIGHTED: ls_measure_against(g, "m", LS_F1, y, labels, LS_BY_FIELD, "w"); break;
    case NO_KIND: ls_measure_against(g, "m", (ls_metric_kind)0, y, y, LS_BY_ELEMENT, NULL); break;
    case ROW_KEY: ls_measure(g, "step", w, LS_MEAN, LS_BY_SAMPLE, NULL); break;
    case LOSS_NAME: ls_measure(g, "loss", w, LS_MEAN, LS_BY_SAMPLE, NULL); break;
    case OTHER_LOSS: ls_loss(g, "penalty", w, 1, LS_BY_SAMPLE, NULL); break;
    case SIGNS: ls_measure(g, "a<b", w, LS_MEAN, LS_BY_SAMPLE, NULL); break;
    default:
        ls_measure(g, "auc_bound", w, LS_MEAN, LS_BY_SAMPLE, NULL);
        ls_measure_against(g, "auc", LS_AUC, w, labels, LS_BY_SAMPLE, NULL);
        break;
    }
    return ls_graph_finish(g);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const char *const SAYS[MISTAKES] = {
        [SHAPES] = "metric \"m\": LS_RMSE(f32 [4, 3], f32 [4]): the target must have the shape",
        [NO_LOGITS] = "LS_PERPLEXITY(f32 [4], i32 [4]): it takes logits [rows, classes]",
        [NO_SCORE] = "LS_AUC(f32 [4, 3], i32 [4]): it takes one score for each target",
        [INTEGERS] = "LS_MAE(i32 [4], i32 [4]): what is predicted must be floats",
        [WEIGHTED] = "it counts rows, so they have no weights (LS_BY_FIELD)",
        [NO_KIND] = "metric \"m\": there is no kind 0",
        [ROW_KEY] = "metric \"step\": the rows of metrics.jsonl and of `lockstep eval` have this key",
        [LOSS_NAME] = "\"loss\" is what is minimised: a metric needs another name",
        [OTHER_LOSS] = "loss \"penalty\": of several losses none may be \"loss\"",
        [SIGNS] = "metric \"a<b\": a name has 1 to 95 letters, digits and _-./",
        [BOUND_TWICE] = "metric \"auc_bound\": there is a metric of that name already",
    };
    for (mistake m = SHAPES; m < MISTAKES; m++) {
        ls_trainer *t = NULL;
        const ls_status code = m < NO_KIND ? LS_E_SHAPE : LS_E_ARG;
        ASSERT_FAILS(ls_trainer_create(&t, build_wrong, &m, .threads = 1, .micro_batch = 4), code, SAYS[m]);
        assert_null(t);
    }
}

/* Metrics compute in f32 where the model computes in bf16. */
static void of_a_model_in_bf16(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_metric m[MOST];
    int n;
    ASSERT_OK(ls_trainer_create(&t, build, NULL, .threads = 1, .micro_batch = 3, .param = LS_BF16));
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_OK(ls_trainer_evaluate(t, &SET, m, MOST, &n));
    ls_weights *golden = golden_open("metrics");
    for (int i = 1; i < n; i++)
        if (strcmp(m[i].name, "r2_far") && strcmp(m[i].name, "auc_bound"))
            golden_expect(m[i].name, &m[i].value, &LS_TYPE(LS_F64, 1), golden_get(golden, "%s", m[i].name),
                          0.02);
    ls_weights_close(&golden);
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pytorchs_values_on_any_ranks),
        cmocka_unit_test(soft_targets_have_a_class),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(of_a_model_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
