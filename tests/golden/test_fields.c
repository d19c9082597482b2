/* test_fields.c - a model of one's own against PyTorch: float inputs and targets, a weight for each sample, a
 * mask for each entry, two losses at once, a ragged last batch. On 1, 2 and 4 ranks, on ref in f64; a
 * regression of 100 steps on cpu in f32. */
#include <math.h>
#include <string.h>

#include "golden/training.h"
#include "lockstep/data.h"
#include "lockstep/nn.h"
#include "step/trainer.h"
#include "support/ranks.h"
#include "support/support.h"

enum { SAMPLES = 22, BATCH = 8, STEPS = 9, IN = 5, HIDDEN = 7, OUT = 3, MICRO = 2 };
static ls_weights *golden;

/* ---- the data: by formula, x as f64, the rest as f32 */

static ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    (void)set;
    for (int k = 0; k < IN && to[0]; k++)
        ((double *)to[0])[k] = golden_formula("fields.x", i * IN + k, 1, 0);
    for (int k = 0; k < OUT && to[1]; k++)
        ((float *)to[1])[k] = (float)golden_formula("fields.t", i * OUT + k, 1, 0);
    if (to[2])
        *(float *)to[2] = i == 3 ? 0 : (float)golden_formula("fields.w", i, 1, 1);
    for (int k = 0; k < OUT && to[3]; k++)
        ((int32_t *)to[3])[k] = i != 5 && golden_formula("fields.valid", i * OUT + k, 1, 0) > -0.25
                                    ? 1
                                    : LS_IGNORE_LABEL;
    return LS_OK;
}

static const ls_field FIELDS[] = {
    { .name = "lr", .type = { LS_F64, 1, { IN } } }, /* no name is taken by the trainer */
    { .name = "step", .type = { LS_F32, 1, { OUT } } },
    { .name = "w", .type = { LS_F32, 0, { 0 } } },
    { .name = "valid", .type = { LS_I32, 1, { OUT } }, .ignorable = true },
};
static const ls_dataset SET = {
    .name = "formulas", .source = "test", .n = SAMPLES, .n_fields = 4, .fields = FIELDS, .read = read_sample
};

/* |x|, with the gradient 0 at 0 that PyTorch has */
static ls_value absolute(ls_graph *g, ls_value x)
{
    return ls_add(g, ls_relu(g, x), ls_relu(g, ls_neg(g, x)));
}

/* ROWS: one loss by rows; BY_SAMPLE: the same with a row for each sample; SCALAR: the same as one number;
 * TWO: two losses and metrics */
typedef enum kind { TWO, ROWS, BY_SAMPLE, SCALAR } kind;

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    const kind which = *(const kind *)config;
    ls_value x = ls_input(g, "lr", LS_TYPE(LS_F32, batch, IN)),
             t = ls_input(g, "step", LS_TYPE(LS_F32, batch, OUT));
    ls_value y = ls_linear(g, "fc2", ls_tanh(g, ls_linear(g, "fc1", x, HIDDEN)), OUT);
    ls_wide_begin(g);
    ls_value d = ls_sub(g, y, t), squares = ls_square(g, d), distance = absolute(g, d);
    ls_wide_end(g);
    if (which == SCALAR) {
        ls_wide_begin(g);
        ls_loss_scalar(g, "mse", ls_mean(g, squares, LS_ALL_DIMS, false), 1);
        ls_wide_end(g);
        return ls_graph_finish(g);
    }
    if (which == ROWS) {
        ls_loss(g, "mse", squares, 1, LS_BY_ELEMENT, NULL);
        return ls_graph_finish(g);
    }
    if (which == BY_SAMPLE) {
        ls_wide_begin(g);
        ls_loss(g, "mse", ls_mean(g, squares, 1, false), 1, LS_BY_SAMPLE, NULL);
        ls_wide_end(g);
        return ls_graph_finish(g);
    }
    ls_input(g, "w", LS_TYPE(LS_F32, batch));
    ls_input(g, "valid", LS_TYPE(LS_I32, batch, OUT));
    ls_loss(g, "squares", squares, 1, LS_BY_FIELD, "w");
    ls_loss(g, "distance", ls_reshape(g, distance, batch * OUT), 0.25, LS_BY_VALID, "valid");
    ls_measure(g, "mean", squares, LS_MEAN, LS_BY_ELEMENT, NULL);
    ls_measure(g, "worst", distance, LS_LARGEST, LS_BY_SAMPLE, NULL);
    ls_measure(g, "by_sample", squares, LS_MEAN, LS_BY_SAMPLE, NULL);
    ls_output(g, "step", y); /* an output may have the name of a field */
    return ls_graph_finish(g);
}

/* ---- 9 steps of 8, of which each third has 6 */

typedef struct job {
    int ranks;
    bool put; /* samples come from memory: sample i of a step on rank i % ranks */
    ls_data_parallel data;
    double losses[STEPS][3], after[HIDDEN * IN + HIDDEN + OUT * HIDDEN + OUT];
    int n_metrics;
    ls_metric metrics[6];
    char names[6][16];
} job;

static ls_status set_weights(ls_trainer *t)
{
    ls_named_tensor p[4];
    double values[4][HIDDEN * IN];
    const int n = ls_trainer_parameters(t, NULL, 0);
    LS_TRY(n == 4 && ls_trainer_parameters(t, p, 4) == 4 ? LS_OK : LS_E_INTERNAL);
    for (int i = 0; i < n; i++) {
        p[i].tensor.data = values[i];
        golden_parameter(p[i].name, &p[i].tensor.type, values[i]);
    }
    const char *path = ls_test_path("fields.safetensors");
    ls_weights *w;
    if (!t->group || ls_group_rank(t->group) == 0)
        LS_TRY(ls_weights_save(path, n, p));
    if (t->group)
        LS_TRY(ls_group_barrier(t->group));
    LS_TRY(ls_weights_open(&w, path));
    const ls_status s = ls_trainer_load(t, w);
    ls_weights_close(&w);
    return s;
}

/* A step of the samples that this rank has of `first` .. `end` - 1, put in two parts. */
static ls_status put_step(ls_trainer *t, int64_t first, int64_t end, int ranks, int rank, ls_step_result *r)
{
    static const ls_type TYPES[] = {
        { LS_F64, 2, { 1, IN } }, { LS_F32, 2, { 1, OUT } }, { LS_F32, 1, { 1 } }, { LS_I32, 2, { 1, OUT } }
    };
    int64_t n = 0;
    for (int64_t i = first + rank; i < end; i += ranks, n++) {
        double x[IN];
        float y[OUT], w;
        int32_t valid[OUT];
        void *const to[] = { x, y, &w, valid };
        LS_TRY(read_sample(&SET, i, to));
        for (int k = 0; k < 4; k++) {
            const ls_tensor one = ls_tensor_of(to[k], &TYPES[k]);
            LS_TRY(ls_trainer_put(t, FIELDS[k].name, &one, n));
        }
    }
    return ls_trainer_run(t, n, 0.5, r);
}

static ls_status train(job *j, ls_trainer *t)
{
    const ls_order order = { .n = SAMPLES, .global_batch = BATCH, .micro_batch = MICRO };
    ls_loader *loader;
    ls_named_tensor p[4];
    LS_TRY(set_weights(t));
    LS_TRY(ls_loader_create(&loader, &SET, &order, .share = t->compiled.share));
    ls_status s = LS_OK;
    for (int k = 0; k < STEPS && s == LS_OK; k++) {
        ls_loader_step b;
        ls_step_result r;
        bool done;
        LS_TRY_TO(s, ls_loader_next(loader, &b, &done), end);
        s = j->put ? put_step(t, k % 3 * BATCH, k % 3 == 2 ? SAMPLES : (k % 3 + 1) * BATCH, j->ranks,
                              t->group ? ls_group_rank(t->group) : 0, &r)
                   : ls_trainer_step_from(t, &b, 0.5, &r);
        LS_TRY_TO(s, s, end);
        if (r.n_losses != 2 || strcmp(r.losses[1].name, "distance") || r.count != (k % 3 == 2 ? 6 : 8))
            LS_TRY_TO(
                s,
                ls_fail(LS_E_INTERNAL, "step %d: %d losses, count %lld", k, r.n_losses, (long long)r.count),
                end);
        memcpy(j->losses[k], (double[]){ r.loss, r.losses[0].value, r.losses[1].value }, sizeof j->losses[k]);
    }
    LS_TRY_TO(s, ls_trainer_evaluate(t, &SET, j->metrics, 6, &j->n_metrics), end);
    for (int i = 0; i < 6; i++)
        strcpy(j->names[i], j->metrics[i].name);
    LS_TRY_TO(s, training_parameters(t, p, 4) == 4 ? LS_OK : LS_E_INTERNAL, end);
    for (int i = 0, at = 0; i < 4; i++) {
        memcpy(j->after + at, p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
        at += (int)ls_type_count(&p[i].tensor.type);
    }
    training_release(p, 4);
end:
    ls_loader_destroy(&loader);
    return s;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context, mine = *j;
    static const kind two = TWO;
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
    LS_TRY(ls_trainer_create_with(&t, build, &two, &o));
    const ls_status s = train(&mine, t);
    ls_trainer_destroy(&t);
    if (ls_group_rank(g) == 0)
        *j = mine;
    return s;
}

static void expect(const char *what, const double *ours, int64_t n, const ls_weight *want, double tolerance)
{
    golden_expect(what, ours, &LS_TYPE(LS_F64, n), want, tolerance);
}

static void two_losses_on_any_ranks(void **state)
{
    (void)state;
    static const char *const NAMES[] = { "loss", "squares", "distance", "mean", "worst", "by_sample" };
    job first = { 0 };
    for (int k = 0; k < 8; k++) {
        job j = { .ranks = k < 5 ? (k < 1   ? 1
                                    : k < 3 ? 2
                                            : 4)
                                 : 1 << (k - 5),
                  .put = k >= 5,
                  .data = k % 2 ? LS_DATA_FSDP : LS_DATA_DDP };
        ASSERT_OK(run_ranks(j.ranks, rank, &j));
        expect("losses", j.losses[0], STEPS * 3, golden_get(golden, "losses"), 1e-12);
        int64_t at = 0;
        for (int i = 0; i < 4; i++) {
            static const char *const P[] = { "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
            const ls_weight *want = golden_get(golden, "after.%s", P[i]);
            expect(P[i], j.after + at, golden_count(want), want, 1e-12);
            at += golden_count(want);
        }
        double values[6];
        assert_int_equal(j.n_metrics, 6);
        for (int i = 0; i < 6; i++) {
            assert_string_equal(j.names[i], NAMES[i]);
            values[i] = j.metrics[i].value;
        }
        expect("evaluation", values, 6, golden_get(golden, "evaluation"), 1e-12);
        if (!k)
            first = j;
        if (j.put) /* other samples stand in each micro-batch */
            continue;
        assert_memory_equal(j.losses, first.losses, sizeof j.losses); /* the same bits on any ranks */
        assert_memory_equal(j.after, first.after, sizeof j.after);
        assert_true(j.metrics[0].value == first.metrics[0].value);
    }
}

/* ---- a loss that is one number of a micro-batch */

typedef struct scalar_job {
    kind kind;
    int ranks;
    bool ragged; /* a third step, of 6 samples */
    double losses[3], after[HIDDEN * IN];
} scalar_job;

static ls_status scalar_rank(ls_group *g, void *context)
{
    scalar_job *j = context;
    ls_trainer *t;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS };
    o.device = "ref";
    o.threads = 1;
    o.micro_batch = MICRO;
    o.micro_batches = BATCH / MICRO;
    o.param = o.output = o.parallel.reduce = LS_F64;
    o.optimizer.kind = LS_SGD;
    o.parallel.mesh.axes[0].size = j->ranks;
    o.parallel.rank = ls_group_rank(g);
    o.group = g;
    o.padding = j->ragged;
    LS_TRY(ls_trainer_create_with(&t, build, &j->kind, &o));
    const ls_order order = {
        .n = SAMPLES, .global_batch = BATCH, .micro_batch = MICRO, .drop_last = !j->ragged
    };
    ls_loader *loader = NULL;
    ls_named_tensor p[4];
    ls_status s = set_weights(t);
    LS_TRY_TO(s, s, end);
    LS_TRY_TO(s, ls_loader_create(&loader, &SET, &order, .share = t->compiled.share), end);
    for (int k = 0; k < 2 + j->ragged; k++) {
        ls_loader_step b;
        ls_step_result r;
        bool done;
        LS_TRY_TO(s, ls_loader_next(loader, &b, &done), end);
        LS_TRY_TO(s, ls_trainer_step_from(t, &b, 0.5, &r), end);
        if (ls_group_rank(g) == 0)
            j->losses[k] = r.loss;
    }
    LS_TRY_TO(s, training_parameters(t, p, 4) == 4 ? LS_OK : LS_E_INTERNAL, end);
    if (ls_group_rank(g) == 0)
        memcpy(j->after, p[0].tensor.data, sizeof j->after);
    training_release(p, 4);
end:
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&t);
    return s;
}

/* The mean of a micro-batch's rows as one number trains as the rows do, on 1, 2 and 4 ranks. */
static void a_scalar_loss_is_a_mean_over_micro_batches(void **state)
{
    (void)state;
    scalar_job rows = { .kind = ROWS, .ranks = 1 };
    ASSERT_OK(run_ranks(1, scalar_rank, &rows));
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        scalar_job j = { .kind = SCALAR, .ranks = ranks };
        ASSERT_OK(run_ranks(ranks, scalar_rank, &j));
        for (int k = 0; k < 2; k++)
            assert_true(fabs(j.losses[k] - rows.losses[k]) <= 1e-12);
        for (int i = 0; i < HIDDEN * IN; i++)
            assert_true(fabs(j.after[i] - rows.after[i]) <= 1e-12);
    }
    assert_true(rows.losses[1] < rows.losses[0]);
    static const kind scalar = SCALAR;
    ls_trainer *t;
    ASSERT_FAILS(ls_trainer_create(&t, build, &scalar, .threads = 1, .micro_batch = 4, .padding = true),
                 LS_E_USAGE, "mse");
}

/* A row for each sample trains as its elements do: also in a step that has fewer samples, whose padding
 * counts nothing. */
static void rows_of_samples_in_a_ragged_step(void **state)
{
    (void)state;
    scalar_job rows = { .kind = ROWS, .ranks = 1, .ragged = true };
    ASSERT_OK(run_ranks(1, scalar_rank, &rows));
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        scalar_job j = { .kind = BY_SAMPLE, .ranks = ranks, .ragged = true };
        ASSERT_OK(run_ranks(ranks, scalar_rank, &j));
        for (int k = 0; k < 3; k++)
            assert_true(fabs(j.losses[k] - rows.losses[k]) <= 1e-12);
        for (int i = 0; i < HIDDEN * IN; i++)
            assert_true(fabs(j.after[i] - rows.after[i]) <= 1e-12);
    }
}

/* ---- mistakes, each with its message */

static void mistakes_are_named(void **state)
{
    (void)state;
    static const kind plain = ROWS;
    static float values[BATCH * IN];
    const ls_tensor x = ls_tensor_of(values, &LS_TYPE(LS_F32, 2, IN)),
                    wide = ls_tensor_of(values, &LS_TYPE(LS_F32, 2, IN + 1)),
                    ids = ls_tensor_of(values, &LS_TYPE(LS_I32, 2, IN)),
                    y = ls_tensor_of(values, &LS_TYPE(LS_F32, 2, OUT));
    ls_step_result r;
    ls_trainer *t;
    ASSERT_OK(ls_trainer_create(&t, build, &plain, .threads = 1, .micro_batch = 4));
    ASSERT_FAILS(ls_trainer_run(t, 2, 1e-3, &r), LS_E_ARG, "ls_trainer_run before the trainer has weights");
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_FAILS(ls_trainer_put(t, "x", &x, 0), LS_E_ARG, "no field \"x\"; the model takes lr, step");
    ASSERT_FAILS(ls_trainer_put(t, "lr", &wide, 0), LS_E_SHAPE, "\"lr\" is f32 [2, 6]", "f32 [2, 5]");
    ASSERT_FAILS(ls_trainer_put(t, "lr", &ids, 0), LS_E_SHAPE, "\"lr\" is i32 [2, 5]");
    ASSERT_FAILS(ls_trainer_put(t, "lr", &x, 3), LS_E_ARG, "samples 3 to 4", "share of a step is 4");
    ASSERT_FAILS(ls_trainer_run(t, 0, 1e-3, &r), LS_E_ARG, "\"lr\" was put for 0");
    ASSERT_OK(ls_trainer_put(t, "lr", &x, 0));
    ASSERT_FAILS(ls_trainer_run(t, 2, 1e-3, &r), LS_E_ARG, "2 samples, but \"step\" was put for 0");
    ASSERT_OK(ls_trainer_put(t, "step", &y, 0));
    ASSERT_FAILS(ls_trainer_run(t, 5, 1e-3, &r), LS_E_ARG, "5 samples", "0 to 4");
    ASSERT_FAILS(ls_trainer_run(t, 2, 1e-3, &r), LS_E_ARG, "2 of 4 samples must be padded",
                 ".padding = true");
    ASSERT_OK(ls_trainer_put(t, "lr", &x, 0));
    ASSERT_OK(ls_trainer_put(t, "lr", &x, 2));
    ASSERT_OK(ls_trainer_put(t, "step", &y, 0));
    ASSERT_OK(ls_trainer_put(t, "step", &y, 2));
    ASSERT_OK(ls_trainer_run(t, 4, 1e-3, &r));
    assert_int_equal(r.count, 4);
    ls_metric m[4];
    int n;
    ASSERT_OK(ls_trainer_evaluate(t, &SET, m, 4, &n));
    assert_int_equal(n, 1);
    assert_string_equal(m[0].name, "loss");
    assert_true(m[0].value > 0);
    ls_trainer_destroy(&t);
}

/* A step of which nothing counts changes nothing and has no loss; nor has one loss of several of which
 * nothing counts. Weights below 0 are refused. */
static void what_does_not_count(void **state)
{
    (void)state;
    static const kind two = TWO;
    float x[2][IN] = { { 1, 2, 3, 4, 5 }, { 0 } }, y[2][OUT] = { { 0.5f } }, w[2] = { 0 },
          before[HIDDEN * IN];
    int32_t valid[2][OUT];
    const ls_tensor fields[] = { ls_tensor_of(x, &LS_TYPE(LS_F32, 2, IN)),
                                 ls_tensor_of(y, &LS_TYPE(LS_F32, 2, OUT)),
                                 ls_tensor_of(w, &LS_TYPE(LS_F32, 2)),
                                 ls_tensor_of(valid, &LS_TYPE(LS_I32, 2, OUT)) };
    ls_named_tensor p[4];
    ls_step_result r;
    ls_trainer *t;
    for (int i = 0; i < 2 * OUT; i++)
        valid[i / OUT][i % OUT] = LS_IGNORE_LABEL;
    ASSERT_OK(ls_trainer_create(&t, build, &two, .threads = 1, .micro_batch = 2));
    ASSERT_OK(ls_trainer_init(t, 0));
    assert_int_equal(training_parameters(t, p, 4), 4);
    memcpy(before, p[0].tensor.data, sizeof before);
    training_release(p, 4);
    for (int step = 0; step < 3; step++) {
        w[0] = step == 1 ? 0.5f : step == 2 ? -1 : 0;
        for (int k = 0; k < 4; k++)
            ASSERT_OK(ls_trainer_put(t, FIELDS[k].name, &fields[k], 0));
        if (step == 2) {
            ASSERT_FAILS(ls_trainer_run(t, 2, 0.1, &r), LS_E_NUMERIC,
                         "loss \"squares\": a weight in \"w\" is -1");
            break;
        }
        ASSERT_OK(ls_trainer_run(t, 2, 0.1, &r));
        assert_int_equal(r.skipped, step == 0);
        assert_true(step == 1 ? r.loss > 0 && r.count == 2 : isnan(r.loss) && r.count == 0);
        assert_true(isnan(r.losses[0].value) == (step == 0) && isnan(r.losses[1].value));
        assert_int_equal(training_parameters(t, p, 4), 4);
        assert_int_equal(memcmp(before, p[0].tensor.data, sizeof before) == 0, step == 0);
        training_release(p, 4);
    }
    ls_trainer_destroy(&t);
}

/* ---- 100 steps in f32 */

static void regression_in_f32(void **state)
{
    (void)state;
    static const kind plain = ROWS;
    double losses[100];
    ls_trainer *t;
    ls_loader *loader;
    const ls_order order = { .n = SAMPLES, .global_batch = BATCH, .micro_batch = BATCH, .drop_last = true };
    ASSERT_OK(ls_trainer_create(&t, build, &plain, .threads = 2, .micro_batch = BATCH));
    ASSERT_OK(ls_trainer_init(t, 0));
    ls_named_tensor p[4];
    assert_int_equal(training_parameters(t, p, 4), 4);
    for (int i = 0; i < 4; i++)
        golden_parameter(p[i].name, &p[i].tensor.type, p[i].tensor.data);
    ASSERT_OK(training_set(t, p, 4));
    training_release(p, 4);
    ASSERT_OK(ls_loader_create(&loader, &SET, &order));
    for (int k = 0; k < 100; k++) {
        ls_loader_step b;
        ls_step_result r;
        bool done;
        ASSERT_OK(ls_loader_next(loader, &b, &done));
        ASSERT_OK(ls_trainer_step_from(t, &b, 1e-2, &r));
        assert_int_equal(r.n_losses, 0);
        losses[k] = r.loss;
    }
    expect("cpu", losses, 100, golden_get(golden, "regression"), 1e-5);
    ls_loader_destroy(&loader);
    ls_trainer_destroy(&t);
}

static int set_up(void **state)
{
    (void)state;
    golden = golden_open("fields");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ls_weights_close(&golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_scalar_loss_is_a_mean_over_micro_batches),
                                        cmocka_unit_test(rows_of_samples_in_a_ragged_step),
                                        cmocka_unit_test(two_losses_on_any_ranks),
                                        cmocka_unit_test(mistakes_are_named),
                                        cmocka_unit_test(what_does_not_count),
                                        cmocka_unit_test(regression_in_f32) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
