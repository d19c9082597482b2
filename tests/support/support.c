/* support.c - see support.h. */
#include "support.h"
#include "allocations.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"

void ls_test_ok(ls_status s, const char *call, const char *file, int line)
{
    if (s == LS_OK)
        return;
    print_error("%s: %s: %s\n%s", call, ls_status_name(s), ls_error_message(), ls_error_trace());
    _fail(file, line);
}

void ls_test_contains(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part))
        return;
    print_error("\"%s\" is not in \"%s\"\n", part, text);
    _fail(file, line);
}

void ls_test_fails(ls_status s, ls_status expected, const char *call, const char *file, int line,
                   const char *const *parts)
{
    if (s != expected) {
        print_error("%s: expected \"%s\", got \"%s\" (%s)\n", call, ls_status_name(expected),
                    ls_status_name(s), s ? ls_error_message() : "");
        _fail(file, line);
    }
    for (; *parts; parts++)
        ls_test_contains(ls_error_message(), *parts, file, line);
}

int ls_test_memory(ls_status (*call)(void *context), void *context, int stride)
{
    const int thin = LS_TEST_SANITIZED ? 5 : 1; /* a call takes up to twenty times as long there */
    int failures = 0;
    bool reached = true;
    for (int64_t n = 0; reached; n += n < 50 ? stride : stride * thin) {
        ls_fail(LS_OK, "%s", "");
        ls_fault_arm(1u << LS_POINT_MEMORY, n, LS_FAIL_ONCE);
        const ls_status s = call(context);
        reached = ls_fault_disarm() > n;
        if (s != LS_OK && (s != LS_E_MEMORY || !strchr(ls_error_message(), ' ') || !reached))
            fail_msg("allocation %lld: %s: \"%s\"\n%s", (long long)n, ls_status_name(s), ls_error_message(),
                     ls_error_trace());
        failures += s == LS_OK ? 0 : n < 50 ? 1 : thin;
    }
    return failures;
}

static char scratch[256];
static pid_t scratch_owner; /* a forked child must not remove its parent's folder */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    (void)st, (void)flag, (void)where;
    return remove(path);
}

static void remove_scratch(void)
{
    if (getpid() == scratch_owner)
        nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_scratch(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/lockstep-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(scratch)) {
        perror(scratch);
        abort();
    }
    scratch_owner = getpid();
    atexit(remove_scratch);
}

const char *ls_test_dir(void)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT; /* ranks are threads */
    pthread_once(&made, make_scratch);
    return scratch;
}

const char *ls_test_path(const char *name)
{
    static _Thread_local char paths[8][512];
    static _Thread_local int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", ls_test_dir(), name);
    return path;
}

int ls_test_count(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int skipped;

void ls_test_skip(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "skipped: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    skipped++;
    skip();
    abort(); /* skip() does not return */
}

int ls_test_result(int failed) { return failed ? 1 : skipped ? 77 : 0; }

void ls_test_comma_locale(void)
{
    static const char *const INSTALLED[] = { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8" };
    static const char SOURCE[] =
        "LC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"<U002E>\"\ngrouping 3;3\n"
        "END LC_NUMERIC\n";
    char command[1200];
    for (size_t i = 0; i < sizeof INSTALLED / sizeof *INSTALLED; i++)
        if (setlocale(LC_NUMERIC, INSTALLED[i]))
            return;
    ASSERT_OK(ls_file_write(ls_test_path("comma.source"), SOURCE, sizeof SOURCE - 1));
    snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s >%s 2>&1", ls_test_path("comma.source"),
             ls_test_path("comma"), ls_test_path("comma.log"));
    const int started = system(command) >= 0; /* (its status is 1: the source lacks categories) */
    setenv("LOCPATH", ls_test_dir(), 1);
    if (started && setlocale(LC_NUMERIC, "comma"))
        return;
    ls_test_skip(
        "no locale with a decimal comma is installed, and localedef cannot make one (Debian: locales)");
}

static bool no_threads; /* LS_TEST_NO_THREADS=1: in this test, whose name is in `without_threads` */
#if !LS_TEST_SANITIZED
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*f)(void *), void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (no_threads) {
        fprintf(stderr,
                "%s starts a thread, so ThreadSanitizer has to see it: take it out of without_threads "
                "in tests/CMakeLists.txt\n",
                program_invocation_short_name);
        abort();
    }
    if (!create)
        create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))(uintptr_t)dlsym(
            RTLD_NEXT, "pthread_create");
    return create(thread, attributes, f, argument);
}
#endif

static char data_folder[4096]; /* tests set and unset LOCKSTEP_DATA */
__attribute__((constructor)) static void read_environment(void)
{
    no_threads = getenv("LS_TEST_NO_THREADS") != NULL;
    unsetenv("OMP_NUM_THREADS"); /* they would lower the number of threads */
    unsetenv("SLURM_CPUS_PER_TASK");
    const char *data = getenv("LOCKSTEP_DATA");
    snprintf(data_folder, sizeof data_folder, "%s", data ? data : "");
}

const char *ls_test_data(const char *name)
{
    char *path = ls_path_join(data_folder, name);
    const bool there = path && !access(path, R_OK);
    free(path);
    if (!*data_folder)
        ls_test_skip("LOCKSTEP_DATA is not set (a folder that contains %s)", name);
    if (!there)
        ls_test_skip("LOCKSTEP_DATA (%s) does not contain %s", data_folder, name);
    return data_folder;
}

void ls_test_same_file(const char *a, const char *b, const char *name)
{
    size_t n, m;
    char *p = ls_path_join(a, name), *q = ls_path_join(b, name), *x, *y;
    ASSERT_OK(ls_file_read(&x, &n, p));
    ASSERT_OK(ls_file_read(&y, &m, q));
    if (n != m || memcmp(x, y, n))
        fail_msg("%s and %s differ", p, q);
    free(p);
    free(q);
    free(x);
    free(y);
}
