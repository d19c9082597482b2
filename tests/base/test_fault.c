/* test_fault.c - fault points are counted, and the n-th one fails as armed: in this process, in writers, and
 * in a process that is to die. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "support/support.h"

static void *nothing(void *context) { return context; }

/* One call of every kind, in this order; how many failed, and the errno of the last that did. */
static int one_of_each(int *error)
{
    int failed = 0;
    char from[512], to[512], folder[512];
    pthread_t thread;
    snprintf(from, sizeof from, "%s", ls_test_path("from"));
    snprintf(to, sizeof to, "%s", ls_test_path("to"));
    snprintf(folder, sizeof folder, "%s", ls_test_path("folder"));
    int spare = open(from, O_RDWR | O_CREAT, 0666), fd;
#define TRY(bad)                      \
    do {                              \
        errno = 0;                    \
        if (bad)                      \
            failed++, *error = errno; \
    } while (0)
    TRY((fd = ls_sys_open(from, O_RDWR)) < 0);
    TRY(ls_sys_write(spare, "abcd", 4) != 4);
    TRY(ls_sys_fsync(spare));
    TRY(ls_sys_ftruncate(spare, 10));
    TRY(ls_sys_rename(from, to));
    TRY(ls_sys_mkdir(folder));
    TRY(ls_sys_remove(folder));
    void *p, *m;
    TRY((p = ls_sys_mmap(4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED);
    TRY(!(m = ls_sys_malloc(10)));
    int r;
    TRY((r = ls_sys_thread(&thread, nothing, NULL)) != 0 && (errno = r));
#undef TRY
    if (!r)
        pthread_join(thread, NULL);
    free(m);
    if (p != MAP_FAILED)
        munmap(p, 4096);
    if (fd >= 0)
        close(fd);
    close(spare);
    unlink(from), unlink(to), rmdir(folder);
    return failed;
}

enum { EACH = 10 };
static const int ERRORS[EACH] = { EMFILE, ENOSPC, EIO, ENOSPC, EIO, ENOSPC, EIO, ENOMEM, ENOMEM, EAGAIN };

static void each_point_fails_in_its_turn(void **state)
{
    (void)state;
    int error = 0;
    assert_int_equal(one_of_each(&error), 0); /* off */
    ls_fault_arm(LS_POINTS_ALL, -1, LS_FAIL_ONCE);
    assert_int_equal(one_of_each(&error), 0); /* only counted */
    assert_int_equal(ls_fault_disarm(), EACH);
    for (int n = 0; n < EACH; n++) {
        ls_fault_arm(LS_POINTS_ALL, n, LS_FAIL_ONCE);
        const int failed = one_of_each(&error);
        assert_int_equal(ls_fault_disarm(), EACH);
        assert_int_equal(failed, 1 + (n == 5)); /* a folder that was not made cannot be removed */
        if (n != 5)
            assert_int_equal(error, ERRORS[n]);
    }
    ls_fault_arm(LS_POINTS_OF_FILES, 0, LS_FAIL_ON);
    assert_int_equal(one_of_each(&error), 7);
    assert_int_equal(ls_fault_disarm(), 7);
    ls_fault_arm(1u << LS_POINT_SYNC | 1u << LS_POINT_NAME, 1, LS_FAIL_ONCE);
    assert_int_equal(one_of_each(&error), 1);
    assert_int_equal(ls_fault_disarm(), 2);
    assert_int_equal(one_of_each(&error), 0);
}

/* A disk that fills in the middle of a write: half of it, then nothing. */
static void a_short_write(void **state)
{
    (void)state;
    const char *path = ls_test_path("short");
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    ls_fault_arm(1u << LS_POINT_WRITE, 1, LS_FAIL_SHORT);
    assert_int_equal(ls_sys_write(fd, "abcd", 4), 4);
    assert_int_equal(ls_sys_write(fd, "efgh", 4), 2);
    assert_int_equal(ls_sys_pwrite(fd, "gh", 2, 6), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(ls_sys_pwrite(fd, "gh", 2, 6), 2);
    assert_int_equal(ls_fault_disarm(), 4);
    assert_int_equal(ls_file_size(path), 8);
    close(fd);
}

static char *content(const char *path)
{
    char *text;
    ASSERT_OK(ls_file_read(&text, NULL, path));
    return text;
}

/* Whatever fails, the old file stays, or the new one is whole; only a temporary that could not be removed may
 * remain. */
static void replacing(void **state)
{
    (void)state;
    static const ls_failing HOW[] = { LS_FAIL_ONCE, LS_FAIL_ON, LS_FAIL_SHORT };
    char path[512];
    snprintf(path, sizeof path, "%s", ls_test_path("file"));
    int failures = 0;
    ls_str text = { 0 };
    ls_str_add(&text, "new\n");
    for (int how = 0; how < 3; how++)
        for (int soon = 0; soon < 2; soon++)
            for (int n = 0, reached = 1; reached; n++) {
                ASSERT_OK(ls_file_write(path, "old\n", 4));
                ls_fault_arm(LS_POINTS_OF_FILES, n, HOW[how]);
                ls_status s = soon ? ls_file_write_soon(path, &text) : ls_file_write_text(path, &text);
                reached = ls_fault_disarm() > n;
                if (s != LS_OK) {
                    failures++;
                    ASSERT_CONTAINS(ls_error_message(), path);
                    ASSERT_CONTAINS(ls_error_message(), "(");
                }
                char *now = content(path);
                /* and then its folder could not be synced */
                const bool renamed = !soon && s != LS_OK && !strcmp(now, "new\n");
                if (strcmp(now, s == LS_OK ? "new\n" : "old\n") && !renamed)
                    fail_msg("point %d, how %d, soon %d: '%s' (%s)", n, how, soon, now,
                             s == LS_OK ? "ok" : ls_error_message());
                free(now);
            }
    assert_true(failures > 12);
    ls_str_release(&text);
}

static void from_the_environment(void **state)
{
    (void)state;
    static const char *const WRONG[] = { "write",           "write@",   "write@x",      "write@-1",
                                         "wrote@3",         "write@3:", "write@3:burn", "write@3:rank",
                                         "write@3:rank=1x", "@3",       "write@3 " };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        setenv("LOCKSTEP_FAIL", WRONG[i], 1);
        ASSERT_FAILS(ls_fault_from_environment(-1), LS_E_USAGE, WRONG[i], "POINT@NUMBER");
        assert_false(ls_fault_armed);
    }
    setenv("LOCKSTEP_FAIL", "write@0:on:rank=1", 1); /* another rank's */
    ASSERT_OK(ls_fault_from_environment(0));
    assert_false(ls_fault_armed);
    ASSERT_OK(ls_fault_from_environment(1));
    assert_true(ls_fault_armed);
    assert_int_equal(ls_sys_write(2, "x", 1), -1);
    assert_int_equal(ls_sys_write(2, "x", 1), -1);
    assert_int_equal(ls_fault_disarm(), 2);
    setenv("LOCKSTEP_FAIL", "sync@1:kill:rank=-1", 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (ls_fault_from_environment(-1) == LS_OK && ls_sys_fsync(2) <= 0)
            (void)ls_sys_fsync(2);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("LOCKSTEP_FAIL");
    ASSERT_OK(ls_fault_from_environment(-1));
    assert_false(ls_fault_armed);
}

/* A replaced file is on disk before it gets its name, and its name after: two syncs. A crash between calls
 * cannot be tested, so they are counted. */
static void a_file_and_its_folder_are_synced(void **state)
{
    (void)state;
    const char *path = ls_test_path("synced");
    for (int there = 0; there < 2; there++) {
        ls_fault_arm(1u << LS_POINT_SYNC, -1, LS_FAIL_ONCE);
        ASSERT_OK(ls_file_write(path, "x", 1));
        assert_int_equal(ls_fault_disarm(), 2);
        for (int n = 0; n < 2; n++) {
            /* file, name, folder */
            ls_fault_arm(1u << LS_POINT_SYNC | 1u << LS_POINT_NAME, n ? 2 : 0, LS_FAIL_ONCE);
            assert_int_equal(ls_file_write(path, "y", 1), LS_E_IO);
            ls_fault_disarm();
            char *text;
            ASSERT_OK(ls_file_read(&text, NULL, path));
            assert_string_equal(text, n ? "y" : "x");
            free(text);
        }
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_point_fails_in_its_turn),
                                        cmocka_unit_test(a_file_and_its_folder_are_synced),
                                        cmocka_unit_test(a_short_write), cmocka_unit_test(replacing),
                                        cmocka_unit_test(from_the_environment) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
