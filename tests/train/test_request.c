/* test_request.c - requests to save, as signals count them: each is taken once, and those that come while one is being answered ask for nothing more. */
#include <stdlib.h>
#include <string.h>
#include "support/support.h"
#include "train/request.h"
#include "train/trainer.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(requests_to_save) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
