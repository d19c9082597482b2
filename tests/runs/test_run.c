/* test_run.c - runs of a program on one rank: reports, checkpoints, what is refused, and what the system
 * refuses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "golden/training.h"
#include "lockstep/run.h"
#include "record/heartbeat.h"
#include "support/ranks.h"
#include "support/support.h"
#include "runs/storage.h"

static bool is_there(const char *run, const char *name)
{
    char path[1200];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s/%s", storage, run, name);
    return lstat(path, &st) == 0;
}

static double metric(const ls_run_checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < c->n_metrics; i++)
        if (!strcmp(c->metrics[i].name, name))
            return c->metrics[i].value;
    return NAN;
}

/* ---- one rank */

/* Two tensors, full, whose elements say which step wrote them. */
typedef struct arrays {
    double a[6];
    float b[3];
    ls_shard shards[2];
} arrays;

static ls_run_contents whole(arrays *x, int64_t step, const char *text)
{
    for (int i = 0; i < 6; i++)
        x->a[i] = (double)step + 0.125 * i;
    for (int i = 0; i < 3; i++)
        x->b[i] = (float)(-step - i);
    x->shards[0] = (ls_shard){ "a", LS_TYPE(LS_F64, 2, 3), 0, 6, x->a };
    x->shards[1] = (ls_shard){ "b", LS_TYPE(LS_F32, 3), 0, 3, x->b };
    return (ls_run_contents){ .shards = x->shards, .n = 2, .text = text };
}

static void a_loop_reports_and_goes_on(void **state)
{
    (void)state;
    ls_run *run;
    ls_result *result;
    ls_heartbeat beat;
    arrays x, y;
    ASSERT_OK(ls_run_open(&run, storage, "loop", NULL, .config = "width = 3\n", .best = "eval_loss"));
    const ls_run_place *p = ls_run_where(run);
    assert_int_equal(p->rank + p->local_rank + p->attempt, 0);
    assert_int_equal(p->ranks * p->local_ranks * p->hosts, 1);
    assert_string_equal(p->name, "loop");
    assert_string_equal(p->storage, storage);
    assert_null(ls_latest_checkpoint(run));
    ls_run_contents c = whole(&x, 10, "{\"at\": \"first\"}");
    ASSERT_OK(ls_report(run, ((ls_metric[]){ { "loss", 0.5 }, { "eval_loss", 0.75 } }), 2, &c, .step = 10));
    ASSERT_OK(ls_report(run, ((ls_metric[]){ { "loss", 0.25 } }), 1, NULL, .step = 15));
    c = whole(&x, 20, "second");
    ASSERT_OK(ls_report(run, ((ls_metric[]){ { "loss", NAN }, { "eval_loss", 0.875 }, { "rate", 1e-3 } }), 3,
                        &c, .step = 20, .epoch = 7));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    assert_int_equal(last->step, 20);
    assert_int_equal(last->epoch, 7);
    assert_string_equal(last->text, "second");
    ASSERT_CONTAINS(last->path, "loop/checkpoints/step-00000020");
    bool stop;
    ASSERT_OK(ls_run_stop_requested(run, false, &stop));
    assert_false(stop);
    ASSERT_OK(ls_run_stop_requested(run, true, &stop));
    assert_true(stop);
    ASSERT_FAILS(ls_run_finish(&run, ls_fail(LS_E_STOPPED, "at your word"), &result), LS_E_STOPPED,
                 "at your word");
    assert_null(run);
    char dir[700];
    snprintf(dir, sizeof dir, "%s/loop", storage);
    assert_true(ls_heartbeat_read(&beat, dir, 0) && beat.step == 20);
    assert_string_equal(beat.doing, "stopped");
    assert_string_equal(result->state, "stopped");
    assert_string_equal(result->name, "loop");
    assert_null(result->error);
    assert_int_equal(result->step, 20);
    assert_int_equal(result->n_metrics, 3);
    assert_true(isnan(result->metrics[0].value) && result->metrics[1].value == 0.875);
    assert_int_equal(result->n_checkpoints, 2);
    assert_int_equal(result->latest->step, 20);
    assert_int_equal(result->best->step, 10);
    assert_true(metric(result->best, "eval_loss") == 0.75 && metric(result->best, "loss") == 0.5);
    assert_ptr_equal(ls_result_best(result, "eval_loss", true), result->latest);
    assert_ptr_equal(ls_result_best(result, "eval_loss", false), result->best);
    assert_ptr_equal(ls_result_best(result, "loss", false), result->best); /* NaN is not */
    assert_null(ls_result_best(result, "nothing", false));
    ls_result_free(&result);
    ls_result_free(&result);

    /* Started again: another process would find the same. */
    ASSERT_OK(ls_run_open(&run, storage, "loop", NULL, .config = "width = 4\n", .best = "eval_loss"));
    assert_int_equal(ls_run_where(run)->attempt, 1);
    last = ls_latest_checkpoint(run);
    assert_int_equal(last->step, 20);
    assert_int_equal(last->epoch, 7);
    assert_string_equal(last->text, "second");
    assert_true(metric(last, "rate") == 1e-3);
    whole(&x, 20, NULL);
    c = whole(&y, 0, NULL);
    ASSERT_OK(ls_run_load(run, last->path, &c));
    assert_memory_equal(x.a, y.a, sizeof x.a);
    assert_memory_equal(x.b, y.b, sizeof x.b);
    /* step 21, epoch 3 */
    ASSERT_OK(ls_report(run, ((ls_metric[]){ { "loss", 0.125 }, { "eval_loss", 0.7 } }), 2, &c));
    ASSERT_OK(ls_run_finish(&run, LS_OK, &result));
    assert_string_equal(result->state, "finished");
    assert_int_equal(result->attempt, 1);
    assert_int_equal(result->epoch, 3);
    assert_int_equal(result->best->step, 21);
    assert_int_equal(result->n_checkpoints, 2); /* the best of before need not stay */
    ls_result_free(&result);
    char *head = file_of_run("loop", "checkpoints/step-00000021/trainer.json");
    assert_string_equal(head, "{\"step\":21,\"last_epoch\":3,\"world\":1,\"version\":\"" LS_VERSION
                              "\",\"metrics\":{\"loss\":0.125,\"eval_loss\":0.7},\"text\":\"\","
                              "\"epoch\":3,\"report\":3}\n");
    free(head);
    char *rows = file_of_run("loop", "metrics.jsonl"), *csv = file_of_run("loop", "metrics.csv"),
         *config = file_of_run("loop", "config.txt");
    ASSERT_CONTAINS(rows, "{\"kind\":\"report\",\"report\":0,\"step\":10,\"epoch\":0,\"loss\":0.5,\"eval_"
                          "loss\":0.75,\"seconds\":");
    ASSERT_CONTAINS(rows, "{\"kind\":\"report\",\"report\":3,\"step\":21,\"epoch\":3,\"loss\":0.125,\"eval_"
                          "loss\":0.7,\"seconds\":");
    ASSERT_CONTAINS(rows, "\"loss\":null");
    ASSERT_CONTAINS(csv, "report,step,epoch,seconds,attempt,loss,eval_loss,rate\n0,10,0,");
    ASSERT_CONTAINS(csv, ",0,0.5,0.75,\n"); /* written before there was a rate */
    ASSERT_CONTAINS(csv, ",0,0.25,,\n");
    ASSERT_CONTAINS(csv, ",0,,0.875,0.001\n");
    ASSERT_CONTAINS(csv, ",1,0.125,0.7,\n");
    assert_string_equal(config, "width = 4\n");
    char *page = file_of_run("loop", "report.html");
    ASSERT_CONTAINS(page, "state finished");
    ASSERT_CONTAINS(page, "<h2>Loss</h2>"); /* with that of evaluations, as in every run */
    ASSERT_CONTAINS(page, "<h2>rate</h2>");
    ASSERT_CONTAINS(page, "width = 4");
    ASSERT_CONTAINS(page, "best, latest");
    free(page);
    free(rows);
    free(csv);
    free(config);
}

/* result.json says why there is no best checkpoint, until there is one. */
static void a_best_that_has_no_value(void **state)
{
    (void)state;
    ls_run *run;
    ls_result *result;
    arrays x;
    ASSERT_OK(ls_run_open(&run, storage, "valueless", NULL, .best = "score"));
    for (int i = 0; i < 3; i++) {
        const ls_run_contents c = whole(&x, i, NULL);
        ASSERT_OK(
            ls_report(run, ((ls_metric[]){ { "loss", 1 }, { "score", i < 2 ? NAN : 0.5 } }), i ? 2 : 1, &c));
        char *text = file_of_run("valueless", "result.json");
        const bool said = strstr(text, "\"no_best\":\"score was not reported, or was NaN\"");
        assert_int_equal(said, i < 2);
        assert_int_equal(strstr(text, "\"best\":{") != NULL, i == 2);
        free(text);
    }
    ASSERT_OK(ls_run_finish(&run, LS_OK, &result));
    assert_int_equal(result->best->step, 3);
    ls_result_free(&result);
}

/* Keeps the newest two and the best; a checkpoint that is not a number is never the best. */
static void the_newest_and_the_best_stay(void **state)
{
    (void)state;
    static const double VALUES[] = { 0.2, 0.9, NAN, 0.5, 0.9, 0.1 };
    ls_run *run;
    ls_result *result;
    arrays x;
    for (int start = 0; start < 2; start++) { /* three reports, and three more after a new start */
        ASSERT_OK(ls_run_open(&run, storage, "stays", NULL, .best = "score", .best_is_max = true));
        for (int i = 3 * start; i < 3 * start + 3; i++) {
            const ls_run_contents c = whole(&x, i, NULL);
            ASSERT_OK(ls_report(run, &((ls_metric){ "score", VALUES[i] }), 1, &c));
        }
        ASSERT_OK(ls_run_finish(&run, LS_OK, &result));
        assert_int_equal(result->best->step, 2);
        assert_true(metric(result->best, "score") == 0.9);
        assert_int_equal(result->n_checkpoints, start ? 3 : 2);
        ls_result_free(&result);
    }
    for (int step = 1; step <= 6; step++) {
        char name[64];
        snprintf(name, sizeof name, "checkpoints/step-%08d", step);
        assert_int_equal(is_there("stays", name), step == 2 || step > 4);
    }
    assert_true(is_there("stays", "checkpoints/best/manifest.json") &&
                is_there("stays", "checkpoints/latest/manifest.json"));

    /* What a process that was killed between the checkpoint and the rest did not write is found again:
     * without its links and its result. */
    char path[1200];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/stays/%s", storage,
                 i == 0   ? "checkpoints/best"
                 : i == 1 ? "checkpoints/latest"
                          : "result.json");
        assert_int_equal(unlink(path), 0);
    }
    ASSERT_OK(ls_run_open(&run, storage, "stays", NULL, .best = "score", .best_is_max = true));
    assert_int_equal(ls_latest_checkpoint(run)->step, 6);
    ASSERT_OK(ls_run_finish(&run, LS_OK, &result));
    assert_int_equal(result->n_checkpoints, 3);
    assert_int_equal(result->best->step, 2);
    assert_int_equal(result->latest->step, 6);
    assert_true(is_there("stays", "checkpoints/best/manifest.json") &&
                is_there("stays", "checkpoints/latest/manifest.json"));
    ls_result_free(&result);

    /* A damaged old checkpoint changes nothing. A damaged newest one is an error that says what to do. */
    snprintf(path, sizeof path, "%s/stays/checkpoints/step-00000005/trainer.json", storage);
    ASSERT_OK(ls_file_write(path, "{", 1));
    ASSERT_OK(ls_run_open(&run, storage, "stays", NULL));
    ASSERT_OK(ls_run_finish(&run, LS_OK, NULL));
    snprintf(path, sizeof path, "%s/stays/checkpoints/step-00000006/trainer.json", storage);
    ASSERT_OK(ls_file_write(path, "{", 1));
    ASSERT_FAILS(ls_run_open(&run, storage, "stays", NULL), LS_E_FORMAT, "step-00000006", "remove");
    assert_null(run);
}

/* The three best stay besides the newest, over starts; of equal ones the older. */
static void as_many_of_the_best_stay(void **state)
{
    (void)state;
    static const double VALUES[] = { 0.5, 0.9, NAN, 0.7, 0.6, 0.7, 0.1, 0.2 };
    ls_run *run;
    arrays x;
    for (int start = 0; start < 2; start++) {
        ASSERT_OK(ls_run_open(&run, storage, "three", NULL, .keep = 1, .keep_best = 3, .best = "score",
                              .best_is_max = true));
        for (int i = 4 * start; i < 4 * start + 4; i++) {
            const ls_run_contents c = whole(&x, i, NULL);
            ASSERT_OK(ls_report(run, &((ls_metric){ "score", VALUES[i] }), 1, &c));
        }
        ASSERT_OK(ls_run_finish(&run, LS_OK, NULL));
        for (int step = 1; step <= 8; step++) {
            char name[64];
            snprintf(name, sizeof name, "checkpoints/step-%08d", step);
            assert_int_equal(is_there("three", name), start ? step == 2 || step == 4 || step == 6 || step == 8
                                                            : step == 1 || step == 2 || step == 4);
        }
    }
    ASSERT_FAILS(ls_run_open(&run, storage, "three", NULL, .keep_best = 3), LS_E_ARG, "best");
}

/* A checkpoint with a name of its own stands beside the others: it stays, may be replaced, and the run does
 * not continue from it. */
static void a_named_checkpoint_stands_beside(void **state)
{
    (void)state;
    ls_run *run;
    ls_result *result;
    arrays x;
    for (int start = 0; start < 2; start++) {
        ASSERT_OK(ls_run_open(&run, storage, "named", NULL, .keep = 1));
        const ls_run_checkpoint *last = ls_latest_checkpoint(run);
        assert_true(start ? last && last->step == 1 : !last);
        ls_run_contents c = whole(&x, 1, NULL);
        if (!start)
            ASSERT_OK(ls_report(run, NULL, 0, &c));
        c = whole(&x, 2 + start, "the end");
        ASSERT_OK(ls_report(run, &((ls_metric){ "loss", 0.5 }), 1, &c, .checkpoint = "full_model"));
        assert_int_equal(ls_latest_checkpoint(run)->step, 1);
        ASSERT_FAILS(ls_report(run, NULL, 0, NULL, .checkpoint = "full_model"), LS_E_ARG, "full_model",
                     "holds");
        ASSERT_OK(ls_run_finish(&run, LS_OK, &result));
        assert_int_equal(result->n_checkpoints, 2);
        assert_int_equal(result->latest->step, 1);
        assert_int_equal(result->checkpoints[1].step, 2);
        ASSERT_CONTAINS(result->checkpoints[1].path, "checkpoints/full_model");
        ls_result_free(&result);
        arrays back;
        const ls_run_contents into = whole(&back, 0, NULL);
        char path[1200];
        snprintf(path, sizeof path, "%s/named/checkpoints/full_model", storage);
        ASSERT_OK(ls_run_open(&run, storage, "other", NULL));
        ASSERT_OK(ls_run_load(run, path, &into));
        assert_memory_equal(back.a, x.a, sizeof x.a);
        assert_memory_equal(back.b, x.b, sizeof x.b);
        ASSERT_OK(ls_run_finish(&run, LS_OK, NULL));
    }
    static const char *const WRONG[] = { "", "a/b", ".a", "latest", "best", "step-00000003", "a b" };
    ASSERT_OK(ls_run_open(&run, storage, "named", NULL, .keep = 1));
    const ls_run_contents c = whole(&x, 9, NULL);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        ASSERT_FAILS(ls_report(run, NULL, 0, &c, .checkpoint = WRONG[i]), LS_E_ARG, "a name is");
    ASSERT_OK(ls_run_finish(&run, LS_OK, NULL));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    ls_run *run, *second;
    arrays x;
    ls_result *result;
    const ls_metric one = { "loss", 1 };
    ASSERT_FAILS(ls_run_open(&run, storage, "a/b", NULL), LS_E_ARG, "a/b");
    ASSERT_FAILS(ls_run_open(&run, storage, "refused", NULL, .keep = 0), LS_E_ARG, "keep");
    ASSERT_FAILS(ls_run_open(&run, "gs://bucket/runs", "refused", NULL), LS_E_USAGE,
                 "refused: gs://bucket/runs: gs:// is not supported");
    ASSERT_OK(ls_run_open(&run, storage, "refused", NULL));
    ASSERT_FAILS(ls_run_open(&second, storage, "refused", NULL), LS_E_USAGE, "refused", "another process");
    ASSERT_FAILS(ls_report(run, (&(ls_metric){ "a,b", 1 }), 1, NULL), LS_E_ARG, "a,b");
    ASSERT_FAILS(ls_report(run, (&(ls_metric){ "step", 1 }), 1, NULL), LS_E_ARG, "\"step\"");
    ASSERT_FAILS(ls_report(run, (&(ls_metric){ NULL, 1 }), 1, NULL), LS_E_ARG, "metric");
    ASSERT_FAILS(ls_report(run, ((ls_metric[]){ one, one }), 2, NULL), LS_E_ARG, "loss", "twice");
    ASSERT_OK(ls_report(run, &one, 1, NULL, .step = 5));
    ASSERT_FAILS(ls_report(run, &one, 1, NULL, .step = 5), LS_E_ARG, "step 5, after a report of step 5");
    ASSERT_FAILS(ls_report(run, &one, 1, NULL, .step = 100000000), LS_E_ARG, "99999999");
    ls_run_contents c = whole(&x, 1, NULL);
    c.n = 0;
    ASSERT_FAILS(ls_report(run, &one, 1, &c), LS_E_ARG, "at least one shard");
    c = whole(&x, 1, NULL);
    x.shards[1].count = 4;
    ASSERT_FAILS(ls_report(run, &one, 1, &c), LS_E_ARG, "\"b\"", "4 elements from number 0", "a tensor of 3");
    c = whole(&x, 1, NULL);
    x.shards[0].data = NULL;
    ASSERT_FAILS(ls_report(run, &one, 1, &c), LS_E_ARG, "\"a\"", "NULL");
    ASSERT_OK(ls_report(run, &one, 1, NULL)); /* it goes on after all that */
    ASSERT_FAILS(ls_run_finish(&run, ls_fail(LS_E_NUMERIC, "the sea is dry"), &result), LS_E_NUMERIC,
                 "the sea is dry");
    assert_string_equal(result->state, "failed");
    assert_string_equal(result->error, "the sea is dry");
    assert_int_equal(result->step, 6);
    assert_null(result->latest);
    ls_result_free(&result);
    ASSERT_FAILS(ls_result_read(&result, ls_test_path("storage/nowhere")), LS_E_IO, "nowhere/result.json");
    assert_null(result);

    /* Recipes and programs do not share a folder. */
    ls_recipe *r;
    ls_rundir *d;
    char set[600];
    snprintf(set, sizeof set, "run.storage=%s", storage);
    ASSERT_OK(ls_recipe_load_text(&r, "run: {name: refused}\nmodel: {type: mlp}\ndata: {type: mnist}\n", 60,
                                  "test", 1, (const char *const[]){ set }));
    ASSERT_FAILS(ls_rundir_open_ranks(&d, r, NULL, false), LS_E_USAGE,
                 "refused holds a run of your own program");
    ASSERT_OK(ls_recipe_set(r, "run.name", "recipes", "test"));
    ASSERT_OK(ls_rundir_open_ranks(&d, r, NULL, false));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ls_recipe_destroy(&r);
    ASSERT_FAILS(ls_run_open(&run, storage, "recipes", NULL), LS_E_USAGE, "recipes holds a run of a recipe");
    ASSERT_OK(ls_result_read(&result, ls_test_path("storage/recipes")));
    assert_string_equal(result->state, "finished");
    assert_int_equal(result->n_metrics, 0);
    ls_result_free(&result);
}

/* ---- what the system refuses */

static ls_status one_more(ls_group *g, void *context)
{
    const bool *async = context;
    ls_run *run;
    block b;
    LS_TRY(ls_run_open(&run, storage, "refuses", g, .keep = 1, .async = *async));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    const ls_run_contents c = dealt_block(&b, g, last ? last->step + 1 : 1, NULL);
    return ls_run_finish(&run, ls_report(run, &((ls_metric){ "loss", 1 }), 1, &c), NULL);
}

/* Reads the newest checkpoint back, alone: it is of one of these steps. */
static int64_t expect_whole(int64_t low, int64_t high)
{
    ls_run *run;
    ls_group *self;
    block b, expected;
    ASSERT_OK(ls_group_self(&self));
    ASSERT_OK(ls_run_open(&run, storage, "refuses", self, .keep = 1));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    assert_true(last && last->step >= low && last->step <= high);
    const int64_t step = last->step;
    const ls_run_contents c = dealt_block(&b, self, 0, NULL);
    dealt_block(&expected, self, step, NULL);
    ASSERT_OK(ls_run_load(run, last->path, &c)); /* which checks every byte */
    assert_true(same_rows(&b, &expected, self));
    ASSERT_OK(ls_run_finish(&run, LS_OK, NULL));
    ls_group_destroy(&self);
    return step;
}

/* At every call of two ranks that the system could refuse, once or from then on: said, and the last
 * checkpoint is whole; the next start goes on. */
static void every_refusal_is_told_and_harms_nothing(void **state)
{
    (void)state;
    static const struct {
        ls_failing how;
        bool async;
        int64_t every;
    } CASES[] = { { LS_FAIL_ONCE, false, 1 }, { LS_FAIL_ON, false, 3 }, { LS_FAIL_ONCE, true, 3 } };
    int told = 0;
    for (int h = 0; h < 3; h++)
        for (int64_t n = 0;; n += CASES[h].every) {
            bool async = CASES[h].async;
            /* goes on, and removes what the last one did not come to */
            ASSERT_OK(run_ranks(2, one_more, &async));
            assert_int_equal(ls_test_count(ls_test_path("storage/refuses/checkpoints")), 2); /* and latest */
            const int64_t known = expect_whole(1, INT64_MAX);
            ls_fault_arm(LS_POINTS_OF_FILES, n, CASES[h].how);
            const ls_status s = run_ranks(2, one_more, &async);
            const bool reached = ls_fault_disarm() > n;
            const int64_t now = expect_whole(known, known + 1);
            if (s == LS_OK && now != known + 1)
                fail_msg("refusal %lld: the report went well, but there is no checkpoint", (long long)n);
            if (s != LS_OK && !*ls_error_message())
                fail_msg("refusal %lld is not told", (long long)n);
            told += s != LS_OK;
            if (!reached)
                break;
        }
    assert_true(told > 20);
}

/* As torch.profiler: one step left alone, then cycles of a forgotten step and two that are recorded; what the
 * end cuts off is written, too. */
static void steps_are_profiled(void **state)
{
    (void)state;
    enum { STEPS = 6, BATCH = 4 };
    static const char *const FILES[] = { "log/rank-0.1.trace.json", "log/rank-0.1.memory.html",
                                         "log/rank-0.1.step.html", "log/rank-0.2.trace.json",
                                         "log/rank-0.2.memory.html" };
    static uint8_t images[BATCH * 4 * 4];
    static int32_t labels[BATCH];
    ls_run *run;
    ls_trainer *t;
    ls_step_result r;
    ASSERT_OK(ls_run_open(&run, storage, "profiled", NULL));
    ASSERT_OK(ls_trainer_create(&t, training_build_mlp, &training_mlp, .threads = 1, .micro_batch = BATCH));
    ASSERT_OK(ls_trainer_init(t, 0));
    ASSERT_OK(ls_run_profile_end(run)); /* of none */
    ASSERT_FAILS(ls_run_profile_step(run), LS_E_ARG, "call ls_run_profile before");
    ASSERT_FAILS(ls_run_profile(run, t, .active = 0), LS_E_ARG, "active must be 1 or more");
    ASSERT_FAILS(ls_run_profile(run, t, .wait = -1), LS_E_ARG, "the others 0 or more");
    ASSERT_OK(ls_run_profile(run, t, .skip = 1, .warmup = 1, .active = 2, .repeat = 0));
    for (int step = 1; step <= STEPS; step++) {
        assert_int_equal(is_there("profiled", FILES[0]), step > 4);
        ASSERT_OK(ls_trainer_step(t, images, labels, BATCH, 1e-3, &r));
        ASSERT_OK(ls_run_profile_step(run));
    }
    assert_false(is_there("profiled", FILES[3]));
    ASSERT_OK(ls_run_profile_end(run));
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        assert_true(is_there("profiled", FILES[i]));
    char path[1200], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/profiled/%s", storage, FILES[0]);
    ASSERT_OK(ls_file_read(&text, &size, path));
    assert_non_null(strstr(text, "ProfilerStep#3"));
    assert_non_null(strstr(text, "ProfilerStep#4"));
    assert_null(strstr(text, "ProfilerStep#2\""));
    assert_null(strstr(text, "ProfilerStep#5"));
    free(text);
    ls_trainer_destroy(&t);
    ASSERT_OK(ls_run_finish(&run, LS_OK, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_reports_and_goes_on),
        cmocka_unit_test(a_best_that_has_no_value),
        cmocka_unit_test(the_newest_and_the_best_stay),
        cmocka_unit_test(as_many_of_the_best_stay),
        cmocka_unit_test(a_named_checkpoint_stands_beside),
        cmocka_unit_test(steps_are_profiled),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(every_refusal_is_told_and_harms_nothing),
    };
    return cmocka_run_group_tests(tests, open_storage, NULL);
}
