/* test_run_async.c - checkpoints of a program that are written beside it (ls_run_opts.async): the bytes of
 * those that are not, whatever the program does with its memory meanwhile; when they become the latest one;
 * a thread that fails, and a process that is killed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "comm/shm.h"
#include "golden/training.h"
#include "lockstep/run.h"
#include "runs/storage.h"
#include "support/ranks.h"
#include "support/support.h"

enum { REPORTS = 6 };

typedef struct scene {
    const char *name;
    bool async, alone, trainer;
} scene;

/* The trainer is gone before the run ends: its memory, and its names. */
static ls_status report_trainer(ls_run *run, ls_group *g, int64_t i)
{
    static const ls_mlp_config MLP = { .image_size = 8,
                                       .in_channels = 1,
                                       .classes = 5,
                                       .n_hidden = 1,
                                       .hidden = { 6 },
                                       .mean = 0.5,
                                       .std = 0.5 };
    ls_trainer *t;
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 4, .micro_batches = 2,
                          .group = g };
    o.parallel = ls_parallel_over(g);
    LS_TRY(ls_trainer_create_with(&t, training_build_mlp, &MLP, &o));
    LS_TRY(ls_trainer_init(t, (uint64_t)i));
    const ls_run_contents c = { .trainer = t };
    const ls_status s = ls_report(run, NULL, 0, &c);
    ls_trainer_destroy(&t);
    return s;
}

static ls_status report_block(ls_run *run, ls_group *g, int64_t i, bool alone)
{
    block *b = malloc(sizeof *b);
    char name[32];
    ls_run_contents mine = dealt_block(b, g, i, "here");
    snprintf(name, sizeof name, "offset"); /* so the names are the program's too */
    b->shards[1].name = name;
    for (int k = 0; alone && k < ROWS * COLUMNS; k++)
        (&b->rows[0][0])[k] = (double)(100 * i + k);
    if (alone)
        b->shards[0] = (ls_shard){ "field", LS_TYPE(LS_F64, ROWS, COLUMNS), 0, ROWS * COLUMNS, b->rows };
    const ls_metric loss = { "loss", 1.0 / (double)i };
    const ls_status s = ls_report(run, &loss, 1, alone && ls_group_rank(g) ? NULL : &mine, .epoch = 10 * i,
                                  .checkpoint = i == 3 || i == 5 ? "full" : NULL);
    memset(name, 'x', sizeof name);
    memset(b, 0xa5, sizeof *b);
    free(b);
    return s;
}

static ls_status reports(ls_group *g, void *context)
{
    const scene *s = context;
    ls_run *run;
    ls_result *result;
    LS_TRY(ls_run_open(&run, storage, s->name, g, .best = "loss", .keep = 3, .async = s->async));
    for (int64_t i = 1; i <= REPORTS; i++) {
        bool stop;
        LS_TRY(s->trainer ? report_trainer(run, g, i) : report_block(run, g, i, s->alone));
        if (i % 2)
            LS_TRY(ls_run_stop_requested(run, false, &stop));
    }
    LS_TRY(ls_run_finish(&run, LS_OK, &result));
    RANK_CHECK(result->step == REPORTS && result->latest->step == REPORTS);
    RANK_CHECK(s->trainer ||
               (result->best == result->latest && result->best->metrics[0].value == 1.0 / REPORTS));
    ls_result_free(&result);
    return LS_OK;
}

static void same_file(const char *a, const char *b, const char *file)
{
    char path[2][1200], *text[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s/checkpoints/%s", storage, i ? b : a, file);
        ASSERT_OK(ls_file_read(&text[i], &size[i], path[i]));
    }
    if (size[0] != size[1] || memcmp(text[0], text[1], size[0]))
        fail_msg("%s and %s differ", path[0], path[1]);
    free(text[0]);
    free(text[1]);
}

static void expect_verified(const char *run, const char *folder)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s/checkpoints/%s", storage, run, folder);
    ASSERT_OK(ls_checkpoint_verify(path, LS_VERIFY_FULL, NULL));
}

static void the_same_bytes(void **state)
{
    (void)state;
    static const char *const FOLDERS[] = { "step-00000006", "step-00000004", "full" };
    static const char *const FILES[] = { "model.safetensors", "config.json", "trainer.json",
                                         "optimizer.safetensors" };
    for (int kind = 0; kind < 3; kind++)
        for (int ranks = 1; ranks <= 2; ranks++) {
            const bool trainer = kind == 2;
            char names[2][32];
            for (int async = 0; async < 2; async++) {
                snprintf(names[async], sizeof names[0], "%s-%d-%d", async ? "beside" : "now", kind, ranks);
                ASSERT_OK(run_ranks(ranks, reports,
                                    &(scene){ names[async], async, .alone = kind == 1, .trainer = trainer }));
            }
            for (int k = 0; k < (trainer ? 2 : 3); k++) {
                for (int f = 0; f < (trainer ? 4 : 3); f++) {
                    char file[100];
                    snprintf(file, sizeof file, "%s/%s", FOLDERS[k], FILES[f]);
                    same_file(names[0], names[1], file);
                }
                expect_verified(names[1], FOLDERS[k]);
            }
        }
    char *rows = file_of_run("beside-0-2", "metrics.jsonl"),
         *result = file_of_run("beside-0-2", "result.json");
    ASSERT_CONTAINS(rows, "{\"kind\":\"checkpoint\",\"step\":5,\"epoch\":50,\"path\":\"checkpoints/full\",");
    ASSERT_CONTAINS(result,
                    "{\"path\":\"checkpoints/full\",\"step\":5,\"epoch\":50,\"metrics\":{\"loss\":0.2}}");
    free(rows);
    free(result);
}

/* ---- when it becomes the latest */

static ls_status comes(ls_group *g, void *context)
{
    const bool waits = *(bool *)context;
    ls_run *run;
    block b;
    char name[32];
    snprintf(name, sizeof name, "%s-%d", waits ? "waits" : "asks", ls_group_size(g));
    const ls_run_contents c = dealt_block(&b, g, 1,
                                          ls_group_rank(g) ? "a longer text than that of rank 0" : "0");
    LS_TRY(ls_run_open(&run, storage, name, g, .async = true));
    LS_TRY(ls_report(run, NULL, 0, &c, .step = 10));
    for (bool stop; !waits && !ls_latest_checkpoint(run);)
        LS_TRY(ls_run_stop_requested(run, false, &stop));
    if (waits)
        LS_TRY(ls_run_wait(run));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    RANK_CHECK(last && last->step == 10 && !strcmp(last->text, "0"));
    LS_TRY(ls_run_wait(run));            /* nothing to wait for */
    LS_TRY(ls_report(run, NULL, 0, &c)); /* 11 */
    LS_TRY(ls_report(run, NULL, 0, NULL));
    LS_TRY(ls_run_load(run, last->path, &c)); /* waits for step 11; the report without one does not count */
    RANK_CHECK(ls_latest_checkpoint(run)->step == 11);
    LS_TRY(ls_report(run, NULL, 0, NULL)); /* 13, report 3 */
    return ls_run_finish(&run, LS_OK, NULL);
}

static void it_becomes_the_latest_when_it_is_complete(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks += 2)
        for (int waits = 0; waits < 2; waits++)
            ASSERT_OK(run_ranks(ranks, comes, &(bool){ waits }));
    char *rows = file_of_run("waits-3", "metrics.jsonl");
    ASSERT_CONTAINS(rows, "{\"kind\":\"report\",\"report\":3,\"step\":13,");
    free(rows);
}

/* ---- a thread that fails, and a process that is killed */

static ls_status limit_files(rlim_t bytes)
{
    struct rlimit l;
    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = bytes ? bytes : l.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &l) ? ls_fail(LS_E_INTERNAL, "setrlimit") : LS_OK;
}

/* trainer.json is the largest file, and a thread's. */
static ls_status fails(ls_group *g, void *context)
{
    ls_run *run;
    block b;
    char text[6000] = "";
    memset(text, 'x', sizeof text - 1);
    ls_run_contents c = dealt_block(&b, g, 1, NULL);
    LS_TRY(ls_run_open(&run, storage, context, g, .async = true));
    ls_status s = ls_report(run, NULL, 0, &c);
    if (s == LS_OK)
        s = ls_run_wait(run);
    if (s == LS_OK && ls_group_rank(g) == 0)
        s = limit_files(5000);
    if (s == LS_OK)
        s = ls_group_barrier(g);
    c.text = text;
    if (s == LS_OK)
        s = ls_report(run, NULL, 0, &c); /* its own part is well */
    for (bool stop; s == LS_OK;)
        s = ls_run_stop_requested(run, false, &stop);
    limit_files(0);
    return ls_run_finish(&run, s, NULL);
}

static void a_failed_thread_ends_the_run(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    for (int ranks = 1; ranks <= 2; ranks++) {
        char name[32], path[100];
        snprintf(name, sizeof name, "fails-%d", ranks);
        const ls_status s = run_ranks(ranks, fails, name);
        limit_files(0);
        assert_true(s != LS_OK);
        ASSERT_CONTAINS(ls_error_message(), "step-00000002");
        ASSERT_CONTAINS(ls_error_message(), "trainer.json: cannot write: File too large");
        ls_result *r;
        snprintf(path, sizeof path, "storage/%s", name);
        ASSERT_OK(ls_result_read(&r, ls_test_path(path)));
        assert_string_equal(r->state, "failed");
        ASSERT_CONTAINS(r->error, "File too large");
        assert_int_equal(r->n_checkpoints, 1);
        ls_result_free(&r);
        expect_verified(name, "latest");
        assert_int_equal(ls_test_count(ls_test_path(strcat(path, "/checkpoints"))), 2); /* with the link */
    }
}

/* An element is missing, which is found when all have written. */
static ls_status leaves_a_gap(ls_group *g, void *context)
{
    (void)context;
    ls_run *run;
    block b;
    ls_run_contents c = dealt_block(&b, g, 1, NULL);
    b.shards[0].count -= ls_group_rank(g) == 0;
    LS_TRY(ls_run_open(&run, storage, "gap", g, .async = true));
    ls_status s = ls_report(run, NULL, 0, &c);
    for (bool stop; s == LS_OK;)
        s = ls_run_stop_requested(run, false, &stop);
    return ls_run_finish(&run, s, NULL);
}

static void a_gap_is_found(void **state)
{
    (void)state;
    assert_true(run_ranks(2, leaves_a_gap, NULL) != LS_OK);
    ASSERT_CONTAINS(ls_error_message(), "was written by no rank");
}

/* Each report depends on all before it. */
static ls_status goes_on(ls_group *g, void *context)
{
    ls_run *run;
    block b = { 0 };
    const ls_run_contents c = dealt_block(&b, g, 0, NULL);
    LS_TRY(ls_run_open(&run, storage, context, g, .async = true, .keep = 1));
    const ls_run_checkpoint *last = ls_latest_checkpoint(run);
    if (last)
        LS_TRY(ls_run_load(run, last->path, &c));
    for (int64_t i = last ? last->step : 0; i < REPORTS; i++) {
        for (int k = 0; k < ROWS * COLUMNS; k++)
            (&b.rows[0][0])[k] = (&b.rows[0][0])[k] / 3 + (double)i;
        LS_TRY(ls_report(run, NULL, 0, &c));
    }
    return ls_run_finish(&run, LS_OK, NULL);
}

/* A run of ranks that are processes, of which `victim` is killed at its n-th call of the file system; n < 0:
 * none is. Whether it was killed. */
static bool processes(int ranks, const char *name, int victim, int64_t n)
{
    int fd, status, well = 0;
    bool killed = false;
    pid_t children[2];
    ASSERT_OK(ls_shm_create(ranks, &fd));
    for (int r = 0; r < ranks; r++)
        if ((children[r] = fork()) == 0) {
            ls_group *g;
            ls_status s = ls_shm_join(&g, fd, r);
            if (n >= 0 && r == victim)
                ls_fault_arm(LS_POINTS_OF_FILES, n, LS_FAIL_KILL);
            if (s == LS_OK)
                s = goes_on(g, (void *)(uintptr_t)name);
            ls_group_destroy(&g);
            _exit(s != LS_OK);
        }
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        killed = killed || (r == victim && WIFSIGNALED(status));
        well += status == 0;
    }
    close(fd);
    assert_true(killed || well == ranks);
    return killed;
}

static void killed_anywhere_it_ends_with_the_same_bytes(void **state)
{
    (void)state;
    static const struct {
        int ranks, victim;
    } CASES[] = { { 1, 0 }, { 2, 0 }, { 2, 1 } };
    for (int i = 0; i < 3; i++) {
        char whole[32], killed[32];
        int kills = 0;
        snprintf(whole, sizeof whole, "whole-%d", i);
        assert_false(processes(CASES[i].ranks, whole, 0, -1));
        for (int64_t n = 0;; n += CASES[i].victim ? 5 : 13) {
            snprintf(killed, sizeof killed, "killed-%d-%d", i, (int)n);
            if (!processes(CASES[i].ranks, killed, CASES[i].victim, n))
                break;
            kills++;
            assert_false(processes(CASES[i].ranks, killed, 0, -1));
            same_file(whole, killed, "step-00000006/model.safetensors");
            expect_verified(killed, "latest");
        }
        assert_true(kills > 3);
    }
}

/* Rank 1 has much to write, and its thread may not sync it: it learns that when rank 0 is inside the save. */
static ls_status waits(ls_group *g, const char *name)
{
    enum { MANY = 8 << 20 };
    const int rank = ls_group_rank(g);
    double *all = calloc(MANY, sizeof *all);
    ls_run *run;
    const ls_shard shard = { "field", LS_TYPE(LS_F64, MANY), rank, rank ? MANY - 1 : 1, all };
    LS_TRY(ls_run_open(&run, storage, name, g, .async = true));
    ls_fault_arm(1u << LS_POINT_SYNC, rank ? 0 : -1, LS_FAIL_ONCE);
    ls_status s = ls_report(run, NULL, 0, &((ls_run_contents){ .n = 1, .shards = &shard }));
    if (s == LS_OK)
        s = ls_run_wait(run);
    ls_fault_disarm();
    s = ls_run_finish(&run, s, NULL);
    free(all);
    return s;
}

static void a_failure_while_all_wait(void **state)
{
    (void)state;
    int fd, status;
    pid_t children[2];
    ASSERT_OK(ls_shm_create(2, &fd));
    for (int r = 0; r < 2; r++)
        if ((children[r] = fork()) == 0) {
            ls_group *g;
            ls_status s = ls_shm_join(&g, fd, r);
            s = s == LS_OK ? waits(g, "waits-for-failure") : s;
            ls_group_destroy(&g);
            _exit(s == LS_OK || !strstr(ls_error_message(), "model.safetensors: cannot sync"));
        }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        assert_int_equal(status, 0);
    }
    close(fd);
}

/* The save that a load waits for removes the checkpoint that is to be loaded. */
static ls_status rolls_back(ls_group *g, void *context)
{
    (void)context;
    ls_run *run;
    block b;
    const ls_run_contents c = dealt_block(&b, g, 1, NULL);
    LS_TRY(ls_run_open(&run, storage, "rolls", g, .async = true, .keep = 1));
    LS_TRY(ls_report(run, NULL, 0, &c));
    LS_TRY(ls_run_wait(run));
    LS_TRY(ls_run_load(run, ls_latest_checkpoint(run)->path, &c));
    LS_TRY(ls_report(run, NULL, 0, &c));
    return ls_run_finish(&run, ls_run_load(run, ls_latest_checkpoint(run)->path, &c), NULL);
}

static void a_checkpoint_that_went_is_named(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        assert_true(run_ranks(ranks, rolls_back, NULL) != LS_OK);
        ASSERT_CONTAINS(ls_error_message(), "was removed when the checkpoint of step ");
        ASSERT_CONTAINS(ls_error_message(), "call ls_run_wait, then ls_latest_checkpoint");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_anywhere_it_ends_with_the_same_bytes), /* first: it forks */
        cmocka_unit_test(a_failure_while_all_wait),
        cmocka_unit_test(the_same_bytes),
        cmocka_unit_test(it_becomes_the_latest_when_it_is_complete),
        cmocka_unit_test(a_failed_thread_ends_the_run),
        cmocka_unit_test(a_gap_is_found),
        cmocka_unit_test(a_checkpoint_that_went_is_named),
    };
    return cmocka_run_group_tests(tests, open_storage, NULL);
}
