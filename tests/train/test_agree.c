/* test_agree.c - ranks (threads here) settle what must be equal: one message for a failure, other recipes refused by name, threads that share no core. */
#include <stdio.h>
#include <string.h>
#include "base/parallel.h"
#include "support/ranks.h"
#include "support/support.h"
#include "train/agree.h"

static ls_status load(ls_recipe **r, const char *set)
{
    const char *text = "model: {type: mlp}\ndata: {type: shapes}\n";
    return ls_recipe_load_text(r, text, strlen(text), "test.yaml", set ? 1 : 0, &set);
}

/* Ranks 1 and 2 have failed alone. */
static ls_status some_fail(ls_group *g, void *context)
{
    (void)context;
    char message[32];
    int rank = ls_group_rank(g);
    snprintf(message, sizeof message, "no disk on %d", rank);
    ls_status s = ls_ranks_agree(g, rank == 1 || rank == 2 ? ls_fail(LS_E_IO, "%s", message) : LS_OK);
    if (rank == 1) {
        RANK_CHECK(s == LS_E_IO && !strcmp(ls_error_message(), "no disk on 1"));
        return s;
    }
    RANK_CHECK(s == LS_E_PEER && strstr(ls_error_message(), "rank 1: no disk on 1"));
    return LS_OK; /* so that rank 1's status is the run's */
}

static ls_status none_fail(ls_group *g, void *context)
{
    (void)context;
    for (int i = 0; i < 3; i++)
        LS_TRY(ls_ranks_agree(g, LS_OK));
    return LS_OK;
}

static void one_failure_is_heard(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(4, none_fail, NULL));
    ASSERT_FAILS(run_ranks(4, some_fail, NULL), LS_E_IO, "no disk on 1");
}

/* Rank 2 sets `context`; the others do not. */
static ls_status meet(ls_group *g, void *context)
{
    ls_recipe *r;
    int threads = 0;
    LS_TRY(load(&r, ls_group_rank(g) == 2 ? context : NULL));
    ls_status s = ls_ranks_meet(&threads, g, r);
    ls_recipe_destroy(&r);
    if (s == LS_E_PEER && context) {
        RANK_CHECK(strstr(ls_error_message(), "rank 2: the ranks were given different recipes"));
        return LS_OK; /* so that rank 2's status is the run's */
    }
    LS_TRY(s);
    int cores = ls_cpu_count() / ls_group_size(g); /* threads of one process may all use all of its cores */
    RANK_CHECK(threads == (cores ? cores : 1));
    return LS_OK;
}

static void equal_ranks_divide_the_cores(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(1, meet, NULL));
    ASSERT_OK(run_ranks(3, meet, NULL));
    ASSERT_OK(run_ranks(3, meet, "threads=7")); /* hosts may differ in that */
}

static void another_recipe_is_refused(void **state)
{
    (void)state;
    ASSERT_FAILS(run_ranks(4, meet, "train.epochs=9"), LS_E_USAGE, "different recipes: rank 2 has train.epochs: 9, rank 0 has train.epochs: 1");
    ASSERT_FAILS(run_ranks(3, meet, "optimizer.lr=0.5"), LS_E_USAGE, "rank 2 has optimizer.lr: 0.5, rank 0 has optimizer.lr: 0.001");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_is_heard), cmocka_unit_test(equal_ranks_divide_the_cores), cmocka_unit_test(another_recipe_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
