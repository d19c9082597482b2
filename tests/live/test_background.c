/* test_background.c - training in a thread of each rank while the program pushes: nothing is lost, pauses,
 * what is refused meanwhile, a rank that fails. */
#include "simulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/npy.h"
#include "live/live.h"

enum { PUSHES = 60 };

typedef struct job {
    ls_live_opts o;
    int64_t pushed, trained, dropped, held; /* of all ranks */
} job;

static ls_status add(ls_group *g, job *j, ls_live *q)
{
    ls_live_numbers n;
    LS_TRY(ls_live_count(q, &n));
    int64_t sums[4] = { n.pushed, n.trained, n.dropped, n.held };
    RANK_CHECK(n.waiting == 0);
    LS_TRY(ls_group_all_reduce(g, sums, 4, LS_I64, LS_REDUCE_SUM));
    if (ls_group_rank(g) == 0)
        j->pushed = sums[0], j->trained = sums[1], j->dropped = sums[2], j->held = sums[3];
    return LS_OK;
}

/* Rank r pushes other numbers of samples than the others, rank 2 none at all. */
static ls_status pushes(ls_group *g, void *context)
{
    job *j = context;
    const int rank = ls_group_rank(g);
    ls_trainer *t;
    ls_live *q;
    ls_step_result r;
    ls_metric m[8];
    int64_t steps = 0, pushed = 0;
    int n = 0;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open_with(&q, t, &j->o));
    LS_TRY(ls_live_start(q, 1e-2,
                         &(ls_schedule){ .kind = LS_SCHED_COSINE, .total_steps = 200, .min_lr = 1e-3 }, 4));
    for (int k = 0; k < PUSHES && rank != 2; k++, pushed += 1 + (k + rank) % 3) {
        const int64_t count = 1 + (k + 1 + rank) % 3;
        if (k % 2 || j->o.full == LS_LIVE_DROP_OLDEST)
            usleep(200);
        if (j->o.full == LS_LIVE_DROP_OLDEST) {
            LS_TRY(simulation_push(q, 1000 * rank + pushed, count));
            continue;
        }
        ls_live_numbers now;
        LS_TRY(ls_live_count(q, &now)); /* while the thread works */
        RANK_CHECK(now.pushed == pushed && now.waiting <= j->o.capacity);
        LS_TRY(simulation_put(q, 1000 * rank + pushed, count));
        LS_TRY(ls_live_push_wait(q, count, 60));
    }
    LS_TRY(ls_live_finish(q));
    LS_TRY(ls_live_stop(q, &steps, &r));
    RANK_CHECK(steps >= 1 && r.loss > 0 && isfinite(r.loss));
    if (j->o.hold_out) {
        LS_TRY(ls_live_evaluate(q, m, 8, &n)); /* the trainer may be used again */
        RANK_CHECK(n == 4 && m[0].value > 0 && m[0].value < 2);
    }
    LS_TRY(add(g, j, q));
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static int64_t recorded(const char *dir, bool different)
{
    ls_mapping m;
    ls_npy a;
    char *path = ls_path_join(dir, "x.npy");
    ASSERT_OK(ls_file_map(&m, path));
    ASSERT_OK(ls_npy_parse(&a, m.data, m.size, path));
    const float *x = a.data;
    const int64_t n = a.type.dims[0];
    for (int64_t i = 0; i < n && different; i++)
        for (int64_t k = 0; k < i; k++)
            assert_true(memcmp(x + i * IN, x + k * IN, IN * sizeof *x) != 0);
    ls_file_unmap(&m);
    free(path);
    return n;
}

static void every_sample_is_trained_once(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        char name[32];
        snprintf(name, sizeof name, "record-%d", ranks);
        job j = { .o = { LS_LIVE_DEFAULTS, .capacity = 10, .hold_out = 7, .record = ls_test_path(name) } };
        ASSERT_OK(run_ranks(ranks, pushes, &j));
        assert_true(j.pushed >= PUSHES && j.dropped == 0);
        assert_int_equal(j.trained, recorded(j.o.record, true));
        /* those of a rank's samples that are held out, of which it keeps 2 */
        assert_true(j.trained > j.pushed * 5 / 6 && j.trained < j.pushed && j.held == (ranks < 2 ? 2 : 4));
    }
}

static void what_has_no_room_is_counted(void **state)
{
    (void)state;
    job j = { .o = { LS_LIVE_DEFAULTS, .capacity = 3, .full = LS_LIVE_DROP_OLDEST } };
    ASSERT_OK(run_ranks(2, pushes, &j));
    assert_int_equal(j.pushed, j.trained + j.dropped);
}

/* ---- pauses */

static ls_status pauses(ls_group *g, void *context)
{
    ls_trainer *t;
    ls_live *q;
    ls_step_result r;
    ls_live_numbers n;
    int64_t steps, all = 0, samples, total;
    bool done;
    const char *dir = ls_test_path(ls_group_size(g) > 1 ? "paused" : "paused-one");
    (void)context;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 64));
    for (int round = 0; round < 3; round++) {
        LS_TRY(ls_live_start(q, 1e-3, NULL, 0));
        LS_TRY(simulation_push(q, 100 * round, 20));
        LS_TRY(ls_live_stop(q, &steps, NULL));
        all += steps;
    }
    LS_TRY(ls_trainer_save_checkpoint(t, dir));
    LS_TRY(ls_trainer_load_checkpoint(t, dir));
    LS_TRY(simulation_push(q, 1000, 4));
    LS_TRY(ls_live_fill(q, &samples, &total, &done)); /* a step by hand */
    RANK_CHECK(samples > 0 && !done);
    LS_TRY(ls_trainer_run(t, samples, 1e-3, &r));
    LS_TRY(ls_live_start(q, 1e-3, NULL, 0));
    LS_TRY(ls_live_finish(q));
    LS_TRY(ls_live_stop(q, &steps, &r)); /* all have finished: the rest is trained */
    LS_TRY(ls_live_count(q, &n));
    RANK_CHECK(n.pushed == 64 && n.trained == 64 && n.waiting == 0 && all + steps >= 15);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void pauses_and_goes_on(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks += 2)
        ASSERT_OK(run_ranks(ranks, pauses, NULL));
}

/* A queue that is half full is trained on, though a step could have more samples. */
static void half_full(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    ls_live_numbers n;
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(ls_live_open(&q, t, .capacity = 6));
    ASSERT_OK(ls_live_start(q, 1e-3, NULL, MICRO));
    ASSERT_OK(simulation_push(q, 0, 3));
    for (int k = 0; k < 20000; k++) {
        ASSERT_OK(ls_live_count(q, &n));
        if (n.trained)
            break;
        usleep(1000);
    }
    assert_true(n.trained == 3 && n.waiting == 0);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

/* Half of an odd number of places is rounded up. */
static void half_of_five(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    int64_t n, total;
    bool done, stops;
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(ls_live_open(&q, t, .capacity = 5));
    ASSERT_OK(simulation_push(q, 0, 2));
    ASSERT_OK(ls_live_take(q, MICRO, &n, &total, &done, &stops));
    assert_true(n == 0 && total == 0);
    ASSERT_OK(simulation_push(q, 2, 1));
    ASSERT_OK(ls_live_take(q, MICRO, &n, &total, &done, &stops));
    assert_true(n == 3 && total == 3);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

/* A queue, or even its trainer, may go while the thread runs. */
static void closing(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        ls_trainer *t;
        ls_live *q;
        ASSERT_OK(simulation_trainer(&t, NULL));
        ASSERT_OK(ls_live_open(&q, t, .capacity = 64));
        ASSERT_OK(ls_live_start(q, 1e-3, NULL, 0));
        ASSERT_OK(simulation_push(q, 0, 30));
        if (k)
            ls_trainer_destroy(&t);
        ls_live_close(&q);
        ls_trainer_destroy(&t);
    }
}

/* A push that waits when the thread ends comes back at once, with the thread's message. */
static void ends_while_a_push_waits(void **state)
{
    (void)state;
    const char *dir = ls_test_path("record-ended");
    for (int k = 0; k < 10; k++) {
        ls_trainer *t;
        ls_live *q;
        ASSERT_OK(simulation_trainer(&t, NULL));
        ASSERT_OK(ls_live_open(&q, t, .capacity = 8, .record = dir));
        ASSERT_OK(simulation_push(q, 0, 8));
        ASSERT_OK(simulation_put(q, 8, 8)); /* a step makes room for 4 only */
        if (!k) {
            int64_t samples;
            ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
        } else {
            ASSERT_OK(
                ls_live_start(q, 1e-3, NULL, 0)); /* it cannot record: the files are those of the first */
            ASSERT_FAILS(ls_live_push_wait(q, 8, 20), LS_E_IO,
                         "the training thread has ended: ", "is there already, of another run");
            assert_null(strstr(ls_error_message(), "waited"));
            ASSERT_FAILS(ls_live_stop(q, NULL, NULL), LS_E_IO, "is there already");
        }
        ls_live_close(&q);
        ls_trainer_destroy(&t);
    }
}

/* The thread's step k has the rate that the schedule gives step k, from 0 on: also after a pause. */
static void rates_follow_the_schedule(void **state)
{
    (void)state;
    const ls_schedule schedule = { .kind = LS_SCHED_LINEAR, .warmup_steps = 2, .total_steps = 6 };
    uint64_t weights[2];
    for (int thread = 0; thread < 2; thread++) {
        ls_trainer *t;
        ls_live *q;
        int64_t step = 0, samples, total;
        ls_step_result r;
        ASSERT_OK(simulation_trainer(&t, NULL));
        ASSERT_OK(ls_live_open(&q, t, .capacity = 20));
        for (int part = 0; part < 2; part++) {
            ASSERT_OK(simulation_push(q, 50 * part, 3 * MICRO));
            if (part)
                ASSERT_OK(ls_live_finish(q));
            if (thread) {
                ls_live_numbers now;
                ASSERT_OK(ls_live_start(q, 0.125, &schedule, MICRO));
                do
                    ASSERT_OK(ls_live_count(q, &now));
                while (now.waiting);
                ASSERT_OK(ls_live_stop(q, &samples, &r));
                assert_int_equal(samples, 3);
            }
            for (int k = 0; k < 3 && !thread; k++) {
                ASSERT_OK(ls_live_fill(q, &samples, &total, NULL));
                ASSERT_OK(ls_trainer_run(t, samples, ls_schedule_rate(&schedule, 0.125, step++), &r));
            }
        }
        weights[thread] = simulation_weights(t);
        ls_live_close(&q);
        ls_trainer_destroy(&t);
    }
    assert_true(weights[0] == weights[1]);
}

/* ---- what is refused */

/* Keeps the thread in a step for as long as *context is true. */
static void hold(void *context, ls_trainer *t, int program)
{
    (void)t;
    (void)program;
    while (atomic_load((_Atomic bool *)context))
        usleep(1000);
}

static void mistakes(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    ls_step_result r;
    ls_metric m[4];
    int64_t samples;
    int n;
    ls_trainer_opts o = ls_trainer_opts_default();
    o.threads = 1;
    o.padding = true;
    o.micro_batch = MICRO;
    ASSERT_OK(ls_trainer_create_with(&t, simulation_model, NULL, &o));
    ASSERT_OK(ls_live_open(&q, t, .capacity = 8, .hold_out = 2));
    ASSERT_FAILS(ls_live_start(q, 1e-3, NULL, 0), LS_E_ARG, "ls_live_start before the trainer has weights");
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_FAILS(ls_live_start(q, -1, NULL, 0), LS_E_ARG, "learning rate is -1");
    ASSERT_FAILS(ls_live_stop(q, NULL, NULL), LS_E_ARG, "ls_live_stop without ls_live_start");
    ASSERT_FAILS(ls_live_push_wait(q, 0, 1), LS_E_ARG, "ls_live_push_wait without ls_live_start");
    ASSERT_OK(simulation_push(q, 0, 3));
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    ASSERT_FAILS(ls_live_start(q, 1e-3, NULL, 0), LS_E_ARG, "call ls_trainer_run first");
    ASSERT_OK(ls_trainer_run(t, samples, 1e-3, &r));
    _Atomic bool held = true;
    t->after_run = hold;
    t->context = &held;
    ASSERT_FAILS(ls_live_start(q, 1e-3, NULL, MICRO + 1), LS_E_ARG, "least 5: a step has at most 4 samples");
    ASSERT_OK(ls_live_start(q, 1e-3, NULL, MICRO));
    ASSERT_OK(simulation_push(q, 3, 3)); /* of which one is not held out, too few for a step */
    ASSERT_FAILS(ls_live_start(q, 1e-3, NULL, 0), LS_E_ARG, "the thread runs already");
    while (!atomic_load(&t->user)) /* until it is in the trainer */
        usleep(1000);
    ASSERT_FAILS(ls_live_fill(q, &samples, NULL, NULL), LS_E_ARG,
                 "ls_live_fill: another thread is in a call");
    ASSERT_FAILS(ls_live_evaluate(q, m, 4, &n), LS_E_ARG, "another thread is in a call");
    ASSERT_FAILS(ls_trainer_run(t, 0, 1e-3, &r), LS_E_ARG, "another thread is in a call");
    ASSERT_FAILS(ls_trainer_save_checkpoint(t, ls_test_path("never")), LS_E_ARG,
                 "another thread is in a call");
    ASSERT_FAILS(ls_live_push_wait(q, 0, NAN), LS_E_ARG, "seconds is nan");
    ls_live_numbers now;
    ASSERT_OK(ls_live_count(q, &now));
    assert_true(now.waiting == 1 && now.held == 3 && now.trained == 2);
    ASSERT_OK(simulation_put(q, 6, 12));
    ASSERT_OK(ls_live_push_wait(q, 12, 60)); /* 6 to train: more than half of the room, so a step begins */
    do
        ASSERT_OK(ls_live_count(q, &now));
    while (now.waiting != 3);
    ASSERT_OK(simulation_put(q, 18, 12)); /* that step does not end, and there is room for 5 */
    ASSERT_FAILS(ls_live_push_wait(q, 12, 0.05), LS_E_ARG, "waited 0.05 s, as long as it may",
                 "6 samples, but the queue has room for 5 of its 8");
    atomic_store(&held, false);
    ASSERT_OK(ls_live_push_wait(q, 12, 60)); /* what was put is still there */
    ASSERT_OK(ls_live_finish(q));
    ASSERT_OK(ls_live_stop(q, &samples, &r));
    ASSERT_OK(ls_live_count(q, &now));
    assert_true(samples >= 3 && now.pushed == 30 && now.trained == 15 && now.waiting == 0 && now.held == 4);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

static ls_status other_rates(ls_group *g, void *context)
{
    ls_trainer *t;
    ls_live *q;
    (void)context;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open(&q, t));
    const ls_status s = ls_live_start(q, ls_group_rank(g) ? 2 : 1, NULL, 0);
    RANK_CHECK(s == (ls_group_rank(g) ? LS_E_USAGE : LS_E_PEER));
    RANK_CHECK(strstr(ls_error_message(), "ls_live_start: rank 1 has lr 2, rank 0 has lr 1"));
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

/* Rank 1 ends with an error: the others' threads end, and their next push says why. */
static ls_status one_fails(ls_group *g, void *context)
{
    ls_trainer *t;
    ls_live *q;
    ls_status s = LS_OK;
    (void)context;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 100000, .full = LS_LIVE_DROP_OLDEST));
    LS_TRY(ls_live_start(q, 1e-3, NULL, 0));
    LS_TRY(simulation_push(q, 0, 10));
    usleep(100000); /* until all threads have begun */
    if (ls_group_rank(g) == 1)
        ls_group_fail(g, LS_E_IO, "the disk is on fire");
    for (int k = 0; k < 20000 && s == LS_OK; k++) {
        usleep(500);
        s = simulation_push(q, 0, 1);
    }
    if (s == LS_OK || !strstr(ls_error_message(), "the training thread has ended: ") ||
        !strstr(ls_error_message(), "the disk is on fire"))
        return ls_fail(LS_E_INTERNAL, "rank %d: %s: %s", ls_group_rank(g), ls_status_name(s),
                       ls_error_message());
    RANK_CHECK(ls_live_stop(q, NULL, NULL) != LS_OK && strstr(ls_error_message(), "the disk is on fire"));
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void ranks_that_differ(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, other_rates, NULL));
    ASSERT_OK(run_ranks(3, one_fails, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rates_follow_the_schedule),
                                        cmocka_unit_test(every_sample_is_trained_once),
                                        cmocka_unit_test(what_has_no_room_is_counted),
                                        cmocka_unit_test(pauses_and_goes_on),
                                        cmocka_unit_test(half_full),
                                        cmocka_unit_test(half_of_five),
                                        cmocka_unit_test(closing),
                                        cmocka_unit_test(ends_while_a_push_waits),
                                        cmocka_unit_test(mistakes),
                                        cmocka_unit_test(ranks_that_differ) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
