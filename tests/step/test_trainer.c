/* test_trainer.c - what a training step guarantees: the same bits with any number of threads, rows that do
 * not influence each other, padding that does not count, f16 that overflows. tests/golden compares its
 * numbers with PyTorch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/cpu/isa.h"
#include "golden/training.h"
#include "step/evaluate.h"
#include "step/state.h"
#include "step/images.h"
#include "support/values.h"

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
    void *weights = place_copy(&t->units[0]);
    out.weights = ls_hash64(weights, ls_type_bytes(&t->units[0].type));
    free(weights);
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
                                  .isa = ls_isa_name(levels[i]),
                                  .threads = 1,
                                  .micro_batch = 11,
                                  .micro_batches = 3,
                                  .clip_norm = 0.5,
                                  .param = (ls_dtype[]){ LS_F32, LS_BF16, LS_F16 }[type] };
            outcome first = run(&o);
            for (o.threads = 1; o.threads <= 3; o.threads++)
                for (int again = 0; again < 2; again++) {
                    o.recompute = again ? "class:EncoderBlock" : NULL;
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
                START(t, .isa = ls_isa_name(levels[i]), .threads = 2, .micro_batch = sizes[s],
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
    float *x = place_copy(&small->grads[0]), *y = place_copy(&padded->grads[0]);
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < ls_type_count(&small->grads[0].type); i++) {
        largest = fmax(largest, fabs((double)x[i]));
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    }
    assert_true(largest > 0.01 && worst < 1e-6 * largest);
    free(x);
    free(y);
    float loss[4];
    ASSERT_OK(ls_trainer_eval(padded, filled + 4 * PIXELS, few + 4, loss, NULL, NULL));
    assert_true(loss[0] > 0 && loss[1] == 0 && loss[3] == 0);
    ls_trainer_destroy(&small);
    ls_trainer_destroy(&padded);
}

static int64_t steps_of(const ls_trainer *t)
{
    int64_t steps;
    ASSERT_OK(ls_session_read(&t->step, &steps, sizeof steps));
    return steps;
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
        assert_true(steps_of(t) == 60 - skipped);
        ls_trainer_destroy(&t);
    }
}

/* f16: a scale that overflows; nothing changes but the scale. */
static void overflow_is_skipped(void **state)
{
    (void)state;
    ls_trainer *t;
    START(t, .micro_batch = 8, .threads = 2, .param = LS_F16);
    ASSERT_OK(place_put_number(&t->loss_scale, 0x1p60));
    const size_t bytes = ls_type_bytes(&t->units[0].type);
    void *before = place_copy(&t->units[0]);
    ls_step_result r;
    ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
    assert_true(r.skipped && r.loss_scale == 0x1p59 && isfinite(r.loss));
    void *after = place_copy(&t->units[0]);
    assert_memory_equal(before, after, bytes);
    free(after);
    assert_int_equal(steps_of(t), 0);
    ASSERT_OK(place_put_number(&t->loss_scale, 1024));
    ASSERT_OK(ls_trainer_step(t, images, labels, 8, 1e-3, &r));
    assert_true(!r.skipped && r.loss_scale == 1024);
    after = place_copy(&t->units[0]);
    assert_memory_not_equal(before, after, bytes);
    free(after);
    assert_int_equal(steps_of(t), 1);
    free(before);
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
    int n = training_parameters(t, p, 64);
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].name, "encoder.layers.encoder_layer_1.mlp.0.weight"))
            ((float *)p[i].tensor.data)[7] = 6e4f; /* times activations above 1.1 */
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
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
    n = training_parameters(t, p, 64);
    for (int i = 0; i < n; i++)
        memset(p[i].tensor.data, 0, ls_type_bytes(&p[i].tensor.type));
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
    ASSERT_OK(place_put_number(&t->loss_scale, 4));
    for (int left = 2; left >= 1; left--) {
        ASSERT_OK(ls_trainer_step(t, images, same, 1, 1e-3, &r));
        assert_true(r.skipped && isfinite(r.loss) && r.loss_scale == left);
    }
    ASSERT_FAILS(ls_trainer_step(t, images, same, 1, 1e-3, &r), LS_E_NUMERIC,
                 "gradients overflow f16 even with a loss scale of 1", "bf16 or f32 in place of f16");
    ls_trainer_destroy(&t);
}

/* ---- evaluation */

static void evaluation_does_not_depend_on_the_batch(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 7, 64, 70, 100 };
    ls_eval_result first = { 0 }, e;
    double sum = 0;
    for (int k = 0; k < 5; k++) {
        ls_trainer *t;
        START(t, .micro_batch = sizes[k], .threads = 2, .eval_only = true);
        ASSERT_OK(ls_evaluate(t, &SAMPLE_SET, NULL, NULL, &e));
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
        ls_eval_result_release(&e);
        ls_trainer_destroy(&t);
    }
    assert_true(fabs(first.loss - sum / SAMPLES) < 1e-12);
}

/* Losses that no sum can hold are an error that names the sample. */
static void evaluation_refuses_wild_losses(void **state)
{
    (void)state;
    static const float wild[] = { NAN, INFINITY };
    for (int k = 0; k < 2; k++) {
        ls_trainer *t;
        ls_named_tensor p[64];
        ls_eval_result e;
        START(t, .micro_batch = 8, .threads = 2, .eval_only = true);
        int n = training_parameters(t, p, 64);
        for (int i = 0; i < n; i++)
            if (!strcmp(p[i].name, "heads.head.bias"))
                ((float *)p[i].tensor.data)[3] = wild[k];
        ASSERT_OK(training_set(t, p, n));
        training_release(p, n);
        ASSERT_FAILS(ls_evaluate(t, &SAMPLE_SET, NULL, NULL, &e), LS_E_NUMERIC, "sample 0");
        ls_trainer_destroy(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_with_any_threads_and_recompute),
        cmocka_unit_test(rows_are_independent),
        cmocka_unit_test(padding_does_not_count),
        cmocka_unit_test(half_precision_trains),
        cmocka_unit_test(overflow_is_skipped),
        cmocka_unit_test(hopeless_f16_fails),
        cmocka_unit_test(evaluation_does_not_depend_on_the_batch),
        cmocka_unit_test(evaluation_refuses_wild_losses),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
