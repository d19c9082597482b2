/* test_loader.c - the loader gives exactly what ls_order_fill gives, from any start, in any interleaving.
 * Errors and ends are returned; it can be destroyed at any moment. Runs under TSan, too. */
#include "data/loader.h"
#include "files.h"

#include <pthread.h>
#include <time.h>

enum { N = 23, BYTES = 6 };

static ls_status read_plain(const ls_dataset *set, int64_t i, void *const *to)
{
    uint8_t *image = to[0];
    (void)set;
    for (int p = 0; p < BYTES && image; p++)
        image[p] = (uint8_t)(i * 7 + p);
    if (to[1])
        *(int32_t *)to[1] = (int32_t)(i % 10);
    return LS_OK;
}

static int64_t count_label(const ls_dataset *set, int64_t i, int k)
{
    (void)set, (void)i;
    return k;
}

static const ls_field FIELDS[] = {
    { .name = "images", .type = { LS_U8, 3, { 1, 2, 3 } } },
    { .name = "labels", .type = { .dtype = LS_I32 }, .below = 10, .ignorable = true },
};

static ls_dataset make_set(int64_t n)
{
    return (ls_dataset){ .name = "made",
                         .source = "the test",
                         .n = n,
                         .n_fields = 2,
                         .fields = FIELDS,
                         .read = read_plain,
                         .count = count_label };
}

static void assert_step(const ls_loader_step *step, const ls_order *o, const ls_dataset *set, int64_t epoch,
                        int64_t k)
{
    int64_t micro_batches = o->global_batch / o->micro_batch, valid = 0;
    uint8_t *images = malloc((size_t)(o->micro_batch * BYTES));
    int32_t *labels = malloc((size_t)o->micro_batch * 4);
    assert_int_equal(step->epoch, epoch);
    assert_int_equal(step->step, k);
    assert_int_equal(step->share.count, micro_batches);
    for (int64_t m = 0; m < micro_batches; m++) {
        assert_ok(ls_order_fill(o, set, epoch, k, m, (void *const[]){ images, labels }));
        assert_memory_equal((const uint8_t *)step->fields[0].data + m * o->micro_batch * BYTES, images,
                            (size_t)(o->micro_batch * BYTES));
        assert_memory_equal((const int32_t *)step->fields[1].data + m * o->micro_batch, labels,
                            (size_t)o->micro_batch * 4);
        for (int64_t row = 0; row < o->micro_batch; row++)
            valid += labels[row] != LS_IGNORE_LABEL;
    }
    assert_int_equal(step->samples, valid);
    assert_int_equal(step->fields[1].count, valid);
    free(images);
    free(labels);
}

static void test_equals_order(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    for (int variant = 0; variant < 8; variant++) {
        ls_order o = { .n = N,
                       .global_batch = 8,
                       .micro_batch = variant & 1 ? 2 : 8,
                       .seed = 3,
                       .shuffle = variant & 2,
                       .drop_last = variant & 4 };
        ls_loader *l;
        assert_ok(ls_loader_create(&l, &set, &o, .epochs = 3, .ring = 1 + variant % 3));
        ls_loader_step step;
        bool done;
        for (int64_t epoch = 0; epoch < 3; epoch++)
            for (int64_t k = 0; k < ls_order_steps(&o); k++) {
                assert_ok(ls_loader_next(l, &step, &done));
                assert_false(done);
                assert_step(&step, &o, &set, epoch, k);
            }
        for (int again = 0; again < 2; again++) {
            assert_ok(ls_loader_next(l, &step, &done));
            assert_true(done);
        }
        ls_loader_destroy(&l);
        assert_null(l);
        ls_loader_destroy(&l);
    }
}

static void test_start_and_seek(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    ls_order o = {
        .n = N, .global_batch = 4, .micro_batch = 2, .seed = 1, .shuffle = true, .drop_last = true
    };
    ls_loader *l;
    ls_loader_step step;
    bool done;
    assert_ok(ls_loader_create(&l, &set, &o, .epoch = 2, .step = 3));
    assert_ok(ls_loader_next(l, &step, &done));
    assert_step(&step, &o, &set, 2, 3);
    for (int i = 0; i < 200; i++) { /* a seek hits the thread in all states */
        int64_t epoch = i % 7, k = i % 5;
        assert_ok(ls_loader_seek(l, epoch, k));
        for (int n = 0; n < i % 4; n++) {
            assert_ok(ls_loader_next(l, &step, &done));
            assert_step(&step, &o, &set, epoch + (k + n) / 5, (k + n) % 5);
        }
    }
    assert_fails(LS_E_ARG, ls_loader_seek(l, 0, 5), "steps 0 to 4", "step 5");
    assert_fails(LS_E_ARG, ls_loader_seek(l, -1, 0), "epoch -1", "");
    ls_loader_destroy(&l);
    assert_ok(ls_loader_create(&l, &set, &o, .epochs = 1, .step = 4));
    assert_ok(ls_loader_next(l, &step, &done));
    assert_ok(ls_loader_next(l, &step, &done));
    assert_true(done);
    assert_ok(ls_loader_seek(l, 0, 4)); /* an evaluation is run again */
    assert_ok(ls_loader_next(l, &step, &done));
    assert_false(done);
    assert_step(&step, &o, &set, 0, 4);
    ls_loader_destroy(&l);
}

/* What was handed out stays as it is while the thread fills everything else. */
static void test_handed_out_memory_is_still(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    ls_order o = {
        .n = N, .global_batch = 4, .micro_batch = 4, .seed = 1, .shuffle = true, .drop_last = true
    };
    ls_loader *l;
    ls_loader_step step;
    bool done;
    assert_ok(ls_loader_create(&l, &set, &o, .ring = 1));
    for (int k = 0; k < 5; k++) {
        assert_ok(ls_loader_next(l, &step, &done));
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        assert_step(&step, &o, &set, 0, k);
    }
    ls_loader_destroy(&l);
}

/* Evaluation: every sample exactly once, the rest is padding. */
static void test_every_sample_once(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    ls_order o = { .n = N, .global_batch = 10, .micro_batch = 5 };
    ls_loader *l;
    ls_loader_step step;
    bool done;
    int seen[N] = { 0 }, padding = 0;
    int64_t samples = 0;
    assert_ok(ls_loader_create(&l, &set, &o, .epochs = 1));
    for (;;) {
        assert_ok(ls_loader_next(l, &step, &done));
        if (done)
            break;
        samples += step.samples;
        for (int64_t r = 0; r < 10; r++) {
            if (((const int32_t *)step.fields[1].data)[r] == LS_IGNORE_LABEL) {
                padding++;
                continue;
            }
            int i = 0;
            while ((uint8_t)(i * 7) != ((const uint8_t *)step.fields[0].data)[r * BYTES])
                i++;
            seen[i]++;
        }
    }
    ls_loader_destroy(&l);
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(samples, N);
    assert_int_equal(padding, 7);
}

/* What a rank's loader hands out is its micro-batches and no others; over all ranks every micro-batch of
 * every step is dealt exactly once, with the samples that the order names. Ranks never talk. */
static void test_ranks_share_every_step(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int once = 0; once < 2; once++)
            for (int per_rank = 1; per_rank <= 3; per_rank++) {
                int64_t micro_batches = ranks * per_rank;
                ls_order o = {
                    .n = N, .global_batch = 2 * micro_batches, .micro_batch = 2, .seed = 5, .shuffle = true
                };
                int64_t steps = ls_order_steps(&o);
                int *dealt = calloc((size_t)(2 * steps * micro_batches), sizeof *dealt);
                for (int r = 0; r < ranks; r++) {
                    ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "dp", ranks } } },
                                      .rank = r,
                                      .synchronize = once ? LS_SYNCHRONIZE_ONCE : LS_SYNCHRONIZE_EACH };
                    ls_share share;
                    ls_loader *l;
                    ls_loader_step step;
                    bool done;
                    assert_ok(ls_parallel_share(&share, &p, micro_batches));
                    assert_ok(ls_loader_create(&l, &set, &o, .epochs = 2, .share = share, .ring = 1));
                    for (int64_t k = 0; k < 2 * steps; k++) {
                        assert_ok(ls_loader_next(l, &step, &done));
                        assert_false(done);
                        assert_int_equal(step.epoch * steps + step.step, k);
                        assert_int_equal(step.share.count, per_rank);
                        assert_int_equal(step.samples, ls_order_samples(&o, step.step)); /* of all ranks */
                        for (int64_t i = 0; i < step.share.count; i++) {
                            int64_t m = share.first + i * share.stride;
                            dealt[k * micro_batches + m]++;
                            for (int64_t row = 0; row < 2; row++) {
                                int64_t sample = ls_order_sample(&o, step.epoch, step.step, m, row);
                                uint8_t image[BYTES];
                                int32_t label = LS_IGNORE_LABEL;
                                if (sample >= 0) {
                                    assert_ok(read_plain(&set, sample, (void *const[]){ image, &label }));
                                    assert_memory_equal((const uint8_t *)step.fields[0].data +
                                                            (i * 2 + row) * BYTES,
                                                        image, BYTES);
                                }
                                assert_int_equal(((const int32_t *)step.fields[1].data)[i * 2 + row], label);
                            }
                        }
                    }
                    assert_ok(ls_loader_next(l, &step, &done));
                    assert_true(done);
                    ls_loader_destroy(&l);
                }
                for (int64_t i = 0; i < 2 * steps * micro_batches; i++)
                    assert_int_equal(dealt[i], 1);
                free(dealt);
            }
}

static ls_status read_failing(const ls_dataset *set, int64_t i, void *const *to)
{
    return i == 17 ? ls_fail(LS_E_FORMAT, "sample 17 is rotten") : read_plain(set, i, to);
}

static void test_errors_come_out_in_order(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    set.read = read_failing;
    ls_order o = { .n = N, .global_batch = 5, .micro_batch = 5 };
    ls_loader *l;
    ls_loader_step step;
    bool done;
    assert_ok(ls_loader_create(&l, &set, &o));
    for (int k = 0; k < 3; k++)
        assert_ok(ls_loader_next(l, &step, &done));
    for (int again = 0; again < 3; again++)
        assert_fails(LS_E_FORMAT, ls_loader_next(l, &step, &done), "epoch 0, step 3", "sample 17 is rotten");
    assert_ok(ls_loader_seek(l, 4, 1));
    assert_ok(ls_loader_next(l, &step, &done));
    assert_int_equal(step.epoch, 4);
    assert_int_equal(step.step, 1);
    ls_loader_destroy(&l);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static ls_status read_blocked(const ls_dataset *set, int64_t i, void *const *to)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return read_plain(set, i, to);
}

/* Reads as read_plain, after a time that differs from sample to sample. */
static ls_status read_unevenly(const ls_dataset *set, int64_t i, void *const *to)
{
    nanosleep(&(struct timespec){ 0, (long)(i * 7919 % 13) * 20000 }, NULL);
    return (uint64_t)i == set->digest ? ls_fail(LS_E_FORMAT, "sample %d is broken", (int)i)
                                      : read_plain(set, i, to);
}

/* More bytes than a thread takes at once, so that rows of a micro-batch are dealt to several. */
static void test_threads_change_nothing(void **state)
{
    (void)state;
    enum { SIDE = 200 };
    static const ls_field wide[] = {
        { .name = "images", .type = { LS_U8, 3, { 1, SIDE, SIDE } } },
        { .name = "labels", .type = { .dtype = LS_I32 }, .below = 10, .ignorable = true },
    };
    ls_dataset set = make_set(N);
    set.read = read_unevenly;
    set.fields = wide;
    set.digest = (uint64_t)-1;
    ls_order o = { .n = N, .global_batch = 8, .micro_batch = 4, .seed = 3, .shuffle = true };
    uint8_t *images = calloc(4, SIDE * SIDE);
    int32_t labels[4];
    for (set.threads = 1; set.threads < 6; set.threads += 2) {
        ls_loader *l;
        ls_loader_step step;
        bool done;
        assert_ok(ls_loader_create(&l, &set, &o, .epochs = 2, .ring = 2));
        for (int64_t k = 0; k < 2 * ls_order_steps(&o); k++) {
            const int64_t epoch = k / ls_order_steps(&o), in = k % ls_order_steps(&o);
            assert_ok(ls_loader_next(l, &step, &done));
            assert_false(done);
            for (int64_t m = 0; m < 2; m++) {
                assert_ok(ls_order_fill(&o, &set, epoch, in, m, (void *const[]){ images, labels }));
                assert_memory_equal((const int32_t *)step.fields[1].data + m * 4, labels, sizeof labels);
                for (int64_t row = 0; row < 4; row++)
                    assert_memory_equal((const uint8_t *)step.fields[0].data + (m * 4 + row) * SIDE * SIDE,
                                        images + row * SIDE * SIDE, BYTES);
            }
        }
        assert_ok(ls_loader_next(l, &step, &done));
        assert_true(done);
        assert_ok(ls_loader_seek(l, 1, 1)); /* also while threads fill */
        assert_ok(ls_loader_next(l, &step, &done));
        assert_int_equal(step.step, 1);
        ls_loader_destroy(&l);
        /* a failure comes out behind the steps before it, whichever thread finds it and when */
        set.digest = (uint64_t)ls_order_sample(&o, 0, 1, 1, 2);
        assert_ok(ls_loader_create(&l, &set, &o, .ring = 3));
        assert_ok(ls_loader_next(l, &step, &done));
        assert_fails(LS_E_FORMAT, ls_loader_next(l, &step, &done), "loading epoch 0, step 1: sample",
                     "broken");
        ls_loader_destroy(&l);
        set.digest = (uint64_t)-1;
    }
    free(images);
}

static void test_deadline(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    set.read = read_blocked;
    ls_order o = { .n = N, .global_batch = 5, .micro_batch = 5 };
    ls_loader *l;
    ls_loader_step step;
    bool done;
    pthread_mutex_lock(&gate);
    assert_ok(ls_loader_create(&l, &set, &o, .deadline = 0.05));
    assert_fails(LS_E_IO, ls_loader_next(l, &step, &done), "epoch 0, step 0 within 0.05 s", "the test");
    pthread_mutex_unlock(&gate);
    ls_loader_destroy(&l);
    assert_ok(ls_loader_create(&l, &set, &o));
    assert_ok(ls_loader_next(l, &step, &done)); /* the same set, no longer blocked */
    ls_loader_destroy(&l);
}

static void test_destroy_at_any_time(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    ls_order o = { .n = N, .global_batch = 4, .micro_batch = 1, .shuffle = true };
    for (int i = 0; i < 200; i++) {
        ls_loader *l;
        ls_loader_step step;
        bool done;
        assert_ok(ls_loader_create(&l, &set, &o, .ring = 1 + i % 5));
        for (int k = 0; k < i % 4; k++)
            assert_ok(ls_loader_next(l, &step, &done));
        ls_loader_destroy(&l);
    }
}

static void test_refused(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    ls_order o = { .n = N, .global_batch = 4, .micro_batch = 3 };
    ls_loader *l;
    assert_fails(LS_E_USAGE, ls_loader_create(&l, &set, &o), "micro_batch 3", "");
    o = (ls_order){ .n = N + 1, .global_batch = 4, .micro_batch = 4 };
    assert_fails(LS_E_ARG, ls_loader_create(&l, &set, &o), "24 samples", "23");
    o.n = N;
    assert_fails(LS_E_ARG, ls_loader_create(&l, &set, &o, .step = 99), "step 99", "steps 0 to 5");
    assert_fails(LS_E_ARG, ls_loader_create(&l, &set, &o, .ring = 0), "ring is 0", "");
    static const ls_share wrong[] = { { 0, 1, 0 }, { 0, 1, 5 }, { -1, 1, 1 },        { 4, 1, 1 },
                                      { 0, 0, 2 }, { 1, 3, 2 }, { 0, INT64_MAX, 2 }, { INT64_MAX, 1, 1 } };
    o.micro_batch = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(LS_E_ARG, ls_loader_create(&l, &set, &o, .share = wrong[i]), "a share of",
                     "micro-batches 0 to 3");
    assert_null(l);
}

/* A caller gets samples as a copy, by the field's name. */
static void test_copy(void **state)
{
    (void)state;
    ls_dataset set = make_set(N);
    ls_order o = { .n = N, .global_batch = 4, .micro_batch = 2 };
    ls_loader *l;
    ls_loader_step step;
    bool done;
    uint8_t images[4 * BYTES];
    int32_t labels[4];
    assert_ok(ls_loader_create(&l, &set, &o, .step = 1));
    assert_ok(ls_loader_next(l, &step, &done));
    assert_ok(ls_loader_copy(&step, "images", images, sizeof images));
    assert_ok(ls_loader_copy(&step, "labels", labels, sizeof labels));
    for (int k = 0; k < 4; k++) { /* micro-batch m takes samples m, m + 2 of the step */
        const int sample = 4 + k / 2 + k % 2 * 2;
        assert_int_equal(labels[k], sample);
        assert_int_equal(images[k * BYTES + 1], (uint8_t)(sample * 7 + 1));
    }
    assert_fails(LS_E_ARG, ls_loader_copy(&step, "label", labels, sizeof labels), "no field \"label\"", "");
    assert_fails(LS_E_SHAPE, ls_loader_copy(&step, "labels", labels, 4), "16 bytes", "room for 4");
    ls_loader_destroy(&l);
}

static int closed;
static void count_close(ls_dataset *set)
{
    (void)set;
    closed++;
}

/* A set that is closed first is there until its last loader has gone. */
static void test_set_closed_first(void **state)
{
    (void)state;
    ls_dataset set = make_set(N), *open = &set;
    ls_order o = { .n = N, .global_batch = 4, .micro_batch = 4 };
    ls_loader *a, *b;
    ls_loader_step step;
    bool done;
    set.close = count_close;
    assert_ok(ls_loader_create(&a, &set, &o));
    assert_ok(ls_loader_create(&b, &set, &o));
    ls_dataset_close(&open);
    assert_null(open);
    ls_loader_destroy(&a);
    assert_int_equal(closed, 0);
    for (int k = 0; k < 20; k++)
        assert_ok(ls_loader_next(b, &step, &done));
    ls_loader_destroy(&b);
    assert_int_equal(closed, 1);
    open = &set;
    ls_dataset_close(&open);
    assert_int_equal(closed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_equals_order),
        cmocka_unit_test(test_start_and_seek),
        cmocka_unit_test(test_handed_out_memory_is_still),
        cmocka_unit_test(test_every_sample_once),
        cmocka_unit_test(test_ranks_share_every_step),
        cmocka_unit_test(test_errors_come_out_in_order),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_destroy_at_any_time),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_set_closed_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
