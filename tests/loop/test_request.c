/* test_request.c - requests to save, which signals count: each is taken once, and requests that come during a
 * save are answered by it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "support/support.h"
#include "loop/request.h"
#include "step/trainer.h"

static volatile sig_atomic_t stop, save;
static const ls_ui UI = { .stop = &stop, .save = &save };

static void requests_to_save(void **state)
{
    (void)state;
    ls_requests q;
    ls_recipe *r;
    unsetenv("SLURM_JOB_END_TIME");
    unsetenv("SLURM_JOB_ID");
    const char *text = "model: {type: mlp}\ndata: {type: shapes}\n";
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "test.yaml", 0, NULL));
    save = 3; /* before this run */
    ASSERT_OK(ls_requests_init(&q, &UI, r, 0, 0));
    assert_int_equal(ls_requests_take(&q, false), 0);
    save++;
    assert_int_equal(ls_requests_take(&q, false), LS_REQUEST_SAVE);
    assert_int_equal(ls_requests_take(&q, false), 0);
    save++;
    ls_requests_answered(&q); /* another rank was asked first, and all have saved */
    assert_int_equal(ls_requests_take(&q, false), 0);
    save++;
    stop = 1;
    assert_int_equal(ls_requests_take(&q, false), LS_REQUEST_SAVE | LS_REQUEST_STOP);
    ls_requests_answered(&q);
    assert_int_equal(ls_requests_take(&q, false), LS_REQUEST_STOP); /* which stands */
    ls_recipe_destroy(&r);
}

/* The earlier end counts; what a stop costs is kept in reserve twice, an evaluation only where one is due. */
static void time_that_is_up(void **state)
{
    (void)state;
    static const char text[] = "model: {type: mlp}\ndata: {type: shapes}\n", *limit = "run.time_limit=10000";
    ls_requests q;
    ls_recipe *r;
    char at[32];
    stop = 0;
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "test.yaml", 1, &limit));
    for (int job = 1; job < 3; job++) {
        /* a job that ends before run.time_limit, and one that ends after it */
        snprintf(at, sizeof at, "%lld", (long long)time(NULL) + (job == 1 ? 5000 : 1000000));
        setenv("SLURM_JOB_END_TIME", at, 1);
        ASSERT_OK(ls_requests_init(&q, &UI, r, 0, 0));
        ASSERT_CONTAINS(q.end_of, job == 1 ? "Slurm" : "run.time_limit");
    }
    setenv("SLURM_JOB_END_TIME", "1700000000 s", 1);
    ASSERT_FAILS(ls_requests_init(&q, &UI, r, 0, 0), LS_E_USAGE, "SLURM_JOB_END_TIME=1700000000 s",
                 "seconds since 1970");
    unsetenv("SLURM_JOB_END_TIME");

    ASSERT_OK(ls_requests_init(&q, &UI, r, 0, 6000)); /* a guess: 12000 s are more than there are */
    assert_int_equal(ls_requests_take(&q, false) & LS_REQUEST_TIME, LS_REQUEST_TIME);
    ls_requests_saved(&q, 1000); /* measured: the guess is forgotten, the longest counts */
    assert_int_equal(ls_requests_take(&q, false) & LS_REQUEST_TIME, 0);
    q.evaluation = 5000;
    assert_int_equal(ls_requests_take(&q, false) & LS_REQUEST_TIME, 0);
    assert_int_equal(ls_requests_take(&q, true) & LS_REQUEST_TIME, LS_REQUEST_TIME);
    assert_int_equal(ls_requests_stop(&q), 0); /* it has begun */
    ls_requests_saved(&q, 6000);
    ls_requests_saved(&q, 1);
    assert_int_equal(ls_requests_take(&q, false) & LS_REQUEST_TIME, LS_REQUEST_TIME);
    save++;
    assert_int_equal(ls_requests_stop(&q), LS_REQUEST_TIME); /* the save waits for a step */
    assert_int_equal(ls_requests_take(&q, false), LS_REQUEST_TIME | LS_REQUEST_SAVE);
    ls_recipe_destroy(&r);
}

/* squeue's stand-in, which answers with this script. */
static void squeue(const char *script)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/squeue", ls_test_dir());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n[ \"$*\" = '-h -o %%L -j 77' ] || exit 9\n%s\n", script);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", ls_test_dir());
    setenv("PATH", path, 1);
}

static int warnings;
static char warned[600];
static void hear(void *context, ls_level level, const char *message)
{
    (void)context;
    warnings += level == LS_WARN;
    snprintf(warned, sizeof warned, "%.500s", message);
}

/* The time that squeue says is left, where Slurm sets no SLURM_JOB_END_TIME; what is wrong with its answer is
 * said once, and the run goes on. */
static void squeue_is_asked(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        double left; /* 0: no limit is known */
        const char *warning;
    } CASES[] = {
        { "echo 0:59", 59, NULL },
        { "echo 12:34", 754, NULL },
        { "echo 2:03:04", 7384, NULL },
        { "echo 1-02:03:04", 93784, NULL },
        { "echo UNLIMITED", 0, NULL },
        { "echo INVALID", 0, "squeue does not say when this Slurm job ends: INVALID; " },
        { "echo 1:2:3:4", 0, "1:2:3:4; " },
        { "echo 1-02:03", 0, "1-02:03; " },
        { "echo 12:", 0, "12:; " },
        { "echo 1:23x", 0, "1:23x; " },
        { "true", 0, "it prints nothing; " },
        { "echo Invalid job id >&2; exit 1", 0, "Invalid job id; the run stops in time only on SIGTERM" },
    };
    static const char text[] = "model: {type: mlp}\ndata: {type: shapes}\n";
    ls_requests q;
    ls_recipe *r;
    stop = 0;
    unsetenv("SLURM_JOB_END_TIME");
    setenv("SLURM_JOB_ID", "77", 1);
    ASSERT_OK(ls_recipe_load_text(&r, text, strlen(text), "test.yaml", 0, NULL));
    ls_log_set(hear, NULL, LS_INFO);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        squeue(CASES[i].script);
        warnings = 0;
        ASSERT_OK(ls_requests_init(&q, &UI, r, 0, 0));
        const double left = q.end > 0 ? q.end - ls_now() : 0;
        if (left > CASES[i].left || left < CASES[i].left - 10 || (CASES[i].left == 0) != (left == 0))
            fail_msg("%s: %g s are left", CASES[i].script, left);
        assert_int_equal(warnings, CASES[i].warning != NULL);
        if (CASES[i].warning)
            ASSERT_CONTAINS(warned, CASES[i].warning);
        else if (left > 0)
            ASSERT_CONTAINS(q.end_of, "the Slurm job (squeue)");
    }
    squeue("echo 0:59; touch \"${0%/*}/asked\""); /* only rank 0 asks, and nobody when Slurm has said it */
    ASSERT_OK(ls_requests_init(&q, &UI, r, 1, 0));
    setenv("SLURM_JOB_END_TIME", "4000000000", 1);
    ASSERT_OK(ls_requests_init(&q, &UI, r, 0, 0));
    assert_int_not_equal(access(ls_test_path("asked"), F_OK), 0);
    ASSERT_CONTAINS(q.end_of, "SLURM_JOB_END_TIME");
    unsetenv("SLURM_JOB_END_TIME");
    setenv("PATH", ls_test_path("empty"), 1);
    warnings = 0;
    ASSERT_OK(ls_requests_init(&q, &UI, r, 0, 0));
    assert_int_equal(warnings, 1);
    ASSERT_CONTAINS(warned, "squeue: No such file");
    ls_log_set(NULL, NULL, LS_ERROR);
    unsetenv("SLURM_JOB_ID");
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(requests_to_save), cmocka_unit_test(time_that_is_up),
                                        cmocka_unit_test(squeue_is_asked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
