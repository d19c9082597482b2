/* test_join_watch.c - who is named while ranks wait in MPI_Init. The ranks are processes with the variables
 * of mpirun; this one is rank 1. */
#include "comm/join_watch.h"
#include "comm/siblings.h"
#include "base/clock.h"
#include "base/log.h"
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 60 }; /* seconds, on a machine that has no time for us */
static char job[64];    /* PMIX_NAMESPACE of this test */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char said[8192];

static void hear(void *context, ls_level level, const char *message)
{
    (void)context, (void)level;
    pthread_mutex_lock(&lock);
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", message);
    pthread_mutex_unlock(&lock);
}

static bool was_said(const char *text)
{
    pthread_mutex_lock(&lock);
    const bool was = strstr(said, text);
    pthread_mutex_unlock(&lock);
    return was;
}

static void moment(void) { nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); }

/* Waits until it is said, or fails. */
static void expect(const char *text)
{
    for (double until = ls_now() + PATIENCE; ls_now() < until && !was_said(text);)
        moment();
    ASSERT_CONTAINS(said, text);
}

static void wait_looks(void) { nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL); } /* several of them */

static pid_t start(const char *namespace, const char *program, const char *word)
{
    char variable[96];
    snprintf(variable, sizeof variable, "PMIX_NAMESPACE=%s", namespace);
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execle(program, program, word, NULL,
               (char *[]){ variable, "PMIX_RANK=0", "LOCKSTEP_NOTICE=0.2", NULL });
        _exit(127);
    }
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Waits until rank 0 does. */
static void wait_joins(void)
{
    ls_kin kin;
    bool joins = false;
    ls_kin_read(&kin);
    for (double until = ls_now() + PATIENCE; ls_now() < until && !joins; moment()) {
        ls_sibling *all;
        joins = ls_siblings_find(&all, &kin) == 1 && all[0].rank == 0 && all[0].joins;
        free(all);
    }
    assert_true(joins);
}

static ls_join_watch *begin(int size)
{
    ls_join_watch *w;
    *said = 0;
    ASSERT_OK(ls_join_watch_begin(&w, 1, size));
    return w;
}

static void a_prompt_start_says_nothing(void **state)
{
    (void)state;
    const pid_t other = start(job, "/bin/sleep", "1000");
    for (int i = 0; i < 50; i++) {
        ls_join_watch *w = begin(2);
        ls_join_watch_end(&w, true);
        assert_null(w);
    }
    wait_looks();
    assert_string_equal(said, "");
    end(other);
}

static void a_rank_that_hangs_is_named_once(void **state)
{
    (void)state;
    char text[128];
    const pid_t other = start(job, "/bin/sleep", "1000");
    ls_join_watch *w = begin(2);
    snprintf(text, sizeof text, "waiting for rank 0: its process %d (sleep) on host ", (int)other);
    expect(text);
    ASSERT_CONTAINS(said, " has not come to MPI_Init, for ");
    wait_looks();
    kill(other, SIGSTOP);
    expect(" is stopped (state T); it had not joined the group");
    wait_looks();
    snprintf(text, sizeof text, "waiting for rank 0: its process %d ", (int)other);
    const char *once = strstr(said, text), *twice = once ? strstr(once + 1, text) : NULL;
    assert_true(twice && !strstr(twice + 1, text)); /* one line of each */
    kill(other, SIGCONT);
    expect("rank 0 goes on: its process ");
    ls_join_watch_end(&w, true);
    ASSERT_CONTAINS(said, "all ranks have come, after ");
    assert_null(strstr(said, "other hosts"));
    end(other);
}

static void a_stranger_is_not_named(void **state)
{
    (void)state;
    const pid_t stranger = start("another", "/bin/sleep", "1000");
    ls_join_watch *w = begin(4);
    expect("ranks of other hosts have not come");
    wait_looks();
    assert_null(strstr(said, "waiting for rank"));
    ls_join_watch_end(&w, false);
    assert_null(strstr(said, "all ranks have come"));
    end(stranger);
}

/* Rank 0 waits as well, so it speaks, until it is stopped. */
static void the_lowest_that_waits_speaks(void **state)
{
    (void)state;
    const pid_t other = start(job, "/proc/self/exe", "joins");
    wait_joins();
    ls_join_watch *w = begin(4);
    wait_looks();
    assert_string_equal(said, "");
    kill(other, SIGSTOP);
    expect("waiting for rank 0: its process ");
    ASSERT_CONTAINS(said, " is stopped (state T)");
    ls_join_watch_end(&w, true);
    end(other);
}

/* Process of rank 0: waits without end. */
static int join(void)
{
    ls_join_watch *w;
    if (ls_join_watch_begin(&w, 0, 4) == LS_OK)
        for (;;)
            pause();
    return 1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "joins"))
        return join();
    snprintf(job, sizeof job, "test_join_watch.%d", (int)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    setenv("PMIX_RANK", "1", 1);
    setenv("LOCKSTEP_NOTICE", "0.2", 1);
    unsetenv("OMPI_COMM_WORLD_RANK");
    ls_log_set(hear, NULL, LS_INFO);
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_prompt_start_says_nothing),
                                        cmocka_unit_test(a_rank_that_hangs_is_named_once),
                                        cmocka_unit_test(a_stranger_is_not_named),
                                        cmocka_unit_test(the_lowest_that_waits_speaks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
