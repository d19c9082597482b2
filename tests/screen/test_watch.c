/* test_watch.c - the frame of `lockstep watch`: of a run of 100,000 steps, one that crashed, one that has not
 * started, one of two ranks of which one is late; at every size; and what was read is not read again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/memory.h"
#include "screen/watch_frame.h"
#include "support/support.h"

static char run_dir[700]; /* of this test; its last part is "run" */

static int new_run(void **state)
{
    static int number;
    char name[32];
    (void)state;
    snprintf(name, sizeof name, "%d/run", ++number);
    snprintf(run_dir, sizeof run_dir, "%s", ls_test_path(name));
    return 0;
}

static void put(const char *name, const char *mode, const char *text)
{
    char path[800];
    assert_true(*run_dir); /* TEST gives each its own */
    snprintf(path, sizeof path, "%s/log", run_dir);
    ASSERT_OK(ls_make_dirs(path));
    snprintf(path, sizeof path, "%s/%s", run_dir, name);
    FILE *f = fopen(path, mode);
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void result(const char *state, const char *error)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"state\":\"%s\",\"attempt\":0,\"time\":1,\"step\":7,\"epoch\":2,\"loss\":0.5,\"lr\":0.1,"
             "\"best\":{\"metric\":\"eval_loss\",\"value\":0.25,\"step\":4,\"epoch\":1},\"error\":%s}",
             state, error);
    put("recipe.yaml", "we", "");
    put("result.json", "we", text);
}

static void heartbeat_of(int rank, int ranks, int attempt, double seconds, double waited, double time)
{
    char name[64], text[512];
    snprintf(name, sizeof name, "log/rank-%d.heartbeat.json", rank);
    snprintf(text, sizeof text,
             "{\"rank\":%d,\"ranks\":%d,\"host\":\"node%d\",\"attempt\":%d,\"time\":%.3f,\"doing\":"
             "\"training\",\"step\":100,\"steps\":400,\"seconds\":%g,\"waited\":%g,\"memory\":1048576,"
             "\"planned\":2097152}   \n",
             rank, ranks, rank, attempt, time, seconds, waited);
    put(name, "we", text);
}

static void heartbeat(int rank, int ranks, double waited, double time)
{
    heartbeat_of(rank, ranks, 0, 100, waited, time);
}

static char *frame_of(ls_watch *w, int width, int height, bool utf8)
{
    ls_screen screen;
    ls_str text = { 0 };
    int rows;
    ASSERT_OK(ls_watch_read(w));
    ASSERT_OK(ls_watch_draw(
        &screen, &rows, w,
        &(ls_watch_look){
            .width = width, .height = height, .utf8 = utf8, .foot = height ? "q quit" : NULL }));
    ls_screen_write(&text, &screen, rows, false, "\n");
    ls_screen_release(&screen);
    return ls_str_take(&text);
}

static void write_steps(int from, int to)
{
    char path[800];
    put("metrics.jsonl", "ae", "");
    snprintf(path, sizeof path, "%s/metrics.jsonl", run_dir);
    FILE *f = fopen(path, "ae");
    assert_non_null(f);
    for (int i = from; i <= to; i++)
        fprintf(f,
                "{\"kind\":\"step\",\"step\":%d,\"epoch\":0,\"loss\":%g,\"lr\":0.1,\"samples\":8,"
                "\"seconds\":0.5,\"attempt\":0}\n",
                i, i == 50000 ? 90.0 : 1 + 1.0 / i);
    assert_int_equal(fclose(f), 0);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static int widest(const char *text)
{
    int n = 0, most = 0;
    for (; *text; text++) {
        n = *text == '\n' ? 0 : n + (((unsigned char)*text & 0xc0) != 0x80);
        most = n > most ? n : most;
    }
    return most;
}

static void a_long_run_fits_at_every_size(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    result("running", "null");
    write_steps(1, 100000);
    put("metrics.jsonl", "ae",
        "{\"kind\":\"eval\",\"step\":99999,\"epoch\":0,\"loss\":1.25,\"accuracy\":0.75,\"samples\":8,"
        "\"seconds\":1,\"attempt\":0}\n"
        "{\"kind\":\"checkpoint\",\"step\":99999,\"epoch\":0,\"path\":\"x\",\"bytes\":1024,\"seconds\":1,"
        "\"attempt\":0}\n");
    for (int rank = 0; rank < 2; rank++)
        heartbeat(rank, 2, rank ? 40 : 1, 1);
    static const int SIZES[][2] = { { 40, 8 }, { 60, 20 }, { 80, 24 }, { 120, 40 }, { 300, 90 } };
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++)
        for (int utf8 = 0; utf8 < 2; utf8++) {
            char *text = frame_of(&w, SIZES[i][0], SIZES[i][1], utf8);
            assert_int_equal(lines_of(text), SIZES[i][1]);
            assert_true(widest(text) <= SIZES[i][0]);
            ASSERT_CONTAINS(text, "run");
            ASSERT_CONTAINS(text, "q quit");
            for (const char *p = text; !utf8 && *p; p++)
                assert_true((unsigned char)*p < 128);
            if (SIZES[i][1] >= 24) {
                ASSERT_CONTAINS(text, "step 100000");
                ASSERT_CONTAINS(text, "accuracy");
                ASSERT_CONTAINS(text, "checkpoint written, 1.0 KiB");
                ASSERT_CONTAINS(text, utf8 ? "\xe2\xa0" : "***"); /* curves */
            }
            free(text);
        }
    char *text = frame_of(&w, 110, 0, true);
    ASSERT_CONTAINS(text, "loss 1  lr 0.1");
    ASSERT_CONTAINS(text, "evaluation at step 99999:  loss 1.25  accuracy 75.00%");
    ASSERT_CONTAINS(text, "best eval_loss 0.25 at step 4");
    ASSERT_CONTAINS(text, "2 steps/s  16 samples/s");
    free(text);
    ls_watch_release(&w);
}

static void only_new_rows_are_read(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    result("running", "null");
    write_steps(1, 10);
    free(frame_of(&w, 80, 24, true));
    const int64_t read = w.history.read;
    assert_int_equal(w.history.n_steps, 10);
    put("metrics.jsonl", "ae", "{\"kind\":\"step\",\"step\":11,"); /* half a row: it waits for its end */
    free(frame_of(&w, 80, 24, true));
    assert_true(w.history.n_steps == 10 && w.history.read == read && w.history.bad_lines == 0);
    put("metrics.jsonl", "ae", "\"epoch\":0,\"loss\":3,\"seconds\":1,\"attempt\":0}\n");
    free(frame_of(&w, 80, 24, true));
    assert_true(w.history.n_steps == 11 && w.history.steps[10].row.step == 11);
    put("metrics.jsonl", "we", ""); /* another run of this name */
    write_steps(1, 3);
    free(frame_of(&w, 80, 24, true));
    assert_int_equal(w.history.n_steps, 3);
    ls_watch_release(&w);
}

static void a_crash_and_its_warnings_are_shown(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    result("failed", "\"rank 1: killed\\u001b[2J by signal 9\"");
    write_steps(1, 5);
    put("metrics.jsonl", "ae",
        "{\"kind\":\"restart\",\"step\":2,\"steps_lost\":3,\"cause\":\"rank 0: lost\",\"pause\":1,"
        "\"attempt\":1}\n");
    put("log/rank-0.log", "we",
        "2026-11-23T22:15:51.000Z info    epoch 1\n2026-11-23T22:15:52.000Z warning first\n"
        "2026-11-23T22:15:53.000Z warning waiting for rank 1\n2026-11-23T22:15:54.000Z error   third\n"
        "2026-11-23T22:15:55.000Z warning half a li");
    for (int i = 0; i < 2; i++) { /* a second look shows no warning twice */
        char *text = frame_of(&w, 110, 0, false);
        ASSERT_CONTAINS(text, "run  failed");
        ASSERT_CONTAINS(text, "killed\\x1b[2J by signal 9");
        ASSERT_CONTAINS(text, "attempt 1 continues, 3 steps repeated: rank 0: lost");
        ASSERT_CONTAINS(text, "warning first\n");
        ASSERT_CONTAINS(text, "warning waiting for rank 1\n2026-11-23T22:15:54.000Z error   third\n");
        assert_null(strstr(text, "half"));
        assert_null(strstr(text, " left"));
        assert_null(strchr(text, '\033'));
        free(text);
    }
    put("log/rank-0.log", "ae", "ne\n");
    char *text = frame_of(&w, 110, 0, false);
    assert_null(strstr(text, "warning first"));
    ASSERT_CONTAINS(text, "error   third\n2026-11-23T22:15:55.000Z warning half a line\n");
    free(text);
    ls_watch_release(&w);
}

static void a_run_that_has_not_started_is_named(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    put("recipe.yaml", "we", "");
    char *text = frame_of(&w, 80, 24, true);
    ASSERT_CONTAINS(text, "not started");
    free(text);
    put("result.json", "we", "{\"state\":");
    text = frame_of(&w, 80, 24, true);
    ASSERT_CONTAINS(text, "result.json");
    free(text);
    result("starting", "null");
    text = frame_of(&w, 80, 24, true);
    ASSERT_CONTAINS(text, "run  died"); /* no process holds its lock */
    free(text);
    ls_watch_release(&w);
}

static void the_late_rank_is_named(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    result("running", "null");
    heartbeat(0, 40, 50, 1);
    for (int rank = 1; rank < 40; rank++)
        heartbeat(rank, 40, rank == 37 ? 2 : 50 + 0.1 * rank, 1);
    char *text = frame_of(&w, 120, 24, true);
    ASSERT_CONTAINS(text, "  37  training          100     1.0 MiB / 2.0 MiB       2%");
    ASSERT_CONTAINS(text, "node37  late: the others wait for it");
    ASSERT_CONTAINS(text, "36 more ranks wait 50% to 54% of their time");
    free(text);
    text = frame_of(&w, 120, 0, true); /* all of them */
    for (int rank = 0; rank < 40; rank++) {
        char host[16];
        snprintf(host, sizeof host, "node%d%s", rank, rank == 37 ? "  late" : "\n");
        ASSERT_CONTAINS(text, host);
    }
    assert_null(strstr(text, "more ranks"));
    free(text);
    ls_watch_release(&w);
}

static void reports_of_a_program_are_drawn(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    put("config.txt", "we", "");
    put("result.json", "we",
        "{\"state\":\"finished\",\"time\":1,\"step\":2,\"epoch\":2,\"metrics\":{\"residual\":0.125,"
        "\"memory\":3}}");
    put("metrics.jsonl", "we",
        "{\"kind\":\"report\",\"report\":0,\"step\":1,\"epoch\":0,\"residual\":0.5,\"memory\":1,\"seconds\":"
        "1,\"attempt\":0}\n{\"kind\":\"report\",\"report\":1,\"step\":2,\"epoch\":1,\"residual\":0.125,"
        "\"memory\":3,\"seconds\":1,\"attempt\":0}\n");
    char *text = frame_of(&w, 100, 30, true);
    ASSERT_CONTAINS(text, "run  finished");
    ASSERT_CONTAINS(text, "residual 0.125  memory 3");
    ASSERT_CONTAINS(text, "\xe2\xa0");
    free(text);
    ls_watch_release(&w);
}

/* A number of ranks that no run has is damage: nobody makes room for so many. */
static void a_damaged_heartbeat_is_none(void **state)
{
    (void)state;
    static const int RANKS[] = { 0, -1, 1000001, 2147483647 };
    ls_heartbeat h;
    for (size_t i = 0; i < sizeof RANKS / sizeof RANKS[0]; i++) {
        heartbeat(0, RANKS[i], 1, 1);
        assert_false(ls_heartbeat_read(&h, run_dir, 0));
    }
    put("log/rank-0.heartbeat.json", "we", "{\"ranks\": 4294967298}"); /* 2 in 32 bits */
    assert_false(ls_heartbeat_read(&h, run_dir, 0));
    heartbeat(0, 1000000, 1, 1);
    assert_true(ls_heartbeat_read(&h, run_dir, 0));
}

/* What the loop writes is what watch reads; once a second at most; nothing is allocated. */
static void a_heartbeat_is_one_write(void **state)
{
    (void)state;
    const char *sets[2] = { "run.name=one" };
    char storage[600];
    ls_recipe *r;
    ls_rundir *d;
    ls_heartbeat h;
    snprintf(storage, sizeof storage, "run.storage=%s", ls_test_path("storage"));
    sets[1] = storage;
    ASSERT_OK(ls_recipe_load(&r, "mlp-mnist", 2, sets));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    assert_false(ls_heartbeat_read(&h, d->path, 0));
    const ls_heartbeat sent = {
        .ranks = 3, .step = 5, .steps = 9, .seconds = 2, .waited = 0.5, .planned = 64, .doing = "training"
    };
    ls_heartbeat_write(d, &sent, true);
    ls_heartbeat_write(d, &(ls_heartbeat){ .ranks = 3, .step = 6 }, false); /* too soon */
    assert_true(ls_heartbeat_read(&h, d->path, 0));
    assert_true(h.ranks == 3 && h.step == 5 && h.steps == 9 && h.seconds == 2 && h.waited == 0.5 &&
                h.planned == 64 && h.age >= 0 && h.age < 60);
    /* (a sanitizer's own memory grows meanwhile) */
    assert_true(h.memory > 0 && llabs((long long)h.memory - (long long)ls_anonymous_rss()) < 64 << 20);
    assert_string_equal(h.doing, "training");
    ls_heartbeat_write(d, &(ls_heartbeat){ .ranks = 1, .step = 7 }, true);
    assert_true(ls_heartbeat_read(&h, d->path, 0) && h.step == 7 && !*h.doing);
    assert_int_equal(ls_file_size(ls_test_path("storage/one/log/rank-0.heartbeat.json")), 512);
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ls_recipe_destroy(&r);
}

#define TEST(name) cmocka_unit_test_setup(name, new_run)
/* The share of waits is that since the last look that is long enough ago, and of the present attempt alone.
 */
static void waits_are_of_late(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    static const struct {
        int attempt;
        double seconds, waited, share;
    } LOOKS[] = {
        { 0, 100, 50, 0.5 },                    /* all there is */
        { 0, 102, 52, 0.5 },                    /* too short ago */
        { 0, 110, 51, 0.1 },                    /* since the first */
        { 1, 200, 60, 0.3 }, { 1, 10, 1, 0.1 }, /* an attempt anew, and another machine's clock */
    };
    result("running", "null");
    for (size_t i = 0; i < sizeof LOOKS / sizeof LOOKS[0]; i++) {
        heartbeat_of(0, 1, LOOKS[i].attempt, LOOKS[i].seconds, LOOKS[i].waited, 1);
        ASSERT_OK(ls_watch_read(&w));
        assert_true(fabs(w.ranks[0].share - LOOKS[i].share) < 1e-12);
    }
    ls_watch_release(&w);
}

/* Of a long log the end is read. */
static void the_last_warnings_of_a_long_log(void **state)
{
    (void)state;
    ls_watch w = { .dir = run_dir };
    result("running", "null");
    put("log/rank-0.log", "we", "2026-11-23T22:15:51.000Z warning long ago\n");
    for (int i = 0; i < 1000; i++)
        put("log/rank-0.log", "ae", "2026-11-23T22:15:52.000Z info    a step\n");
    put("log/rank-0.log", "ae", "2026-11-23T22:15:53.000Z warning of late\n");
    ASSERT_OK(ls_watch_read(&w));
    assert_true(w.warnings[0] && !w.warnings[1]);
    ASSERT_CONTAINS(w.warnings[0], "warning of late");
    ls_watch_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(waits_are_of_late),
        TEST(the_last_warnings_of_a_long_log),
        TEST(a_long_run_fits_at_every_size),
        TEST(only_new_rows_are_read),
        TEST(a_crash_and_its_warnings_are_shown),
        TEST(a_run_that_has_not_started_is_named),
        TEST(the_late_rank_is_named),
        TEST(reports_of_a_program_are_drawn),
        TEST(a_heartbeat_is_one_write),
        TEST(a_damaged_heartbeat_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
