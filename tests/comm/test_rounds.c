/* test_rounds.c - ranks end long work before the same round, whichever of them is asked, and before the next
 * one, also when quick rounds were followed by slow ones. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "comm/rounds.h"
#include "lockstep/group.h"
#include "support/support.h"

enum { MOST = 4 };

typedef struct rank {
    pthread_t thread;
    ls_group *group;
    double pause;   /* seconds of a round; 0: none */
    int64_t quick;  /* rounds before the first that pauses */
    int64_t ask_at; /* the round in which this rank is asked; -1: in none */
    int64_t rounds; /* made */
    ls_rounds work;
    ls_status status;
} rank;

static uint32_t asked_here(void *context)
{
    const rank *r = context;
    return r->ask_at >= 0 && r->rounds > r->ask_at ? 4 : 0;
}

static void *run(void *context)
{
    rank *r = context;
    r->work = (ls_rounds){ .group = r->group, .asked_here = asked_here, .context = r };
    while (r->rounds < 1000000 && (r->status = ls_rounds_next(&r->work)) == LS_OK && !r->work.asked) {
        if (r->rounds >= r->quick && r->pause > 0)
            nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * r->pause) }, NULL);
        r->rounds++;
    }
    ls_group_destroy(&r->group);
    return NULL;
}

static void all_ranks_end_before_the_same_round(void **state)
{
    (void)state;
    static const struct {
        double pause;
        int64_t quick, ask_at;
    } CASES[] = { { 0.05, 40, 41 }, { 0, 0, 20000 }, { 0.0005, 0, 300 }, { 0.05, 0, 7 } };
    for (int asked = 0; asked < MOST; asked++)
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            ls_group *groups[MOST];
            rank r[MOST];
            ASSERT_OK(ls_group_threads(groups, MOST));
            for (int k = 0; k < MOST; k++) { /* the last rank is the slowest */
                r[k] = (rank){ .group = groups[k],
                               .pause = k == MOST - 1 ? CASES[i].pause : CASES[i].pause / 4,
                               .quick = CASES[i].quick,
                               .ask_at = k == asked ? CASES[i].ask_at : -1 };
                assert_int_equal(pthread_create(&r[k].thread, NULL, run, &r[k]), 0);
            }
            for (int k = 0; k < MOST; k++)
                pthread_join(r[k].thread, NULL);
            for (int k = 0; k < MOST; k++) {
                ASSERT_OK(r[k].status);
                assert_int_equal(r[k].work.asked, 4);
                assert_int_equal(r[k].rounds, CASES[i].ask_at + 1);
            }
        }
}

static void one_rank_looks_before_each_round(void **state)
{
    (void)state;
    static volatile sig_atomic_t flag;
    ls_rounds w = ls_rounds_of_flag(NULL, &flag), nobody = ls_rounds_of_flag(NULL, NULL);
    ASSERT_OK(ls_rounds_next(&w));
    ASSERT_OK(ls_rounds_next(&w));
    assert_int_equal(w.asked, 0);
    flag = 1;
    ASSERT_OK(ls_rounds_next(&w));
    assert_int_equal(w.asked, 1);
    ASSERT_OK(ls_rounds_next(&nobody));
    assert_int_equal(nobody.asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank_looks_before_each_round),
                                        cmocka_unit_test(all_ranks_end_before_the_same_round) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
