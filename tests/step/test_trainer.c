/* test_trainer.c - what a training step promises beyond its numbers (tests/golden has those): the same bits
 * whatever the threads, the recompute, the rows beside a row; padding, files, other types, and messages that
 * name the layer. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "golden/training.h"
#include "lockstep/nn.h"
#include "models/classifier.h"
#include "support/ranks.h"
#include "step/evaluate.h"
#include "step/state.h"

enum { SAMPLES = 70, PIXELS = 64 };
static const ls_vit_config VIT = { .image_size = 8,
                                   .patch_size = 4,
                                   .in_channels = 1,
                                   .layers = 2,
                                   .heads = 2,
                                   .hidden_size = 32,
                                   .mlp_size = 48,
                                   .classes = 5,
                                   .mean = 0.5,
                                   .std = 0.5 };
static uint8_t images[SAMPLES * PIXELS];
static int32_t labels[SAMPLES];

static int make_data(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % 5;
        for (int k = 0; k < PIXELS; k++) /* stripes by class under noise */
            images[i * PIXELS + k] = (uint8_t)(((k / (labels[i] + 1)) % 2 ? 150 : 20) +
                                               (int)((uint32_t)(i * PIXELS + k) * 2654435761u >> 26));
    }
    return 0;
}

#define START(t, ...)                                                                \
    do {                                                                             \
        ASSERT_OK(ls_trainer_create(&(t), training_build_vit, &VIT, ##__VA_ARGS__)); \
        ASSERT_OK(ls_trainer_init((t), 5));                                          \
        wake_head(t);                                                                \
    } while (0)

/* The head starts with zeros, which would hide everything behind it in the first step. */
static void wake_head(ls_trainer *t)
{
    ls_named_tensor p[64];
    int n = ls_trainer_parameters(t, p, 64);
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].name, "heads.head.weight"))
            for (int64_t k = 0; k < ls_type_count(&p[i].tensor.type); k++) {
                double x = 0.2 * sin((double)k + 1);
                if (p[i].tensor.type.dtype == LS_F64)
                    ((double *)p[i].tensor.data)[k] = x;
                else
                    ((float *)p[i].tensor.data)[k] = (float)x;
            }
}

typedef struct outcome {
    double losses[4];
    uint64_t weights;
} outcome;

static outcome run(const ls_trainer_opts *o)
{
    ls_trainer *t;
    outcome out;
    ASSERT_OK(ls_trainer_create_with(&t, training_build_vit, &VIT, o));
    ASSERT_OK(ls_trainer_init(t, 5));
    wake_head(t);
    int64_t batch = o->micro_batch * o->micro_batches;
    for (int k = 0; k < 4; k++) {
        ls_step_result r;
        ASSERT_OK(ls_trainer_step(t, images + k * PIXELS, labels + k, batch, 1e-3, &r));
        out.losses[k] = r.loss;
    }
    assert_true(out.losses[0] != out.losses[1]);
    out.weights = ls_hash64(t->units[0].data, ls_type_bytes(&t->units[0].type));
    ls_trainer_destroy(&t);
    return out;
}

static void expect_equal(const outcome *a, const outcome *b, const ls_trainer_opts *o)
{
    for (int k = 0; k < 4; k++)
        if (a->losses[k] != b->losses[k])
            fail_msg("%s: loss of step %d is %.17g, with one thread and without recompute %.17g",
                     training_describe(o), k, b->losses[k], a->losses[k]);
    if (a->weights != b->weights)
        fail_msg("%s: other weights after four steps", training_describe(o));
}

static void same_bits_with_any_threads_and_recompute(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    int n = training_levels(levels);
    for (int i = 0; i < n; i++)
        for (int type = 0; type < 3; type++) {
            ls_trainer_opts o = { LS_TRAINER_DEFAULTS,
                                  .isa = (int)levels[i],
                                  .threads = 1,
                                  .micro_batch = 11,
                                  .micro_batches = 3,
                                  .clip_norm = 0.5,
                                  .param = (ls_dtype[]){ LS_F32, LS_BF16, LS_F16 }[type] };
            outcome first = run(&o);
            for (o.threads = 1; o.threads <= 3; o.threads++)
                for (int again = 0; again < 2; again++) {
                    o.recompute = again ? "EncoderBlock" : NULL;
                    outcome other = run(&o);
                    expect_equal(&first, &other, &o);
                }
        }
}

/* A row's result does not depend on the rows beside it, nor on how many they are. */
static void rows_are_independent(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    int n = training_levels(levels);
    static const int sizes[] = { 1, 3, 64 };
    for (int i = 0; i < n; i++)
        for (int type = 0; type < 2; type++) {
            float probability[3][SAMPLES + 64][5], loss[3][SAMPLES + 64];
            for (int s = 0; s < 3; s++) {
                ls_trainer *t;
                START(t, .isa = (int)levels[i], .threads = 2, .micro_batch = sizes[s],
                      .param = type ? LS_BF16 : LS_F32);
                const int last = sizes[s] == 64 ? 0 : 9;
                for (int at = 0; at <= last; at += sizes[s])
                    ASSERT_OK(ls_trainer_eval(t, images + at * PIXELS, labels + at, &loss[s][at], NULL,
                                              &probability[s][at][0]));
                ls_trainer_destroy(&t);
            }
            for (int row = 0; row < 10; row++) {
                double sum = 0;
                for (int c = 0; c < 5; c++)
                    sum += (double)probability[2][row][c];
                assert_true(fabs(sum - 1) < 1e-5 && fabs(-log((double)probability[2][row][labels[row]]) -
                                                         (double)loss[2][row]) < 1e-4);
            }
            for (int s = 0; s < 2; s++)
                for (int row = 0; row < 10; row++) {
                    for (int c = 0; c < 5; c++)
                        if (probability[s][row][c] != probability[2][row][c])
                            fail_msg(
                                "%s %s: probability %d of row %d is %.9g in a batch of %d, %.9g in one of 64",
                                ls_isa_name(levels[i]), type ? "bf16" : "f32", c, row,
                                (double)probability[s][row][c], sizes[s], (double)probability[2][row][c]);
                    assert_true(loss[s][row] == loss[2][row] && loss[s][row] > 0);
                }
        }
}

/* A batch filled up with padding: the loss of the samples, and their gradients. */
static void padding_does_not_count(void **state)
{
    (void)state;
    ls_trainer *small, *padded;
    ls_step_result a, b;
    uint8_t filled[8 * PIXELS] = { 0 };
    int32_t few[8];
    memcpy(filled, images, 5 * PIXELS);
    for (int i = 0; i < 8; i++)
        few[i] = i < 5 ? labels[i] : LS_IGNORE_LABEL;
    START(small, .micro_batch = 5, .threads = 2);
    START(padded, .micro_batch = 4, .micro_batches = 2, .threads = 2);
    ASSERT_OK(ls_trainer_step(small, images, labels, 5, 1e-3, &a));
    ASSERT_OK(ls_trainer_step(padded, filled, few, 5, 1e-3, &b));
    /* one division by 5 in the middle instead of two */
    assert_true(a.loss > 1 && fabs(a.loss - b.loss) < 1e-6 * a.loss);
    const float *x = small->grads[0].data, *y = padded->grads[0].data;
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < ls_type_count(&small->grads[0].type); i++) {
        largest = fmax(largest, fabs((double)x[i]));
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    }
    assert_true(largest > 0.01 && worst < 1e-6 * largest);
    float loss[4];
    ASSERT_OK(ls_trainer_eval(padded, filled + 4 * PIXELS, few + 4, loss, NULL, NULL));
    assert_true(loss[0] > 0 && loss[1] == 0 && loss[3] == 0);
    ls_trainer_destroy(&small);
    ls_trainer_destroy(&padded);
}

static void saved_and_loaded(void **state)
{
    (void)state;
    for (int f64 = 0; f64 < 2; f64++) {
        ls_trainer *t, *u;
        float before[2][8], after[2][8];
        START(t, .micro_batch = 8, .threads = 2, .device = f64 ? "ref" : "cpu",
              .param = f64 ? LS_F64 : LS_F32);
        ls_step_result r;
        for (int k = 0; k < 2; k++)
            ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
        const char *path = ls_test_path("weights.safetensors");
        ASSERT_OK(ls_trainer_save(t, path));
        for (int k = 0; k < 2; k++)
            ASSERT_OK(ls_trainer_eval(t, images + k * 8 * PIXELS, labels + k * 8, before[k], NULL, NULL));
        ASSERT_OK(ls_trainer_create(&u, training_build_vit, &VIT, .micro_batch = 8, .threads = 1,
                                    .eval_only = true, .device = f64 ? "ref" : "cpu",
                                    .param = f64 ? LS_F64 : LS_F32));
        ls_weights *w;
        ASSERT_OK(ls_weights_open(&w, path));
        ASSERT_OK(ls_trainer_load(u, w));
        ls_weights_close(&w);
        for (int k = 0; k < 2; k++)
            ASSERT_OK(ls_trainer_eval(u, images + k * 8 * PIXELS, labels + k * 8, after[k], NULL, NULL));
        assert_memory_equal(before, after, sizeof before);
        assert_true(before[0][0] > 0);
        float probability[8][5];
        ASSERT_OK(ls_trainer_eval(u, images, labels, after[0], NULL, &probability[0][0]));
        for (int row = 0; row < 8; row++)
            assert_true(fabs(-log((double)probability[row][labels[row]]) - (double)after[0][row]) < 1e-5);
        ASSERT_FAILS(ls_trainer_step(u, images, labels, 8, 1e-3, &r), LS_E_ARG, "evaluation only");
        ls_trainer_destroy(&t);
        ls_trainer_destroy(&u);
    }
}

static void half_precision_trains(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    for (int k = 0; k < 3; k++) {
        ls_trainer *t;
        START(t, .micro_batch = 20, .threads = 2, .param = types[k], .clip_norm = 1);
        ls_step_result r = { 0 };
        double first = 0;
        int skipped = 0;
        for (int step = 0; step < 60; step++) {
            ASSERT_OK(ls_trainer_step(t, images, labels, 20, 3e-3, &r));
            first = step ? first : r.loss;
            skipped += r.skipped;
        }
        if (!(first > 1.2 && r.loss < 0.2 * first))
            fail_msg("%s: loss %g after 60 steps, %g at first", ls_dtype_name(types[k]), r.loss, first);
        assert_true(skipped < 10 && (types[k] == LS_F16 || !skipped));
        assert_true(types[k] == LS_F16 ? r.loss_scale >= 64 : r.loss_scale == 0);
        assert_true(*(int64_t *)t->step.data == 60 - skipped);
        ls_trainer_destroy(&t);
    }
}

/* f16: a scale that overflows; nothing changes but the scale. */
static void overflow_is_skipped(void **state)
{
    (void)state;
    ls_trainer *t;
    START(t, .micro_batch = 8, .threads = 2, .param = LS_F16);
    *(float *)t->loss_scale.data = 0x1p60f;
    const size_t bytes = ls_type_bytes(&t->units[0].type);
    float *before = malloc(bytes);
    memcpy(before, t->units[0].data, bytes);
    ls_step_result r;
    ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
    assert_true(r.skipped && r.loss_scale == 0x1p59 && isfinite(r.loss));
    assert_memory_equal(before, t->units[0].data, bytes);
    assert_int_equal(*(int64_t *)t->step.data, 0);
    *(float *)t->loss_scale.data = 1024;
    ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
    assert_true(!r.skipped && r.loss_scale == 1024);
    assert_memory_not_equal(before, t->units[0].data, bytes);
    assert_int_equal(*(int64_t *)t->step.data, 1);
    free(before);
    ls_trainer_destroy(&t);
}

static void a_bad_weight_is_named(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_named_tensor p[64];
    ls_step_result r;
    START(t, .micro_batch = 8, .micro_batches = 2, .threads = 2);
    int n = ls_trainer_parameters(t, p, 64);
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].name, "encoder.layers.encoder_layer_1.mlp.0.weight"))
            ((float *)p[i].tensor.data)[7] = NAN;
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 16, 1e-3, &r), LS_E_NUMERIC, "micro-batch 0",
                 "encoder.layers.encoder_layer_1.mlp.0", "linear");
    ls_trainer_destroy(&t);
}

/* f16: what no loss scale mends ends the run, instead of skipping every step: a forward pass that overflows,
 * and gradients that overflow at scale 1. */
static void hopeless_f16_fails(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_named_tensor p[64];
    ls_step_result r;
    START(t, .micro_batch = 8, .threads = 2, .param = LS_F16);
    for (int i = 0, n = ls_trainer_parameters(t, p, 64); i < n; i++)
        if (!strcmp(p[i].name, "encoder.layers.encoder_layer_1.mlp.0.weight"))
            ((float *)p[i].tensor.data)[7] = 6e4f; /* times activations above 1.1 */
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 8, 1e-3, &r), LS_E_NUMERIC,
                 "micro-batch 0 is not a number, which no loss scale mends",
                 "encoder.layers.encoder_layer_1.mlp.0");
    ls_trainer_destroy(&t);

    /* pixels up to 60,000 */
    const ls_mlp_config steep = {
        .image_size = 8, .in_channels = 1, .classes = 5, .mean = 0, .std = 1 / 6e4
    };
    const int32_t same[8] = { 0 };
    ASSERT_OK(
        ls_trainer_create(&t, training_build_mlp, &steep, .micro_batch = 8, .threads = 2, .param = LS_F16));
    ASSERT_OK(ls_trainer_init(t, 5));
    for (int i = 0, n = ls_trainer_parameters(t, p, 64); i < n; i++)
        memset(p[i].tensor.data, 0, ls_type_bytes(&p[i].tensor.type));
    *(float *)t->loss_scale.data = 4;
    for (int left = 2; left >= 1; left--) {
        ASSERT_OK(ls_trainer_step(t, images, same, 1, 1e-3, &r));
        assert_true(r.skipped && isfinite(r.loss) && r.loss_scale == left);
    }
    ASSERT_FAILS(ls_trainer_step(t, images, same, 1, 1e-3, &r), LS_E_NUMERIC,
                 "gradients overflow f16 even with a loss scale of 1", "bf16 or f32 in place of f16");
    ls_trainer_destroy(&t);
}

/* Nothing is computed with weights that nobody gave: on one rank, and on each of several alike. */
static ls_status without_weights(ls_group *g, void *context)
{
    (void)context;
    ls_trainer *t;
    ls_step_result r;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .micro_batch = 8, .micro_batches = ls_group_size(g),
                          .threads = 1, .group = g };
    o.parallel.mesh.axes[0].size = ls_group_size(g);
    o.parallel.rank = ls_group_rank(g);
    float loss[8];
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    RANK_CHECK(ls_trainer_step(t, images, labels, 16, 1e-3, &r) == LS_E_ARG &&
               strstr(ls_error_message(), "ls_trainer_step before the trainer has weights"));
    RANK_CHECK(ls_trainer_eval(t, images, labels, loss, NULL, NULL) == LS_E_ARG &&
               strstr(ls_error_message(), "call ls_trainer_init"));
    RANK_CHECK(ls_trainer_save(t, ls_test_path("never.safetensors")) == LS_E_ARG);
    RANK_CHECK(ls_trainer_save_checkpoint(t, ls_test_path("never")) == LS_E_ARG);
    LS_TRY(ls_trainer_init(t, 5));
    static const double WRONG[] = { NAN, -1e-3, INFINITY };
    for (int i = 0; i < 3; i++)
        RANK_CHECK(ls_trainer_step(t, images, labels, 16, WRONG[i], &r) == LS_E_ARG &&
                   strstr(ls_error_message(), "learning rate is "));
    LS_TRY(ls_trainer_step(t, images, labels, 16, 0, &r));
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void weights_come_first(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        ASSERT_OK(run_ranks(ranks, without_weights, NULL));
}

/* Loaded weights are enough: what is no weight begins as after ls_trainer_init. */
static void loading_is_enough(void **state)
{
    (void)state;
    ls_trainer *a, *b;
    ls_step_result x, y;
    ls_weights *w;
    const char *path = ls_test_path("first.safetensors");
    START(a, .micro_batch = 8, .threads = 2, .param = LS_F16);
    ASSERT_OK(ls_trainer_save(a, path));
    ASSERT_OK(ls_weights_open(&w, path));
    ASSERT_OK(
        ls_trainer_create(&b, training_build_vit, &VIT, .micro_batch = 8, .threads = 2, .param = LS_F16));
    ASSERT_OK(ls_trainer_load(b, w));
    ls_weights_close(&w);
    for (int k = 0; k < 3; k++) {
        ASSERT_OK(ls_trainer_step(a, images, labels, 8, 1e-3, &x));
        ASSERT_OK(ls_trainer_step(b, images, labels, 8, 1e-3, &y));
        assert_true(x.loss == y.loss && x.loss_scale == y.loss_scale && x.loss_scale > 0);
    }
    ls_trainer_destroy(&a);
    ls_trainer_destroy(&b);
}

/* ---- evaluation */

static ls_status read_sample(const ls_dataset *set, int64_t i, void *image, int32_t *label)
{
    (void)set;
    memcpy(image, images + i * PIXELS, PIXELS);
    *label = labels[i];
    return LS_OK;
}

static const ls_dataset SET = { .name = "test",
                                .source = "test",
                                .split = LS_SPLIT_EVAL,
                                .n = SAMPLES,
                                .input = { LS_U8, 3, { 1, 8, 8 } },
                                .target = { LS_I32, 0, { 0 } },
                                .classes = 5,
                                .read = read_sample };

static void evaluation_does_not_depend_on_the_batch(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 7, 64, 70, 100 };
    ls_eval_result first = { 0 }, e;
    double sum = 0;
    for (int k = 0; k < 5; k++) {
        ls_trainer *t;
        START(t, .micro_batch = sizes[k], .threads = 2, .eval_only = true);
        ASSERT_OK(ls_evaluate(t, &SET, sizes[k], NULL, &e));
        if (!k) {
            first = e;
            for (int i = 0; i < SAMPLES; i++) {
                float loss;
                ASSERT_OK(ls_trainer_eval(t, images + i * PIXELS, labels + i, &loss, NULL, NULL));
                sum += (double)loss;
            }
        }
        assert_int_equal(e.samples, SAMPLES);
        assert_int_equal(e.correct, first.correct);
        assert_true(e.loss == first.loss && e.accuracy == (double)first.correct / SAMPLES);
        ls_trainer_destroy(&t);
    }
    assert_true(fabs(first.loss - sum / SAMPLES) < 1e-12);
}

/* Losses that no sum can hold are an error that names the sample, as NaN is. */
static void evaluation_refuses_wild_losses(void **state)
{
    (void)state;
    static const float wild[] = { NAN, INFINITY, 3e38f };
    for (int k = 0; k < 3; k++) {
        ls_trainer *t;
        ls_named_tensor p[64];
        ls_eval_result e;
        START(t, .micro_batch = 8, .threads = 2, .eval_only = true);
        int n = ls_trainer_parameters(t, p, 64);
        for (int i = 0; i < n; i++)
            if (!strcmp(p[i].name, "heads.head.bias"))
                ((float *)p[i].tensor.data)[3] = wild[k];
        ASSERT_FAILS(ls_evaluate(t, &SET, 8, NULL, &e), LS_E_NUMERIC, "sample 0");
        ls_trainer_destroy(&t);
    }
}

/* Data that the model does not take. */
static void other_data_is_refused(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_eval_result e;
    ls_dataset text = SET, large = SET;
    text.input = text.target = LS_TYPE(LS_I32, 64);
    large.input = LS_TYPE(LS_U8, 1, 9, 8);
    START(t, .micro_batch = 8, .threads = 2);
    ASSERT_OK(ls_trainer_check_data(t, &SET));
    ASSERT_FAILS(ls_trainer_check_data(t, &text), LS_E_SHAPE, "samples of i32 [64] with targets i32 [64]",
                 "takes batches of u8 [8, 1, 8, 8] with targets i32 [8]");
    ASSERT_FAILS(ls_evaluate(t, &large, 8, NULL, &e), LS_E_SHAPE, "u8 [1, 9, 8]");
    ASSERT_FAILS(ls_dataset_check(&text, 1, 8, 8, 5), LS_E_SHAPE, "has no images");
    ls_trainer_destroy(&t);
}

static void refusals(void **state)
{
    (void)state;
    ls_trainer *t = NULL;
    ls_step_result r;
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .micro_batch = 0), LS_E_USAGE,
                 "micro_batch 0");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .param = LS_F64), LS_E_UNSUPPORTED, "f64",
                 "ref", "cpu");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .param = LS_I32), LS_E_USAGE, "float type",
                 "i32");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .recompute = "Block"), LS_E_USAGE,
                 "no block of class \"Block\"");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .elsewhere = true), LS_E_ARG, "ls_compile");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .device = "gpu"), LS_E_UNSUPPORTED, "gpu");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .clip_norm = NAN), LS_E_USAGE,
                 "clip_norm is nan");
    ASSERT_FAILS(
        ls_trainer_create(&t, training_build_vit, &VIT, .optimizer = { LS_OPTIMIZER_DEFAULTS, .beta1 = 1 }),
        LS_E_USAGE, "beta1 is 1", "below 1");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT,
                                   .optimizer = { LS_OPTIMIZER_DEFAULTS, .weight_decay = -1 }),
                 LS_E_USAGE, "weight_decay is -1");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT,
                                   .optimizer = { LS_OPTIMIZER_DEFAULTS, .eps = INFINITY }),
                 LS_E_USAGE, "eps is inf");
    ls_vit_config odd = VIT;
    odd.heads = 3;
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &odd), LS_E_SHAPE, "32", "3");
    assert_null(t);
    START(t, .micro_batch = 2);
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 0, 1e-3, &r), LS_E_ARG, "at least one target");
    ls_trainer_destroy(&t);
}

/* Messages and `explain` name the model's line: what a pass or autodiff makes stands for the line that it was
 * made from. */
static void nodes_keep_the_models_line(void **state)
{
    (void)state;
    ls_trainer *t;
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &training_vit, .micro_batch = 2, .param = LS_BF16,
                                .recompute = "EncoderBlock"));
    int from_model = 0;
    for (int p = 0; p < LS_PROGRAMS; p++)
        for (int i = 0; i < t->compiled.plans[p]->graph->n_nodes; i++) {
            const char *file = t->compiled.plans[p]->graph->nodes[i]->file;
            if (file && (strstr(file, "src/passes/") || strstr(file, "src/graph/")))
                fail_msg("%s of program %s is said to come from %s",
                         t->compiled.plans[p]->graph->nodes[i]->op->name, ls_program_names[p], file);
            from_model += file && strstr(file, "models/vit.c");
        }
    assert_true(from_model > 200);
    ls_trainer_destroy(&t);
}

/* Frozen parameters keep their values and have no moments; what is trained goes the same way as when all are.
 */
static void frozen_parameters_stay(void **state)
{
    (void)state;
    ls_trainer *all, *some;
    ls_named_tensor a[64], b[64];
    float *before[64];
    ls_step_result r;
    const ls_optimizer plain = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD, .momentum = 0.9 };
    START(all, .micro_batch = 8, .micro_batches = 2, .optimizer = plain);
    START(some, .micro_batch = 8, .micro_batches = 2, .optimizer = plain,
          .freeze = "encoder.layers.encoder_layer_0 heads.head.bias");
    const int n = ls_trainer_parameters(some, b, 64);
    for (int i = 0; i < n; i++) {
        const size_t bytes = ls_type_bytes(&b[i].tensor.type);
        before[i] = malloc(bytes);
        memcpy(before[i], b[i].tensor.data, bytes);
    }
    ASSERT_OK(ls_trainer_step(all, images, labels, 16, 1e-2, &r));
    ASSERT_OK(ls_trainer_step(some, images, labels, 16, 1e-2, &r));
    assert_int_equal(ls_trainer_parameters(all, a, 64), n);
    int frozen = 0;
    for (int i = 0; i < n; i++) {
        const bool stays = !strncmp(b[i].name, "encoder.layers.encoder_layer_0.", 31) ||
                           !strcmp(b[i].name, "heads.head.bias");
        const size_t bytes = ls_type_bytes(&b[i].tensor.type);
        frozen += stays;
        if (memcmp(b[i].tensor.data, stays ? (const void *)before[i] : a[i].tensor.data, bytes) != 0)
            fail_msg("%s %s", b[i].name,
                     stays ? "is frozen, and moved" : "moved otherwise than with nothing frozen");
        if (!stays && memcmp(b[i].tensor.data, before[i], bytes) == 0)
            fail_msg("%s did not move", b[i].name);
        free(before[i]);
    }
    assert_int_equal(frozen, 13);
    ls_state_lists l;
    ASSERT_OK(ls_trainer_lists(&l, some));
    assert_int_equal(l.model.n, n);
    assert_int_equal(l.sliced_optimizer, n - frozen);
    ls_state_lists_release(&l);
    assert_true(ls_trainer_bytes(some) < ls_trainer_bytes(all));
    ls_trainer_destroy(&all);
    ls_trainer_destroy(&some);
}

/* While one thread is in a step, every other call from another thread is refused; afterwards it may call. */
static void *intrude(void *trainer)
{
    ls_trainer *t = trainer;
    ls_step_result r;
    ls_named_tensor p;
    const char *const want = "another thread is in a call on this trainer";
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 8, 1e-2, &r), LS_E_ARG, "ls_trainer_step", want);
    ASSERT_FAILS(ls_trainer_eval(t, images, labels, NULL, NULL, NULL), LS_E_ARG, "ls_trainer_eval", want);
    ASSERT_FAILS(ls_trainer_init(t, 1), LS_E_ARG, "ls_trainer_init", want);
    ASSERT_FAILS(ls_trainer_save(t, ls_test_path("w.safetensors")), LS_E_ARG, "ls_trainer_save", want);
    ASSERT_FAILS(ls_trainer_save_checkpoint(t, ls_test_path("c")), LS_E_ARG, want);
    ASSERT_FAILS(ls_trainer_load_checkpoint(t, ls_test_path("c")), LS_E_ARG, want);
    assert_int_equal(ls_trainer_parameters(t, &p, 1), -1);
    ASSERT_CONTAINS(ls_error_message(), want);
    assert_int_equal(ls_trainer_buffers(t, &p, 1), -1);
    return NULL;
}

static void *step_alone(void *trainer)
{
    ls_step_result r;
    ASSERT_OK(ls_trainer_step(trainer, images, labels, 8, 1e-2, &r));
    return NULL;
}

static void on_another_thread(void *(*fn)(void *), ls_trainer *t)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void in_a_step(void *intrusions, ls_trainer *t, int program)
{
    (void)program;
    on_another_thread(intrude, t);
    ++*(int *)intrusions;
}

static void one_thread_at_a_time(void **state)
{
    (void)state;
    ls_trainer *t;
    int intrusions = 0;
    START(t, .micro_batch = 8);
    t->after_run = in_a_step;
    t->context = &intrusions;
    ls_step_result r;
    ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-2, &r));
    assert_int_equal(intrusions, 2);
    t->after_run = NULL;
    on_another_thread(step_alone, t);
    ls_trainer_destroy(&t);
}

/* A classifier with a state beside its logits: what it is called is the model's business. */
typedef struct names {
    const char *scope, *state;
} names;

static ls_status build_named(ls_graph *g, const void *config, int64_t batch)
{
    const names *n = config;
    ls_value x = ls_reshape(g, ls_image_input(g, batch, 1, 8, 0.5, 0.5), batch, PIXELS);
    x = ls_mul(g, x, ls_state(g, n->state, LS_SCALAR(LS_F32), (ls_init){ LS_INIT_CONST, 0.5, 0 }));
    ls_scope_push(g, n->scope, "Block");
    x = ls_linear(g, "fc", x, 5);
    ls_scope_pop(g);
    ls_classifier_outputs(g, x);
    return ls_graph_finish(g);
}

/* Three steps and a checkpoint: the weights, and how many tensors the trainer keeps beside them. */
static uint64_t train_named(const names *n, int64_t *kept)
{
    ls_trainer *t;
    ls_step_result r;
    ls_state_lists l;
    ls_named_tensor p[2];
    ASSERT_OK(ls_trainer_create(&t, build_named, n, .micro_batch = 10, .micro_batches = 2, .clip_norm = 0.1));
    ASSERT_OK(ls_trainer_init(t, 5));
    for (int k = 0; k < 3; k++)
        ASSERT_OK(ls_trainer_step(t, images, labels, 20, 1e-2, &r));
    ASSERT_OK(ls_trainer_lists(&l, t));
    *kept = l.optimizer.n;
    ls_state_lists_release(&l);
    assert_int_equal(ls_trainer_parameters(t, p, 2), 2);
    const uint64_t weights = ls_hash64(p[0].tensor.data, ls_type_bytes(&p[0].tensor.type));
    ls_trainer_destroy(&t);
    return weights;
}

/* Programs find units, moments and gradients by what they are, so a model may take any of their names. */
static void names_are_the_models(void **state)
{
    (void)state;
    static const names NAMES[] = { { "unit x", "unit root" },
                                   { "grad.y", "grad.unit root" },
                                   { "root", "time unit x" },
                                   { "exp_avg.unit root", "exp_avg.unit root" },
                                   { "lr", "lr" },
                                   { "grad_norm", "grad_norm" },
                                   { "step", "unit root, gathered" } };
    int64_t plain, kept;
    const uint64_t weights = train_named(&(names){ "block", "factor" }, &plain);
    assert_int_equal(plain, 2 * 2 + 2); /* moments; the step counter, the model's state */
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const names twin = { NAMES[i].scope, "factor" }; /* initial weights follow from names */
        const uint64_t want = train_named(&twin, &kept);
        if (train_named(&NAMES[i], &kept) != want || kept != plain)
            fail_msg("a state \"%s\" changes the weights, or is not kept", NAMES[i].state);
        assert_true(want != weights);
    }
    static const names TAKEN[] = { { "b", "step" }, { "b", "exp_avg.b.fc.bias" } };
    for (int i = 0; i < 2; i++) {
        ls_trainer *t;
        ASSERT_FAILS((ls_trainer_create(&t, build_named, &TAKEN[i], .micro_batch = 10)), LS_E_ARG,
                     TAKEN[i].state, "checkpoint");
    }
}

/* What a batch fills is the input that the graph declares, whatever its name and type. */
static ls_status build_inputs(ls_graph *g, const void *config, int64_t batch)
{
    const names *n = config;
    ls_value x = ls_input(g, n->scope, LS_TYPE(LS_F32, batch, 4));
    if (n->state)
        x = ls_add(g, x, ls_input(g, n->state, LS_TYPE(LS_F32, batch, 4)));
    ls_classifier_outputs(g, ls_linear(g, "fc", x, 5));
    return ls_graph_finish(g);
}

static void samples_have_any_name(void **state)
{
    (void)state;
    static const names ONE = { "measurements", NULL }, TWO = { "left", "right" };
    const float x[2][4] = { { 1, 2, 3, 4 }, { 4, 3, 2, 1 } };
    const int32_t y[2] = { 0, 1 };
    float probability[2][5];
    ls_trainer *t;
    ls_step_result r;
    ASSERT_OK(ls_trainer_create(&t, build_inputs, &ONE, .micro_batch = 2));
    ASSERT_OK(ls_trainer_init(t, 5));
    ASSERT_OK(ls_trainer_step(t, x, y, 2, 1e-2, &r));
    ASSERT_OK(ls_trainer_eval(t, x, y, NULL, NULL, probability[0]));
    assert_true(isfinite(r.loss) && probability[0][0] > 0);
    ls_trainer_destroy(&t);
    ASSERT_FAILS((ls_trainer_create(&t, build_inputs, &TWO, .micro_batch = 2)), LS_E_ARG, "\"left\"",
                 "\"right\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_keep_the_models_line),
        cmocka_unit_test(one_thread_at_a_time),
        cmocka_unit_test(names_are_the_models),
        cmocka_unit_test(samples_have_any_name),
        cmocka_unit_test(frozen_parameters_stay),
        cmocka_unit_test(same_bits_with_any_threads_and_recompute),
        cmocka_unit_test(rows_are_independent),
        cmocka_unit_test(padding_does_not_count),
        cmocka_unit_test(saved_and_loaded),
        cmocka_unit_test(half_precision_trains),
        cmocka_unit_test(overflow_is_skipped),
        cmocka_unit_test(hopeless_f16_fails),
        cmocka_unit_test(weights_come_first),
        cmocka_unit_test(loading_is_enough),
        cmocka_unit_test(other_data_is_refused),
        cmocka_unit_test(a_bad_weight_is_named),
        cmocka_unit_test(evaluation_does_not_depend_on_the_batch),
        cmocka_unit_test(evaluation_refuses_wild_losses),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
