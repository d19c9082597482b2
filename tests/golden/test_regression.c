/* test_regression.c - a multi-layer perceptron of fields against PyTorch: scaling, four losses at once, a
 * weight for each sample, a mask for each element, labels that do not count, a ragged last batch; on 1, 2 and
 * 4 ranks, on ref in f64. 100 steps on cpu in f32. In bf16, targets that bf16 cannot hold. */
#include <math.h>
#include <string.h>

#include "golden/training.h"
#include "lockstep/data.h"
#include "lockstep/models.h"
#include "lockstep/predictor.h"
#include "step/evaluate.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { SAMPLES = 22, BATCH = 8, STEPS = 9, MICRO = 2, X = 5, Y = 3, C = 4, B = 2, HIDDEN = 7, LOSSES = 4 };
enum { PARAMETERS = 10, MOST_METRICS = 16, MOST = HIDDEN * (X + 1) };
static ls_weights *golden;

/* ---- the data, by formula, exact in f32 */

static float target(int64_t i, int k)
{
    return k == 1 ? 64
                  : (float)golden_formula("regression.y", i * Y + k, 4, 64); /* channel 1 has one value */
}

static ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    (void)set;
    for (int k = 0; k < X && to[0]; k++)
        ((double *)to[0])[k] = golden_formula("regression.x", i * X + k, 2, 16);
    if (to[1])
        *(float *)to[1] = (float)golden_formula("regression.u", i, 1, 0);
    for (int k = 0; k < Y && to[2]; k++)
        ((float *)to[2])[k] = target(i, k);
    if (to[3])
        *(float *)to[3] = (float)golden_formula("regression.z", i, 1, -8);
    if (to[4])
        *(int32_t *)to[4] = i == 7 ? LS_IGNORE_LABEL
                                   : (int32_t)floor((golden_formula("regression.c", i, 1, 0) + 1) * 2);
    for (int k = 0; k < B && to[5]; k++)
        ((float *)to[5])[k] = (float)(golden_formula("regression.b", i * B + k, 0.5, 0) + 0.5);
    for (int k = 0; k < Y && to[6]; k++)
        ((float *)to[6])[k] = golden_formula("regression.m", i * Y + k, 1, 0) > -0.25;
    if (to[7])
        *(float *)to[7] = i == 3 ? 0 : (float)golden_formula("regression.w", i, 1, 1);
    return LS_OK;
}

static const ls_field FIELDS[] = {
    { .name = "x", .type = { LS_F64, 1, { X } } },
    { .name = "u", .type = { LS_F32, 0, { 0 } } },
    { .name = "y", .type = { LS_F32, 1, { Y } } },
    { .name = "z", .type = { LS_F32, 0, { 0 } } },
    { .name = "c", .type = { LS_I32, 0, { 0 } }, .below = C, .ignorable = true },
    { .name = "b", .type = { LS_F32, 1, { B } } },
    { .name = "m", .type = { LS_F32, 1, { Y } } },
    { .name = "w", .type = { LS_F32, 0, { 0 } } },
};
enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };
static const ls_dataset SET = { .name = "formulas",
                                .source = "test",
                                .n = SAMPLES,
                                .n_fields = N_FIELDS,
                                .fields = FIELDS,
                                .read = read_sample };
static ls_dataset first_16;

/* ---- the model */

static const ls_port INPUTS[] = { { "x", { LS_F32, 1, { X } } }, { "u", { LS_F32, 0, { 0 } } } };
static const ls_port OUTPUTS[] = { { "y", { LS_F32, 1, { Y } } },
                                   { "z", { LS_F32, 0, { 0 } } },
                                   { "c", { LS_F32, 1, { C } } },
                                   { "b", { LS_F32, 1, { B } } } };
static const ls_task_loss ALL[] = { { LS_LOSS_HUBER, "y", .mask = "m", .factor = 1, .delta = 0.5 },
                                    { LS_LOSS_MSE, "z", .weight = "w", .factor = 0.5 },
                                    { LS_LOSS_CROSS_ENTROPY, "c", .factor = 0.25 },
                                    { LS_LOSS_BCE, "b", .weight = "w", .factor = 2 } };
static const ls_task_config FOUR = { .n_inputs = 2,
                                     .inputs = INPUTS,
                                     .n_outputs = 4,
                                     .outputs = OUTPUTS,
                                     .n_losses = 4,
                                     .losses = ALL,
                                     .n_hidden = 1,
                                     .hidden = { HIDDEN },
                                     .act = LS_MLP_ACT_GELU,
                                     .scale = true };
static const ls_task_loss MSE = { LS_LOSS_MSE, "y", .factor = 1 };
static const ls_task_config ONE = { .n_inputs = 1,
                                    .inputs = INPUTS,
                                    .n_outputs = 1,
                                    .outputs = OUTPUTS,
                                    .n_losses = 1,
                                    .losses = &MSE,
                                    .n_hidden = 1,
                                    .hidden = { HIDDEN },
                                    .act = LS_MLP_ACT_GELU,
                                    .scale = true };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_task_build(g, config, batch);
}

/* Gives the parameters their values by formula, then finds the scaling in `set`. */
static ls_status start(ls_trainer *t, const ls_dataset *set)
{
    ls_named_tensor p[PARAMETERS];
    double values[PARAMETERS][MOST];
    const int n = ls_trainer_parameters(t, NULL, 0);
    LS_TRY(n <= PARAMETERS && ls_trainer_parameters(t, p, n) == n ? LS_OK : LS_E_INTERNAL);
    for (int i = 0; i < n; i++) {
        p[i].tensor.data = values[i];
        golden_parameter(p[i].name, &p[i].tensor.type, values[i]);
    }
    const char *path = ls_test_path("regression.safetensors");
    ls_weights *w;
    if (!t->group || ls_group_rank(t->group) == 0)
        LS_TRY(ls_weights_save(path, n, p));
    if (t->group)
        LS_TRY(ls_group_barrier(t->group));
    LS_TRY(ls_trainer_init(t, 0));
    LS_TRY(ls_weights_open(&w, path));
    const ls_status s = ls_trainer_load_partly(t, w);
    ls_weights_close(&w);
    LS_TRY(s);
    return ls_trainer_fit(t, set);
}

/* ---- f64 */

typedef struct job {
    int ranks;
    ls_data_parallel data;
    double losses[STEPS][1 + LOSSES], after[PARAMETERS][MOST], scaling[8][X], y[SAMPLES * Y], z[SAMPLES];
    char names[PARAMETERS][32], scaled[8][32];
    ls_type types[PARAMETERS], scaling_types[8];
    struct {
        char name[32];
        double value;
    } metrics[MOST_METRICS];
    int n_metrics;
} job;

static ls_status predict(job *j, ls_trainer *t)
{
    ls_predictor *p;
    double x[SAMPLES * X];
    float u[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        LS_TRY(read_sample(NULL, i, (void *[N_FIELDS]){ x + i * X, u + i }));
    const ls_tensor xs = ls_tensor_of(x, &LS_TYPE(LS_F64, SAMPLES, X)),
                    us = ls_tensor_of(u, &LS_TYPE(LS_F32, SAMPLES)),
                    y = ls_tensor_of(j->y, &LS_TYPE(LS_F64, SAMPLES, Y)),
                    z = ls_tensor_of(j->z, &LS_TYPE(LS_F64, SAMPLES));
    LS_TRY(ls_predictor_of_with(&p, t, &(ls_predictor_opts){ LS_PREDICTOR_DEFAULTS, .outputs = "y z" }));
    ls_status s = LS_OK;
    LS_TRY_TO(s, ls_predictor_put(p, "x", &xs), end);
    LS_TRY_TO(s, ls_predictor_put(p, "u", &us), end);
    LS_TRY_TO(s, ls_predictor_run(p, SAMPLES), end);
    LS_TRY_TO(s, ls_predictor_get(p, "y", &y), end);
    LS_TRY_TO(s, ls_predictor_get(p, "z", &z), end);
end:
    ls_predictor_destroy(&p);
    return s;
}

static ls_status train(job *j, ls_trainer *t)
{
    ls_eval_result e;
    const ls_order order = { .n = SAMPLES, .global_batch = BATCH, .micro_batch = MICRO };
    ls_loader *loader;
    ls_named_tensor p[PARAMETERS];
    LS_TRY(start(t, &SET));
    LS_TRY(ls_loader_create(&loader, &SET, &order, .share = t->compiled.share));
    ls_status s = LS_OK;
    for (int k = 0; k < STEPS && s == LS_OK; k++) {
        ls_loader_step b;
        ls_step_result r;
        bool done;
        LS_TRY_TO(s, ls_loader_next(loader, &b, &done), end);
        LS_TRY_TO(s, ls_trainer_step_from(t, &b, 0.5, &r), end);
        j->losses[k][0] = r.loss;
        for (int i = 0; i < LOSSES && r.n_losses == LOSSES; i++)
            j->losses[k][1 + i] = r.losses[i].value;
    }
    LS_TRY_TO(s, ls_evaluate(t, &SET, NULL, NULL, &e), end);
    LS_TRY_TO(s, e.metrics.n <= MOST_METRICS ? LS_OK : LS_E_INTERNAL, end);
    j->n_metrics = e.metrics.n;
    for (int i = 0; i < e.metrics.n; i++) {
        snprintf(j->metrics[i].name, sizeof j->metrics[i].name, "%s", e.metrics.at[i].name);
        j->metrics[i].value = e.metrics.at[i].value;
    }
    ls_eval_result_release(&e);
    LS_TRY_TO(s, training_parameters(t, p, PARAMETERS) == PARAMETERS ? LS_OK : LS_E_INTERNAL, end);
    for (int i = 0; i < PARAMETERS; i++) {
        snprintf(j->names[i], sizeof j->names[i], "%s", p[i].name);
        j->types[i] = p[i].tensor.type;
        memcpy(j->after[i], p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
    }
    training_release(p, PARAMETERS);
    LS_TRY_TO(s, training_buffers(t, p, 8) == 8 ? LS_OK : LS_E_INTERNAL, end);
    for (int i = 0; i < 8; i++) {
        snprintf(j->scaled[i], sizeof j->scaled[i], "%s", p[i].name);
        j->scaling_types[i] = p[i].tensor.type;
        memcpy(j->scaling[i], p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
    }
    training_release(p, 8);
    s = predict(j, t);
end:
    ls_loader_destroy(&loader);
    return s;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context, mine = *j;
    ls_trainer *t;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS };
    o.device = "ref";
    o.threads = 1;
    o.micro_batch = MICRO;
    o.micro_batches = BATCH / MICRO;
    o.padding = true;
    o.param = o.output = o.parallel.reduce = LS_F64;
    o.optimizer.kind = LS_SGD;
    o.optimizer.momentum = 0.5;
    o.parallel.mesh.axes[0].size = j->ranks;
    o.parallel.data = j->data;
    o.parallel.rank = ls_group_rank(g);
    o.group = g;
    LS_TRY(ls_trainer_create_with(&t, build, &FOUR, &o));
    const ls_status s = train(&mine, t);
    ls_trainer_destroy(&t);
    if (ls_group_rank(g) == 0)
        *j = mine;
    return s;
}

static void expect(const char *what, const double *ours, int64_t n, const ls_weight *want)
{
    golden_expect(what, ours, &LS_TYPE(LS_F64, n), want, 1e-12);
}

static double value(const job *j, const char *name)
{
    for (int i = 0; i < j->n_metrics; i++)
        if (!strcmp(j->metrics[i].name, name))
            return j->metrics[i].value;
    fail_msg("no metric %s", name);
    return NAN;
}

static void check(const job *j)
{
    static const char *const NAMES[] = { "huber_y", "mse_z", "cross_entropy_c", "bce_b" };
    double values[1 + LOSSES] = { value(j, "loss") };
    expect("losses", j->losses[0], STEPS * (1 + LOSSES), golden_get(golden, "losses"));
    for (int i = 0; i < PARAMETERS; i++)
        golden_expect(j->names[i], j->after[i], &j->types[i], golden_get(golden, "after.%s", j->names[i]),
                      1e-12);
    for (int i = 0; i < 8; i++)
        golden_expect(j->scaled[i], j->scaling[i], &j->scaling_types[i],
                      golden_get(golden, "%s", j->scaled[i]), 1e-12);
    for (int i = 0; i < LOSSES; i++)
        values[1 + i] = value(j, NAMES[i]);
    expect("evaluation", values, 1 + LOSSES, golden_get(golden, "evaluation"));
    expect("accuracy", (double[]){ value(j, "accuracy_c"), value(j, "accuracy_b") }, 2,
           golden_get(golden, "accuracy"));
    for (int i = 0; i < 2; i++) {
        static const char *const OF[][3] = { { "rmse_y", "mae_y", "r2_y" }, { "rmse_z", "mae_z", "r2_z" } };
        const double have[] = { value(j, OF[i][0]), value(j, OF[i][1]), value(j, OF[i][2]) };
        expect("metrics", have, 3, golden_get(golden, i ? "metrics_z" : "metrics_y"));
    }
    expect("output y", j->y, SAMPLES * Y, golden_get(golden, "y"));
    expect("output z", j->z, SAMPLES, golden_get(golden, "z"));
}

static void four_losses_on_any_ranks(void **state)
{
    (void)state;
    static job first, j;
    for (int k = 0; k < 5; k++) {
        j = (job){ .ranks = k < 1 ? 1 : k < 3 ? 2 : 4, .data = k % 2 ? LS_DATA_FSDP : LS_DATA_DDP };
        ASSERT_OK(run_ranks(j.ranks, rank, &j));
        check(&j);
        if (!k)
            first = j;
        assert_memory_equal(j.scaling, first.scaling, sizeof j.scaling); /* the same bits on any ranks */
        assert_memory_equal(j.losses, first.losses, sizeof j.losses);
        assert_memory_equal(j.after, first.after, sizeof j.after);
        assert_memory_equal(j.y, first.y, sizeof j.y);
        assert_memory_equal(j.metrics, first.metrics, sizeof j.metrics);
    }
}

/* ---- f32 */

static void regression_in_f32(void **state)
{
    (void)state;
    enum { N = 100 };
    static double losses[N];
    ls_trainer *t;
    ls_loader *loader;
    const ls_order order = { .n = 2 * BATCH, .global_batch = BATCH, .micro_batch = BATCH };
    ASSERT_OK(ls_trainer_create(&t, build, &ONE, .threads = 2, .micro_batch = BATCH));
    ASSERT_OK(start(t, &first_16));
    ASSERT_OK(ls_loader_create(&loader, &first_16, &order));
    for (int k = 0; k < N; k++) {
        ls_loader_step b;
        ls_step_result r;
        bool done;
        ASSERT_OK(ls_loader_next(loader, &b, &done));
        ASSERT_OK(ls_trainer_step_from(t, &b, 1e-2, &r));
        losses[k] = r.loss;
    }
    golden_expect("curve", losses, &LS_TYPE(LS_F64, N), golden_get(golden, "curve"), 1e-5);
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&t);
}

/* ---- bf16: 8 bits of a number like 64.123 are left, so a rounded target would change the loss by 1e-3 */

static void targets_are_not_rounded_to_bf16(void **state)
{
    (void)state;
    static ls_task_config plain;
    ls_named_tensor p[PARAMETERS];
    ls_trainer *t;
    ls_loader *loader;
    ls_loader_step b;
    ls_step_result r;
    ls_eval_result e;
    bool done;
    double want = 0, distance = 0;
    const ls_order order = { .n = 2 * BATCH, .global_batch = 2 * BATCH, .micro_batch = 2 * BATCH };
    plain = ONE;
    plain.scale = false;
    ASSERT_OK(
        ls_trainer_create(&t, build, &plain, .micro_batch = 2 * BATCH, .param = LS_BF16, .output = LS_BF16));
    ASSERT_OK(ls_trainer_init(t, 0));
    const int n = training_parameters(t, p, PARAMETERS);
    for (int i = 0; i < n; i++) /* so that the model's output is 0 */
        memset(p[i].tensor.data, 0, ls_type_bytes(&p[i].tensor.type));
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
    for (int i = 0; i < 2 * BATCH; i++)
        for (int k = 0; k < Y; k++) {
            want += pow((double)target(i, k), 2) / (2 * BATCH * Y);
            distance += fabs((double)target(i, k)) / (2 * BATCH * Y);
        }
    ASSERT_OK(ls_evaluate(t, &first_16, NULL, NULL, &e));
    ASSERT_OK(ls_loader_create(&loader, &first_16, &order));
    ASSERT_OK(ls_loader_next(loader, &b, &done));
    ASSERT_OK(ls_trainer_step_from(t, &b, 0, &r));
    assert_true(fabs(r.loss / want - 1) < 1e-6);
    assert_true(fabs(e.loss / want - 1) < 1e-6);
    assert_true(fabs(ls_metric_list_find(&e.metrics, "mae") / distance - 1) < 1e-6);
    ls_eval_result_release(&e);
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&t);
}

static int open_golden(void **state)
{
    (void)state;
    golden = golden_open("regression");
    first_16 = SET;
    first_16.n = 2 * BATCH;
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    ls_weights_close(&golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(four_losses_on_any_ranks),
                                        cmocka_unit_test(regression_in_f32),
                                        cmocka_unit_test(targets_are_not_rounded_to_bf16) };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
