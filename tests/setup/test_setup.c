/* test_setup.c - from a recipe to options for any rank of any number of ranks: mesh, batches, shares,
 * threads, and the messages of what is refused. */
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu_limits.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "setup/folder.h"
#include "support/support.h"

#define RECIPE "model: {type: mlp}\ndata: {type: shapes}\n"

static ls_recipe *recipe(const char *more)
{
    char text[1024];
    ls_recipe *r;
    snprintf(text, sizeof text, RECIPE "%s\n", more);
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "here.yaml", 0, NULL));
    return r;
}

static void one_recipe_serves_any_number_of_workers(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int rank = 0; rank < ranks; rank++) {
            ls_recipe *r = recipe("train: {global_batch: 64}");
            ls_setup s;
            ASSERT_OK(ls_setup_make(&s, r, ranks, rank, 0));
            const ls_trainer_opts *t = &s.trainer;
            assert_int_equal(t->parallel.mesh.axes[0].size, ranks);
            assert_int_equal(t->parallel.rank, rank);
            assert_int_equal(t->micro_batch, 64 / ranks);
            assert_int_equal(t->micro_batches, ranks);
            assert_int_equal(r->train.micro_batch, 64 / ranks);
            assert_string_equal(ls_recipe_origin(r, "train.micro_batch"),
                                "resolved: global_batch / data ranks");
            assert_true(s.share.first == rank && s.share.stride == ranks && s.share.count == 1);
            ls_recipe_destroy(&r);
        }
}

static void everything_that_the_recipe_says_arrives(void **state)
{
    (void)state;
    ls_recipe *r = recipe(
        "train: {global_batch: 96, micro_batch: 8}\ndevice_memory: 1GiB\nprecision: {reduce: bf16}\n"
        "parallel:\n  mesh: {dp: auto, shard: 2, tp: 1}\n  data: hybrid\n  units: \"size:1e3\"\n  "
        "reshard_after_forward: false\n  gather: copy\n"
        "  prefetch: {forward: 2, backward: 3}\n  offload: cpu\n  synchronize: once\n");
    ls_setup s;
    ASSERT_OK(ls_setup_make(&s, r, 6, 3, 2));
    const ls_parallel *p = &s.trainer.parallel;
    char text[128];
    assert_string_equal(ls_mesh_text(text, &p->mesh), "dp=3 x shard=2 x tp=1");
    assert_true(p->rank == 3 && p->ranks_per_host == 2 && p->data == LS_DATA_HYBRID &&
                p->reshard_after_forward == 0 && p->gather == LS_GATHER_COPY);
    assert_true(p->prefetch_forward == 2 && p->prefetch_backward == 3 && p->offload == LS_OFFLOAD_CPU &&
                p->device_memory == 1 << 30);
    assert_true(p->synchronize == LS_SYNCHRONIZE_ONCE && p->reduce == LS_BF16);
    assert_string_equal(p->units, "size:1e3");
    assert_true(s.trainer.micro_batches == 12 && s.share.first == 6 && s.share.stride == 1 &&
                s.share.count == 2);
    ls_recipe_destroy(&r);
    r = recipe("device: ref\nprecision: {param: f64}");
    ASSERT_OK(ls_setup_make(&s, r, 2, 1, 0));
    assert_int_equal(s.trainer.parallel.reduce, LS_F64); /* f64 is all of it */
    ls_recipe_destroy(&r);
    r = recipe("parallel: {data: ddp, bucket: 1MiB}");
    ASSERT_OK(ls_setup_make(&s, r, 2, 1, 0));
    assert_int_equal(s.trainer.parallel.bucket_bytes, 1 << 20);
    /* an evaluation has a layout of its own, in which a bucket would have no effect */
    ASSERT_OK(ls_setup_inference(&s, r, 2, 1, 0));
    ls_recipe_destroy(&r);
    r = recipe("parallel: {mesh: {tp: 2, dp: auto}, sequence: true, prefetch: {memory: 2MiB}}");
    ASSERT_OK(ls_setup_make(&s, r, 2, 1, 0));
    assert_true(s.trainer.parallel.prefetch_memory == 2 << 20 && s.trainer.parallel.sequence);
    ASSERT_OK(ls_setup_inference(&s, r, 2, 1, 0));
    assert_true(ls_mesh_data_ranks(&s.trainer.parallel.mesh) == 2 && !s.trainer.parallel.sequence);
    ls_recipe_destroy(&r);
    /* without micro_batch each rank evaluates its part of a batch, rounded up */
    r = recipe("train: {global_batch: 7}");
    ASSERT_OK(ls_setup_inference(&s, r, 2, 1, 0));
    assert_true(s.trainer.micro_batch == 4 && s.trainer.micro_batches == 2);
    ls_recipe_destroy(&r);
    r = recipe("parallel: {data: SHARD_GRAD_OP}");
    ASSERT_OK(ls_setup_make(&s, r, 2, 1, 0));
    assert_true(s.trainer.parallel.data == LS_DATA_FSDP && s.trainer.parallel.reshard_after_forward == 0);
    ls_recipe_destroy(&r);
}

static void steps_of_the_run(void **state)
{
    (void)state;
    ls_recipe *r = recipe("train: {epochs: 3}");
    assert_int_equal(ls_setup_total_steps(r, 10, 0, 0), 30);
    assert_int_equal(ls_setup_total_steps(r, 10, 14, 2), 24); /* earlier epochs had 7 steps */
    assert_int_equal(ls_setup_total_steps(r, 10, 50, 5), 50); /* fewer epochs take no step away */
    ls_recipe_destroy(&r);
    r = recipe("train: {epochs: 3, steps: 12}");
    assert_int_equal(ls_setup_total_steps(r, 10, 0, 0), 12);
    ls_recipe_destroy(&r);
}

static void cores_are_shared_by_the_ranks_of_a_host(void **state)
{
    (void)state;
    ls_setup s;
    const struct {
        int ranks, per_host, here;
    } cases[] = { { 1, 0, 1 }, { 2, 0, 2 }, { 4, 2, 2 }, { 4, 1, 1 }, { 2, 8, 2 }, { 64, 0, 64 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_recipe *r = recipe("");
        ASSERT_OK(ls_setup_make(&s, r, cases[i].ranks, 0, cases[i].per_host));
        int threads = ls_cpu_count() / cases[i].here;
        const double quota = ls_cpu_quota_here().cores / cases[i].here; /* 0: none */
        if (quota > 0 && ls_quota_threads(quota) < threads)
            threads = ls_quota_threads(quota);
        assert_int_equal(s.trainer.threads, threads > 0 ? threads : 1);
        ls_recipe_destroy(&r);
    }
    ls_recipe *r = recipe("threads: 5");
    ASSERT_OK(ls_setup_make(&s, r, 2, 0, 0));
    assert_int_equal(s.trainer.threads, 5);
    ls_recipe_destroy(&r);
}

static void refusals_name_the_place_and_what_would_do(void **state)
{
    (void)state;
    static const struct {
        const char *recipe;
        int ranks, per_host;
        ls_status code;
        const char *a, *b, *c;
    } CASES[] = {
        { "parallel: {mesh: {dp: 2, shard: 3}}", 4, 0, LS_E_USAGE,
          "here.yaml:3: parallel.mesh: ", "dp 2 x shard 3 = 6, but there are 4 ranks", "start 6" },
        { "parallel: {mesh: {dp: auto, shard: 3}}", 4, 0, LS_E_USAGE,
          "here.yaml:3: parallel.mesh: ", "3 x auto, but there are 4 ranks", "multiple of 3" },
        { "train: {global_batch: 128}", 3, 0, LS_E_USAGE,
          "here.yaml:3: train.global_batch: 3 data ranks do not divide 128 samples",
          "1, 2, 4, 8, 16, 32, 64, 128", "global_batch of 129" },
        { "", 3, 0, LS_E_USAGE, "here.yaml: train.global_batch (default): 3 data ranks", "", "" },
        { "train: {global_batch: 96, micro_batch: 16}", 4, 0, LS_E_USAGE,
          "here.yaml:3: train.micro_batch: 16 of global_batch 96",
          "4 data ranks do not divide the 6 micro-batches", "would do: 1, 2, 3, 6" },
        { "parallel: {reshard_after_forward: 3}", 4, 0, LS_E_USAGE,
          "here.yaml:3: parallel.reshard_after_forward: 3 does not divide the 4 ranks", "true, false, 2, 4",
          "" },
        { "parallel: {data: none}", 2, 0, LS_E_USAGE, "here.yaml:3: parallel.data: none", "over 2 ranks",
          "" },
        { "parallel: {gather: map}", 4, 2, LS_E_USAGE, "here.yaml:3: parallel.gather: map", "2 a host",
          "copy or auto" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_recipe *r = recipe(CASES[i].recipe);
        ls_setup s;
        ASSERT_FAILS(ls_setup_make(&s, r, CASES[i].ranks, 0, CASES[i].per_host), CASES[i].code, CASES[i].a,
                     CASES[i].b, CASES[i].c);
        ls_recipe_destroy(&r);
    }
}

/* A run of four ranks is evaluated, shown and exported by one. */
static void use_forgets_the_ranks(void **state)
{
    (void)state;
    ls_recipe *r = recipe(
        "train: {global_batch: 64, micro_batch: 16}\n"
        "parallel: {mesh: {dp: 2, shard: 2}, data: hybrid, reshard_after_forward: 2, offload: cpu}");
    ls_setup s;
    ASSERT_FAILS(ls_setup_make(&s, r, 1, 0, 0), LS_E_USAGE, "but there is 1 rank");
    ASSERT_OK(ls_setup_inference(&s, r, 1, 0, 0));
    assert_int_equal(ls_mesh_ranks(&s.trainer.parallel.mesh), 1);
    /* what fits the device when training fits it here */
    assert_int_equal(s.trainer.parallel.offload, LS_OFFLOAD_CPU);
    assert_int_equal(s.trainer.micro_batch, 16);
    /* three ranks would not divide the four micro-batches of a step */
    ASSERT_OK(ls_setup_inference(&s, r, 3, 1, 0));
    assert_int_equal(ls_mesh_ranks(&s.trainer.parallel.mesh), 3);
    assert_int_equal(s.trainer.micro_batch, 16);
    ls_recipe_destroy(&r);
}

/* Cuts of step_epochs so far, for a step of a run whose epochs have `per` steps from step `base` on, at which
 * `epochs` were over. */
static int cuts(const ls_recipe *r, int64_t per, int64_t base, int64_t epochs, int64_t step)
{
    ls_setup s;
    ASSERT_OK(ls_setup_make(&s, (ls_recipe *)r, 1, 0, 0));
    ls_setup_cut_epochs(&s.schedule, r, per, base, epochs);
    int n = 0;
    for (double rate = 1; rate > ls_schedule_rate(&s.schedule, 1, step); rate /= 2)
        n++;
    return n;
}

/* A change of the data or the batch gives epochs another number of steps, and takes no cut back. */
static void cuts_follow_epochs(void **state)
{
    (void)state;
    ls_recipe *r = recipe("schedule: {type: step, step_epochs: 2, gamma: 0.5}"),
              *warm = recipe("schedule: {type: step, step_epochs: 1, gamma: 0.5, warmup_steps: 15}");
    assert_int_equal(cuts(r, 10, 0, 0, 19), 0);
    assert_int_equal(cuts(r, 10, 0, 0, 20), 1);
    assert_int_equal(cuts(r, 10, 0, 0, 49), 2);
    for (int per = 1; per < 30; per++) { /* five epochs of 10 steps are over */
        assert_int_equal(cuts(r, per, 50, 5, 50), 2);
        assert_int_equal(cuts(r, per, 50, 5, 50 + per - 1), 2);
        assert_int_equal(cuts(r, per, 50, 5, 50 + per), 3);
        assert_int_equal(cuts(r, per, 50, 5, 50 + 3 * per - 1), 3);
        assert_int_equal(cuts(r, per, 50, 5, 50 + 3 * per), 4);
        /* the first epoch broke off and began anew: none is over */
        assert_int_equal(cuts(r, per, 7, 0, 7 + 2 * per - 1), 0);
        assert_int_equal(cuts(r, per, 7, 0, 7 + 2 * per), 1);
    }
    /* after a warm-up of an epoch and a half cuts come in the middle of epochs */
    assert_int_equal(cuts(warm, 10, 0, 0, 39), 2);
    assert_int_equal(cuts(warm, 4, 40, 4, 40), 2);
    assert_int_equal(cuts(warm, 4, 40, 4, 41), 2);
    assert_int_equal(cuts(warm, 4, 40, 4, 42), 3);
    assert_int_equal(cuts(warm, 4, 10, 1, 15 + 3), 0); /* the warm-up goes on after the change */
    assert_int_equal(cuts(warm, 4, 10, 1, 15 + 4), 1);
    ls_recipe_destroy(&r);
    ls_recipe_destroy(&warm);
    /* epochs as long as before: a warm-up of one step is one step of theirs, though 49 * (1 / 49) is below 1
     */
    r = recipe("schedule: {type: step, step_epochs: 1, gamma: 0.5, warmup_steps: 1}");
    for (int step = 50; step < 80; step++)
        assert_int_equal(cuts(r, 7, 49, 7, step), cuts(r, 7, 0, 0, step));
    ls_recipe_destroy(&r);
}

/* A loss that is the only one is called loss, and the model's name for it is none: it may be a metric's. */
static void names_of_losses(void **state)
{
    (void)state;
    ls_term terms[3] = { { .name = "mse", .loss = true }, { .name = "mae", .loss = true }, { .name = "r2" } };
    ls_compiled one = { .objective = { .terms = terms, .n_losses = 1, .n = 1 } },
                two = { .objective = { .terms = terms, .n_losses = 2, .n = 3 } };
    ls_recipe *r = recipe("checkpoint: {best: {metric: eval_mse, mode: min}}");
    ASSERT_FAILS(ls_setup_best(r, &one), LS_E_USAGE, "here.yaml:3: checkpoint.best.metric: ",
                 "no metric eval_mse; there are train_loss, eval_loss");
    assert_null(strstr(ls_error_message(), ", eval_mse"));
    ASSERT_OK(ls_setup_best(r, &two));
    ls_recipe_destroy(&r);
    r = recipe("checkpoint: {best: {metric: eval_mape, mode: min}}");
    ASSERT_FAILS(ls_setup_best(r, &two), LS_E_USAGE,
                 "there are train_loss, eval_loss, eval_mse, eval_mae, eval_r2; is it eval_mae?");
    ls_recipe_destroy(&r);
}

/* The tokens that end a text: one, or a list of which `max` are kept; no number is cut to 32 bits. */
static void ends_of_a_folder(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n, last;
    } CASES[] = { { "{\"eos_token_id\": 7}", 1, 7 },
                  { "{\"eos_token_id\": [3, \"x\", 4, 5, 6]}", 3, 5 },
                  { "{\"eos_token_id\": []}", 0, 0 },
                  { "{\"eos_token_id\": null}", 0, 0 },
                  { "{}", 0, 0 },
                  { "{\"eos_token_id\": 4294967303}", -1, 0 },
                  { "{\"eos_token_id\": [1, -4294967289]}", -1, 0 } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int32_t ends[3] = { 0 };
        int n;
        ASSERT_OK(ls_file_write(ls_test_path("config.json"), CASES[i].text, strlen(CASES[i].text)));
        if (CASES[i].n < 0) {
            ASSERT_FAILS(ls_folder_ends(ends, 3, &n, ls_test_dir()), LS_E_FORMAT,
                         "config.json: eos_token_id: the model has no token ", "4294967");
            continue;
        }
        ASSERT_OK(ls_folder_ends(ends, 3, &n, ls_test_dir()));
        assert_int_equal(n, CASES[i].n);
        if (n)
            assert_int_equal(ends[n - 1], CASES[i].last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_follow_epochs),
        cmocka_unit_test(names_of_losses),
        cmocka_unit_test(ends_of_a_folder),
        cmocka_unit_test(one_recipe_serves_any_number_of_workers),
        cmocka_unit_test(everything_that_the_recipe_says_arrives),
        cmocka_unit_test(steps_of_the_run),
        cmocka_unit_test(cores_are_shared_by_the_ranks_of_a_host),
        cmocka_unit_test(refusals_name_the_place_and_what_would_do),
        cmocka_unit_test(use_forgets_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
