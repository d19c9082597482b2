/* test_file.c - files: what is read, what is replaced. After every failure the old file is there, no
 * temporary file is left, and the message helps. */
#include "base/fault.h"
#include "base/file.h"
#include "base/find.h"
#include "support/support.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_content(const char *path, const char *content, size_t n)
{
    char *text;
    size_t size;
    ASSERT_OK(ls_file_read(&text, &size, path));
    assert_int_equal(size, n);
    assert_memory_equal(text, content, n);
    assert_int_equal(text[n], 0);
    free(text);
    ls_mapping m;
    ASSERT_OK(ls_file_map(&m, path));
    assert_int_equal(m.size, n);
    if (n)
        assert_memory_equal(m.data, content, n);
    else
        assert_null(m.data);
    ls_file_unmap(&m);
    ls_file_unmap(&m);
}

static void write_and_read(void **state)
{
    (void)state;
    enum { BIG = 3000000 };
    char *big = malloc(BIG);
    for (int i = 0; i < BIG; i++)
        big[i] = (char)(i * 7 ^ i >> 9);
    const char *path = ls_test_path("file");
    ASSERT_OK(ls_file_write(path, "", 0));
    expect_content(path, "", 0);
    ASSERT_OK(ls_file_write(path, "hello", 5));
    expect_content(path, "hello", 5);
    ls_writer w;
    ASSERT_OK(ls_writer_open(&w, path));
    size_t n = 0;
    for (size_t piece = 1; n + piece < BIG; piece = piece * 3 + 1) {
        /* 1 byte up to several buffers in one call */
        ASSERT_OK(ls_writer_put(&w, big + n, piece));
        n += piece;
        assert_int_equal(w.offset, n);
    }
    expect_content(path, "hello", 5); /* not before the commit */
    ASSERT_OK(ls_writer_commit(&w));
    ls_writer_abort(&w);
    expect_content(path, big, n);
    ASSERT_OK(ls_writer_open(&w, path));
    ASSERT_OK(ls_writer_put(&w, "gone", 4));
    ls_writer_abort(&w);
    expect_content(path, big, n);
    assert_int_equal(ls_test_count(ls_test_dir()), 1);
    assert_int_equal(ls_file_size(path), n);
    free(big);
    unlink(path);
    assert_int_equal(ls_file_size(path), -1);
}

static void keeps_permissions(void **state)
{
    (void)state;
    const char *path = ls_test_path("mode");
    struct stat st;
    ASSERT_OK(ls_file_write(path, "a", 1));
    assert_int_equal(chmod(path, 0640), 0);
    ASSERT_OK(ls_file_write(path, "b", 1));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(chmod(path, 01600), 0); /* the bits beside the nine too */
    ASSERT_OK(ls_file_write(path, "c", 1));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 01600);
    unlink(path);
}

static void bad_paths(void **state)
{
    (void)state;
    ls_mapping m;
    char *text;
    const char *file = ls_test_path("plain"), *dir = ls_test_dir();
    ASSERT_OK(ls_file_write(file, "x", 1));
    ASSERT_FAILS(ls_file_map(&m, ls_test_path("none")), LS_E_IO, "/none", "No such file", "check the path");
    ASSERT_FAILS(ls_file_read(&text, NULL, ls_test_path("none")), LS_E_IO, "/none", "No such file");
    ASSERT_FAILS(ls_file_map(&m, dir), LS_E_IO, dir, "folder");
    ASSERT_FAILS(ls_file_read(&text, NULL, "/dev/null"), LS_E_IO, "/dev/null", "not a regular file");
    const char *fifo = ls_test_path("fifo"); /* opening one waits for somebody who writes */
    assert_int_equal(mkfifo(fifo, 0600), 0);
    ASSERT_FAILS(ls_file_read(&text, NULL, fifo), LS_E_IO, "/fifo", "it is a pipe, not a regular file");
    ASSERT_FAILS(ls_file_map(&m, fifo), LS_E_IO, "/fifo", "it is a pipe, not a regular file");
    unlink(fifo);
    ASSERT_FAILS(ls_file_write(ls_test_path("no/where"), "x", 1), LS_E_IO, "/no/where", "No such file");
    ASSERT_FAILS(ls_file_write(ls_test_path("plain/sub"), "x", 1), LS_E_IO, "Not a directory",
                 "is a file, not a folder");
    ASSERT_FAILS(ls_file_write(dir, "x", 1), LS_E_IO, dir, "folder");
    assert_int_equal(ls_test_count(dir), 1);
    unlink(file);
}

/* Runs `body` in a child process (it changes user, limits or signals for good). */
static void in_child(void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define MUST(condition)                                                                  \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            print_error("line %d: %s (%s)\n", __LINE__, #condition, ls_error_message()); \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

static void write_to_closed_folder(void)
{
    MUST(geteuid() != 0 || setuid(65534) == 0); /* root may write anywhere */
    const char *path = ls_test_path("closed/file");
    MUST(ls_file_write(path, "x", 1) == LS_E_IO);
    MUST(strstr(ls_error_message(), "closed/file: cannot write: Permission denied (check the permissions"));
    MUST(ls_make_dirs(ls_test_path("closed/a/b")) == LS_E_IO);
    MUST(strstr(ls_error_message(), "closed/a/b: cannot create folder: Permission denied"));
}

static void unwritable_folder(void **state)
{
    (void)state;
    const char *dir = ls_test_path("closed");
    assert_int_equal(chmod(ls_test_dir(), 0755), 0);
    assert_int_equal(mkdir(dir, 0555), 0);
    in_child(write_to_closed_folder);
    assert_int_equal(ls_test_count(dir), 0);
    rmdir(dir);
}

/* A size limit behaves as a disk that fills up: a short write first, then an error. */
static void write_beyond_the_limit(void)
{
    static char data[1 << 20];
    struct rlimit limit = { 300000, 300000 };
    signal(SIGXFSZ, SIG_IGN);
    MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const char *path = ls_test_path("limited");
    MUST(ls_file_write(path, data, sizeof data) == LS_E_IO);
    MUST(strstr(ls_error_message(), "limited: cannot write: File too large ("));
    ls_writer w;
    MUST(ls_writer_open(&w, path) == LS_OK); /* the same, but the last buffer meets the limit: at commit */
    MUST(ls_writer_put(&w, data, 290000) == LS_OK);
    MUST(ls_writer_put(&w, data, 20000) == LS_OK);
    MUST(ls_writer_commit(&w) == LS_E_IO);
    ls_writer_abort(&w);
}

static void full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = ls_test_path("limited");
    ASSERT_OK(ls_file_write(path, "old", 3));
    in_child(write_beyond_the_limit);
    expect_content(path, "old", 3);
    assert_int_equal(ls_test_count(ls_test_dir()), 1);
    unlink(path);
}

/* As nobody, for if this went wrong, root would replace the device by a file. */
static void write_to_devices(void)
{
    static char data[1 << 20];
    struct stat st;
    MUST(geteuid() != 0 || setuid(65534) == 0);
    MUST(ls_file_write("/dev/full", "x", 1) == LS_E_IO);
    MUST(strstr(ls_error_message(),
                "/dev/full: cannot write: No space left on device (the disk is full: free some space"));
    MUST(ls_file_write("/dev/full", data, sizeof data) == LS_E_IO);
    MUST(strstr(ls_error_message(), "No space left on device"));
    MUST(ls_file_write("/dev/null", data, sizeof data) == LS_OK);
    MUST(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode));
}

static void devices_are_written_directly(void **state)
{
    (void)state;
    in_child(write_to_devices);
}

/* Threads, like processes in containers of their own, share a process number: each of them still replaces the
 * file whole. */
enum { LARGE = 200000 };
static char shared[512];

static void *write_often(void *argument)
{
    char *data = malloc(LARGE);
    memset(data, *(const char *)argument, LARGE);
    bool fine = true;
    for (int i = 0; i < 20; i++)
        fine = ls_file_write(shared, data, LARGE) == LS_OK && fine;
    free(data);
    return fine ? argument : NULL;
}

static void writers_do_not_meet(void **state)
{
    (void)state;
    static const char LETTERS[] = "abc";
    pthread_t threads[3];
    char *text;
    size_t size;
    void *fine;
    snprintf(shared, sizeof shared, "%s", ls_test_path("shared"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, (void *)(uintptr_t)&LETTERS[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &fine);
        assert_non_null(fine);
        ASSERT_OK(ls_file_read(&text, &size, shared));
        assert_int_equal(size, LARGE);
        for (int k = 1; k < LARGE; k++)
            assert_int_equal(text[k], text[0]);
        free(text);
    }
}

/* A process that died left one, this one did too, and another that lives has one. */
static void temporaries_of_the_dead_go(void **state)
{
    (void)state;
    char dead[64], own[64], living[64];
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(dead, sizeof dead, "left/x.tmp-%d-0123abcd", (int)child);
    snprintf(own, sizeof own, "left/x.tmp-%d-0123abcd", (int)getpid());
    snprintf(living, sizeof living, "left/x.tmp-%d-0123abcd", (int)getppid());
    static const char *const OTHERS[] = { "left/x.tmp-", "left/x.tmp-1x", "left/tmp" };
    ASSERT_OK(ls_make_dirs(ls_test_path("left")));
    ASSERT_OK(ls_file_write(ls_test_path(dead), "x", 1));
    ASSERT_OK(ls_file_write(ls_test_path(own), "x", 1));
    ASSERT_OK(ls_file_write(ls_test_path(living), "x", 1));
    for (int i = 0; i < 3; i++)
        ASSERT_OK(ls_file_write(ls_test_path(OTHERS[i]), "x", 1));
    ls_remove_temporaries(ls_test_path("left"));
    assert_false(ls_file_exists(ls_test_path(dead)) || ls_file_exists(ls_test_path(own)));
    assert_int_equal(ls_test_count(ls_test_path("left")), 4);
}

static void nothing(int signal) { (void)signal; }

/* A pipe that is read slowly while a timer interrupts the writer: short writes and EINTR in numbers. */
static void *slow_reader(void *argument)
{
    const char *path = argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* the writer gets the signals */
    int fd = open(path, O_RDONLY);
    char *got = malloc(4 << 20);
    size_t n = 0;
    for (ssize_t k; (k = read(fd, got + n, 5000)) > 0; n += (size_t)k)
        usleep(1000); /* several signals meet a full pipe */
    close(fd);
    for (size_t i = 0; i < n; i++)
        if (got[i] != (char)(i % 251))
            n = 0;
    free(got);
    return (void *)n;
}

static void interrupted_writes(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    const char *path = ls_test_path("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, slow_reader, (void *)path), 0);
    char *data = malloc(SIZE);
    for (int i = 0; i < SIZE; i++)
        data[i] = (char)(i % 251);
    ls_writer w;
    ASSERT_OK(ls_writer_open(&w, path));
    struct sigaction action = { .sa_handler = nothing }; /* no SA_RESTART */
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &every, NULL);
    ls_status put = ls_writer_put(&w, data, SIZE), commit = ls_writer_commit(&w);
    setitimer(ITIMER_REAL, &never, NULL);
    void *received;
    pthread_join(reader, &received);
    assert_int_equal(put, LS_OK);
    assert_int_equal(commit, LS_OK);
    assert_int_equal((size_t)received, SIZE);
    free(data);
    unlink(path);
}

static void folders_and_paths(void **state)
{
    (void)state;
    const char *deep = ls_test_path("a/b//c/");
    ASSERT_OK(ls_make_dirs(deep));
    ASSERT_OK(ls_make_dirs(deep));
    assert_true(ls_dir_exists(deep));
    assert_false(ls_file_exists(deep));
    const char *file = ls_test_path("a/file");
    ASSERT_OK(ls_file_write(file, "x", 1));
    assert_true(ls_file_exists(file));
    assert_false(ls_dir_exists(file));
    ASSERT_FAILS(ls_make_dirs(ls_test_path("a/file/d")), LS_E_IO, "a/file/d", "Not a directory");
    ASSERT_FAILS(ls_make_dirs(file), LS_E_IO, "a/file", "Not a directory");
    ASSERT_FAILS(ls_make_dirs(""), LS_E_ARG, "without a name");
    ASSERT_OK(ls_make_dirs("/"));
    static const char *const JOINS[][3] = {
        { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "", "b", "b" }, { "a", "/b", "/b" }, { "/", "b", "/b" }
    };
    for (size_t i = 0; i < sizeof JOINS / sizeof *JOINS; i++) {
        char *joined = ls_path_join(JOINS[i][0], JOINS[i][1]);
        assert_string_equal(joined, JOINS[i][2]);
        free(joined);
    }
}

/* NULL is a path that there was no memory for. */
static void paths_without_memory(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    ls_mapping m;
    ls_fault_arm(1u << LS_POINT_MEMORY, 0, LS_FAIL_ONCE);
    char *path = ls_path_join("a", "b"), *under = ls_path_join(path, "c");
    ls_fault_disarm();
    assert_null(path);
    assert_null(under);
    assert_false(ls_file_exists(path) || ls_dir_exists(path));
    assert_int_equal(ls_file_size(path), -1);
    ASSERT_FAILS(ls_file_read(&text, &n, path), LS_E_MEMORY, "no memory for its path");
    ASSERT_FAILS(ls_file_map(&m, path), LS_E_MEMORY, "no memory for its path");
    ASSERT_FAILS(ls_file_write(path, "x", 1), LS_E_MEMORY, "no memory for its path");
    ASSERT_FAILS(ls_make_dirs(path), LS_E_MEMORY, "no memory for its path");
    ls_remove_temporaries(path);
}

static ls_status rewritten(void *context)
{
    const char *path = context;
    char *text;
    size_t n;
    LS_TRY(ls_file_write(path, "text", 4));
    LS_TRY(ls_file_read(&text, &n, path));
    free(text);
    return LS_OK;
}

static void files_without_memory(void **state)
{
    (void)state;
    assert_true(ls_test_memory(rewritten, (void *)(uintptr_t)ls_test_path("small"), 1) >= 4);
}

static void expect_cache(const char *expected)
{
    char *dir = ls_cache_dir();
    assert_string_equal(dir, expected);
    free(dir);
}

static void cache_folder(void **state)
{
    (void)state;
    setenv("LOCKSTEP_CACHE", "/c", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    expect_cache("/c");
    setenv("LOCKSTEP_CACHE", "", 1);
    expect_cache("/x/lockstep");
    setenv("XDG_CACHE_HOME", "relative", 1);
    expect_cache("/h/.cache/lockstep");
    unsetenv("HOME");
    char expected[64];
    snprintf(expected, sizeof expected, "/tmp/lockstep-cache-%u", (unsigned)getuid());
    expect_cache(expected);
}

static void expect_found(const char *name, const char *wanted)
{
    char *found;
    ASSERT_OK(ls_find(&found, name, ls_find_any));
    assert_string_equal(found ? found : "nothing", wanted);
    free(found);
}

/* The working folder, then LOCKSTEP_DATA, then the cache's folder data; an absolute path is looked for
 * nowhere else. */
static void places_of_models_and_tokenizers(void **state)
{
    (void)state;
    char *here = getcwd(NULL, 0), absolute[512];
    ls_str places = { 0 };
    ASSERT_OK(ls_make_dirs(ls_test_path("places/given")));
    ASSERT_OK(ls_make_dirs(ls_test_path("places/cache/data/deep")));
    assert_int_equal(chdir(ls_test_path("places")), 0);
    setenv("LOCKSTEP_CACHE", "cache", 1);
    setenv("LOCKSTEP_DATA", "given", 1);
    expect_found("m", "nothing");
    ASSERT_OK(ls_file_write("cache/data/m", "c", 1));
    expect_found("m", "cache/data/m");
    expect_found("deep", "cache/data/deep"); /* a folder, too */
    ASSERT_OK(ls_file_write("given/m", "g", 1));
    expect_found("m", "given/m");
    ASSERT_OK(ls_file_write("m", "h", 1));
    expect_found("m", "m");
    snprintf(absolute, sizeof absolute, "/%s", "m");
    expect_found(absolute, "nothing");
    ls_find_places(&places, "m");
    assert_string_equal(ls_str_text(&places), "in this folder, in LOCKSTEP_DATA (given) and in cache/data");
    ls_str_clear(&places);
    ls_find_places(&places, absolute);
    assert_string_equal(ls_str_text(&places), "");
    ls_str_release(&places);
    assert_int_equal(chdir(here), 0);
    free(here);
}

static void files_that_lie_about_their_size(void **state)
{
    (void)state;
    char *text; /* /proc says 0 bytes */
    size_t n;
    ASSERT_OK(ls_file_read(&text, &n, "/proc/self/status"));
    assert_true(n > 100 && strlen(text) == n);
    assert_memory_equal(text, "Name:", 5);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_read),
        cmocka_unit_test(keeps_permissions),
        cmocka_unit_test(bad_paths),
        cmocka_unit_test(unwritable_folder),
        cmocka_unit_test(full_disk_leaves_the_old_file),
        cmocka_unit_test(devices_are_written_directly),
        cmocka_unit_test(interrupted_writes),
        cmocka_unit_test(folders_and_paths),
        cmocka_unit_test(cache_folder),
        cmocka_unit_test(places_of_models_and_tokenizers),
        cmocka_unit_test(files_that_lie_about_their_size),
        cmocka_unit_test(writers_do_not_meet),
        cmocka_unit_test(paths_without_memory),
        cmocka_unit_test(files_without_memory),
        cmocka_unit_test(temporaries_of_the_dead_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
