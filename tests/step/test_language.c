/* test_language.c - a language model in the trainer. A step is divided by the number of its targets, on
 * whichever ranks they are. Evaluation counts every target once, with any size of batch.
 * tests/golden/test_decoder.c tests the numbers of the model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/models.h"
#include "support/support.h"
#include "step/evaluate.h"
#include "step/trainer.h"

enum { ROWS = 13, TOKENS = 6 };
static const ls_decoder_config MODEL = { .seq_length = TOKENS,
                                         .vocab_size = 11,
                                         .hidden_size = 16,
                                         .mlp_size = 24,
                                         .layers = 2,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .head_dim = 8,
                                         .norm_eps = 1e-6,
                                         .rope_theta = 1e4,
                                         .init_deviation = 0.3,
                                         .tied = true,
                                         .block = "LlamaDecoderLayer" };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

/* Row i has i % 5 + 1 targets. */
static int64_t row_count(const ls_dataset *set, int64_t i, int k)
{
    (void)set, (void)k;
    return i % 5 + 1;
}

static ls_status read_row(const ls_dataset *set, int64_t i, void *const *to)
{
    int32_t *ids = to[0], *target = to[1];
    for (int64_t k = 0; k < TOKENS; k++) {
        ids[k] = (int32_t)((3 * i + k * k) % 11);
        target[k] = k < row_count(set, i, 1) ? (int32_t)((3 * i + (k + 1) * (k + 1)) % 11) : LS_IGNORE_LABEL;
    }
    return LS_OK;
}

static const ls_field FIELDS[] = {
    { .name = "ids", .type = { LS_I32, 1, { TOKENS } }, .below = 11 },
    { .name = "targets", .type = { LS_I32, 1, { TOKENS } }, .below = 11, .ignorable = true },
};

static const ls_dataset SET = { .name = "text",
                                .source = "test",
                                .n = ROWS,
                                .n_fields = 2,
                                .fields = FIELDS,
                                .read = read_row,
                                .count = row_count };

#define START(t, ...)                                                                   \
    do {                                                                                \
        ASSERT_OK(ls_trainer_create(&(t), build, &MODEL, .threads = 2, ##__VA_ARGS__)); \
        ASSERT_OK(ls_trainer_init(t, 1));                                               \
    } while (0)

static void evaluation_counts_targets(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 4, 13, 20 };
    double sum = 0;
    int64_t count = 0, right = 0;
    ls_eval_result e;
    for (int k = 0; k < 4; k++) {
        ls_trainer *t;
        START(t, .micro_batch = sizes[k], .eval_only = true);
        for (int64_t i = 0; i < ROWS && !k; i++) {
            int32_t ids[TOKENS], targets[TOKENS], said[TOKENS];
            float loss[TOKENS], all[11];
            ASSERT_OK(read_row(&SET, i, (void *const[]){ ids, targets }));
            ASSERT_OK(ls_trainer_eval(t, ids, targets, loss, said, NULL));
            for (int j = 0; j < TOKENS; j++)
                if (targets[j] != LS_IGNORE_LABEL) {
                    sum += (double)loss[j];
                    right += said[j] == targets[j];
                    count++;
                }
            ASSERT_FAILS(ls_trainer_eval(t, ids, targets, loss, said, all), LS_E_ARG, "no probabilities");
        }
        ASSERT_OK(ls_evaluate(t, &SET, NULL, NULL, &e));
        assert_int_equal(e.samples, ROWS);
        assert_int_equal(e.count, count);
        assert_int_equal(e.correct, right);
        assert_true(fabs(e.loss - sum / (double)count) < 1e-12 &&
                    e.accuracy == (double)right / (double)count);
        assert_int_equal(ls_trainer_classes(t), 11);
        ls_eval_result_release(&e);
        ls_trainer_destroy(&t);
    }
}

/* The loss of a step is the mean over its targets, not of the means of its micro-batches. */
static void a_step_is_divided_by_its_targets(void **state)
{
    (void)state;
    const ls_order o = { .n = ROWS, .global_batch = 12, .micro_batch = 3 };
    int32_t ids[12 * TOKENS], targets[12 * TOKENS];
    ls_step_result r;
    ls_trainer *t, *one;
    double sum = 0;
    START(t, .micro_batch = 3, .micro_batches = 4);
    START(one, .micro_batch = 1, .eval_only = true);
    for (int64_t m = 0; m < 4; m++)
        ASSERT_OK(ls_order_fill(&o, &SET, 0, 0, m,
                                (void *const[]){ ids + 3 * m * TOKENS, targets + 3 * m * TOKENS }));
    for (int i = 0; i < 12; i++) {
        float loss[TOKENS];
        ASSERT_OK(ls_trainer_eval(one, ids + i * TOKENS, targets + i * TOKENS, loss, NULL, NULL));
        for (int j = 0; j < TOKENS; j++)
            sum += (double)loss[j];
    }
    const int64_t count = ls_order_count(&o, &SET, 1, 0, 0);
    assert_int_equal(count, 33); /* 1 2 3 4 5 1 2 3 4 5 1 2 */
    ASSERT_OK(ls_trainer_step(t, ids, targets, count, 1e-3, &r));
    assert_true(fabs(r.loss - sum / (double)count) < 1e-6);
    for (int k = 0; k < 60; k++) /* and it learns what it sees */
        ASSERT_OK(ls_trainer_step(t, ids, targets, count, 1e-2, &r));
    assert_true(r.loss < 0.5 * sum / (double)count);
    ls_trainer_destroy(&t);
    ls_trainer_destroy(&one);
}

/* mean_of_means: each micro-batch counts the same, one without targets as 0. */
static void a_step_averages_its_micro_batches(void **state)
{
    (void)state;
    const ls_order o = { .n = ROWS, .global_batch = 12, .micro_batch = 3 };
    int32_t ids[12 * TOKENS], targets[12 * TOKENS];
    double want = 0;
    for (int64_t m = 0; m < 4; m++)
        ASSERT_OK(ls_order_fill(&o, &SET, 0, 0, m,
                                (void *const[]){ ids + 3 * m * TOKENS, targets + 3 * m * TOKENS }));
    for (int i = 3 * TOKENS; i < 6 * TOKENS; i++)
        targets[i] = LS_IGNORE_LABEL;
    ls_trainer *t, *one;
    ls_step_result r;
    START(one, .micro_batch = 3, .eval_only = true);
    for (int m = 0; m < 4; m++) {
        float loss[3 * TOKENS];
        double sum = 0;
        int64_t count = 0;
        ASSERT_OK(ls_trainer_eval(one, ids + 3 * m * TOKENS, targets + 3 * m * TOKENS, loss, NULL, NULL));
        for (int i = 0; i < 3 * TOKENS; i++) {
            sum += (double)loss[i];
            count += targets[3 * m * TOKENS + i] != LS_IGNORE_LABEL;
        }
        want += count ? sum / (double)count / 4 : 0;
    }
    START(t, .micro_batch = 3, .micro_batches = 4, .mean_of_means = true);
    ASSERT_OK(ls_trainer_step(t, ids, targets, 24, 1e-3, &r));
    assert_true(fabs(r.loss - want) < 1e-6);
    ls_trainer_destroy(&t);
    ls_trainer_destroy(&one);
}

/* ---- documents side by side */

typedef struct text {
    int64_t rows, tokens;
    bool packed;
    int32_t ids[18], targets[18], positions[18];
} text;

/* Writes a document of n tokens from place `at` on, whose last target is `last`. */
static void put_document(text *t, int64_t at, int n, int32_t last)
{
    for (int k = 0; k < n; k++) {
        t->ids[at + k] = (n + k * k) % 11;
        t->targets[at + k] = k + 1 < n ? (n + (k + 1) * (k + 1)) % 11 : last;
        t->positions[at + k] = k;
    }
}

/* A step of gradient descent with rate 1: its loss, and the parameters behind it. */
static double descend(ls_dtype type, text *x, double *parameters)
{
    ls_decoder_config config = MODEL;
    ls_step_result r;
    ls_trainer *t;
    ls_named_tensor all[64];
    const ls_type of = LS_TYPE(LS_I32, x->rows, x->tokens);
    const ls_tensor ids = ls_tensor_of(x->ids, &of), targets = ls_tensor_of(x->targets, &of),
                    positions = ls_tensor_of(x->positions, &of);
    config.seq_length = x->tokens;
    config.packed = x->packed;
    ASSERT_OK(ls_trainer_create(&t, build, &config, .threads = 2, .micro_batch = (int)x->rows, .param = type,
                                .output = type, .device = type == LS_F64 ? "ref" : "cpu",
                                .optimizer = { LS_OPTIMIZER_DEFAULTS, .kind = LS_SGD }));
    ASSERT_OK(ls_trainer_init(t, 1));
    ASSERT_OK(ls_trainer_put(t, "ids", &ids, 0));
    ASSERT_OK(ls_trainer_put(t, "targets", &targets, 0));
    if (x->packed)
        ASSERT_OK(ls_trainer_put(t, "positions", &positions, 0));
    ASSERT_OK(ls_trainer_run(t, x->rows, 1, &r));
    const int n = ls_trainer_parameters(t, all, 64);
    for (int k = 0; k < n; k++) {
        ls_type f64 = all[k].tensor.type;
        f64.dtype = LS_F64;
        const ls_tensor to = ls_tensor_of(parameters, &f64);
        ASSERT_OK(ls_trainer_get(t, all[k].name, &to));
        parameters += ls_type_count(&f64);
    }
    ls_trainer_destroy(&t);
    return r.loss;
}

/* Packed documents have the loss and the gradient of the same documents as rows of a batch. */
static void packed_documents_learn_as_rows(void **state)
{
    (void)state;
    static const int LENGTHS[] = { 4, 6, 2 };
    text rows = { .rows = 3, .tokens = 6 }, window = { .rows = 1, .tokens = 12, .packed = true };
    for (int k = 0; k < 18; k++)
        rows.targets[k] = LS_IGNORE_LABEL;
    for (int k = 0, at = 0; k < 3; at += LENGTHS[k++]) {
        put_document(&rows, 6 * k, LENGTHS[k], 7);
        put_document(&window, at, LENGTHS[k], 7);
    }
    static const ls_dtype TYPES[] = { LS_F64, LS_F32 };
    for (int type = 0; type < 2; type++) {
        static double by_rows[8192], packed[8192];
        const double near = type ? 1e-5 : 1e-13, a = descend(TYPES[type], &rows, by_rows),
                     b = descend(TYPES[type], &window, packed);
        assert_true(fabs(a - b) < near);
        for (int i = 0; i < 8192; i++)
            if (!(fabs(by_rows[i] - packed[i]) < near))
                fail_msg("%s: parameter %d is %.17g, of rows %.17g", ls_dtype_name(TYPES[type]), i, packed[i],
                         by_rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(evaluation_counts_targets),
                                        cmocka_unit_test(a_step_is_divided_by_its_targets),
                                        cmocka_unit_test(a_step_averages_its_micro_batches),
                                        cmocka_unit_test(packed_documents_learn_as_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
