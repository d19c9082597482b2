/* test_fit.c - the scaling of fields is found over the samples of all ranks before the first step, once. */
#include "golden/training.h"
#include "simulation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, batch, IN)),
             y = ls_input(g, "y", LS_TYPE(LS_F32, batch, OUT));
    ls_value id = ls_input(g, "id", LS_TYPE(LS_I32, batch));
    ls_value p = ls_linear(g, "out", ls_scale(g, ls_scaling_of(g, "x", IN), x), OUT);
    ls_loss(g, "mse", ls_square(g, ls_sub(g, p, y)), 1, LS_BY_ELEMENT, NULL);
    ls_loss(g, "class", ls_cross_entropy(g, p, id), 0.125, LS_BY_VALID, "id");
    return ls_graph_finish(g);
}

static ls_status create(ls_trainer **t, ls_group *g)
{
    ls_trainer_opts o = ls_trainer_opts_default();
    const int ranks = g ? ls_group_size(g) : 1;
    o.threads = 1;
    o.micro_batch = MICRO;
    o.micro_batches = ranks;
    o.padding = true;
    o.parallel.mesh.axes[0].size = ranks;
    o.parallel.rank = g ? ls_group_rank(g) : 0;
    o.group = g;
    LS_TRY(ls_trainer_create_with(t, build, NULL, &o));
    return ls_trainer_init(*t, 7);
}

/* A copy of a buffer, until the next call. */
static float *buffer(ls_trainer *t, const char *name)
{
    static _Thread_local float x[64];
    ls_named_tensor b[8];
    const int n = ls_trainer_buffers(t, b, 8);
    for (int i = 0; i < n; i++)
        if (!strcmp(b[i].name, name) && ls_type_bytes(&b[i].tensor.type) <= sizeof x) {
            b[i].tensor.data = x;
            return ls_trainer_get(t, name, &b[i].tensor) == LS_OK ? x : NULL;
        }
    return NULL;
}

/* Rank r has 5 + 3 r samples, of 60 that are wanted 10 more a step: the third fill has enough. */
static ls_status fits(ls_group *g, void *context)
{
    ls_trainer *t, *u;
    ls_live *q;
    ls_step_result r;
    int64_t samples, total, all = 0;
    double sum[IN] = { 0 }, squares[IN] = { 0 };
    float first[2][IN];
    char dir[32];
    (void)context;
    const int rank = ls_group_rank(g), ranks = ls_group_size(g);
    snprintf(dir, sizeof dir, "fitted-%d", ranks);
    LS_TRY(create(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 64, .fit = 30 * ranks));
    for (int step = 0; step < 3; step++) {
        const int64_t m = 5 + 3 * rank + 8 * step;
        LS_TRY(simulation_push(q, 1000 * rank + 100 * step, m));
        LS_TRY(ls_live_fill(q, &samples, &total, NULL));
        RANK_CHECK((total > 0) == (step == 2) && (step == 2 || buffer(t, "scaling.x.mean")[0] == 0));
    }
    for (int k = 0; k < ranks; k++)
        for (int step = 0; step < 3; step++)
            for (int i = 0; i < 5 + 3 * k + 8 * step; i++, all++) {
                float x[IN], y[OUT];
                simulation_sample(1000 * k + 100 * step + i, x, y);
                for (int c = 0; c < IN; c++) {
                    sum[c] += (double)x[c];
                    squares[c] += (double)x[c] * (double)x[c];
                }
            }
    for (int c = 0; c < IN; c++) {
        const double mean = sum[c] / (double)all, deviation = sqrt(squares[c] / (double)all - mean * mean);
        RANK_CHECK(fabs((double)buffer(t, "scaling.x.mean")[c] - mean) < 1e-6);
        RANK_CHECK(fabs((double)buffer(t, "scaling.x.deviation")[c] - deviation) < 1e-6);
    }
    memcpy(first[0], buffer(t, "scaling.x.mean"), sizeof first[0]);
    LS_TRY(ls_trainer_run(t, samples, 1e-3, &r));
    RANK_CHECK(r.loss > 0 && r.count == total);
    LS_TRY(ls_trainer_save_checkpoint(t, ls_test_path(dir)));
    ls_live_close(&q);

    /* it is found once, also where the run goes on from a checkpoint */
    LS_TRY(create(&u, g));
    LS_TRY(ls_live_open(&q, u, .capacity = 64, .fit = 30 * ranks));
    LS_TRY(ls_trainer_load_checkpoint(u, ls_test_path(dir)));
    LS_TRY(simulation_push(q, 50000, 5));
    LS_TRY(ls_live_fill(q, &samples, &total, NULL));
    RANK_CHECK(total > 0);
    memcpy(first[1], buffer(u, "scaling.x.mean"), sizeof first[1]);
    RANK_CHECK(!memcmp(first[0], first[1], sizeof first[0]));
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    ls_trainer_destroy(&u);
    return LS_OK;
}

static void found_over_all_ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++)
        ASSERT_OK(run_ranks(ranks, fits, NULL));
}

/* Ranks that finish before there are so many fit over what they have. */
static void fewer_samples(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    int64_t samples;
    ASSERT_OK(create(&t, NULL));
    ASSERT_OK(ls_live_open(&q, t, .capacity = 64, .fit = 64, .keep = LS_LIVE_FIFO));
    ASSERT_OK(simulation_push(q, 0, 3));
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    assert_true(samples == 0);
    ASSERT_OK(ls_live_finish(q));
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    assert_true(samples == 3 && buffer(t, "scaling.x.mean")[0] != 0);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

/* Rank 0's queue is full long before both ranks have as many samples as the scaling wants. */
static ls_status uneven(ls_group *g, void *context)
{
    ls_trainer *t;
    ls_live *q;
    int64_t samples, total;
    const bool full = ls_group_rank(g) == 0;
    (void)context;
    LS_TRY(create(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 10, .fit = 20));
    LS_TRY(simulation_push(q, 0, full ? 8 : 1));
    LS_TRY(ls_live_fill(q, &samples, &total, NULL));
    RANK_CHECK(total == 0 && buffer(t, "scaling.x.mean")[0] == 0);
    LS_TRY(simulation_put(q, 8, full ? 4 : 1));
    if (full)
        RANK_CHECK(ls_live_push(q, 11) == LS_E_ARG && ls_live_push(q, 4) == LS_E_ARG);
    LS_TRY(ls_live_fill(q, &samples, &total, NULL));
    RANK_CHECK(total == MICRO + 1 && buffer(t, "scaling.x.mean")[0] != 0);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

/* The same with threads: the push waits until there is room. */
static ls_status uneven_background(ls_group *g, void *context)
{
    ls_trainer *t;
    ls_live *q;
    ls_live_numbers n;
    (void)context;
    LS_TRY(create(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 10, .fit = 20));
    LS_TRY(ls_live_start(q, 1e-3, NULL, 0));
    for (int k = 0; k < 4 && (k == 0 || ls_group_rank(g) == 0); k++) {
        LS_TRY(simulation_put(q, 4 * k, 4));
        LS_TRY(ls_live_push_wait(q, 4, 20));
    }
    LS_TRY(ls_live_finish(q));
    LS_TRY(ls_live_stop(q, NULL, NULL));
    LS_TRY(ls_live_count(q, &n));
    RANK_CHECK(n.waiting == 0 && n.trained == n.pushed && buffer(t, "scaling.x.mean")[0] != 0);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

/* Queues that never refuse: rank 1 never has a sample, and rank 0 never more than its capacity. */
static ls_status one_sided(ls_group *g, void *context)
{
    const ls_live_opts *o = context;
    ls_trainer *t;
    ls_live *q;
    int64_t samples, total;
    const bool pushes = ls_group_rank(g) == 0;
    LS_TRY(create(&t, g));
    LS_TRY(ls_live_open_with(&q, t, o));
    LS_TRY(simulation_push(q, 0, pushes ? 9 : 0));
    LS_TRY(ls_live_fill(q, &samples, &total, NULL));
    RANK_CHECK(total == 0 && buffer(t, "scaling.x.mean")[0] == 0); /* room for one more */
    LS_TRY(simulation_push(q, 9, pushes ? 1 : 0));
    LS_TRY(ls_live_fill(q, &samples, &total, NULL));
    RANK_CHECK(total == MICRO && samples == (pushes ? MICRO : 0) && buffer(t, "scaling.x.mean")[0] != 0);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void a_full_queue_does_not_wait(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, uneven, NULL));
    ASSERT_OK(run_ranks(2, uneven_background, NULL));
    ls_live_opts o = ls_live_opts_default();
    o.capacity = 10;
    o.fit = 20;
    o.full = LS_LIVE_DROP_OLDEST;
    ASSERT_OK(run_ranks(2, one_sided, &o));
    o.full = LS_LIVE_REFUSE;
    o.keep = LS_LIVE_RESERVOIR;
    ASSERT_OK(run_ranks(2, one_sided, &o));
}

static void refused(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    ASSERT_OK(create(&t, NULL));
    ASSERT_FAILS(ls_live_open(&q, t, .capacity = 8, .fit = 9), LS_E_ARG, "fit 9",
                 "never have so many samples");
    ASSERT_FAILS(ls_live_open(&q, t, .capacity = 8, .fit = -1), LS_E_ARG, "fit -1");
    ls_trainer_destroy(&t);
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_FAILS(ls_live_open(&q, t, .capacity = 8, .fit = 8), LS_E_ARG,
                 "no field of the model has a scaling");
    ls_trainer_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(found_over_all_ranks),
                                        cmocka_unit_test(fewer_samples),
                                        cmocka_unit_test(a_full_queue_does_not_wait),
                                        cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
