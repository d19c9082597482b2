/* test_watch.c - ranks end long work before the same round, whichever of them is asked, soon after it was;
 * rounds of microseconds are not slowed down by it. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "comm/watch.h"
#include "lockstep/group.h"
#include "support/support.h"

enum { MOST = 4 };

typedef struct rank {
    pthread_t thread;
    ls_group *group;
    double pause;    /* seconds of a round; 0: none */
    int64_t ask_at;  /* the round in which this rank is asked; -1: in none */
    int64_t rounds;  /* made */
    int64_t looks;   /* how often it was looked whether the rank was asked */
    double asked_at; /* on the clock of ls_now */
    double obeyed;
    ls_watch watch;
    ls_status status;
} rank;

static uint32_t asked_here(void *context)
{
    rank *r = context;
    r->looks++;
    return r->ask_at >= 0 && r->rounds > r->ask_at ? 4 : 0;
}

static void *run(void *context)
{
    rank *r = context;
    r->watch = (ls_watch){ .group = r->group, .asked_here = asked_here, .context = r };
    while (r->rounds < 1000000 && (r->status = ls_watch_round(&r->watch)) == LS_OK && !r->watch.asked) {
        if (r->pause > 0)
            nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * r->pause) }, NULL);
        if (r->rounds++ == r->ask_at)
            r->asked_at = ls_now();
    }
    r->obeyed = ls_now();
    ls_group_destroy(&r->group);
    return NULL;
}

static void all_ranks_end_before_the_same_round(void **state)
{
    (void)state;
    static const double pauses[] = { 0, 0.0005, 0.05 };
    static const int64_t ask_at[] = { 200000, 300, 7 };
    for (int asked = 0; asked < MOST; asked++)
        for (int i = 0; i < 3; i++) {
            ls_group *groups[MOST];
            rank r[MOST];
            ASSERT_OK(ls_group_threads(groups, MOST));
            for (int k = 0; k < MOST; k++) { /* the last rank is the slowest */
                r[k] = (rank){ .group = groups[k],
                               .pause = k == MOST - 1 ? pauses[i] : pauses[i] / 4,
                               .ask_at = k == asked ? ask_at[i] : -1 };
                assert_int_equal(pthread_create(&r[k].thread, NULL, run, &r[k]), 0);
            }
            for (int k = 0; k < MOST; k++)
                pthread_join(r[k].thread, NULL);
            for (int k = 0; k < MOST; k++) {
                ASSERT_OK(r[k].status);
                assert_true(r[k].watch.asked == 4 && r[k].rounds == r[0].rounds);
                assert_true(r[k].rounds > ask_at[i] && r[k].rounds < 1000000);
                assert_true(r[k].obeyed - r[asked].asked_at < 5); /* a busy machine may take its time */
            }
            if (i == 0) /* and not in every round */
                assert_true(r[0].looks < 1000);
        }
}

static void one_rank_looks_before_each_round(void **state)
{
    (void)state;
    static volatile sig_atomic_t flag;
    ls_watch w = ls_watch_flag(NULL, &flag), nobody = ls_watch_flag(NULL, NULL);
    ASSERT_OK(ls_watch_round(&w));
    ASSERT_OK(ls_watch_round(&w));
    assert_int_equal(w.asked, 0);
    flag = 1;
    ASSERT_OK(ls_watch_round(&w));
    assert_int_equal(w.asked, 1);
    ASSERT_OK(ls_watch_round(&nobody));
    assert_int_equal(nobody.asked, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_rank_looks_before_each_round),
                                        cmocka_unit_test(all_ranks_end_before_the_same_round) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
