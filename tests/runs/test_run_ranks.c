/* test_run_ranks.c - runs of a program on several ranks: checkpoints that do not depend on the number of
 * ranks, ranks that disagree, a trainer that rank 0 alone brings. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "golden/training.h"
#include "lockstep/run.h"
#include "record/rundir.h"
#include "runs/run_own.h"
#include "support/ranks.h"
#include "support/support.h"
#include "runs/storage.h"

/* ---- ranks: one tensor of ROWS rows, dealt in blocks, whose rows say which step wrote them */

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
    LS_TRY(ls_run_open(&run, storage, s->name, g, .best = "loss", .per_rank = s->from != 4));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    RANK_CHECK(!last == !s->from);
    if (last) {
        RANK_CHECK(last->step == s->from && last->epoch == s->from - 1 && atoi(last->text) == s->from &&
                   last->n_metrics == 1);
        RANK_CHECK(last->metrics[0].value == 1.0 / s->from); /* rank 0's, on all */
        const ls_run_contents mine = dealt_block(&b, g, 0, NULL);
        dealt_block(&expected, g, s->from, NULL);
        LS_TRY(ls_run_load(run, last->path, &mine));
        RANK_CHECK(same_rows(&b, &expected, g) && (rank || b.offset == expected.offset));
    }
    for (int i = s->from; i < s->to; i++) {
        bool stop;
        ls_run_contents mine = dealt_block(&b, g, i + 1, text);
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
    assert_true(ls_file_exists(
        ls_test_path("storage/dealt/checkpoints/latest/model-rank-00002.safetensors"))); /* of 3 */
    char *rows = file_of_run("dealt", "metrics.jsonl"), *log = file_of_run("dealt", "log/rank-3.log");
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

/* ---- hosts that share no folder: the shards are compared before they are written */

static ls_status cover(ls_group *g, void *context)
{
    block b;
    ls_run_contents mine = dealt_block(&b, g, 1, NULL);
    const int wrong = *(const int *)context;
    if (ls_group_rank(g) == 1 && wrong)
        b.shards[0].count -= wrong;
    if (ls_group_rank(g) == 1 && wrong < 0)
        b.shards[0].first += wrong;
    const ls_status s = ls_run_check_cover(g, &mine, "report 0");
    return s == LS_E_PEER ? LS_OK : s; /* so that rank 0's status is the run's */
}

static void shards_are_each_element_once(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(3, cover, &(int){ 0 }));
    ASSERT_FAILS(run_ranks(3, cover, &(int){ 1 }), LS_E_ARG, "comes from no rank");
    ASSERT_FAILS(run_ranks(3, cover, &(int){ -1 }), LS_E_ARG, "comes from two ranks");
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
    ls_run_contents mine = dealt_block(&b, g, 1, NULL), *c = &mine;
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
    char *one = file_of_run("trainer", "checkpoints/step-00000001/manifest.json"),
         *two = file_of_run("trainer", "checkpoints/step-00000002/manifest.json");
    /* with checksums, and of the optimizer behind it */
    const char *model = strstr(one, "model.safetensors"), *same = strstr(two, "model.safetensors");
    assert_non_null(model);
    assert_memory_equal(model, same, (size_t)(strstr(model, "config.json") - model));
    free(one);
    free(two);
    assert_true(run_ranks(2, alone, &(bool){ true }) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "report 2: every rank brings a trainer of its own");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_each_element_once),
        cmocka_unit_test(checkpoints_do_not_know_how_many_ranks_there_were),
        cmocka_unit_test(ranks_that_disagree_are_named),
        cmocka_unit_test(rank_0_alone_brings_its_trainer),
    };
    return cmocka_run_group_tests(tests, open_storage, NULL);
}
