/* test_launch.c - ranks as processes of one parent. The parent starts this program again for each rank, and
 * its second word says what the rank does. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/affinity.h"
#include "base/clock.h"
#include "base/file.h"
#include "comm/comm.h"
#include "comm/launched.h"
#include "comm/shm.h"
#include "comm/group_own.h"
#include "support/ranks.h"
#include "support/support.h"
#include "launch/launch.h"

/* ---- a rank */

static volatile sig_atomic_t stop_wanted;
static void on_stop(int number)
{
    (void)number;
    stop_wanted = 1;
}

/* Its first thread ends, and so the process looks like a corpse; what it dies of comes later. */
static void *die_later(void *status)
{
    usleep(200000);
    if (!status)
        kill(getpid(), SIGKILL);
    _exit((int)(intptr_t)status);
}

/* 0: by a signal */
static void die_slowly(int status)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, die_later, (void *)(intptr_t)status) == 0)
        pthread_exit(NULL);
}

/* Steps until somebody was asked to stop. */
static int steps(ls_group *g, int rank, const char *mode)
{
    char doing[64];
    for (int step = 0;; step++) {
        int32_t stop = stop_wanted;
        snprintf(doing, sizeof doing, "step %d, micro, linear of block %d", step, rank);
        ls_group_doing(g, doing);
        if (!strcmp(mode, "kill") && rank == 1 && step == 3)
            raise(SIGKILL);
        if (!strcmp(mode, "slow death") && rank == 1 && step == 3)
            die_slowly(0);
        if (!strcmp(mode, "slow end") && rank == 1 && step == 3)
            die_slowly(3);
        if (!strcmp(mode, "stall") && rank == 1 && step == 3)
            raise(SIGSTOP);
        if (!strcmp(mode, "stall") && rank == 0 && step == 3) {
            /* one alone loses its patience, and not before there is reason to */
            char text[LS_DESCRIPTION_BYTES];
            do {
                usleep(1000);
                ls_control_describe(g->control, 1, text);
            } while (!strstr(text, "it is stopped"));
            ls_group_set_deadline(g, 0.2);
        }
        if (!strcmp(mode, "quit") && rank == 1 && step == 3)
            _exit(3);
        if (!strcmp(mode, "leave") && rank == 1 && step == 3)
            _exit(0);
        ls_status s = ls_group_all_reduce(g, &stop, 1, LS_I32, LS_REDUCE_MAX);
        if (s != LS_OK)
            return tell_parent(g, s);
        if (stop)
            return 75;
        usleep(1000);
    }
}

static int place(ls_group *g, int rank)
{
    struct sigaction interrupt;
    sigset_t blocked;
    sigaction(SIGINT, NULL, &interrupt);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (ls_group_rank(g) != rank || ls_group_size(g) != atoi(getenv("LOCKSTEP_RANKS")))
        return tell_parent(g, ls_fail(LS_E_INTERNAL, "another place"));
    if (interrupt.sa_handler != SIG_IGN || sigismember(&blocked, SIGCHLD))
        return tell_parent(g, ls_fail(LS_E_INTERNAL, "signals are not as a rank needs them"));
    if (!(ls_launch_lead() > 0 && ls_launch_lead() < 60))
        return tell_parent(g, ls_fail(LS_E_INTERNAL, "lead %g", ls_launch_lead()));
    return 0;
}

/* The second restart, made half a second after the command began. */
static int again(ls_group *g)
{
    if (ls_launch_restart() != 2)
        return tell_parent(g, ls_fail(LS_E_INTERNAL, "restart %d", ls_launch_restart()));
    double since_command = ls_now() - atof(getenv("TEST_BEGAN"));
    if (since_command - ls_since_exec() - ls_launch_lead() < 0.4)
        return tell_parent(g, ls_fail(LS_E_INTERNAL,
                                      "%g s since the command began, and the restart claims %g of it",
                                      since_command, ls_launch_lead()));
    return 0;
}

static int cores(ls_group *g, int rank, bool bound)
{
    ls_cpu_set all[2], mine;
    ls_cpu_set_read(&mine);
    ls_status s = ls_group_all_gather(g, &mine, sizeof mine, all);
    if (s == LS_OK && ls_cpu_set_meet(&all[0], &all[1]) == bound)
        s = ls_fail(LS_E_INTERNAL, "rank %d has the wrong cores", rank);
    return tell_parent(g, s);
}

static int in_rank(ls_group *g, int rank, const char *mode, const char *note)
{
    if (!strcmp(mode, "place"))
        return place(g, rank);
    if (!strcmp(mode, "again"))
        return again(g);
    if (!strcmp(mode, "bound") || !strcmp(mode, "free"))
        return cores(g, rank, !strcmp(mode, "bound"));
    if (!strcmp(mode, "fail") && rank == 1)
        return tell_parent(g, ls_fail(LS_E_USAGE, "the recipe is wrong"));
    if (!strcmp(mode, "deaf")) { /* one fails, another never notices */
        if (rank == 1)
            return tell_parent(g, ls_fail(LS_E_NUMERIC, "the loss is nan"));
        for (;;)
            pause();
    }
    if (*note) { /* tells the test that it is there */
        FILE *f = fopen(note, "a");
        fprintf(f, "%ld\n", (long)getpid());
        fclose(f);
    }
    return steps(g, rank, mode);
}

static int rank_program(int argc, char **argv)
{
    ls_group *g;
    int rank = ls_launch_rank();
    sigset_t requests;
    sigemptyset(&requests);
    sigaddset(&requests, SIGTERM);
    signal(SIGTERM, on_stop);
    sigprocmask(SIG_UNBLOCK, &requests, NULL);
    if (!strcmp(argv[1], "early"))
        return 9;
    if (ls_shm_join(&g, atoi(getenv("LOCKSTEP_CONTROL_FD")), rank) != LS_OK)
        return 8;
    int status = in_rank(g, rank, argv[1], argc > 2 ? argv[2] : "");
    ls_group_destroy(&g);
    return status;
}

/* ---- the parent */

static char *program;

static ls_status launch(int ranks, const char *mode)
{
    char *argv[] = { program, (char *)(uintptr_t)mode, NULL };
    return ls_launch(&(ls_launch_opts){ .ranks = ranks, .argv = argv });
}

static void no_child_is_left(void) { assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); }

static void ranks_find_their_place(void **state)
{
    (void)state;
    ASSERT_OK(launch(1, "place"));
    ASSERT_OK(launch(3, "place"));
    no_child_is_left();
}

static void a_restart_knows_that_it_is_one(void **state)
{
    (void)state;
    char *argv[] = { program, "again", NULL }, began[32];
    assert_int_equal(ls_launch_restart(), 0);
    snprintf(began, sizeof began, "%.6f", ls_now());
    setenv("TEST_BEGAN", began, 1);
    usleep(500000);
    ASSERT_OK(ls_launch(&(ls_launch_opts){ .ranks = 2, .argv = argv, .restart = 2 }));
    ASSERT_FAILS(ls_launch(&(ls_launch_opts){ .ranks = 2, .argv = argv }), LS_E_INTERNAL, "restart 0");
    unsetenv("TEST_BEGAN");
}

static void a_failure_is_told_once_with_its_rank(void **state)
{
    (void)state;
    ASSERT_FAILS(launch(3, "fail"), LS_E_USAGE, "rank 1: the recipe is wrong");
    no_child_is_left();
}

static void a_killed_rank_is_named_with_what_it_did(void **state)
{
    (void)state;
    double start = ls_now();
    ASSERT_FAILS(launch(3, "kill"), LS_E_PEER,
                 "rank 1: killed by signal 9 (SIGKILL); it last did: step 3, micro, linear of block 1; the "
                 "other ranks were stopped");
    assert_true(ls_now() - start < 30); /* no deadline of 300 s has passed */
    no_child_is_left();
}

/* The other rank has seen it gone, and has ended, before it can be taken away. */
static void what_a_rank_dies_of_is_waited_for(void **state)
{
    (void)state;
    ASSERT_FAILS(launch(2, "slow death"), LS_E_PEER,
                 "rank 1: killed by signal 9 (SIGKILL); it last did: step 3, micro, linear of block 1; the "
                 "other ranks were stopped");
    ASSERT_FAILS(launch(2, "slow end"), LS_E_PEER,
                 "rank 1: ended with status 3 and no message; it last did: step 3, micro, linear of block 1");
    no_child_is_left();
}

static void a_rank_that_ends_without_a_word_is_named(void **state)
{
    (void)state;
    ASSERT_FAILS(launch(2, "leave"), LS_E_PEER,
                 "rank 1: ended with status 0 before the others were done: its process is gone; rank 0 "
                 "waited for it in ",
                 "it last did: step 3");
    ASSERT_FAILS(launch(2, "quit"), LS_E_PEER,
                 "rank 1: ended with status 3 and no message; it last did: step 3");
    ASSERT_FAILS(launch(2, "early"), LS_E_PEER,
                 "ended with status 9 and no message; it had not begun to work");
    no_child_is_left();
}

static void a_stopped_rank_is_named_and_ended(void **state)
{
    (void)state;
    ASSERT_FAILS(launch(3, "stall"), LS_E_PEER, "rank 1: did not come within 0.2 s; rank 0 waited for it",
                 "step 3, micro, linear of block 1");
    no_child_is_left();
}

static void ranks_that_do_not_notice_are_killed(void **state)
{
    (void)state;
    ASSERT_FAILS(launch(3, "deaf"), LS_E_NUMERIC, "rank 1: the loss is nan");
    no_child_is_left();
}

static void a_request_to_stop_reaches_the_ranks(void **state)
{
    (void)state;
    char *argv[] = { program, "steps", NULL };
    volatile sig_atomic_t stop = 1; /* at once: the ranks get it as soon as they can take it */
    ASSERT_FAILS(ls_launch(&(ls_launch_opts){ .ranks = 2, .argv = argv, .stop = &stop }), LS_E_STOPPED, "");
    assert_string_equal(ls_error_message(), ""); /* rank 0 has said it */
    no_child_is_left();
}

static void cores_are_divided(void **state)
{
    (void)state;
    ls_cpu_set mine;
    ls_cpu_set_read(&mine);
    if (ls_cpu_set_count(&mine) >= 2)
        ASSERT_OK(launch(2, "bound"));
    setenv("LOCKSTEP_BIND", "none", 1);
    ASSERT_OK(launch(2, "free"));
    setenv("LOCKSTEP_BIND", "non", 1);
    ASSERT_FAILS(launch(2, "free"), LS_E_USAGE, "LOCKSTEP_BIND=non: it is one of these words: none");
    unsetenv("LOCKSTEP_BIND");
}

/* How many of the processes in the file live. A corpse that nobody has taken away has no command line. */
static int living(const char *note, int *known)
{
    long pid;
    int alive = 0;
    char path[64];
    *known = 0;
    FILE *f = fopen(note, "r");
    while (f && fscanf(f, "%ld", &pid) == 1) {
        (*known)++;
        snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
        FILE *words = fopen(path, "r");
        alive += words && fgetc(words) != EOF;
        if (words)
            fclose(words);
    }
    if (f)
        fclose(f);
    return alive;
}

static void ranks_end_with_their_parent(void **state)
{
    (void)state;
    const char *note = ls_test_path("pids");
    int known;
    pid_t parent = fork();
    if (parent == 0) {
        char *argv[] = { program, "steps", (char *)(uintptr_t)note, NULL };
        ls_launch(&(ls_launch_opts){ .ranks = 3, .argv = argv });
        _exit(1);
    }
    for (double start = ls_now(); living(note, &known) < 3 && ls_now() - start < 30;)
        usleep(2000);
    assert_int_equal(known, 3);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    double start = ls_now();
    while (living(note, &known) && ls_now() - start < 10)
        usleep(2000);
    assert_int_equal(living(note, &known), 0);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (ls_launch_rank() >= 0)
        return rank_program(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_find_their_place),
        cmocka_unit_test(a_restart_knows_that_it_is_one),
        cmocka_unit_test(a_failure_is_told_once_with_its_rank),
        cmocka_unit_test(a_killed_rank_is_named_with_what_it_did),
        cmocka_unit_test(what_a_rank_dies_of_is_waited_for),
        cmocka_unit_test(a_rank_that_ends_without_a_word_is_named),
        cmocka_unit_test(a_stopped_rank_is_named_and_ended),
        cmocka_unit_test(ranks_that_do_not_notice_are_killed),
        cmocka_unit_test(a_request_to_stop_reaches_the_ranks),
        cmocka_unit_test(cores_are_divided),
        cmocka_unit_test(ranks_end_with_their_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
