/* test_watch.c - `lockstep watch` on a pseudo-terminal: it draws, follows the size of the window, ends with q
 * or a signal, and leaves the terminal as it was; elsewhere it prints once, without escape sequences. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "cli/cli.h"
#include "support/support.h"

static void make_run(const char *storage, const char *name)
{
    static const char ROW[] = "{\"kind\":\"step\",\"step\":1,\"epoch\":0,\"loss\":0.5,\"lr\":0.1,\"samples\":"
                              "8,\"seconds\":0.5,\"attempt\":0}\n";
    static const char RESULT[] = "{\"state\":\"finished\",\"time\":1,\"step\":1,\"epoch\":0}";
    char path[800];
    snprintf(path, sizeof path, "%s/%s/log", storage, name);
    ASSERT_OK(ls_make_dirs(path));
    snprintf(path, sizeof path, "%s/%s/recipe.yaml", storage, name);
    ASSERT_OK(ls_file_write(path, "", 0));
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", storage, name);
    ASSERT_OK(ls_file_write(path, ROW, sizeof ROW - 1));
    snprintf(path, sizeof path, "%s/%s/result.json", storage, name);
    ASSERT_OK(ls_file_write(path, RESULT, sizeof RESULT - 1));
}

static int watch(char **words, int n)
{
    ls_ui ui;
    ls_args a;
    if (ls_args_parse(&a, ls_verb_find("watch"), n, words) != LS_OK)
        return 9;
    ls_terminal_open(&ui, &(ls_terminal_opts){ .level = LS_WARN });
    const ls_status s = ls_verb_watch(&a, &ui);
    fflush(ui.out);
    ls_terminal_close();
    ls_args_release(&a);
    return (int)s;
}

/* Reads what the child writes until `text` occurs in it. */
static void wait_for(int fd, char *all, size_t size, const char *text)
{
    size_t n = strlen(all);
    for (double end = ls_now() + 60; !strstr(all, text) && ls_now() < end && n < size - 1;) {
        struct pollfd in = { .fd = fd, .events = POLLIN };
        const ssize_t got = poll(&in, 1, 100) > 0 ? read(fd, all + n, size - 1 - n) : 0;
        n += got > 0 ? (size_t)got : 0;
        all[n] = 0;
    }
    ASSERT_CONTAINS(all, text);
}

static pid_t start(int *fd, char *run, const char *no_color)
{
    struct winsize size = { .ws_row = 24, .ws_col = 100 };
    const pid_t child = forkpty(fd, NULL, NULL, &size);
    assert_true(child >= 0);
    if (!child) {
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        no_color ? setenv("NO_COLOR", no_color, 1) : unsetenv("NO_COLOR");
        _exit(watch(&run, 1));
    }
    return child;
}

static int status_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char all[1 << 20];

static void it_draws_until_q(void **state)
{
    (void)state;
    char run[700];
    int fd;
    snprintf(run, sizeof run, "%s", ls_test_path("one/first"));
    make_run(ls_test_path("one"), "first");
    const pid_t child = start(&fd, run, NULL);
    struct termios before, after;
    *all = 0;
    wait_for(fd, all, sizeof all, "q quit");
    ASSERT_CONTAINS(all, "\033[?1049h"); /* the other screen */
    ASSERT_CONTAINS(all, "first");
    ASSERT_CONTAINS(all, "\033[0;32mfinished"); /* in colour */
    assert_int_equal(tcgetattr(fd, &before), 0);
    assert_false(before.c_lflag & ECHO);
    *all = 0;
    assert_int_equal(write(fd, "l", 1), 1);
    wait_for(fd, all, sizeof all, "(log)");
    /* a window of other size */
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &(struct winsize){ .ws_row = 12, .ws_col = 60 }), 0);
    *all = 0;
    wait_for(fd, all, sizeof all, "q quit");
    *all = 0;
    wait_for(fd, all, sizeof all, "q quit"); /* a whole frame of that size */
    int lines = 0;
    for (const char *p = strstr(all, "\033[H"); p && *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 11);
    *all = 0;
    assert_int_equal(write(fd, "q", 1), 1);
    wait_for(fd, all, sizeof all, "\033[?1049l");
    assert_int_equal(status_of(child), LS_OK);
    if (tcgetattr(fd, &after) == 0)
        assert_true(after.c_lflag & ECHO);
    close(fd);
}

static void a_signal_leaves_the_terminal_as_it_was(void **state)
{
    (void)state;
    char run[700];
    int fd;
    snprintf(run, sizeof run, "%s", ls_test_path("two/second"));
    make_run(ls_test_path("two"), "second");
    const pid_t child = start(&fd, run, "1");
    *all = 0;
    wait_for(fd, all, sizeof all, "q quit");
    assert_null(strstr(all, "\033[0;")); /* NO_COLOR */
    kill(child, SIGTERM);
    wait_for(fd, all, sizeof all, "\033[?1049l");
    assert_int_equal(status_of(child), LS_OK);
    close(fd);
}

static void a_pipe_gets_plain_text_once(void **state)
{
    (void)state;
    int fds[2];
    char storage[700];
    snprintf(storage, sizeof storage, "%s", ls_test_path("three"));
    make_run(storage, "older");
    usleep(20000);
    make_run(storage, "newer");
    assert_int_equal(pipe(fds), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char *words[] = { storage };
        dup2(fds[1], 1);
        _exit(watch(words, 1));
    }
    close(fds[1]);
    size_t n = 0;
    for (ssize_t got; n < sizeof all - 1 && (got = read(fds[0], all + n, sizeof all - 1 - n)) > 0;)
        n += (size_t)got;
    all[n] = 0;
    close(fds[0]);
    assert_int_equal(status_of(child), LS_OK);
    assert_null(strchr(all, '\033'));
    ASSERT_CONTAINS(all, "newer  finished"); /* the one that wrote last */
    ASSERT_CONTAINS(all, "loss 0.5");
}

static ls_status run_of(const char *word)
{
    char *words[] = { (char *)(uintptr_t)word };
    ls_args a;
    ASSERT_OK(ls_args_parse(&a, ls_verb_find("watch"), 1, words));
    const ls_status s = ls_verb_watch(&a, &(ls_ui){ .out = stdout });
    ls_args_release(&a);
    return s;
}

static void a_run_that_is_not_there_is_refused(void **state)
{
    (void)state;
    ASSERT_FAILS(run_of("nowhere"), LS_E_USAGE, "nowhere: no such run");
    ASSERT_OK(ls_make_dirs(ls_test_path("empty")));
    ASSERT_FAILS(run_of(ls_test_path("empty")), LS_E_USAGE, "no such run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_draws_until_q),
        cmocka_unit_test(a_signal_leaves_the_terminal_as_it_was),
        cmocka_unit_test(a_pipe_gets_plain_text_once),
        cmocka_unit_test(a_run_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
