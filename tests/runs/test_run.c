/* test_run.c - runs of a program of its own: reports, checkpoints from rank 0 alone, from all ranks and from
 * trainers, continuing on other numbers of ranks, what stays and what is the best, ranks that do not agree,
 * failures, and the result as others read it. */
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "golden/training.h"
#include "lockstep/run.h"
#include "record/rundir.h"
#include "support/ranks.h"
#include "support/support.h"

static char storage[512];

static int open_storage(void **state)
{
    (void)state;
    if (ls_dir_exists("/dev/shm"))
        setenv("TMPDIR", "/dev/shm", 1); /* thousands of fsync that test nothing */
    snprintf(storage, sizeof storage, "%s", ls_test_path("storage"));
    return 0;
}

static char *contents(const char *run, const char *name)
{
    char path[1200], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/%s/%s", storage, run, name);
    ASSERT_OK(ls_file_read(&text, &size, path));
    return text;
}

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
    char *rows = contents("loop", "metrics.jsonl"), *csv = contents("loop", "metrics.csv"),
         *config = contents("loop", "config.txt");
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
    char *page = contents("loop", "report.html");
    ASSERT_CONTAINS(page, "state finished");
    ASSERT_CONTAINS(page, "<h2>eval_loss</h2>");
    ASSERT_CONTAINS(page, "<h2>rate</h2>");
    ASSERT_CONTAINS(page, "width = 4");
    ASSERT_CONTAINS(page, "best, latest");
    free(page);
    free(rows);
    free(csv);
    free(config);
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

    /* A damaged old one does not stand in the way; a damaged newest one is told, with what to do. */
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
    ASSERT_FAILS(ls_report(run, &one, 1, &c), LS_E_ARG, "\"b\"", "4 elements from number 0",
                 "of a tensor of 3");
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
    ASSERT_FAILS(ls_rundir_open(&d, r), LS_E_USAGE, "refused holds a run of a program of its own");
    ASSERT_OK(ls_recipe_set(r, "run.name", "recipes", "test"));
    ASSERT_OK(ls_rundir_open(&d, r));
    ASSERT_OK(ls_rundir_close(&d, LS_RUN_FINISHED, NULL));
    ls_recipe_destroy(&r);
    ASSERT_FAILS(ls_run_open(&run, storage, "recipes", NULL), LS_E_USAGE, "recipes holds a run of a recipe");
    ASSERT_OK(ls_result_read(&result, ls_test_path("storage/recipes")));
    assert_string_equal(result->state, "finished");
    assert_int_equal(result->n_metrics, 0);
    ls_result_free(&result);
}

/* ---- ranks: one tensor of ROWS rows, dealt in blocks, whose rows say which step wrote them */

enum { ROWS = 7, COLUMNS = 3 };
typedef struct block {
    double rows[ROWS][COLUMNS], offset;
    ls_shard shards[2];
} block;

static ls_run_contents dealt(block *b, ls_group *g, int64_t step, const char *text)
{
    const int rank = ls_group_rank(g), ranks = ls_group_size(g), first = ROWS * rank / ranks,
              end = ROWS * (rank + 1) / ranks;
    for (int i = first; i < end; i++)
        for (int k = 0; k < COLUMNS; k++)
            b->rows[i][k] = (double)(100 * step + 10 * i + k);
    b->offset = (double)step / 3;
    b->shards[0] = (ls_shard){ "field", LS_TYPE(LS_F64, ROWS, COLUMNS), (int64_t)first * COLUMNS,
                               (int64_t)(end - first) * COLUMNS, b->rows[first] };
    b->shards[1] = (ls_shard){ "offset", LS_SCALAR(LS_F64), 0, rank == 0, &b->offset };
    return (ls_run_contents){ .shards = b->shards, .n = 2, .text = text };
}

static bool same_rows(const block *a, const block *b, ls_group *g)
{
    const int rank = ls_group_rank(g), ranks = ls_group_size(g), first = ROWS * rank / ranks,
              end = ROWS * (rank + 1) / ranks;
    return memcmp(a->rows[first], b->rows[first], sizeof a->rows[0] * (size_t)(end - first)) == 0;
}

typedef struct scene {
    const char *name;
    int from, to;         /* reports */
    bool alone;           /* rank 0 has everything */
    int wrong;            /* what rank 1 does otherwise; 0: nothing */
    _Atomic int failures; /* ranks that saw an error */
} scene;

/* Loads what is there, compares, reports on. On any number of ranks, by whomever it was written. */
static ls_status go_on(ls_group *g, void *context)
{
    const scene *s = context;
    const int rank = ls_group_rank(g);
    ls_run *run;
    ls_result *result;
    block b = { 0 }, expected;
    char text[32];
    LS_TRY(ls_run_open(&run, storage, s->name, g, .best = "loss"));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    RANK_CHECK(!last == !s->from);
    if (last) {
        RANK_CHECK(last->step == s->from && last->epoch == s->from - 1 && atoi(last->text) == s->from &&
                   last->n_metrics == 1);
        RANK_CHECK(last->metrics[0].value == 1.0 / s->from); /* rank 0's, on all */
        const ls_run_contents mine = dealt(&b, g, 0, NULL);
        dealt(&expected, g, s->from, NULL);
        LS_TRY(ls_run_load(run, last->path, &mine));
        RANK_CHECK(same_rows(&b, &expected, g) && (rank || b.offset == expected.offset));
    }
    for (int i = s->from; i < s->to; i++) {
        bool stop;
        ls_run_contents mine = dealt(&b, g, i + 1, text);
        snprintf(text, sizeof text, "%d", rank ? -1 : i + 1);
        for (int k = 0; s->alone && k < ROWS * COLUMNS; k++)
            (&b.rows[0][0])[k] = 100 * (i + 1) + 10 * (k / COLUMNS) + k % COLUMNS;
        if (s->alone) {
            b.shards[0].first = 0;
            b.shards[0].count = ROWS * COLUMNS;
            b.shards[0].data = b.rows;
        }
        LS_TRY(ls_run_stop_requested(run, rank == 1 && i == s->to - 1, &stop));
        RANK_CHECK(stop == (ls_group_size(g) > 1 && i == s->to - 1));
        const ls_metric loss = { "loss", rank ? 7 : 1.0 / (i + 1) };
        LS_TRY(ls_report(run, &loss, 1, s->alone && rank ? NULL : &mine));
        RANK_CHECK(ls_latest_checkpoint(run)->step == i + 1 &&
                   atoi(ls_latest_checkpoint(run)->text) == i + 1);
    }
    LS_TRY(ls_run_finish(&run, LS_OK, &result));
    RANK_CHECK(result->step == s->to && result->n_metrics == 1 && result->metrics[0].value == 1.0 / s->to &&
               result->best == result->latest);
    ls_result_free(&result);
    return LS_OK;
}

static void checkpoints_do_not_know_how_many_ranks_there_were(void **state)
{
    (void)state;
    static const int RANKS[] = { 2, 1, 4, 3 };
    for (int i = 0; i < 4; i++)
        ASSERT_OK(run_ranks(RANKS[i], go_on, &((scene){ "dealt", 2 * i, 2 * i + 2, .alone = i == 2 })));
    ASSERT_OK(ls_checkpoint_verify(ls_test_path("storage/dealt/checkpoints/latest"), LS_VERIFY_FULL, NULL));
    char *rows = contents("dealt", "metrics.jsonl"), *log = contents("dealt", "log/rank-3.log");
    int reports = 0;
    for (const char *p = rows; (p = strstr(p, "\"kind\":\"report\"")); p++)
        reports++;
    assert_int_equal(reports, 8);
    ASSERT_CONTAINS(rows, "\"attempt\":3");
    ASSERT_CONTAINS(log, "attempt 2 continues from ");
    ASSERT_CONTAINS(log, "dealt/checkpoints/step-00000004\n");
    free(rows);
    free(log);
}

/* ---- ranks that do not do the same */

enum {
    OTHER_METRIC = 1,
    FEWER_METRICS,
    NO_CHECKPOINT,
    OTHER_SHAPE,
    OTHER_STEP,
    BAD_NAME,
    FEWER_REPORTS,
    STOPS,
    OTHER_CALL,
    FAILS,
    SLEEPS,
    UNCOVERED
};

static ls_status disagree(ls_group *g, ls_run *run, scene *s)
{
    block b;
    ls_run_contents mine = dealt(&b, g, 1, NULL), *c = &mine;
    ls_metric metrics[] = { { "loss", 1 }, { "accuracy", 2 } };
    int64_t n = 2, step = 1;
    bool stop;
    LS_TRY(ls_report(run, metrics, 2, c, .step = step++));
    if (s->wrong == SLEEPS && ls_group_rank(g) == 0) /* the others wait for as long as it takes */
        ls_group_set_deadline(g, 0.1);
    switch (ls_group_rank(g) == 1 ? s->wrong : 0) {
    case OTHER_METRIC: metrics[1].name = "precision"; break;
    case FEWER_METRICS: n = 1; break;
    case NO_CHECKPOINT: c = NULL; break;
    case OTHER_SHAPE: b.shards[1].type = LS_TYPE(LS_F64, 1); break;
    case OTHER_STEP: step = 9; break;
    case BAD_NAME: metrics[0].name = "the loss"; break;
    case FEWER_REPORTS: return LS_OK;
    case STOPS: return ls_run_stop_requested(run, false, &stop);
    case OTHER_CALL: return ls_group_barrier(g);
    case FAILS: return ls_fail(LS_E_NUMERIC, "the sea is dry");
    case SLEEPS:
        while (atomic_load(&s->failures) < 2) /* until the others have given up */
            usleep(1000);
        break;
    case UNCOVERED: b.shards[0].count--; break;
    default: break;
    }
    return ls_report(run, metrics, n, c, .step = step);
}

static ls_status quarrel(ls_group *g, void *context)
{
    scene *s = context;
    ls_run *run;
    LS_TRY(ls_run_open(&run, storage, s->name, g));
    const ls_status status = ls_run_finish(&run, disagree(g, run, s), NULL);
    atomic_fetch_add(&s->failures, status != LS_OK);
    return status;
}

static void ranks_that_disagree_are_named(void **state)
{
    (void)state;
    static const struct {
        int wrong;
        ls_status status;
        const char *parts[3];
    } CASES[] = {
        { OTHER_METRIC, LS_E_USAGE, { "report 1: rank 1 has metric precision, rank 0 has metric accuracy" } },
        { FEWER_METRICS, LS_E_USAGE, { "report 1: rank 1 has shard field", "rank 0 has metric accuracy" } },
        { NO_CHECKPOINT, LS_E_USAGE, { "report 1: rank 1 brings no checkpoint, rank 0 shards" } },
        { OTHER_SHAPE,
          LS_E_USAGE,
          { "report 1: rank 1 has shard offset f64 1, rank 0 has shard offset f64" } },
        { OTHER_STEP, LS_E_USAGE, { "report 1: rank 1 has step 9, rank 0 has step 2" } },
        { BAD_NAME, LS_E_ARG, { "the loss" } },
        { FEWER_REPORTS, LS_E_USAGE, { "rank 1 came to the end of the run, rank 0 to report 1" } },
        { STOPS, LS_E_USAGE, { "rank 1 came to a question whether to stop, rank 0 to report 1" } },
        { OTHER_CALL, LS_E_ARG, { "rank 1 calls ls_group_barrier where rank 0 calls ls_group_all_gather" } },
        { FAILS, LS_E_NUMERIC, { "the sea is dry" } },
        { SLEEPS, LS_E_PEER, { "rank 1: did not come within 0.1 s", "report 0 of run" } },
        { UNCOVERED, LS_E_ARG, { "model.safetensors" } },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char name[32], directory[64];
        ls_result *result;
        snprintf(name, sizeof name, "wrong-%zu", i);
        snprintf(directory, sizeof directory, "storage/%s", name);
        scene s = { name, .wrong = CASES[i].wrong };
        const ls_status status = run_ranks(3, quarrel, &s);
        if (status != CASES[i].status && status != LS_E_PEER) /* of the rank that was the first to end */
            fail_msg("case %zu: %s: %s", i, ls_status_name(status), ls_error_message());
        assert_int_equal(s.failures, 3);
        for (int k = 0; k < 3 && CASES[i].parts[k]; k++)
            ASSERT_CONTAINS(ls_error_message(), CASES[i].parts[k]);
        ASSERT_OK(ls_result_read(&result, ls_test_path(directory)));
        assert_string_equal(result->state, "failed");
        ASSERT_CONTAINS(result->error, CASES[i].parts[0]); /* one message, for all */
        assert_int_equal(result->latest->step, 1);         /* and what was committed before is there */
        ls_result_free(&result);
        ASSERT_OK(ls_checkpoint_verify(ls_test_path(strcat(directory, "/checkpoints/latest")), LS_VERIFY_FULL,
                                       NULL));
    }
}

/* ---- trainers: each rank's own, of which rank 0 alone brings one */

static ls_status alone(ls_group *g, void *context)
{
    const bool *all_bring = context;
    const bool first = ls_group_rank(g) == 0;
    ls_run *run;
    ls_trainer *t;
    LS_TRY(ls_run_open(&run, storage, "trainer", g));
    LS_TRY(ls_trainer_create(&t, training_build_mlp, &training_mlp, .micro_batch = 4, .threads = 1));
    const ls_run_contents c = { .trainer = t, .text = "of rank 0" };
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    ls_status s = ls_trainer_init(t, last ? 6 : 5);
    if (s == LS_OK && last)
        s = ls_run_load(run, last->path, &c); /* every rank reads all of it */
    if (s == LS_OK)
        s = ls_report(run, &((ls_metric){ "loss", 1 }), 1, first || *all_bring ? &c : NULL);
    ls_trainer_destroy(&t);
    return ls_run_finish(&run, s, NULL);
}

static void rank_0_alone_brings_its_trainer(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(3, alone, &(bool){ false }));
    ASSERT_OK(run_ranks(2, alone, &(bool){ false }));
    char *one = contents("trainer", "checkpoints/step-00000001/manifest.json"),
         *two = contents("trainer", "checkpoints/step-00000002/manifest.json");
    /* with checksums, and of the optimizer behind it */
    const char *model = strstr(one, "model.safetensors"), *same = strstr(two, "model.safetensors");
    assert_non_null(model);
    assert_memory_equal(model, same, (size_t)(strstr(model, "config.json") - model));
    free(one);
    free(two);
    assert_true(run_ranks(2, alone, &(bool){ true }) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "report 2: every rank brings a trainer of its own");
}

/* ---- what the system refuses */

static ls_status one_more(ls_group *g, void *context)
{
    (void)context;
    ls_run *run;
    block b;
    LS_TRY(ls_run_open(&run, storage, "refuses", g, .keep = 1));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    const ls_run_contents c = dealt(&b, g, last ? last->step + 1 : 1, NULL);
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
    const ls_run_contents c = dealt(&b, self, 0, NULL);
    dealt(&expected, self, step, NULL);
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
    static const ls_failing HOW[] = { LS_FAIL_ONCE, LS_FAIL_ON };
    int told = 0;
    for (int h = 0; h < 2; h++)
        for (int64_t n = 0;; n += 1 + 2 * h) {
            /* goes on, and removes what the last one did not come to */
            ASSERT_OK(run_ranks(2, one_more, NULL));
            assert_int_equal(ls_test_count(ls_test_path("storage/refuses/checkpoints")), 2); /* and latest */
            const int64_t known = expect_whole(1, INT64_MAX);
            ls_fault_arm(LS_POINTS_OF_FILES, n, HOW[h]);
            const ls_status s = run_ranks(2, one_more, NULL);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_reports_and_goes_on),
        cmocka_unit_test(the_newest_and_the_best_stay),
        cmocka_unit_test(as_many_of_the_best_stay),
        cmocka_unit_test(a_named_checkpoint_stands_beside),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(checkpoints_do_not_know_how_many_ranks_there_were),
        cmocka_unit_test(ranks_that_disagree_are_named),
        cmocka_unit_test(rank_0_alone_brings_its_trainer),
        cmocka_unit_test(every_refusal_is_told_and_harms_nothing),
    };
    return cmocka_run_group_tests(tests, open_storage, NULL);
}
