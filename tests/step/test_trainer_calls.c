/* test_trainer_calls.c - which calls on a trainer are refused, and when: before it has weights, with data of
 * another shape, from a second thread. Saved weights are loaded again. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "golden/training.h"
#include "lockstep/nn.h"
#include "support/ranks.h"
#include "step/evaluate.h"
#include "step/state.h"
#include "step/images.h"

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

static void a_bad_weight_is_named(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_named_tensor p[64];
    ls_step_result r;
    START(t, .micro_batch = 8, .micro_batches = 2, .threads = 2);
    int n = training_parameters(t, p, 64);
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].name, "encoder.layers.encoder_layer_1.mlp.0.weight"))
            ((float *)p[i].tensor.data)[7] = NAN;
    ASSERT_OK(training_set(t, p, n));
    training_release(p, n);
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 16, 1e-3, &r), LS_E_NUMERIC, "micro-batch 0",
                 "encoder.layers.encoder_layer_1.mlp.0", "linear");
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

/* Loaded weights are enough: what is not a weight begins as after ls_trainer_init. */
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

/* Data that the model does not take. */
static void other_data_is_refused(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_eval_result e;
    ls_dataset text = SAMPLE_SET, large = SAMPLE_SET;
    const ls_field words[] = { { .name = "ids", .type = LS_TYPE(LS_I32, 64) },
                               { .name = "label", .type = LS_SCALAR(LS_I32), .ignorable = true } },
                   pictures[] = { { .name = "images", .type = LS_TYPE(LS_U8, 1, 9, 8) }, SAMPLE_FIELDS[1] },
                   plain[] = { SAMPLE_FIELDS[0], { .name = "labels", .type = LS_SCALAR(LS_I32) } };
    ls_dataset never = SAMPLE_SET;
    text.fields = words;
    large.fields = pictures;
    never.fields = plain;
    START(t, .micro_batch = 8, .threads = 2);
    ASSERT_OK(ls_trainer_check_data(t, &SAMPLE_SET));
    ASSERT_FAILS(
        ls_trainer_check_data(t, &text), LS_E_SHAPE,
        "the model takes images u8 [1, 8, 8], labels i32 []; test, test has ids i32 [64], label i32 []",
        "no \"images\"");
    text.fields = (ls_field[]){ SAMPLE_FIELDS[0], words[1] };
    ASSERT_FAILS(ls_trainer_check_data(t, &text), LS_E_SHAPE, "no \"labels\"; is it \"label\"?");
    ASSERT_FAILS(ls_evaluate(t, &large, NULL, NULL, &e), LS_E_SHAPE, "u8 [1, 9, 8]",
                 "\"images\" must be u8 [1, 8, 8]");
    ASSERT_FAILS(ls_trainer_check_data(t, &never), LS_E_SHAPE, "\"labels\" are counted", "ignorable");
    ASSERT_FAILS(ls_dataset_check(&text, 1, 8, 8, 5), LS_E_SHAPE, "is not a data set of labelled images");
    ls_trainer_destroy(&t);
}

/* A head that only a metric reads. */
static ls_status build_idle(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, 3));
    ls_loss(g, "l", ls_square(g, ls_linear(g, "fc", x, 1)), 1, LS_BY_ELEMENT, NULL);
    ls_measure(g, "m", ls_square(g, ls_linear(g, "idle", x, 1)), LS_MEAN, LS_BY_ELEMENT, NULL);
    return ls_graph_finish(g);
}

static void refusals(void **state)
{
    (void)state;
    ls_trainer *t = NULL;
    ls_step_result r;
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .micro_batch = 0), LS_E_USAGE,
                 "micro_batch 0");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .device = "cpu", .param = LS_F64),
                 LS_E_UNSUPPORTED, "f64", "ref", "cpu");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .param = LS_I32), LS_E_USAGE, "float type",
                 "i32");
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &VIT, .recompute = "class:Block"), LS_E_USAGE,
                 "no block that class:Block names");
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
    ASSERT_FAILS(ls_trainer_create(&t, build_idle, NULL), LS_E_USAGE,
                 "test_trainer_calls.c:", "no loss depends on parameter idle.weight");
    ls_vit_config odd = VIT;
    odd.heads = 3;
    ASSERT_FAILS(ls_trainer_create(&t, training_build_vit, &odd), LS_E_SHAPE, "32", "3");
    assert_null(t);
    START(t, .micro_batch = 2);
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 0, 1e-3, &r), LS_E_ARG, "at least one target");
    ls_trainer_destroy(&t);
}

/* While one thread is in a step, every other call from another thread is refused; afterwards it may call. */
static void *intrude(void *trainer)
{
    ls_trainer *t = trainer;
    ls_step_result r;
    const ls_tensor x = { 0 };
    const char *const want = "another thread is in a call on the same object";
    ASSERT_FAILS(ls_trainer_step(t, images, labels, 8, 1e-2, &r), LS_E_ARG, "ls_trainer_step", want);
    ASSERT_FAILS(ls_trainer_eval(t, images, labels, NULL, NULL, NULL), LS_E_ARG, "ls_trainer_eval", want);
    ASSERT_FAILS(ls_trainer_init(t, 1), LS_E_ARG, "ls_trainer_init", want);
    ASSERT_FAILS(ls_trainer_save(t, ls_test_path("w.safetensors")), LS_E_ARG, "ls_trainer_save", want);
    ASSERT_FAILS(ls_trainer_save_checkpoint(t, ls_test_path("c")), LS_E_ARG, want);
    ASSERT_FAILS(ls_trainer_load_checkpoint(t, ls_test_path("c")), LS_E_ARG, want);
    ASSERT_FAILS(ls_trainer_get(t, "heads.head.weight", &x), LS_E_ARG, "ls_trainer_get", want);
    ASSERT_FAILS(ls_trainer_set(t, "heads.head.weight", &x), LS_E_ARG, "ls_trainer_set", want);
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

/* A loader of other micro-batches than the trainer's would train samples twice, or read behind its own. */
static void loaders_have_the_rank_s_share(void **state)
{
    (void)state;
    ls_trainer *t;
    START(t, .micro_batch = 4, .micro_batches = 2, .threads = 1);
    static const struct {
        int64_t global, micro;
        ls_share share;
        const char *says;
    } WRONG[] = {
        { 8, 4, { 0, 1, 1 }, "the loader has 1 micro-batches from 0" },
        { 16, 4, { 1, 1, 2 }, "2 micro-batches from 1 in strides of 1, this rank's share is 2 from 0" },
        { 16, 4, { 0, 2, 2 }, "in strides of 2" },
        { 4, 2, { 0, 1, 2 }, "micro-batches have 2 samples, the trainer's micro_batch is 4" },
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        const ls_order order = { .n = SAMPLES,
                                 .global_batch = WRONG[i].global,
                                 .micro_batch = WRONG[i].micro };
        ls_loader *l;
        ls_loader_step step;
        ls_step_result r;
        bool done;
        ASSERT_OK(ls_loader_create(&l, &SAMPLE_SET, &order, .share = WRONG[i].share));
        ASSERT_OK(ls_loader_next(l, &step, &done));
        ASSERT_FAILS(ls_trainer_step_from(t, &step, 1e-2, &r), LS_E_ARG, "ls_trainer_step_from",
                     WRONG[i].says);
        ls_loader_destroy(&l);
    }
    ls_trainer_destroy(&t);
}

/* A scaling is found after the weights, which ls_trainer_init would reset, and of a set that has its field.
 */
static void fitting_comes_after_weights(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_dataset other = SAMPLE_SET;
    const ls_field renamed[] = { { .name = "pictures", .type = SAMPLE_FIELDS[0].type }, SAMPLE_FIELDS[1] };
    ASSERT_OK(ls_trainer_create(&t, training_build_vit, &VIT, .micro_batch = 8, .threads = 1));
    ASSERT_FAILS(ls_trainer_fit(t, &SAMPLE_SET), LS_E_ARG, "ls_trainer_fit", "ls_trainer_init");
    ASSERT_OK(ls_trainer_init(t, 1));
    other.fields = renamed;
    ASSERT_FAILS(ls_trainer_fit(t, &other), LS_E_SHAPE, "no \"images\"");
    ASSERT_OK(ls_trainer_fit(t, &SAMPLE_SET)); /* the model has nothing to fit */
    ls_trainer_destroy(&t);
}

/* As load_state_dict(strict=False): what only one side has is passed over. */
static void weights_are_loaded_partly(void **state)
{
    (void)state;
    ls_trainer *t, *u;
    START(t, .micro_batch = 8, .threads = 1);
    ls_weights *w;
    const char *path = ls_test_path("whole.safetensors");
    ASSERT_OK(ls_trainer_save(t, path));
    ASSERT_OK(ls_weights_open(&w, path));
    ls_weights_leave_out(w, "heads.head.weight", NULL);
    ASSERT_OK(ls_trainer_create(&u, training_build_vit, &VIT, .micro_batch = 8, .threads = 1));
    ASSERT_FAILS(ls_trainer_load_partly(u, w), LS_E_ARG, "ls_trainer_init");
    ASSERT_OK(ls_trainer_init(u, 99));
    ASSERT_FAILS(ls_trainer_load(u, w), LS_E_SHAPE, "1 missing: heads.head.weight");
    ls_named_tensor theirs[64], ours[64];
    const int n = training_parameters(t, theirs, 64);
    for (int i = 0; i < n; i++)
        memset(theirs[i].tensor.data, 0x11, ls_type_bytes(&theirs[i].tensor.type));
    ASSERT_OK(training_set(t, theirs, n));
    ASSERT_OK(ls_trainer_save(t, path)); /* other values, so that it shows what was loaded */
    ls_weights_close(&w);
    ASSERT_OK(ls_weights_open(&w, path));
    ls_weights_leave_out(w, "heads.head.weight", NULL);
    ASSERT_OK(ls_trainer_load_partly(u, w));
    assert_int_equal(training_parameters(u, ours, 64), n);
    for (int i = 0; i < n; i++) {
        const size_t bytes = ls_type_bytes(&ours[i].tensor.type);
        assert_int_equal(!memcmp(ours[i].tensor.data, theirs[i].tensor.data, bytes),
                         strcmp(ours[i].name, "heads.head.weight") != 0);
    }
    training_release(theirs, n);
    training_release(ours, n);
    for (int i = 0; i < n; i++)
        ls_weights_leave_out(w, ours[i].name, NULL);
    ASSERT_FAILS(ls_trainer_load_partly(u, w), LS_E_SHAPE, "missing");
    ls_weights_close(&w);
    ls_trainer_destroy(&u);
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaders_have_the_rank_s_share),
        cmocka_unit_test(fitting_comes_after_weights),
        cmocka_unit_test(weights_are_loaded_partly),
        cmocka_unit_test(one_thread_at_a_time),
        cmocka_unit_test(saved_and_loaded),
        cmocka_unit_test(weights_come_first),
        cmocka_unit_test(loading_is_enough),
        cmocka_unit_test(other_data_is_refused),
        cmocka_unit_test(a_bad_weight_is_named),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
