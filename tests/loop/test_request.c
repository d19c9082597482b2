/* test_request.c - requests to save, which signals count: each is taken once, and requests that come during a
 * save are answered by it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
    ls_requests_saved(&q, 6000);
    ls_requests_saved(&q, 1);
    assert_int_equal(ls_requests_take(&q, false) & LS_REQUEST_TIME, LS_REQUEST_TIME);
    ls_recipe_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(requests_to_save),
                                        cmocka_unit_test(time_that_is_up) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
