/* test_process.c - the clock, the log, and broken invariants. */
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "support/support.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void clock_runs_forward(void **state)
{
    (void)state;
    double last = ls_now();
    for (int i = 0; i < 1000; i++) {
        double now = ls_now();
        assert_true(now >= last);
        last = now;
    }
    const double before = ls_now(), age = ls_since_exec();
    assert_true(age > 0);
    usleep(30000);
    /* of more than lies between the two, however long each took */
    const double older = ls_since_exec(), passed = ls_now() - before;
    /* within the kernel's tick, which may bound either reading */
    assert_true(older - age >= 0.03 - 0.011);
    assert_true(older - age <= passed + 0.011);
}

static char logged[256];
static int messages;

static void sink(void *context, ls_level level, const char *message)
{
    snprintf(logged, sizeof logged, "%s %d %s", (const char *)context, (int)level, message);
    messages++;
}

static void log_levels(void **state)
{
    (void)state;
    ls_log_info("nobody listens");
    ls_log_set(sink, "ctx", LS_INFO);
    ls_log_info("saved step %d", 7);
    assert_string_equal(logged, "ctx 2 saved step 7");
    ls_log_debug("not shown");
    assert_int_equal(messages, 1);
    ls_log_warn("odd");
    assert_string_equal(logged, "ctx 1 odd");
    ls_log_set(NULL, NULL, LS_TRACE);
    ls_log_warn("silence");
    assert_int_equal(messages, 2);
}

static void broken_invariant(void **state)
{
    (void)state;
    int pipe_of[2];
    assert_int_equal(pipe(pipe_of), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_of[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        LS_CHECK(1 + 1 == 2, "holds");
        LS_CHECK(1 + 1 == 3, "count %d", 42);
        _exit(0);
    }
    close(pipe_of[1]);
    char text[8192];
    size_t n = 0;
    for (ssize_t k; (k = read(pipe_of[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)k;
    text[n] = 0;
    close(pipe_of[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ASSERT_CONTAINS(text, "test_process.c:");
    ASSERT_CONTAINS(text, "broken invariant: 1 + 1 == 3: count 42\n");
    ASSERT_CONTAINS(text, "base_test_process"); /* the backtrace names the program */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(clock_runs_forward), cmocka_unit_test(log_levels),
                                        cmocka_unit_test(broken_invariant) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
