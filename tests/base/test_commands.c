/* test_errand.c - short commands: how they end, what they print, and that none is waited for too long. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include "base/clock.h"
#include "base/commands.h"
#include "support/support.h"

static volatile sig_atomic_t stop;
static void ask(int number)
{
    (void)number;
    stop = 1;
}

static ls_command shell(const char *script)
{
    ls_command e = { 0 };
    ls_command_words(&e, "sh  -c");
    ls_command_word(&e, script);
    return e;
}

static void how_they_end(void **state)
{
    (void)state;
    ls_str whole = { 0 };
    ls_command all[] = {
        shell("echo one; echo two; echo; exit 3"), shell("kill -TERM $$"), shell("sleep 1000"), { 0 }, { 0 }
    };
    ls_command_word(&all[3], "there-is-no-such-command");
    all[0].whole = &whole;
    ASSERT_OK(ls_commands_run(all, 5, 0.5, "testing"));
    assert_int_equal(all[0].status, 3);
    assert_string_equal(all[0].said, "two");
    assert_string_equal(ls_str_text(&whole), "one\ntwo\n\n");
    assert_int_equal(all[1].status, 128 + SIGTERM);
    assert_int_equal(all[2].status, LS_COMMAND_LATE);
    assert_int_equal(all[3].status, LS_COMMAND_NOT_STARTED);
    ASSERT_CONTAINS(all[3].said, "No such file");
    ls_str_release(&whole);
}

/* A warning is not part of an answer, and what failed says why on stderr. */
static void what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *script, *whole, *said;
    } CASES[] = {
        { "echo answer; echo warning >&2", "answer\n", "answer" },
        { "echo begun; echo reason >&2; echo over; exit 1", "begun\nover\n", "reason" },
        { "echo reason; exit 1", "reason\n", "reason" },
        { "echo nothing >&2", "", "nothing" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ls_str whole = { 0 };
        ls_command e = shell(CASES[i].script);
        e.whole = &whole;
        ASSERT_OK(ls_commands_run(&e, 1, 60, "testing"));
        assert_string_equal(ls_str_text(&whole), CASES[i].whole);
        assert_string_equal(e.said, CASES[i].said);
        ls_str_release(&whole);
    }
}

/* One that prints faster than it is read is ended in time, too. */
static void an_endless_answer(void **state)
{
    (void)state;
    ls_command all[] = { shell("yes"), shell("yes >&2") };
    const double began = ls_now();
    ASSERT_OK(ls_commands_run(all, 2, 0.3, "testing"));
    assert_true(ls_now() - began < 30);
    assert_int_equal(all[0].status, LS_COMMAND_LATE);
    assert_int_equal(all[1].status, LS_COMMAND_LATE);
}

/* More than a line, and more than a pipe holds. */
static void a_long_answer(void **state)
{
    (void)state;
    ls_str whole = { 0 };
    ls_command e = shell("i=0; while [ $i -lt 20000 ]; do echo host$i; i=$((i + 1)); done");
    e.whole = &whole;
    ASSERT_OK(ls_commands_run(&e, 1, 60, "testing"));
    assert_int_equal(e.status, 0);
    assert_string_equal(e.said, "host19999");
    ASSERT_CONTAINS(ls_str_text(&whole), "host0\nhost1\n");
    ASSERT_CONTAINS(ls_str_text(&whole), "\nhost19998\nhost19999\n");
    ls_str_release(&whole);
}

static void a_request_to_stop(void **state)
{
    (void)state;
    ls_command e = shell("sleep 1000");
    const struct itimerval soon = { .it_value = { .tv_usec = 50000 } };
    stop = 0;
    ls_stop_on(&stop);
    signal(SIGALRM, ask);
    setitimer(ITIMER_REAL, &soon, NULL);
    const double began = ls_now();
    ASSERT_FAILS(ls_commands_run(&e, 1, 20, "asking the hosts"), LS_E_STOPPED,
                 "stopped while asking the hosts");
    assert_true(ls_now() - began < 15); /* it has not waited for the command */
    ls_stop_on(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(how_they_end), cmocka_unit_test(what_they_say),
                                        cmocka_unit_test(a_long_answer), cmocka_unit_test(an_endless_answer),
                                        cmocka_unit_test(a_request_to_stop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
