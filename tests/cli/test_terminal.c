/* test_terminal.c - what stderr shows: a progress line and colours on a terminal (here a pseudo-terminal),
 * plain lines elsewhere, JSON with --log json; and which signals are requests. Each case runs in a
 * child process, because a process has one terminal. */
#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/json.h"
#include "cli/cli.h"
#include "support/support.h"

static void speak(const ls_terminal_opts *o)
{
    ls_ui ui;
    ls_terminal_open(&ui, o);
    if (ui.progress)
        ui.progress(ui.context, &(ls_progress){ .what = "epoch 2/5",
                                                .done = 117,
                                                .total = 468,
                                                .unit = "steps",
                                                .rate = 11.7,
                                                .note = "loss 0.5312" });
    ls_log_info("hello");
    ls_log_debug("whisper");
    ls_log(LS_ERROR, "broken \"x\"");
    if (ui.progress)
        ui.progress(ui.context, NULL);
    ls_terminal_close();
}

/* What a child writes to its stderr: to a pseudo-terminal 100 columns wide, or to a pipe. */
static const char *stderr_of(const ls_terminal_opts *o, bool terminal, const char *no_color)
{
    static char text[4096];
    int fds[2] = { -1, -1 }, status;
    struct winsize size = { .ws_row = 24, .ws_col = 100 };
    if (!terminal)
        assert_int_equal(pipe(fds), 0);
    pid_t child = terminal ? forkpty(&fds[0], NULL, NULL, &size) : fork();
    assert_true(child >= 0);
    if (!child) {
        if (!terminal)
            dup2(fds[1], 2);
        setenv("TERM", "xterm", 1);
        no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR");
        speak(o);
        _exit(0);
    }
    if (!terminal)
        close(fds[1]);
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(fds[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(fds[0]);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return text;
}

static void a_terminal_gets_progress_and_colour(void **state)
{
    (void)state;
    const char *text = stderr_of(&(ls_terminal_opts){ .level = LS_INFO }, true, NULL);
    ASSERT_CONTAINS(
        text, "epoch 2/5 [#####---------------]  25%  117/468 steps  12 steps/s  30.0 s left  loss 0.5312");
    ASSERT_CONTAINS(text, "\r\033[Khello"); /* the message takes the line's place */
    /* cleared also when a rank drew the line that was killed since; and when progress or the verb ends */
    ASSERT_CONTAINS(text, "\r\033[K\033[1;31merror: \033[0mbroken \"x\"\r\n\r\033[K\r\033[K");
    assert_null(strstr(text, "whisper"));
    text = stderr_of(&(ls_terminal_opts){ .level = LS_INFO }, true, "1");
    assert_null(strstr(text, "\033[1;31m"));
    ASSERT_CONTAINS(text, "epoch 2/5");
    text = stderr_of(&(ls_terminal_opts){ .level = LS_INFO, .no_progress = true }, true, NULL);
    assert_null(strstr(text, "epoch"));
    text = stderr_of(&(ls_terminal_opts){ .level = LS_WARN }, true, NULL);
    assert_null(strstr(text, "epoch"));
    assert_null(strstr(text, "hello"));
}

static void a_pipe_gets_plain_lines(void **state)
{
    (void)state;
    assert_string_equal(stderr_of(&(ls_terminal_opts){ .level = LS_INFO }, false, NULL),
                        "hello\nerror: broken \"x\"\n");
    assert_string_equal(stderr_of(&(ls_terminal_opts){ .level = LS_DEBUG }, false, NULL),
                        "hello\nwhisper\nerror: broken \"x\"\n");
}

static void json_lines_parse(void **state)
{
    (void)state;
    const char *text = stderr_of(&(ls_terminal_opts){ .level = LS_INFO, .json = true }, false, NULL);
    int lines = 0;
    for (const char *p = text; *p; p += strcspn(p, "\n") + 1, lines++) {
        json_t *row;
        ASSERT_OK(ls_json_parse(&row, p, strcspn(p, "\n"), "line"));
        assert_string_equal(json_string_value(json_object_get(row, "level")), lines ? "error" : "info");
        assert_string_equal(json_string_value(json_object_get(row, "message")),
                            lines ? "broken \"x\"" : "hello");
        json_decref(row);
    }
    assert_int_equal(lines, 2);
}

/* Also on a terminal, where a message of detail would be dim. */
static void json_lines_have_no_colour(void **state)
{
    (void)state;
    const char *text = stderr_of(&(ls_terminal_opts){ .level = LS_DEBUG, .json = true }, true, NULL);
    ASSERT_CONTAINS(text, "\"whisper\"");
    ASSERT_CONTAINS(text, "\"error\"");
    assert_null(strchr(text, '\033'));
}

/* A child whose terminal is open when it gets the signals, with pauses of so many milliseconds before them.
 * Its status is 1 if there is no request to stop then. */
static pid_t begin(int n, const int *signals, const int *pauses)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        ls_ui ui;
        ls_terminal_open(&ui, &(ls_terminal_opts){ .level = LS_WARN });
        if (*ui.stop)
            _exit(2);
        for (int i = 0; i < n; i++) {
            usleep(1000 * (useconds_t)pauses[i]);
            raise(signals[i]);
        }
        _exit(*ui.stop ? 0 : 1);
    }
    return child;
}

/* Its exit status, or minus the signal that ended it. */
static int status_of(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Slurm sends SIGTERM twice at a time limit. However often, and whatever else it sends, the checkpoint is
 * written: only a second SIGINT that comes some seconds after the request ends the process. */
static void a_request_to_stop_is_heard_once(void **state)
{
    (void)state;
    static const struct {
        int n, signals[3], pauses[3], status;
    } CASES[] = {
        { 1, { SIGTERM }, { 0 }, 0 },
        { 1, { SIGINT }, { 0 }, 0 },
        { 1, { SIGHUP }, { 0 }, 0 },
        { 1, { SIGUSR2 }, { 0 }, 0 },
        { 1, { SIGUSR1 }, { 0 }, 1 },
        { 3, { SIGTERM, SIGCONT, SIGTERM }, { 0, 0, 8 }, 0 },
        { 2, { SIGINT, SIGINT }, { 0, 10 }, 0 },
        { 3, { SIGHUP, SIGTERM, SIGINT }, { 0, 0, 1000 }, 0 },
        { 3, { SIGINT, SIGTERM, SIGINT }, { 0, 3000, 2100 }, -SIGINT },
        { 3, { SIGTERM, SIGTERM, SIGHUP }, { 0, 5100, 0 }, 0 },
        { 2, { SIGUSR2, SIGUSR2 }, { 0, 5100 }, 0 },
    };
    enum { N = sizeof CASES / sizeof CASES[0] };
    pid_t children[N];
    for (int i = 0; i < N; i++)
        children[i] = begin(CASES[i].n, CASES[i].signals, CASES[i].pauses);
    for (int i = 0; i < N; i++) {
        const int got = status_of(children[i]);
        if (got != CASES[i].status)
            fail_msg("case %d: status %d instead of %d", i, got, CASES[i].status);
    }
    signal(SIGHUP, SIG_IGN); /* as nohup leaves it */
    assert_int_equal(status_of(begin(1, (const int[]){ SIGHUP }, (const int[]){ 0 })), 1);
    signal(SIGHUP, SIG_DFL);
    signal(SIGTERM, SIG_IGN); /* as `trap '' TERM` leaves it: a scheduler is heard all the same */
    assert_int_equal(status_of(begin(1, (const int[]){ SIGTERM }, (const int[]){ 0 })), 0);
    signal(SIGTERM, SIG_DFL);
}

/* A rank gets a request from its parent as SIGTERM, which it had blocked, and perhaps a second one from a
 * program that signals all processes of a job. Both are one request. What it ignores stays ignored. */
static void a_rank_hears_its_parent(void **state)
{
    (void)state;
    char control[16];
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    snprintf(control, sizeof control, "%d", fileno(tmpfile())); /* without a name, as that of ranks */
    pid_t child = fork(); /* the rank is remembered, so it is another process's */
    assert_true(child >= 0);
    if (!child) {
        setenv("LOCKSTEP_CONTROL_FD", control, 1);
        setenv("LOCKSTEP_RANK", "0", 1);
        setenv("LOCKSTEP_RANKS", "2", 1);
        sigprocmask(SIG_BLOCK, &term, NULL);
        signal(SIGINT, SIG_IGN);
        const pid_t keys = begin(2, (const int[]){ SIGINT, SIGINT }, (const int[]){ 0, 5100 }),
                    both = begin(2, (const int[]){ SIGTERM, SIGTERM }, (const int[]){ 0, 5 });
        _exit(status_of(keys) == 1 && status_of(both) == 0 ? 0 : 1);
    }
    assert_int_equal(status_of(child), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_progress_and_colour),
        cmocka_unit_test(a_pipe_gets_plain_lines),
        cmocka_unit_test(json_lines_parse),
        cmocka_unit_test(json_lines_have_no_colour),
        cmocka_unit_test(a_request_to_stop_is_heard_once),
        cmocka_unit_test(a_rank_hears_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
