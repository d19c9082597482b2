/* test_live_calls.c - what a queue of samples refuses, and with which message: options, samples, the order of
 * calls, checkpoints, ranks that call apart, do not come, or die. */
#include "simulation.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "live/live.h"

static ls_trainer *t;
static ls_live *q;
static ls_step_result result;

static void start(const ls_live_opts *o)
{
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(ls_live_open_with(&q, t, o));
}

static void stop(void)
{
    ls_live_close(&q);
    ls_trainer_destroy(&t);
}

static void options(void **state)
{
    (void)state;
    ls_trainer *whole;
    ls_live *second = NULL;
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_FAILS(ls_live_open(&q, t, .capacity = 0), LS_E_ARG, "capacity of 0 samples", "at least 1");
    ASSERT_FAILS(ls_live_open(&q, t, .hold_out = 1), LS_E_ARG, "hold_out 1", "at least 2");
    ASSERT_FAILS(ls_live_open(&q, t, .keep = (ls_live_keep)7), LS_E_ARG, "keep 7", "no such value");
    ASSERT_FAILS(ls_live_open(&q, t, .keep = LS_LIVE_RESERVOIR, .full = LS_LIVE_DROP_OLDEST), LS_E_ARG,
                 "a reservoir never is full");
    ASSERT_FAILS(ls_live_open(&q, t, .record = ""), LS_E_ARG, "record is \"\"");
    ASSERT_FAILS(ls_live_open(&q, t, .record = "s3://bucket/x"), LS_E_USAGE, "ls_live_open: record");
    assert_null(q);
    ASSERT_OK(ls_live_open_with(&q, t, NULL));
    ASSERT_FAILS(ls_live_open(&second, t), LS_E_ARG, "has a queue already", "close that one first");
    ls_live_close(&q);
    ASSERT_OK(ls_live_open(&q, t));
    ls_trainer_destroy(&t); /* in the wrong order: no harm, but a message */
    ASSERT_FAILS(simulation_push(q, 0, 1), LS_E_ARG, "ls_live_put: the trainer of this queue was destroyed");
    ASSERT_FAILS(ls_live_finish(q), LS_E_ARG, "was destroyed");
    ls_live_close(&q);
    ASSERT_OK(ls_trainer_create(&whole, simulation_model, NULL, .threads = 1));
    ASSERT_FAILS(ls_live_open(&q, whole), LS_E_ARG, "fewer samples than its share", "say .padding = true");
    ls_trainer_destroy(&whole);
    ASSERT_OK(
        ls_trainer_create(&whole, simulation_model, NULL, .threads = 1, .padding = true, .eval_only = true));
    ASSERT_FAILS(ls_live_open(&q, whole), LS_E_ARG, "evaluation only");
    ls_trainer_destroy(&whole);
    ls_live_close(&q);
    ls_live_close(NULL);
}

static void samples_that_do_not_fit(void **state)
{
    (void)state;
    static float values[4][IN + 1];
    static double large[4][OUT];
    static int32_t ids[4];
    const ls_tensor x = ls_tensor_of(values, &LS_TYPE(LS_F32, 4, IN)),
                    wide = ls_tensor_of(values, &LS_TYPE(LS_F32, 4, IN + 1)),
                    flat = ls_tensor_of(values, &LS_TYPE(LS_F32, IN)),
                    y = ls_tensor_of(large, &LS_TYPE(LS_F64, 4, OUT)),
                    fewer = ls_tensor_of(ids, &LS_TYPE(LS_I32, 3)),
                    id = ls_tensor_of(ids, &LS_TYPE(LS_I32, 4)),
                    nowhere = ls_tensor_of(NULL, &LS_TYPE(LS_F32, 4, IN));
    start(NULL);
    ASSERT_FAILS(ls_live_put(q, "flux", &x), LS_E_ARG,
                 "ls_live_put: no field \"flux\"; the model takes x, y, id");
    ASSERT_FAILS(ls_live_put(q, "x", &wide), LS_E_SHAPE,
                 "ls_live_put: \"x\" is f32 [4, 4], the model takes f32 [4, 3]");
    ASSERT_FAILS(ls_live_put(q, "x", &flat), LS_E_SHAPE, "\"x\" is f32 [3]");
    ASSERT_FAILS(ls_live_put(q, "id", &x), LS_E_SHAPE, "\"id\" is f32 [4, 3]", "i32 [4]");
    ASSERT_FAILS(ls_live_put(q, "x", &nowhere), LS_E_ARG, "\"x\": data is NULL");
    values[1][3] = NAN; /* as f32 [4, 3] number 1 of sample 2 */
    ASSERT_FAILS(ls_live_put(q, "x", &x), LS_E_NUMERIC, "\"x\": number 1 of sample 2 is not finite as f32");
    values[1][3] = 0;
    large[3][1] = 1e39;
    ASSERT_FAILS(ls_live_put(q, "y", &y), LS_E_NUMERIC, "\"y\": number 1 of sample 3 is not finite as f32");
    large[3][1] = 1e38;
    ASSERT_OK(ls_live_put(q, "x", &x));
    values[0][0] = INFINITY;
    ASSERT_FAILS(ls_live_put(q, "x", &x), LS_E_NUMERIC, "number 0 of sample 0"); /* changes nothing: */
    values[0][0] = 0;
    assert_true(q->fields[0].put == 4 && ((const float *)q->fields[0].staged)[0] == 0.0F);
    ASSERT_FAILS(ls_live_push(q, -1), LS_E_ARG, "ls_live_push: m is -1");
    ASSERT_FAILS(ls_live_push(q, 4), LS_E_ARG, "ls_live_push: 4 samples, but \"y\" was put for 0");
    ASSERT_OK(ls_live_put(q, "y", &y));
    ASSERT_OK(ls_live_put(q, "id", &fewer));
    ASSERT_FAILS(ls_live_push(q, 4), LS_E_ARG, "4 samples, but \"id\" was put for 3");
    ASSERT_OK(ls_live_put(q, "id", &id));
    ASSERT_FAILS(ls_live_push(q, 3), LS_E_ARG, "3 samples, but \"x\" was put for 4");
    ASSERT_FAILS(ls_live_push(q, -1), LS_E_ARG, "m is -1");
    ASSERT_OK(ls_live_push(q, 0)); /* does nothing */
    ASSERT_OK(ls_live_push(q, 4));
    ASSERT_FAILS(ls_live_push(q, 4), LS_E_ARG, "\"x\" was put for 0"); /* each is pushed once */
    stop();
}

static void order_of_calls(void **state)
{
    (void)state;
    int64_t samples, total;
    ls_metric m[4];
    int n;
    start(NULL);
    ASSERT_FAILS(ls_live_evaluate(q, m, 4, &n), LS_E_ARG, "open it with .hold_out");
    ASSERT_OK(ls_live_fill(q, &samples, &total, NULL));
    assert_true(!samples && !total);
    ASSERT_FAILS(ls_trainer_run(t, 0, 1e-3, &result), LS_E_ARG, "has had no sample yet");
    ASSERT_OK(simulation_push(q, 0, 7));
    ASSERT_OK(ls_live_fill(q, &samples, &total, NULL));
    assert_true(samples == MICRO && total == MICRO);
    ASSERT_FAILS(ls_live_fill(q, &samples, &total, NULL), LS_E_ARG, "the last fill have not been trained",
                 "call ls_trainer_run first");
    ASSERT_FAILS(ls_trainer_save_checkpoint(t, ls_test_path("between")), LS_E_ARG,
                 "between ls_live_fill and ls_trainer_run", "run them first");
    ASSERT_FAILS(ls_trainer_run(t, samples, NAN, &result), LS_E_ARG,
                 "learning rate"); /* may be tried again */
    ASSERT_FAILS(ls_trainer_run(t, samples + 1, 1e-3, &result), LS_E_ARG, "ls_trainer_run: 5 samples");
    ASSERT_FAILS(ls_trainer_run(t, samples - 1, 1e-3, &result), LS_E_ARG,
                 "3 samples, but ls_live_fill has given 4");
    ASSERT_OK(ls_trainer_run(t, samples, 1e-3, &result));
    assert_int_equal(result.count, MICRO);
    ASSERT_OK(ls_trainer_save_checkpoint(t, ls_test_path("between")));
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    ASSERT_OK(ls_trainer_run(t, samples, 1e-3, &result));
    ASSERT_OK(ls_live_finish(q));
    ASSERT_OK(ls_live_finish(q));
    ASSERT_FAILS(simulation_push(q, 0, 1), LS_E_ARG, "ls_live_put after ls_live_finish");
    ASSERT_FAILS(ls_live_push(q, 0), LS_E_ARG, "ls_live_push after ls_live_finish");
    stop();
}

/* ---- checkpoints */

static void checkpoints(void **state)
{
    (void)state;
    const char *dir = ls_test_path("with"), *without = ls_test_path("without");
    int64_t samples;
    const ls_live_opts o = { LS_LIVE_DEFAULTS, .capacity = 8, .hold_out = 4 };
    ls_live_opts other = o;
    ls_live_numbers n;
    start(&o);
    ASSERT_OK(simulation_push(q, 0, 8));
    ASSERT_OK(ls_trainer_save_checkpoint(t, dir));
    stop();

    /* a trainer without a queue takes the rest of it; a queue cannot be opened too late */
    ASSERT_OK(simulation_trainer(&t, NULL));
    ASSERT_OK(ls_trainer_save_checkpoint(t, without));
    ASSERT_OK(ls_trainer_load_checkpoint(t, dir));
    ASSERT_FAILS(ls_live_open(&q, t), LS_E_ARG, "has samples of a queue",
                 "before ls_trainer_load_checkpoint");
    ASSERT_OK(ls_trainer_init(t, 0)); /* another run begins */
    ASSERT_OK(ls_live_open(&q, t));
    ls_live_close(&q);
    ASSERT_OK(ls_trainer_load_checkpoint(t, without));
    ASSERT_OK(ls_live_open(&q, t));
    ASSERT_FAILS(ls_trainer_load_checkpoint(t, without), LS_E_ARG, "without has no samples of a queue",
                 "before ls_live_open");
    stop();

    static const char *const SAID[] = { "hold_out 4, this one with 2",
                                        "seed 0, this one with 9",
                                        "keep 0, this one with 1",
                                        "record (0: no, 1: yes) 0, this one with 1",
                                        "has 6 samples to train and 2 held out",
                                        NULL };
    for (int k = 0; SAID[k]; k++) {
        other = o;
        other.hold_out = k == 0 ? 2 : other.hold_out;
        other.seed = k == 1 ? 9 : 0;
        other.keep = k == 2 ? LS_LIVE_RESERVOIR : LS_LIVE_FIFO;
        other.record = k == 3 ? ls_test_path("never") : NULL;
        other.capacity = k == 4 ? 5 : 8;
        start(&other);
        ASSERT_FAILS(ls_trainer_load_checkpoint(t, dir), k == 4 ? LS_E_ARG : LS_E_SHAPE, "with", SAID[k]);
        stop();
    }
    other = o;
    other.capacity = 20; /* more room is the same run */
    start(&other);
    ASSERT_OK(simulation_push(q, 50, 1)); /* what was there before is gone */
    ASSERT_OK(ls_trainer_load_checkpoint(t, dir));
    ASSERT_OK(ls_live_count(q, &n));
    assert_true(n.pushed == 8 && n.waiting == 6 && n.held == 2 && n.ranks == 0);
    /* samples are x f32 [IN], y f32 [OUT] and id i32; besides the 20, 5 may be held out, and 2 are spare */
    assert_true(n.bytes >= (20 + 5 + 2) * 4 * (IN + OUT + 1) &&
                n.bytes < 2 * (20 + 5 + 2) * 4 * (IN + OUT + 1));
    ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
    stop();
}

/* ---- recording */

static ls_status record_some(int64_t m, const char *dir, const char *from, const char *save)
{
    int64_t samples;
    start(&(ls_live_opts){ LS_LIVE_DEFAULTS, .record = dir });
    ls_status s = from ? ls_trainer_load_checkpoint(t, from) : LS_OK;
    LS_TRY_TO(s, s, end);
    LS_TRY_TO(s, simulation_push(q, 0, m), end);
    LS_TRY_TO(s, ls_live_fill(q, &samples, NULL, NULL), end);
    LS_TRY_TO(s, ls_trainer_run(t, samples, 1e-3, &result), end);
    if (save)
        s = ls_trainer_save_checkpoint(t, save);
end:
    stop();
    return s;
}

static void recorded_files(void **state)
{
    (void)state;
    const char *dir = ls_test_path("record"), *save = ls_test_path("recorded");
    ASSERT_OK(record_some(3, dir, NULL, save));
    assert_int_equal(ls_file_size(ls_test_path("record/x.npy")), 256 + 3 * IN * 4);
    ASSERT_FAILS(record_some(3, dir, NULL, NULL), LS_E_IO, "record/x.npy: is there already, of another run",
                 "continue that run from its checkpoint");
    ASSERT_OK(record_some(4, dir, save, NULL));
    assert_int_equal(ls_file_size(ls_test_path("record/x.npy")), 256 + 7 * IN * 4);
    ASSERT_OK(record_some(3, dir, save, NULL)); /* again from there: the last four are cut off first */
    assert_int_equal(ls_file_size(ls_test_path("record/x.npy")), 256 + 6 * IN * 4);
    assert_int_equal(truncate(ls_test_path("record/y.npy"), 256 + 2 * OUT * 4), 0);
    ASSERT_FAILS(record_some(3, dir, save, NULL), LS_E_IO, "record/y.npy: is too short",
                 "counts 3 recorded samples");
    assert_int_equal(unlink(ls_test_path("record/y.npy")), 0);
    ASSERT_FAILS(record_some(3, dir, save, NULL), LS_E_IO, "record/y.npy: is not there");
    ASSERT_FAILS(record_some(3, "/proc/no/such", NULL, NULL), LS_E_IO, "/proc/no");
}

/* A fill that could not record counts nothing, so that the next one does not take the files for its own. */
static void record_of_another_run(void **state)
{
    (void)state;
    const char *dir = ls_test_path("record-kept");
    const int64_t size = 256 + 4 * IN * 4;
    int64_t samples;
    ASSERT_OK(record_some(4, dir, NULL, NULL));
    start(&(ls_live_opts){ LS_LIVE_DEFAULTS, .record = dir });
    ASSERT_OK(simulation_push(q, 0, 5));
    for (int k = 0; k < 2; k++) {
        ASSERT_FAILS(ls_live_fill(q, &samples, NULL, NULL), LS_E_IO, "is there already, of another run");
        assert_int_equal(q->record.done, 0);
        assert_int_equal(ls_file_size(ls_test_path("record-kept/x.npy")), size);
        if (!k) /* the samples that were taken can be trained nevertheless */
            ASSERT_OK(ls_trainer_run(t, MICRO, 1e-3, &result));
    }
    stop();
}

/* Rows that could not be written are not counted: the next fill writes its own in their place. */
static void record_on_a_full_disk(void **state)
{
    (void)state;
    const char *dir = ls_test_path("record-full");
    int64_t samples;
    start(&(ls_live_opts){ LS_LIVE_DEFAULTS, .record = dir });
    for (int k = 0; k < 3; k++) {
        ASSERT_OK(simulation_push(q, 4 * k, MICRO));
        if (k == 1) {
            const int y = q->record.files[1], full = open("/dev/full", O_WRONLY);
            assert_true(full >= 0);
            q->record.files[1] = full;
            ASSERT_FAILS(ls_live_fill(q, &samples, NULL, NULL), LS_E_IO, "write");
            q->record.files[1] = y;
            close(full);
        } else {
            ASSERT_OK(ls_live_fill(q, &samples, NULL, NULL));
        }
        assert_int_equal(q->record.done, k < 2 ? MICRO : 2 * MICRO);
        ASSERT_OK(ls_trainer_run(t, MICRO, 1e-3, &result));
    }
    stop();
    assert_int_equal(ls_file_size(ls_test_path("record-full/x.npy")), 256 + 2 * MICRO * IN * 4);
    assert_int_equal(ls_file_size(ls_test_path("record-full/y.npy")), 256 + 2 * MICRO * OUT * 4);
}

/* A number that no run can have recorded would cut the files anywhere. */
static void record_of_a_damaged_checkpoint(void **state)
{
    (void)state;
    const ls_live_opts o = { LS_LIVE_DEFAULTS, .record = ls_test_path("record-damaged") };
    for (int k = 0; k < 2; k++) {
        const char *dir = ls_test_path(k ? "damaged-fills" : "damaged-recorded");
        start(&o);
        *(k ? &q->fills : &q->record.done) = INT64_MAX / (IN * 4);
        ASSERT_OK(ls_trainer_save_checkpoint(t, dir));
        stop();
        start(&o);
        ASSERT_FAILS(ls_trainer_load_checkpoint(t, dir), LS_E_FORMAT, "live.options is damaged");
        stop();
    }
    /* so would a number of samples that no run can have had */
    start(&o);
    q->pushed = INT64_MAX;
    ASSERT_OK(ls_trainer_save_checkpoint(t, ls_test_path("damaged-numbers")));
    stop();
    start(&o);
    ASSERT_FAILS(ls_trainer_load_checkpoint(t, ls_test_path("damaged-numbers")), LS_E_FORMAT,
                 "number 2 of live.ranks is 9223372036854775807");
    stop();
}

/* ---- ranks */

static ls_status other_options(ls_group *g, void *context)
{
    ls_trainer *mine;
    ls_live *queue;
    (void)context;
    LS_TRY(simulation_trainer(&mine, g));
    const ls_status s = ls_live_open(&queue, mine, .capacity = 8 + ls_group_rank(g));
    RANK_CHECK(!queue && s == (ls_group_rank(g) == 1 ? LS_E_USAGE : LS_E_PEER));
    RANK_CHECK(strstr(ls_error_message(), "ls_live_open: rank 1 has capacity 9, rank 0 has capacity 8"));
    ls_trainer_destroy(&mine);
    return LS_OK;
}

/* Ranks of axis tp compute the same samples. */
static ls_status split_model(ls_group *g, void *context)
{
    ls_trainer *mine;
    ls_live *queue;
    (void)context;
    ls_trainer_opts o = ls_trainer_opts_default();
    o.threads = 1;
    o.padding = true;
    o.micro_batch = MICRO;
    o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 1 }, { "tp", 2 } } };
    o.parallel.tensor = "colwise:in rowwise:out";
    o.parallel.rank = ls_group_rank(g);
    o.group = g;
    LS_TRY(ls_trainer_create_with(&mine, simulation_model, NULL, &o));
    RANK_CHECK(ls_live_open(&queue, mine) == LS_E_ARG && strstr(ls_error_message(), "the axes tp"));
    ls_trainer_destroy(&mine);
    return LS_OK;
}

/* How a rank calls apart from the others. */
typedef enum apart { ANOTHER_CALL, RUNS, NEVER_COMES, DIES } apart;

static ls_status calls_apart(ls_group *g, void *context)
{
    const apart how = *(const apart *)context;
    const bool odd = ls_group_rank(g) == 1;
    ls_trainer *mine;
    ls_live *queue;
    ls_step_result r;
    ls_status s;
    int64_t samples, total;
    ls_group_set_deadline(g, how == NEVER_COMES ? 1 : 60);
    LS_TRY(simulation_trainer(&mine, g));
    LS_TRY(ls_live_open(&queue, mine));
    LS_TRY(simulation_push(queue, 0, 8));
    LS_TRY(ls_live_fill(queue, &samples, &total, NULL));
    LS_TRY(ls_trainer_run(mine, samples, 1e-3, &r));
    if (odd && how == RUNS) { /* without a fill */
        static float zeros[MICRO * IN];
        LS_TRY(ls_trainer_put(mine, "x", &(ls_tensor){ zeros, LS_TYPE(LS_F32, 1, IN), { IN, 1 } }, 0));
        LS_TRY(ls_trainer_put(mine, "y", &(ls_tensor){ zeros, LS_TYPE(LS_F32, 1, OUT), { OUT, 1 } }, 0));
        LS_TRY(ls_trainer_put(mine, "id", &(ls_tensor){ zeros, LS_TYPE(LS_I32, 1), { 1 } }, 0));
        s = ls_trainer_run(mine, 1, 1e-3, &r);
    } else if (odd && how == NEVER_COMES) {
        usleep(2500000);
        s = ls_live_fill(queue, &samples, &total, NULL);
    } else if (odd && how == ANOTHER_CALL) {
        int64_t one = 1;
        s = ls_group_all_reduce(g, &one, 1, LS_I64, LS_REDUCE_SUM);
    } else if (odd) {
        usleep(100000); /* the others wait */
        ls_live_close(&queue);
        ls_trainer_destroy(&mine);
        return ls_fail(LS_E_IO, "the disk is on fire");
    } else {
        s = ls_live_fill(queue, &samples, &total, NULL);
    }
    static const char *const SAID[] = { "all_reduce", "barrier", "rank 1", "the disk is on fire" };
    static const ls_status ENDS[] = { LS_E_ARG, LS_E_ARG, LS_E_PEER, LS_E_PEER };
    if (s != ENDS[how] || !strstr(ls_error_message(), SAID[how]))
        return ls_fail(LS_E_INTERNAL, "rank %d ends with %s: %s", ls_group_rank(g), ls_status_name(s),
                       ls_error_message());
    ls_live_close(&queue);
    ls_trainer_destroy(&mine);
    return LS_OK;
}

static void ranks_that_differ(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, other_options, NULL));
    ASSERT_OK(run_ranks(2, split_model, NULL));
    for (apart how = ANOTHER_CALL; how <= NEVER_COMES; how++)
        ASSERT_OK(run_ranks(3, calls_apart, &how));
    ASSERT_FAILS(run_ranks(3, calls_apart, &(apart){ DIES }), LS_E_IO, "the disk is on fire");
}

/* ---- memory */

static ls_status everything(void *context)
{
    ls_trainer *mine = context;
    ls_live *queue = NULL;
    ls_metric m[4];
    int64_t samples;
    int n;
    ls_status s = ls_live_open(&queue, mine, .capacity = 8, .hold_out = 2);
    LS_TRY_TO(s, s, end);
    LS_TRY_TO(s, simulation_push(queue, 0, 4), end);
    LS_TRY_TO(s, ls_live_fill(queue, &samples, NULL, NULL), end);
    LS_TRY_TO(s, ls_trainer_run(mine, samples, 1e-3, &result), end);
    LS_TRY_TO(s, ls_live_evaluate(queue, m, 4, &n), end);
    static int number;
    char name[32];
    snprintf(name, sizeof name, "memory-%d", number++);
    s = ls_trainer_save_checkpoint(mine, ls_test_path(name));
end:
    ls_live_close(&queue);
    return s;
}

static void without_memory(void **state)
{
    (void)state;
    ASSERT_OK(simulation_trainer(&t, NULL));
    assert_true(ls_test_memory(everything, t, 1) > 20);
    stop();
}

/* `room` is exactly what one push may have, whatever comes next is held out or kept. */
static void room_is_what_can_be_pushed(void **state)
{
    (void)state;
    for (int hold_out = 0; hold_out <= 4; hold_out += hold_out ? 1 : 2)
        for (int pushed = 0; pushed <= 5; pushed++)
            for (int more = 0; more < 2; more++) {
                ls_live_numbers now;
                ASSERT_OK(simulation_trainer(&t, NULL));
                ASSERT_OK(ls_live_open(&q, t, .capacity = 6, .hold_out = hold_out));
                ASSERT_OK(simulation_push(q, 0, pushed));
                ASSERT_OK(ls_live_count(q, &now));
                assert_true(now.room >= 6 - pushed && now.waiting + now.held == pushed);
                if (more)
                    ASSERT_FAILS(simulation_push(q, pushed, now.room + 1), LS_E_ARG, "has room for");
                else
                    ASSERT_OK(simulation_push(q, pushed, now.room));
                ls_live_close(&q);
                ls_trainer_destroy(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(room_is_what_can_be_pushed),
                                        cmocka_unit_test(options),
                                        cmocka_unit_test(samples_that_do_not_fit),
                                        cmocka_unit_test(order_of_calls),
                                        cmocka_unit_test(checkpoints),
                                        cmocka_unit_test(recorded_files),
                                        cmocka_unit_test(record_of_another_run),
                                        cmocka_unit_test(record_on_a_full_disk),
                                        cmocka_unit_test(record_of_a_damaged_checkpoint),
                                        cmocka_unit_test(ranks_that_differ),
                                        cmocka_unit_test(without_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
