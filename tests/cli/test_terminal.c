/* test_terminal.c - what stderr shows: a progress line and colours on a terminal (here a pseudo-terminal),
 * plain lines elsewhere, JSON with --log json; and that the first signal is a request. Each case runs in a
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

/* The first SIGTERM sets ui.stop, the second one ends the process. */
static void a_signal_asks_and_a_second_one_ends(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        ls_ui ui;
        ls_terminal_open(&ui, &(ls_terminal_opts){ .level = LS_WARN });
        if (*ui.stop)
            _exit(1);
        raise(SIGTERM);
        if (!*ui.stop)
            _exit(2);
        raise(SIGTERM);
        _exit(3);
    }
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* A rank gets it from its parent, and perhaps from whoever signals all processes of a job: one request. */
static void a_second_signal_leaves_a_rank_alone(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        ls_ui ui;
        char control[16];
        snprintf(control, sizeof control, "%d", fileno(tmpfile())); /* without a name, as that of ranks */
        setenv("LOCKSTEP_CONTROL_FD", control, 1);
        setenv("LOCKSTEP_RANK", "0", 1);
        setenv("LOCKSTEP_RANKS", "2", 1);
        ls_terminal_open(&ui, &(ls_terminal_opts){ .level = LS_WARN });
        raise(SIGTERM);
        raise(SIGTERM);
        _exit(*ui.stop ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_progress_and_colour),
        cmocka_unit_test(a_pipe_gets_plain_lines),
        cmocka_unit_test(json_lines_parse),
        cmocka_unit_test(json_lines_have_no_colour),
        cmocka_unit_test(a_signal_asks_and_a_second_one_ends),
        cmocka_unit_test(a_second_signal_leaves_a_rank_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
