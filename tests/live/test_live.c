/* test_live.c - a queue of samples: what is trained, the same bits after a restart, evaluation of what is
 * held out, recording. */
#include "simulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "data/npy.h"
#include "live/live.h"
#include "lockstep/run.h"

enum { STEPS = 12, STOP = 7 };

/* ---- one run of a simulation, whole or in two parts */

typedef struct job {
    ls_live_opts o;
    int ranks;          /* of the second part; 0: of all */
    bool interrupted;   /* after STOP steps */
    const char *dir;    /* the checkpoint */
    uint64_t weights;   /* at the end */
    double worst, loss; /* of what is held out */
    int64_t total;      /* samples that were trained in all */
    ls_live_numbers of[4];
} job;

/* What a rank makes in a step: other numbers than the others, sometimes none, rank 2 nothing at first. */
static int64_t made(int rank, int step) { return rank == 2 && step < 4 ? 0 : (rank * 3 + step * 2) % 7; }

static int64_t first_made(int rank, int step)
{
    int64_t n = 1000 * rank;
    for (int k = 0; k < step; k++)
        n += made(rank, k);
    return n;
}

static ls_status simulate(job *j, ls_group *g, ls_trainer *t, ls_live *q, int from, int to)
{
    const int rank = ls_group_rank(g);
    int64_t samples = 0, total = 0;
    bool done = false;
    ls_step_result r;
    for (int step = from; step < to; step++) {
        LS_TRY(simulation_push(q, first_made(rank, step), made(rank, step)));
        if (step % 2)
            continue;
        LS_TRY(ls_live_fill(q, &samples, &total, &done));
        RANK_CHECK(!done && samples <= MICRO);
        if (!total)
            continue;
        LS_TRY(ls_trainer_run(t, samples, 1e-2, &r));
        RANK_CHECK(r.loss > 0);
        if (rank == 0)
            j->total += total;
    }
    return LS_OK;
}

static ls_status drain(job *j, ls_group *g, ls_trainer *t, ls_live *q)
{
    int64_t samples = 0, total = 0;
    bool done = false;
    ls_step_result r;
    LS_TRY(ls_live_finish(q));
    while (!done) {
        LS_TRY(ls_live_fill(q, &samples, &total, &done));
        RANK_CHECK(done == (total == 0));
        if (total)
            LS_TRY(ls_trainer_run(t, samples, 1e-2, &r));
        if (ls_group_rank(g) == 0)
            j->total += total;
    }
    return LS_OK;
}

static ls_status part(ls_group *g, job *j, int number)
{
    const bool whole = !j->interrupted;
    ls_trainer *t;
    ls_live *q;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open_with(&q, t, &j->o));
    if (number == 1)
        LS_TRY(ls_trainer_load_checkpoint(t, j->dir));
    LS_TRY(simulate(j, g, t, q, number ? STOP : 0, whole || number ? STEPS : STOP));
    if (!whole && !number)
        LS_TRY(ls_trainer_save_checkpoint(t, j->dir));
    else
        LS_TRY(drain(j, g, t, q));
    if (j->o.hold_out) {
        ls_metric m[8];
        int n = 0;
        LS_TRY(ls_live_evaluate(q, m, 8, &n));
        RANK_CHECK(n == 4 && !strcmp(m[0].name, "loss") && !strcmp(m[3].name, "worst"));
        if (ls_group_rank(g) == 0)
            j->loss = m[0].value, j->worst = m[3].value;
    }
    LS_TRY(ls_live_count(q, &j->of[ls_group_rank(g)]));
    const uint64_t weights = simulation_weights(t);
    if (ls_group_rank(g) == 0)
        j->weights = weights;
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static ls_status first_part(ls_group *g, void *context) { return part(g, context, 0); }
static ls_status second_part(ls_group *g, void *context) { return part(g, context, 1); }

static job run(ls_live_opts o, int ranks, bool interrupted, const char *name)
{
    job j = { .o = o, .interrupted = interrupted, .dir = ls_test_path(name) };
    ASSERT_OK(run_ranks(ranks, first_part, &j));
    if (interrupted)
        ASSERT_OK(run_ranks(ranks, second_part, &j));
    return j;
}

static void the_same_bits(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (int k = 0; k < 6; k++) {
        const int ranks = 1 << k % 3;
        char name[3][32];
        ls_live_opts o = { LS_LIVE_DEFAULTS, .capacity = 60, .hold_out = k % 2 ? 0 : 5, .seed = 3 };
        o.keep = k < 3 ? LS_LIVE_FIFO : LS_LIVE_RESERVOIR;
        o.capacity = k < 3 ? 60 : 9;
        for (int i = 0; i < 3; i++)
            snprintf(name[i], sizeof name[i], "%s-%d", i == 0 ? "ckpt" : i == 1 ? "whole" : "parts", k);
        char *record[2] = { strdup(ls_test_path(name[1])), strdup(ls_test_path(name[2])) };
        o.record = record[0];
        const job whole = run(o, ranks, false, name[0]);
        o.record = record[1];
        const job parts = run(o, ranks, true, name[0]);
        assert_true(whole.weights && whole.weights == parts.weights && whole.weights != before);
        assert_true(whole.loss == parts.loss && whole.worst == parts.worst);
        assert_true(!o.hold_out || whole.worst > 0);
        assert_true(whole.total == parts.total);
        assert_memory_equal(whole.of, parts.of, sizeof whole.of);
        for (int i = 0; i < 3; i++)
            ls_test_same_file(record[0], record[1], i == 0 ? "x.npy" : i == 1 ? "y.npy" : "id.npy");
        before = whole.weights;
        free(record[0]);
        free(record[1]);
    }
}

/* ---- what is trained */

/* What a queue trains is what ls_trainer_put and ls_trainer_run train of the same samples. */
static ls_status like_put(ls_group *g, void *context)
{
    ls_trainer *t, *u;
    ls_live *q;
    ls_step_result a, b;
    const int rank = ls_group_rank(g);
    (void)context;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(simulation_trainer(&u, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 16));
    for (int step = 0; step < 4; step++) {
        /* rank 1 has nothing in the steps 1 and 2 */
        const int64_t m = rank == 1 && (step == 1 || step == 2) ? 0 : 1 + (rank + step) % MICRO;
        int64_t samples = -1, total = -1;
        float x[MICRO][IN], y[MICRO][OUT];
        int32_t id[MICRO];
        LS_TRY(simulation_push(q, 100 * rank + 10 * step, m));
        LS_TRY(ls_live_fill(q, &samples, &total, NULL));
        RANK_CHECK(samples == m && total >= m);
        LS_TRY(ls_trainer_run(t, samples, 1e-2, &a));
        for (int64_t i = 0; i < m; i++) {
            const int64_t n = 100 * rank + 10 * step + i;
            simulation_sample(n, x[i], y[i]);
            id[i] = n % 5 == 0 ? LS_IGNORE_LABEL : (int32_t)(n % OUT);
        }
        const ls_tensor fields[] = { ls_tensor_of(x, &LS_TYPE(LS_F32, m, IN)),
                                     ls_tensor_of(y, &LS_TYPE(LS_F32, m, OUT)),
                                     ls_tensor_of(id, &LS_TYPE(LS_I32, m)) };
        for (int k = 0; k < 3 && m; k++)
            LS_TRY(ls_trainer_put(u, (const char *[]){ "x", "y", "id" }[k], &fields[k], 0));
        LS_TRY(ls_trainer_run(u, m, 1e-2, &b));
        RANK_CHECK(a.loss == b.loss && a.count == b.count && a.count == total);
    }
    const uint64_t with = simulation_weights(t), without = simulation_weights(u);
    RANK_CHECK(with && with == without);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    ls_trainer_destroy(&u);
    return LS_OK;
}

static void as_if_put(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        ASSERT_OK(run_ranks(ranks, like_put, NULL));
}

/* A rank that never had a sample takes part from the first step on. */
static ls_status never(ls_group *g, void *context)
{
    ls_trainer *t;
    ls_live *q;
    ls_step_result r;
    int64_t samples, total;
    bool done;
    (void)context;
    const bool has = ls_group_rank(g) == 1;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 16));
    LS_TRY(ls_live_fill(q, &samples, &total, &done));
    RANK_CHECK(!samples && !total && !done);
    if (has)
        LS_TRY(simulation_push(q, 40, 6));
    LS_TRY(ls_live_finish(q));
    for (int k = 0; k < 2; k++) {
        LS_TRY(ls_live_fill(q, &samples, &total, &done));
        RANK_CHECK(samples == (has ? k ? 2 : 4 : 0) && total == (k ? 2 : 4) && !done);
        for (int row = 0; row < MICRO && !has; row++) { /* padding is a sample of rank 1, in all rows */
            float x[IN], y[OUT];
            simulation_sample(40, x, y);
            RANK_CHECK(
                !memcmp(t->fields[ls_trainer_field_find(t, "x")].put + (size_t)row * sizeof x, x, sizeof x));
        }
        LS_TRY(ls_trainer_run(t, samples, 1e-2, &r));
        RANK_CHECK(r.loss > 0 && isfinite(r.loss) && r.count == total);
        memset(t->fields[ls_trainer_field_find(t, "x")].put, 0xff, MICRO * IN * sizeof(float));
    }
    LS_TRY(ls_live_fill(q, &samples, &total, &done));
    RANK_CHECK(!samples && !total && done);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void ranks_without_samples(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(3, never, NULL));
}

static void full_queues(void **state)
{
    (void)state;
    ls_trainer *t;
    ls_live *q;
    ls_live_numbers n;
    int64_t samples;
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(ls_live_open(&q, t, .capacity = 8, .hold_out = 4));
    ASSERT_OK(simulation_push(q, 0, 5)); /* of which sample 3 is held out */
    ASSERT_OK(ls_live_count(q, &n));
    assert_true(n.pushed == 5 && n.waiting == 4 && n.held == 1 && n.room == 5);
    ASSERT_FAILS(simulation_push(q, 5, 6), LS_E_ARG,
                 "ls_live_push: 5 samples, but the queue has room for 4 of its 8", "LS_LIVE_DROP_OLDEST");
    ASSERT_OK(simulation_push(q, 5, 5));
    ASSERT_OK(ls_live_count(q, &n));
    assert_true(n.pushed == 10 && n.waiting == 8 && n.held == 2 && n.room == 0 && n.dropped == 0);
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    ASSERT_OK(ls_live_count(q, &n));
    assert_true(samples == 4 && n.trained == 4 && n.waiting == 4);
    ls_live_close(&q);
    assert_null(q);
    ASSERT_OK(ls_live_open(&q, t, .capacity = 8, .full = LS_LIVE_DROP_OLDEST));
    ASSERT_OK(simulation_push(q, 0, 30));
    ASSERT_OK(ls_live_count(q, &n));
    assert_true(n.waiting == 8 && n.dropped == 22 && n.room == INT64_MAX);
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    for (int i = 0; i < MICRO; i++) {
        float x[IN], y[OUT];
        simulation_sample(22 + i, x, y);
        assert_memory_equal(x, t->fields[ls_trainer_field_find(t, "x")].put + (size_t)i * sizeof x, sizeof x);
    }
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

/* ---- what is held out */

typedef struct held_set {
    ls_dataset set;
    int64_t ids[256];
} held_set;

static ls_status read_id(const ls_dataset *set, int64_t i, void *const *to)
{
    const int64_t id = ((const held_set *)(const void *)set)->ids[i];
    float x[IN], y[OUT];
    simulation_sample(id, x, y);
    if (to[0])
        memcpy(to[0], x, sizeof x);
    if (to[1])
        memcpy(to[1], y, sizeof y);
    if (to[2])
        *(int32_t *)to[2] = id % 5 == 0 ? LS_IGNORE_LABEL : (int32_t)(id % OUT);
    return LS_OK;
}

/* The same numbers as of a data set of these samples, though some ranks hold more than others, and some none.
 */
static ls_status held(ls_group *g, void *context)
{
    static const int PUSHED[2][4] = { { 30, 3, 0, 9 }, { 0, 0, 3, 0 } };
    const int *pushed = PUSHED[*(const int *)context], rank = ls_group_rank(g);
    static const ls_field fields[] = { { .name = "x", .type = { LS_F32, 1, { IN } } },
                                       { .name = "y", .type = { LS_F32, 1, { OUT } } },
                                       { .name = "id", .type = { LS_I32, 0, { 0 } }, .ignorable = true } };
    held_set all = {
        .set = { .name = "held", .source = "test", .n_fields = 3, .fields = fields, .read = read_id }
    };
    ls_trainer *t;
    ls_live *q;
    ls_metric a[8], b[8];
    int n = 0, m = 0;
    LS_TRY(simulation_trainer(&t, g));
    LS_TRY(ls_live_open(&q, t, .capacity = 100, .hold_out = 3));
    RANK_CHECK(ls_live_evaluate(q, a, 8, &n) == LS_E_ARG && strstr(ls_error_message(), "no rank holds out"));
    LS_TRY(simulation_push(q, 1000 * rank, pushed[rank]));
    for (int r = 0; r < ls_group_size(g); r++)
        for (int i = 2; i < pushed[r]; i += 3)
            all.ids[all.set.n++] = 1000 * r + i;
    LS_TRY(ls_live_evaluate(q, a, 8, &n));
    LS_TRY(ls_trainer_evaluate(t, &all.set, b, 8, &m));
    RANK_CHECK(n == 4 && m == n);
    for (int i = 0; i < n; i++)
        RANK_CHECK(!strcmp(a[i].name, b[i].name) && a[i].value == b[i].value && a[i].value > 0);
    ls_live_close(&q);
    ls_trainer_destroy(&t);
    return LS_OK;
}

static void held_out_samples(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int ranks = k ? 3 : 1; ranks <= 4; ranks++)
            ASSERT_OK(run_ranks(ranks, held, &k));
}

/* ---- on another number of ranks */

/* Every sample that waits is trained once, whatever number of ranks continues. */
static void dealt_anew(void **state)
{
    (void)state;
    static const int RANKS[][2] = { { 4, 2 }, { 2, 4 }, { 3, 1 } };
    for (int k = 0; k < 3; k++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "dealt-%d", k);
        snprintf(name[1], sizeof name[1], "dealt-record-%d", k);
        job j = { .o = { LS_LIVE_DEFAULTS, .capacity = 100, .hold_out = 4, .record = ls_test_path(name[1]) },
                  .interrupted = true,
                  .dir = ls_test_path(name[0]) };
        ASSERT_OK(run_ranks(RANKS[k][0], first_part, &j));
        int64_t made_before = 0, pushed = 0, held_now = 0;
        for (int r = 0; r < RANKS[k][0]; r++)
            made_before += first_made(r, STOP) - 1000 * r;
        ASSERT_OK(run_ranks(RANKS[k][1], second_part, &j));
        for (int r = 0; r < RANKS[k][1]; r++) {
            pushed += j.of[r].pushed;
            held_now += j.of[r].held;
            made_before += first_made(r, STEPS) - first_made(r, STOP);
            assert_true(j.of[r].ranks == RANKS[k][0] && j.of[r].waiting == 0);
        }
        assert_true(pushed == made_before && j.total == pushed - held_now && j.worst > 0);
        ls_mapping m;
        ls_npy a;
        char *path = ls_path_join(j.o.record, "x.npy");
        ASSERT_OK(ls_file_map(&m, path));
        ASSERT_OK(ls_npy_parse(&a, m.data, m.size, "x.npy"));
        assert_int_equal(a.type.dims[0], j.total);
        /* where both parts pushed samples of the same numbers on the same ranks, all are different */
        const float *x = (const float *)a.data;
        for (int64_t i = 0; i < j.total; i++)
            for (int64_t o = 0; o < i; o++)
                assert_true(memcmp(x + i * IN, x + o * IN, sizeof *x * IN) != 0);
        ls_file_unmap(&m);
        free(path);
    }
}

/* ---- in a run of one's own */

/* A report with the trainer saves the queue, too, also where each rank writes files of its own, and where it
 * is written beside the program, which fills and trains on. */
static ls_status report(ls_group *g, void *context)
{
    static const char *const NAMES[] = { "whole", "files", "beside" };
    const int kind = *(const int *)context;
    uint64_t weights[2] = { 0 };
    const int rank = ls_group_rank(g);
    for (int part_of = 0; part_of < 2; part_of++) {
        ls_trainer *t;
        ls_live *q;
        ls_run *r;
        ls_step_result result;
        ls_live_numbers n;
        int64_t samples, total;
        LS_TRY(simulation_trainer(&t, g));
        LS_TRY(ls_live_open(&q, t, .capacity = 32, .hold_out = 3));
        const ls_run_contents mine = { .trainer = t };
        LS_TRY(ls_run_open(&r, ls_test_path("runs"), NAMES[kind], g, .per_rank = kind == 1,
                           .async = kind == 2));
        if (part_of) {
            LS_TRY(ls_run_load(r, ls_latest_checkpoint(r)->path, &mine));
        } else {
            LS_TRY(simulation_push(q, 1000 * rank, 7 + 4 * rank));
            LS_TRY(ls_live_fill(q, &samples, &total, NULL));
            LS_TRY(ls_trainer_run(t, samples, 1e-2, &result));
            LS_TRY(ls_report(r, NULL, 0, &mine));
        }
        LS_TRY(ls_live_count(q, &n));
        RANK_CHECK(n.pushed == 7 + 4 * rank && n.held == n.pushed / 3 &&
                   n.waiting == n.pushed - n.held - MICRO);
        LS_TRY(ls_live_fill(q, &samples, &total, NULL));
        LS_TRY(ls_trainer_run(t, samples, 1e-2, &result));
        weights[part_of] = simulation_weights(t);
        LS_TRY(ls_run_finish(&r, LS_OK, NULL));
        ls_live_close(&q);
        ls_trainer_destroy(&t);
    }
    RANK_CHECK(weights[0] && weights[0] == weights[1]);
    return LS_OK;
}

static void checkpoints_of_a_run(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++)
        ASSERT_OK(run_ranks(3, report, &k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),         cmocka_unit_test(as_if_put),
        cmocka_unit_test(ranks_without_samples), cmocka_unit_test(full_queues),
        cmocka_unit_test(held_out_samples),      cmocka_unit_test(dealt_anew),
        cmocka_unit_test(checkpoints_of_a_run)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
