/* test_buffers.c - ResNet18 over 5 steps against PyTorch in f64, in one process and with DDP in two (real
 * processes, tools/golden/ranks.py): losses, weights and running statistics within 1e-9. Synchronized over
 * two ranks it is the run in one process, for the joint batch is what SyncBatchNorm normalizes (PyTorch's own
 * needs a GPU). Here ranks are threads; they begin with a weight file and end with one. */
#include <stdlib.h>
#include <string.h>
#include "golden/training.h"
#include "support/ranks.h"

enum { BATCH = 8, STEPS = 5, PIXELS = 16 * 16 };

typedef struct run {
    int ranks;
    bool sync;
    const ls_weights *initial;
    const char *to;
    training_data data;
    double losses[STEPS];
} run;

static ls_status train(ls_group *g, ls_trainer *t, run *r)
{
    uint8_t images[BATCH][PIXELS];
    int32_t labels[BATCH];
    const int rank = ls_group_rank(g);
    LS_TRY(ls_trainer_init(t, 0));
    LS_TRY(ls_trainer_load(t, r->initial));
    for (int k = 0; k < STEPS; k++) {
        ls_step_result result;
        for (int i = rank, to = 0; i < BATCH; i += r->ranks, to++) {
            memcpy(images[to], r->data.images + PIXELS * (k * BATCH + i), PIXELS);
            labels[to] = r->data.labels[k * BATCH + i];
        }
        LS_TRY(ls_trainer_step(t, &images[0][0], labels, BATCH, 1e-5, &result));
        if (rank == 0)
            r->losses[k] = result.loss;
    }
    return ls_trainer_save(t, r->to);
}

static ls_status rank(ls_group *g, void *context)
{
    run *r = context;
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = { .n = 1, .axes = { { "dp", r->ranks } } },
                            .data = LS_DATA_DDP, .sync_batch_norm = r->sync, .rank = ls_group_rank(g) };
    ls_trainer *t;
    LS_TRY(ls_trainer_create(&t, training_build_resnet, &training_resnet, .device = "ref", .threads = 1,
                             .param = LS_F64, .output = LS_F64, .micro_batch = BATCH / r->ranks,
                             .micro_batches = r->ranks, .parallel = p, .group = g));
    const ls_status s = train(g, t, r);
    ls_trainer_destroy(&t);
    return s;
}

static ls_weights *initial(void)
{
    const char *path = ls_test_path("initial.safetensors");
    ls_weights *w;
    ls_trainer *t = training_start(training_build_resnet, &training_resnet,
                                   &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .device = "ref", .threads = 1,
                                                       .param = LS_F64, .output = LS_F64 });
    ASSERT_OK(ls_trainer_save(t, path));
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_weights_open(&w, path));
    return w;
}

/* Against PyTorch's run `of`. */
static void check(const ls_weights *golden, const ls_weights *first, const char *what, int ranks, bool sync,
                  int of)
{
    ls_weights *last;
    run r = { .ranks = ranks,
              .sync = sync,
              .initial = first,
              .to = ls_test_path("last.safetensors"),
              .data = training_data_of(golden) };
    ASSERT_OK(run_ranks(ranks, rank, &r));
    training_expect_losses(what, r.losses, STEPS, golden_get(golden, "%d.losses", of), 1e-9);
    ASSERT_OK(ls_weights_open(&last, r.to));
    assert_int_equal(ls_weights_count(last), 122);
    for (int64_t i = 0; i < ls_weights_count(last); i++) {
        const ls_weight *have = ls_weights_at(last, i), *want = golden_get(golden, "%d.%s", of, have->name);
        int64_t tracked = 0;
        if (have->type.dtype == LS_I64) {
            ASSERT_OK(ls_weight_read(have, LS_I64, &tracked));
            assert_int_equal(tracked, STEPS);
        } else {
            golden_expect(what, have->data, &have->type, want, 1e-9);
        }
    }
    training_data_release(&r.data);
    ls_weights_close(&last);
}

static void five_steps(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("buffers"), *first = initial();
    check(golden, first, "one rank", 1, false, 1);
    check(golden, first, "two ranks", 2, false, 2);
    check(golden, first, "two ranks, synchronized", 2, true, 1);
    ls_weights_close(&first);
    ls_weights_close(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(five_steps) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
