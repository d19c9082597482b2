/* test_predictor.c - predictions are the numbers of the evaluation, bit for bit: for any number of rows, any
 * batch, of a trainer on 1, 2 and 4 ranks, of a checkpoint that 4 ranks saved. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/graph.h"
#include "step/predicted.h"
#include "support/values.h"

/* The small ViT, whose logits are the rows of a metric, too: so an evaluation has them in memory. */
static ls_status build_vit(ls_graph *g, const void *config, int64_t batch)
{
    LS_TRY(training_build_vit(g, config, batch));
    ls_wide_begin(g);
    ls_measure(g, "all", ls_add_const(g, g->outputs[0].value, 0), LS_MEAN, LS_BY_ELEMENT, NULL);
    ls_wide_end(g);
    return ls_graph_finish(g);
}

/* The logits and probabilities of all samples by a trainer whose micro-batch divides them. */
static void evaluated(ls_trainer *t, float *scores, float *probability, int32_t *predicted)
{
    const int64_t b = t->compiled.micro_batch;
    for (int64_t i = 0; i < SAMPLES; i += b) {
        ASSERT_OK(ls_trainer_eval(t, images + i * PIXELS, labels + i, NULL, predicted + i,
                                  probability + i * CLASSES));
        const ls_place *rows = &t->rows[t->compiled.objective.n - 1];
        void *copy = place_copy(rows);
        for (int64_t k = 0; k < b * CLASSES; k++)
            scores[i * CLASSES + k] = (float)value_element(copy, rows->type.dtype, k);
        free(copy);
    }
}

static void as_the_evaluation(void **state)
{
    (void)state;
    static const ls_dtype TYPES[] = { LS_F32, LS_BF16, LS_F64, LS_F32 };
    for (int k = 0; k < 4; k++) {
        const bool rounded = k == 3; /* the logits, behind the rows of the metric */
        ls_trainer *t;
        ls_predictor *p[3];
        static float want[SAMPLES * CLASSES], have[SAMPLES * CLASSES], probability[SAMPLES * CLASSES];
        static int32_t predicted[SAMPLES], classes[SAMPLES];
        const ls_trainer_opts o = { LS_TRAINER_DEFAULTS,
                                    .micro_batch = 10,
                                    .threads = 2,
                                    .param = TYPES[k],
                                    .output = rounded ? LS_BF16 : LS_F32,
                                    .device = TYPES[k] == LS_F64 ? "ref" : "cpu" };
        ls_step_result r;
        ASSERT_OK(ls_trainer_create_with(&t, build_vit, &VIT, &o));
        ASSERT_OK(ls_trainer_init(t, 5));
        wake_head(t);
        for (int i = 0; i < 3; i++)
            ASSERT_OK(ls_trainer_step(t, images, labels, 10, 1e-2, &r));
        evaluated(t, want, probability, predicted);
        assert_true(want[0] != want[1] && want[0] != want[CLASSES]);
        ASSERT_OK(ls_predictor_of(&p[0], t));
        ASSERT_OK(ls_predictor_of(&p[1], t, .batch = 1, .threads = 1, .build = build_vit, .config = &VIT));
        ASSERT_OK(ls_predictor_of(&p[2], t, .batch = 64, .build = build_vit, .config = &VIT,
                                  .outputs = "probability logits  predicted logits"));
        for (int i = 0; i < 3; i++) {
            for (int first = 0, n = 1; first < SAMPLES; first += n, n += 3) { /* 1 + 4 + .. + 19: = 70 */
                n = n > SAMPLES - first ? SAMPLES - first : n;
                ASSERT_OK(logits(p[i], first, n, have + first * CLASSES));
            }
            assert_int_equal(!memcmp(have, want, sizeof want), !rounded);
            memcpy(want, have, sizeof want);
            ASSERT_OK(logits(p[i], 0, SAMPLES, have));
            assert_memory_equal(have, want, sizeof want);
            rounded ? evaluated(t, want, probability, predicted) : (void)0;
            ASSERT_OK(predict(p[i], 0, SAMPLES, "probability", LS_TYPE(LS_F32, SAMPLES, CLASSES), have));
            assert_memory_equal(have, probability, sizeof have);
            ASSERT_OK(predict(p[i], 0, SAMPLES, "predicted", LS_TYPE(LS_I32, SAMPLES), classes));
            assert_memory_equal(classes, predicted, sizeof predicted);
        }
        /* their weights are their own */
        ASSERT_OK(ls_trainer_step(t, images, labels, 10, 1e-2, &r));
        ls_trainer_destroy(&t);
        for (int i = 0; i < 3; i++) {
            ASSERT_OK(predict(p[i], 0, SAMPLES, "probability", LS_TYPE(LS_F32, SAMPLES, CLASSES), have));
            assert_memory_equal(have, probability, sizeof have);
            ls_predictor_destroy(&p[i]);
        }
    }
}

/* Running statistics of batch norm belong to the weights. */
static void with_buffers(void **state)
{
    (void)state;
    enum { N = 6, PLACES = 3 * 16 * 16 };
    ls_trainer *t;
    ls_predictor *p;
    ls_step_result r;
    static uint8_t pictures[N * PLACES];
    int32_t of[N] = { 0, 1, 2, 3, 4, 5 }, predicted[N];
    const int64_t channels = training_resnet.in_channels, size = training_resnet.image_size;
    assert_true(channels * size * size <= PLACES);
    for (int i = 0; i < N * PLACES; i++)
        pictures[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        ASSERT_OK(ls_trainer_create(&t, training_build_resnet, &training_resnet, .micro_batch = N,
                                    .threads = 2, .param = bf16 ? LS_BF16 : LS_F32));
        ASSERT_OK(ls_trainer_init(t, 3));
        for (int i = 0; i < 2; i++)
            ASSERT_OK(ls_trainer_step(t, pictures, of, N, 1e-3, &r));
        const int64_t classes = ls_trainer_classes(t);
        float *want = calloc((size_t)(N * classes), sizeof *want),
              *have = calloc((size_t)(N * classes), sizeof *have);
        ASSERT_OK(ls_trainer_eval(t, pictures, of, NULL, predicted, want));
        ASSERT_OK(ls_predictor_of(&p, t, .outputs = "probability"));
        const ls_tensor in = rows_of(pictures, LS_TYPE(LS_U8, N, channels, size, size)),
                        out = rows_of(have, LS_TYPE(LS_F32, N, classes));
        ASSERT_OK(ls_predictor_put(p, "images", &in));
        ASSERT_OK(ls_predictor_run(p, N));
        ASSERT_OK(ls_predictor_get(p, "probability", &out));
        assert_memory_equal(have, want, sizeof *have * (size_t)(N * classes));
        free(want);
        free(have);
        ls_predictor_destroy(&p);
        ls_trainer_destroy(&t);
    }
}

/* ---- ranks, checkpoints */

typedef struct layout {
    const char *save; /* a checkpoint; NULL: none */
    float logits[4][SAMPLES * CLASSES];
} layout;

static ls_status on_ranks(ls_group *g, void *context)
{
    layout *l = context;
    const int ranks = ls_group_size(g), rank = ls_group_rank(g);
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .micro_batch = 4, .micro_batches = 4, .threads = 1,
                          .group = g };
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.rank = rank;
    o.parallel.units = "class:EncoderBlock";
    ls_trainer *t;
    ls_predictor *p;
    ls_step_result r;
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    LS_TRY(ls_trainer_init(t, 5));
    for (int k = 0; k < 3; k++) {
        uint8_t mine[16 * PIXELS];
        int32_t of[16];
        for (int64_t m = 0; m < t->compiled.share.count; m++)
            for (int64_t row = 0; row < 4; row++) {
                const int64_t from = t->compiled.share.first + m * t->compiled.share.stride + row * 4;
                memcpy(mine + (m * 4 + row) * PIXELS, images + from * PIXELS, PIXELS);
                of[m * 4 + row] = labels[from];
            }
        LS_TRY(ls_trainer_step(t, mine, of, 16, 1e-2, &r));
    }
    LS_TRY(ls_predictor_of(&p, t));
    /* local: each rank has other numbers of rows, and rank 0 predicts once more */
    for (int first = 0, n; first < SAMPLES; first += n) {
        n = rank + 5 < SAMPLES - first ? rank + 5 : SAMPLES - first;
        LS_TRY(logits(p, first, n, l->logits[rank] + first * CLASSES));
    }
    if (!rank)
        LS_TRY(logits(p, 0, SAMPLES, l->logits[rank]));
    ls_predictor_destroy(&p);
    if (l->save)
        LS_TRY(ls_trainer_save_checkpoint(t, l->save));
    LS_TRY(ls_trainer_step(t, images, labels, 16, 0, &r)); /* a trainer as before */
    ls_trainer_destroy(&t);
    return LS_OK;
}

static ls_status other_outputs(ls_group *g, void *context)
{
    (void)context;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .micro_batch = 4, .micro_batches = 2, .threads = 1,
                          .group = g };
    o.parallel.mesh.axes[0].size = ls_group_size(g);
    o.parallel.rank = ls_group_rank(g);
    ls_trainer *t;
    ls_predictor *p;
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    LS_TRY(ls_trainer_init(t, 5));
    const ls_status s = ls_predictor_of(&p, t, .outputs = ls_group_rank(g) ? "logit" : NULL);
    RANK_CHECK(s == (ls_group_rank(g) ? LS_E_USAGE : LS_E_PEER) && !p);
    ls_trainer_destroy(&t);
    return ls_group_rank(g) ? s : LS_OK; /* run_ranks returns what the first to end returns */
}

static void a_rank_that_fails_alone(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, other_outputs, NULL), LS_E_USAGE);
    assert_non_null(strstr(ls_error_message(), "no output \"logit\", is it \"logits\"?"));
}

static void of_any_ranks(void **state)
{
    (void)state;
    static layout one, l;
    static float have[SAMPLES * CLASSES];
    ASSERT_OK(run_ranks(1, on_ranks, &one));
    assert_true(one.logits[0][0] != one.logits[0][1]);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        l.save = ranks == 4 ? ls_test_path("of-4") : NULL;
        ASSERT_OK(run_ranks(ranks, on_ranks, &l));
        for (int rank = 0; rank < ranks; rank++)
            assert_memory_equal(l.logits[rank], one.logits[0], sizeof one.logits[0]);
    }
    ls_predictor *p;
    const char *dir = ls_test_path("of-4");
    ASSERT_OK(ls_predictor_open(&p, dir, .build = training_build_vit, .config = &VIT));
    ASSERT_OK(logits(p, 0, SAMPLES, have));
    assert_memory_equal(have, one.logits[0], sizeof have);
    ls_predictor_destroy(&p);
    ASSERT_FAILS(ls_predictor_open(&p, dir), LS_E_USAGE, "say .build", "contains no recipe");
    assert_null(p);
    ASSERT_FAILS(ls_predictor_open(&p, ls_test_path("nowhere")), LS_E_IO, "no such folder");
    ASSERT_FAILS(ls_predictor_open(&p, ls_test_path("")), LS_E_IO, "neither a checkpoint", "nor a run");
    const ls_vit_config other = { SMALL_VIT, .hidden_size = 16, .mlp_size = 48 };
    ASSERT_FAILS(ls_predictor_open(&p, dir, .build = training_build_vit, .config = &other), LS_E_SHAPE,
                 "shape");
    assert_null(p);
}

/* The moving averages of a checkpoint, and those of a trainer that has exchanged them. */
static void averages(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_predictor *p[3];
    ls_step_result r;
    static float have[3][SAMPLES * CLASSES];
    const char *dir = ls_test_path("ema");
    START(t, .micro_batch = 10, .threads = 1, .ema_decay = 0.9);
    for (int i = 0; i < 3; i++)
        ASSERT_OK(ls_trainer_step(t, images, labels, 10, 1e-2, &r));
    ASSERT_OK(ls_trainer_save_checkpoint(t, dir));
    ASSERT_OK(ls_predictor_open(&p[0], dir, .build = training_build_vit, .config = &VIT));
    ASSERT_OK(ls_predictor_open(&p[1], dir, .build = training_build_vit, .config = &VIT, .ema = true));
    ASSERT_OK(ls_trainer_exchange_ema(t));
    ASSERT_OK(ls_predictor_of(&p[2], t));
    ASSERT_OK(ls_trainer_exchange_ema(t));
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(logits(p[i], 0, SAMPLES, have[i]));
        ls_predictor_destroy(&p[i]);
    }
    assert_memory_not_equal(have[0], have[1], sizeof have[0]);
    assert_memory_equal(have[2], have[1], sizeof have[0]);
    ls_trainer_destroy(&t);
}

/* The latest checkpoint of a run, its best one with .best, and by itself after early stopping. */
static void of_a_run(void **state)
{
    (void)state;
    static const char ENDED[] = "{\"ended\": \"early stopping: ..\", \"best\": {\"step\": 1}}";
    static float have[4][SAMPLES * CLASSES];
    ls_trainer *t;
    ls_predictor *p = NULL;
    ls_step_result r;
    ASSERT_OK(ls_make_dirs(ls_test_path("run/checkpoints")));
    ASSERT_OK(ls_file_write(ls_test_path("run/config.txt"), "", 0));
    const char *const names[] = { "run/checkpoints/best", "run/checkpoints/latest" };
    START(t, .micro_batch = 10, .threads = 1);
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_trainer_step(t, images, labels, 10, 1e-2, &r));
        ASSERT_OK(ls_trainer_save_checkpoint(t, ls_test_path(names[i])));
    }
    ls_trainer_destroy(&t);
    char run[512];
    snprintf(run, sizeof run, "%s", ls_test_path("run"));
    for (int i = 0; i < 4; i++) {
        if (i == 3)
            ASSERT_OK(ls_file_write(ls_test_path("run/result.json"), ENDED, sizeof ENDED - 1));
        const char *path = i == 0 ? ls_test_path(names[0]) : run;
        ASSERT_OK(ls_predictor_open(&p, path, .build = training_build_vit, .config = &VIT, .best = i == 2));
        ASSERT_OK(logits(p, 0, SAMPLES, have[i]));
        ls_predictor_destroy(&p);
    }
    assert_memory_not_equal(have[1], have[0], sizeof have[0]);
    assert_memory_equal(have[2], have[0], sizeof have[0]);
    assert_memory_equal(have[3], have[0], sizeof have[0]);
    ASSERT_FAILS(ls_predictor_open(&p, ls_test_path(names[0]), .build = training_build_vit, .config = &VIT,
                                   .best = true),
                 LS_E_ARG, ".best chooses among the checkpoints of a run", "is not a run");
}

/* ---- a regression with fields of its own */

static ls_trainer *own(void)
{
    ls_trainer *t;
    ASSERT_OK(ls_trainer_create(&t, build_own, NULL, .micro_batch = 4, .threads = 1));
    ASSERT_OK(ls_trainer_init(t, 2));
    return t;
}

static void fields_of_ones_own(void **state)
{
    (void)state;
    enum { N = 7 };
    ls_trainer *t = own();
    ls_predictor *p;
    ls_named_tensor names[8];
    float x[N][IN], y[N][OUT], back[N][IN];
    double wide[N][2 * IN], wide_y[OUT][N];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < IN; k++) {
            x[i][k] = (float)(i - 3) / 8 + (float)k;
            wide[i][2 * k] = (double)x[i][k];
            wide[i][2 * k + 1] = NAN;
        }
    /* what the loss alone needs is not an input */
    ASSERT_OK(ls_predictor_of(&p, t, .outputs = "y x fc.weight"));
    assert_int_equal(ls_predictor_inputs(p, names, 8), 1);
    assert_string_equal(names[0].name, "x");
    assert_true(ls_type_equal(&names[0].tensor.type, &LS_TYPE(LS_F32, 1, IN)));
    assert_int_equal(ls_predictor_outputs(p, names, 8), 3);
    assert_string_equal(names[2].name, "fc.weight");
    assert_true(ls_type_equal(&names[2].tensor.type, &LS_TYPE(LS_F32, 2, 1)));
    assert_true(ls_predictor_bytes(p) > 0);
    ls_tensor in = rows_of(x, LS_TYPE(LS_F32, N, IN)), out = rows_of(y, LS_TYPE(LS_F32, N, OUT)),
              same = rows_of(back, LS_TYPE(LS_F32, N, IN));
    ASSERT_OK(ls_predictor_put(p, "x", &in));
    ASSERT_OK(ls_predictor_run(p, N));
    ASSERT_OK(ls_predictor_get(p, "y", &out));
    ASSERT_OK(ls_predictor_get(p, "x", &same));
    assert_memory_equal(x, back, sizeof x);
    float twice[2 * N];
    out = rows_of(twice, LS_TYPE(LS_F32, 2 * N, 1));
    ASSERT_OK(ls_predictor_get(p, "fc.weight", &out));
    for (int i = 0; i < N * OUT; i++)
        assert_true(twice[i] == 2 * y[i / OUT][i % OUT]);
    /* against the product by hand */
    ls_named_tensor fc[2];
    assert_int_equal(training_parameters(t, fc, 2), 2);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < OUT; k++) {
            double want = (double)((float *)fc[1].tensor.data)[k];
            for (int j = 0; j < IN; j++)
                want += (double)((float *)fc[0].tensor.data)[k * IN + j] * tanh((double)x[i][j]);
            assert_true(fabs(want - (double)y[i][k]) < 1e-5);
        }
    training_release(fc, 2);
    /* f64 with strides in, transposed f64 out: the same */
    ls_tensor strided = rows_of(wide, LS_TYPE(LS_F64, N, IN));
    strided.strides[0] = 2 * IN;
    strided.strides[1] = 2;
    ASSERT_OK(ls_predictor_put(p, "x", &strided));
    ASSERT_OK(ls_predictor_run(p, N));
    out = rows_of(wide_y, LS_TYPE(LS_F64, N, OUT));
    out.strides[0] = 1;
    out.strides[1] = N;
    ASSERT_OK(ls_predictor_get(p, "y", &out));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < OUT; k++)
            assert_true(wide_y[k][i] == (double)y[i][k]);
    /* a tensor whose strides were forgotten */
    ls_tensor still = { wide, LS_TYPE(LS_F64, N, IN), { 0 } };
    ASSERT_FAILS(ls_predictor_put(p, "x", &still), LS_E_ARG, "all strides are 0: make the tensor with");
    still = (ls_tensor){ wide_y, LS_TYPE(LS_F64, N, OUT), { 0 } };
    ASSERT_FAILS(ls_predictor_get(p, "y", &still), LS_E_ARG, "ls_tensor_of");
    /* no rows */
    in = rows_of(NULL, LS_TYPE(LS_F32, 0, IN));
    ASSERT_OK(ls_predictor_put(p, "x", &in));
    ASSERT_OK(ls_predictor_run(p, 0));
    out = rows_of(NULL, LS_TYPE(LS_F32, 0, OUT));
    ASSERT_OK(ls_predictor_get(p, "y", &out));
    ls_predictor_destroy(&p);
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_evaluation),  cmocka_unit_test(with_buffers),
        cmocka_unit_test(of_any_ranks),       cmocka_unit_test(a_rank_that_fails_alone),
        cmocka_unit_test(averages),           cmocka_unit_test(of_a_run),
        cmocka_unit_test(fields_of_ones_own),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
