/* test_attempts.c - attempts that follow each other: fewer ranks, more ranks, an end in between. The parent
 * starts this program again for each rank, and its second word says what the rank does. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/file.h"
#include "comm/comm.h"
#include "comm/launched.h"
#include "comm/shm.h"
#include "launch/controller.h"
#include "launch/run_account.h"
#include "support/ranks.h"
#include "support/support.h"

/* ---- a rank */

static volatile sig_atomic_t stop_wanted;
static void on_stop(int number)
{
    (void)number;
    stop_wanted = 1;
}

/* Rank 1 is killed each time: in the first attempt by a kernel that had no memory left, as a file of a
 * control group says. */
static int short_of_memory(ls_group *g, int rank)
{
    int32_t all = 1;
    if (rank == 1) {
        if (!ls_launch_restart() && ls_file_write("oom/memory.events", "oom_kill 1\n", 11) != LS_OK)
            return tell_parent(g, LS_E_IO);
        raise(SIGKILL);
    }
    return tell_parent(g, ls_group_all_reduce(g, &all, 1, LS_I32, LS_REDUCE_SUM));
}

/* Until somebody was asked to stop. */
static int steps(ls_group *g)
{
    for (;;) {
        int32_t stop = stop_wanted;
        const ls_status s = ls_group_all_reduce(g, &stop, 1, LS_I32, LS_REDUCE_SUM);
        if (s != LS_OK || stop)
            return s == LS_OK ? LS_EXIT_STOPPED : tell_parent(g, s);
        usleep(1000);
    }
}

static int in_rank(ls_group *g, int rank, const char *mode)
{
    if (!strcmp(mode, "short of memory"))
        return short_of_memory(g, rank);
    if (!strcmp(mode, "grows") && ls_launch_restart())
        return ls_launch_restart() == 1 && ls_group_size(g) == 3 ? 0 : 1;
    if (!strcmp(mode, "spoilt") && ls_launch_restart()) /* fails on three ranks */
        return tell_parent(g, ls_group_size(g) == 3 && rank ? ls_fail(LS_E_USAGE, "no such folder") : LS_OK);
    return steps(g);
}

static int rank_program(char **argv)
{
    ls_group *g;
    const int rank = ls_launch_rank();
    sigset_t requests;
    sigemptyset(&requests);
    sigaddset(&requests, SIGTERM);
    signal(SIGTERM, on_stop);
    sigprocmask(SIG_UNBLOCK, &requests, NULL);
    if (ls_shm_join(&g, atoi(getenv("LOCKSTEP_CONTROL_FD")), rank) != LS_OK)
        return 8;
    const int status = in_rank(g, rank, argv[1]);
    ls_group_destroy(&g);
    return status;
}

/* ---- the parent */

static char *program;

static void no_child_is_left(void) { assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); }

static ls_status note_most(void *context, int most, int *workers)
{
    int *at = context;
    at[++*at] = most;
    *workers = 2;
    return LS_OK;
}

/* One rank less after a failure for lack of memory, and after no other. */
static void fewer_ranks_after_a_lack_of_memory(void **state)
{
    (void)state;
    char *argv[] = { program, "short of memory", NULL };
    int most[4] = { 0 };
    ls_run_account run = { .recipe = NULL };
    const ls_account nothing = ls_run_account_of(&run);
    ASSERT_OK(ls_make_parent(ls_test_path("oom/memory.events")));
    ASSERT_OK(ls_file_write(ls_test_path("oom/memory.events"), "oom_kill 0\n", 11));
    setenv("LOCKSTEP_CGROUP", "oom", 1);
    assert_int_equal(chdir(ls_test_dir()), 0);
    ASSERT_FAILS(ls_control(&(ls_control_opts){ .ranks = { .ranks = 2, .argv = argv },
                                                .max_failures = 2,
                                                .named = "max",
                                                .account = &nothing,
                                                .choose = note_most,
                                                .context = most }),
                 LS_E_PEER, "that was failure 3, and max is 2");
    unsetenv("LOCKSTEP_CGROUP");
    assert_int_equal(most[0], 2);
    assert_int_equal(most[1], 1);
    assert_int_equal(most[2], 0);
}

typedef struct growth {
    int asked, chosen;
    volatile sig_atomic_t stop;
    bool stops, trusts; /* the user asks, too; what was gained is not to blame */
    bool stops_later;   /* the user asks when the ranks have ended */
} growth;

static bool more_at_the_third(void *context, int workers, ls_more *out)
{
    growth *g = context;
    if (workers != 2 || ++g->asked != 3)
        return false;
    g->stop = g->stops;
    snprintf(out->why, sizeof out->why, "host b answers again");
    return true;
}

static ls_status choose_three_or_two(void *context, int most, int *workers)
{
    growth *g = context;
    assert_int_equal(most, 0);
    *workers = ++g->chosen == 1 ? 3 : 2;
    g->stop = g->stops_later;
    return g->stops_later ? ls_fail(LS_E_STOPPED, "stopped while asking") : LS_OK;
}

static bool blame_the_new(void *context, const ls_attempt_end *end)
{
    const growth *g = context;
    assert_int_equal(end->worked, g->chosen == 0); /* a stop does not count as a failure */
    assert_false(end->may_pass);
    return !end->worked && !g->trusts;
}

static bool has_not_heard(void *context)
{
    (void)context;
    return false;
}

/* Ranks that have stopped because there is room for more start again, though no failure is allowed for. They
 * do not when the user has asked, too, or when they have stopped for another reason. Where the larger attempt
 * fails in a way that would come again, the run goes on without what it had gained. */
static void ranks_become_more(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        bool stops, trusts, stops_later, deaf;
        ls_status s;
        int chosen;
    } CASES[] = { { "grows", false, true, false, false, LS_OK, 1 },
                  { "grows", true, true, false, false, LS_E_STOPPED, 0 },
                  { "grows", false, true, true, false, LS_E_STOPPED, 1 },
                  { "grows", false, true, false, true, LS_E_STOPPED, 0 },
                  { "spoilt", false, false, false, false, LS_OK, 2 },
                  { "spoilt", false, true, false, false, LS_E_USAGE, 1 } };
    ls_run_account run = { .recipe = NULL };
    const ls_account nothing = ls_run_account_of(&run);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char *argv[] = { program, (char *)(uintptr_t)CASES[i].mode, NULL };
        growth g = { .stops = CASES[i].stops,
                     .trusts = CASES[i].trusts,
                     .stops_later = CASES[i].stops_later };
        ls_account account = nothing;
        account.heard_next = CASES[i].deaf ? has_not_heard : nothing.heard_next;
        const ls_status s = ls_control(
            &(ls_control_opts){ .ranks = { .ranks = 2, .argv = argv, .stop = &g.stop },
                                .named = "max",
                                .account = &account,
                                .choose = choose_three_or_two,
                                .more = more_at_the_third,
                                .judge = blame_the_new,
                                .context = &g });
        assert_int_equal(s, CASES[i].s);
        if (s == LS_E_STOPPED)
            assert_string_equal(ls_error_message(),
                                CASES[i].deaf ? "" : "stopped on request, and not started again");
        assert_true(g.asked >= 3);
        assert_int_equal(g.chosen, CASES[i].chosen);
        no_child_is_left();
    }
}

/* A run directory that this host does not see is said, and the restart goes on without it. */
static void a_run_that_is_not_seen_ends_nothing(void **state)
{
    (void)state;
    ls_run_account run = { .program = "/not/a/run" };
    const ls_account a = ls_run_account_of(&run);
    ls_restart r = { .cause = "gone", .number = 1, .text = "gone" };
    a.begin(&run);
    ASSERT_OK(a.open(&run));
    ASSERT_OK(a.find_loss(&run, &r));
    assert_int_equal(r.step, -1);
    ASSERT_OK(a.restart(&run, &r));
    ASSERT_OK(a.close(&run, LS_OK, ""));
    a.end(&run, LS_E_PEER, "gone");
}

static void pauses_grow_to_half_a_minute(void **state)
{
    (void)state;
    static const double PAUSES[] = { 0.5, 1, 2, 4, 8, 16, 30, 30 };
    for (int i = 0; i < 8; i++)
        assert_true(ls_control_pause(i + 1) == PAUSES[i]);
    assert_true(ls_control_pause(1 << 30) == 30);
}

int main(int argc, char **argv)
{
    (void)argc;
    program = argv[0];
    if (ls_launch_rank() >= 0)
        return rank_program(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_ranks_after_a_lack_of_memory),
        cmocka_unit_test(ranks_become_more),
        cmocka_unit_test(a_run_that_is_not_seen_ends_nothing),
        cmocka_unit_test(pauses_grow_to_half_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
