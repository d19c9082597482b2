/* test_group.c - groups of threads: numbers that every rank needs, axes and their fences, windows, and
 * messages of failures. */
#include "comm/comm.h"
#include "comm/last_words.h"
#include "support/ranks.h"
#include "support/support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static ls_status exchanges(ls_group *g, void *context)
{
    (void)context;
    int n = ls_group_size(g), r = ls_group_rank(g);
    for (int round = 0; round < 20; round++) {
        int64_t all[n], mine = r * 10 + round;
        LS_TRY(ls_group_all_gather(g, &mine, sizeof mine, all));
        for (int i = 0; i < n; i++)
            RANK_CHECK(all[i] == i * 10 + round);
        float x[3] = { (float)r, 1, (float)-r };
        LS_TRY(ls_group_all_reduce(g, x, 3, LS_F32, LS_REDUCE_SUM));
        RANK_CHECK(x[0] == (float)(n * (n - 1) / 2) && x[1] == (float)n);
        int64_t top[2] = { r, -r };
        LS_TRY(ls_group_all_reduce(g, top, 2, LS_I64, LS_REDUCE_MAX));
        RANK_CHECK(top[0] == n - 1 && top[1] == 0);
        char text[8] = "";
        if (r == n - 1)
            strcpy(text, "hello");
        LS_TRY(ls_group_broadcast(g, text, sizeof text, n - 1));
        RANK_CHECK(!strcmp(text, "hello"));
        LS_TRY(ls_group_barrier(g));
    }
    return LS_OK;
}

static ls_status large_exchanges(ls_group *g, void *context)
{
    (void)context;
    size_t bytes = 300001;
    int n = ls_group_size(g), r = ls_group_rank(g);
    char *mine = malloc(bytes), *all = malloc(bytes * (size_t)n);
    memset(mine, r + 1, bytes);
    ls_status s = ls_group_all_gather(g, mine, bytes, all);
    bool right = true;
    for (size_t i = 0; s == LS_OK && i < bytes * (size_t)n; i++)
        right &= all[i] == (char)(i / bytes + 1);
    if (s == LS_OK)
        s = ls_group_broadcast(g, mine, bytes, n / 2);
    for (size_t i = 0; s == LS_OK && i < bytes; i++)
        right &= mine[i] == n / 2 + 1;
    free(mine);
    free(all);
    LS_TRY(s);
    RANK_CHECK(right);
    return LS_OK;
}

static void numbers_for_all(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        ASSERT_OK(run_ranks(n, exchanges, NULL));
        ASSERT_OK(run_ranks(n, large_exchanges, NULL));
    }
}

/* (0+1)+(2+3), and (0+1)+2: numbers whose sum depends on the order. */
static ls_status tree(ls_group *g, void *context)
{
    const float *x = context;
    int n = ls_group_size(g);
    float mine = x[ls_group_rank(g)], sum = x[0] + x[1];
    sum += n == 4 ? x[2] + x[3] : x[2];
    LS_TRY(ls_group_all_reduce(g, &mine, 1, LS_F32, LS_REDUCE_SUM));
    RANK_CHECK(mine == sum);
    return LS_OK;
}

static void balanced_tree(void **state)
{
    (void)state;
    float x[4] = { 1, 1e8f, -1e8f, 3.25f };
    ASSERT_OK(run_ranks(3, tree, x));
    ASSERT_OK(run_ranks(4, tree, x));
}

/* Rows and columns of a 2 x 2 mesh: fences of one do not hold up the other; a window per axis. */
static ls_status mesh(ls_group *g, void *context)
{
    (void)context;
    int r = ls_group_rank(g), row[2] = { r / 2 * 2, r / 2 * 2 + 1 }, column[2] = { r % 2, r % 2 + 2 };
    for (int round = 0; round < 3; round++) { /* records are used again */
        ls_axis *a, *b;
        ls_window *w;
        LS_TRY(ls_axis_create(&a, g, "shard", 2, row));
        LS_TRY(ls_axis_create(&b, g, "dp", 2, column));
        RANK_CHECK(ls_axis_position(a) == r % 2 && ls_axis_position(b) == r / 2 && ls_axis_one_machine(b));
        LS_TRY(ls_window_create(&w, b, 100, 40));
        RANK_CHECK((uintptr_t)w->mine % 64 == 0 && w->peer[r / 2] == w->mine);
        for (int i = 0; i < 100; i++)
            RANK_CHECK(w->mine[i] == 0);
        for (int i = 0; i < 40; i++)
            RANK_CHECK(w->shared[i] == 0);
        LS_TRY(ls_group_barrier(g)); /* all have looked at zeros */
        for (int step = 1; step < 50; step++) {
            w->mine[step] = (char)(step + r);
            w->shared[20 * (r / 2)] = (char)step;
            ls_axis_arrive(b);
            ls_axis_arrive(a);
            LS_TRY(ls_axis_fence(a, "rows"));
            LS_TRY(ls_axis_fence(b, "columns"));
            RANK_CHECK(w->peer[0][step] == step + column[0] && w->peer[1][step] == step + column[1]);
            RANK_CHECK(w->shared[0] == step && w->shared[20] == step);
            ls_axis_arrive(b);
            LS_TRY(ls_axis_fence(b, "all have read"));
        }
        ls_window_destroy(&w);
        ls_axis_destroy(&a);
        ls_axis_destroy(&b);
    }
    return LS_OK;
}

static void axes_and_windows(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(4, mesh, NULL));
}

static ls_status other_members(ls_group *g, void *context)
{
    (void)context;
    ls_axis *a;
    int r = ls_group_rank(g), pair[2] = { 0, r ? r : 1 };
    return ls_axis_create(&a, g, "dp", 2, pair);
}

static void refused(void **state)
{
    (void)state;
    ls_group *g;
    ls_axis *a;
    ASSERT_OK(ls_group_self(&g));
    assert_string_equal(ls_group_kind(g), "self");
    ASSERT_FAILS(ls_axis_create(&a, g, "dp", 2, (int[]){ 0, 1 }), LS_E_ARG, "dp", "rank 1 of 1");
    ASSERT_FAILS(ls_axis_create(&a, g, "dp", 2, (int[]){ 0, 0 }), LS_E_ARG, "member 1 is rank 0", "ascend");
    ASSERT_FAILS(ls_group_broadcast(g, &a, 4, 1), LS_E_ARG, "root is 1");
    ls_group_destroy(&g);
    ASSERT_FAILS(ls_group_threads(&g, 0), LS_E_ARG, "0 threads");
    ASSERT_FAILS(run_ranks(3, other_members, NULL), LS_E_ARG, "other members");
}

/* Rank 1 fails outside of any call. Only if rank 0 has noticed that and left may rank 1 be silent. */
struct last_words {
    bool notices;
    atomic_bool said;
};

static ls_status last_words(ls_group *g, void *context)
{
    struct last_words *w = context;
    if (ls_group_rank(g) == 0) {
        while (!w->notices && !atomic_load(&w->said))
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        return LS_OK;
    }
    ls_last_words_of(g);
    const bool heard = ls_last_words(LS_E_IO, "a page is gone");
    atomic_store(&w->said, true);
    RANK_CHECK(heard == w->notices);
    return LS_OK;
}

static void who_prints_last_words(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, last_words, &(struct last_words){ .notices = true }));
    ASSERT_OK(run_ranks(2, last_words, &(struct last_words){ .notices = false }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_for_all),       cmocka_unit_test(balanced_tree),
        cmocka_unit_test(axes_and_windows),      cmocka_unit_test(refused),
        cmocka_unit_test(who_prints_last_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
