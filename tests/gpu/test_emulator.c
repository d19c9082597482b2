/* test_emulator.c - the emulator names the line of mistakes that were planted (planted.cu), by results and
 * messages of its own, and under the sanitizers by their reports; and says nothing of correct kernels. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/str.h"
#include "device/cuda/driver.h"
#include "support/support.h"

#define DECLARE_CU(field, symbol, arguments) cu_result symbol arguments;
CU_FUNCTIONS(DECLARE_CU)
#define DECLARE_NVRTC(field, symbol, arguments) nvrtc_result symbol arguments;
NVRTC_FUNCTIONS(DECLARE_NVRTC)

enum { N = 640, BLOCKS = N / 64 };
typedef struct planted_args {
    uint64_t x, y;
    int n;
} planted_args;

#define CHECK(call) check(call, #call)
static void check(int r, const char *what)
{
    if (r) {
        print_error("%s: %d\n", what, r);
        exit(3);
    }
}

static char *source(const char *name)
{
    char path[512], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s", LS_TEST_SOURCE_DIR, name);
    if (ls_file_read(&text, &bytes, path) != LS_OK)
        exit(4);
    return text;
}

static cu_module compile(bool mistake)
{
    char *own = source("tests/gpu/planted.cu"), *dialect = source("src/device/gpu/kernels/dialect.h"),
         *types = source("src/device/gpu/kernels/types.h"), *text, *log;
    size_t bytes;
    cu_module m;
    nvrtc_program p;
    if (asprintf(&text, "%s#line 1 \"planted.cu\"\n%s", mistake ? "#define MISTAKE\n" : "", own) < 0)
        exit(4);
    CHECK(nvrtcCreateProgram(&p, text, "planted.cu", 2, (const char *const[]){ dialect, types },
                             (const char *const[]){ "dialect.h", "types.h" }));
    const int r = nvrtcCompileProgram(p, 1, (const char *const[]){ "--gpu-architecture=sm_80" });
    CHECK(nvrtcGetProgramLogSize(p, &bytes));
    log = calloc(bytes, 1);
    CHECK(nvrtcGetProgramLog(p, log));
    if (r) {
        print_error("%s\n", log);
        exit(4);
    }
    CHECK(nvrtcGetCUBINSize(p, &bytes));
    char *code = malloc(bytes);
    CHECK(nvrtcGetCUBIN(p, code));
    CHECK(nvrtcDestroyProgram(&p));
    CHECK(cuModuleLoadData(&m, code));
    free(code), free(own), free(dialect), free(types), free(text), free(log);
    return m;
}

/* Runs a kernel on 0, 1, 2, .. and gets what it wrote. */
static void run(const char *kernel, bool mistake, float y[N])
{
    static float x[N];
    cu_context context;
    cu_stream s;
    cu_function f;
    planted_args a = { .n = N };
    void *arguments[] = { &a };
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    cu_module m = compile(mistake);
    CHECK(cuModuleGetFunction(&f, m, kernel));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&a.x, sizeof x));
    CHECK(cuMemAlloc_v2(&a.y, sizeof x));
    CHECK(cuMemcpyAsync(a.x, (cu_address)(uintptr_t)x, sizeof x, s));
    /* one block more than there is room for: `beyond` checks the index */
    CHECK(cuLaunchKernel(f, strcmp(kernel, "beyond") ? BLOCKS : BLOCKS + 1, 1, 1, 64, 1, 1, 512, s, arguments,
                         NULL));
    CHECK(cuMemcpyAsync((cu_address)(uintptr_t)y, a.y, sizeof x, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy_v2(s));
    CHECK(cuMemFree_v2(a.x));
    CHECK(cuMemFree_v2(a.y));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

static float expected(const char *kernel, int i)
{
    const int block = i / 64, t = i % 64, other = 64 * block + 63 - t;
    return (float)(!strcmp(kernel, "mirror")          ? other
                   : !strcmp(kernel, "columns")       ? 2 * i
                   : !strcmp(kernel, "groups")        ? i + other
                   : !strcmp(kernel, "beyond_shared") ? t
                   : !strcmp(kernel, "lonely")        ? t ^ 1
                                                      : 1);
}

enum { RIGHT = 0, WRONG_RESULT = 77 };
/* In a process of its own: the exit status, or 128 + the signal; *said is what it wrote to stderr. */
static int in_process(const char *kernel, bool mistake, int seed, char **said)
{
    char path[] = "/tmp/lockstep-emulator-XXXXXX";
    size_t bytes;
    int status;
    const int file = mkstemp(path);
    assert_true(file >= 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        static float y[N];
        char settings[64];
        snprintf(settings, sizeof settings, "seed=%d,delay=0us,leaks", seed);
        setenv("LOCKSTEP_SHIM", settings, 1);
        dup2(file, 2);
        run(kernel, mistake, y);
        int result = RIGHT;
        for (int i = 0; i < N; i++)
            if (y[i] != expected(kernel, i))
                result = WRONG_RESULT;
        exit(result);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    close(file);
    ASSERT_OK(ls_file_read(said, &bytes, path));
    unlink(path);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* "planted.cu:31", where the line has the comment "line: NAME" */
static void line_of(const char *name, char out[64])
{
    char *text = source("tests/gpu/planted.cu"), mark[64];
    snprintf(mark, sizeof mark, "/* line: %s */", name);
    const size_t n = strlen(text);
    size_t at = 0;
    int line = 1;
    for (; at < n && strncmp(text + at, mark, strlen(mark)); at++)
        line += text[at] == '\n';
    assert_true(at < n);
    snprintf(out, 64, "planted.cu:%d", line);
    free(text);
}

static const char *const ALL[] = { "mirror",        "columns", "groups", "beyond",
                                   "beyond_shared", "parting", "lonely" };

static void correct_kernels_are_right_and_nothing_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        for (int seed = 0; seed < 3; seed++) {
            char *said;
            const int r = in_process(ALL[i], false, seed, &said);
            if (r != RIGHT || *said)
                print_error("%s, seed %d: %d: %s\n", ALL[i], seed, r, said);
            assert_int_equal(r, RIGHT);
            assert_string_equal(said, "");
            free(said);
        }
}

/* A mistake's process must not end well, and what it says must name `line`, unless that is NULL. */
static void is_found(const char *kernel, const char *line)
{
    for (int seed = 1; seed < 4; seed++) {
        char *said, place[64];
        const int r = in_process(kernel, true, seed, &said);
        if (line) {
            line_of(line, place);
            if (!strstr(said, place))
                print_error("%s, seed %d, %d: %s is not named: %s\n", kernel, seed, r, place, said);
            assert_non_null(strstr(said, place));
        }
        assert_int_not_equal(r, RIGHT);
        assert_int_not_equal(r, 3);
        assert_int_not_equal(r, 4);
        free(said);
    }
}

#if defined(LS_TSAN)
#define RACE(name) name
#else
#define RACE(name) NULL /* results are wrong */
#endif
#if defined(LS_ASAN)
#define OUTSIDE(name) name
#else
#define OUTSIDE(name) NULL /* a fault */
#endif

static void a_missing_barrier(void **state) { (void)state, is_found("mirror", RACE("mirror")); }
static void a_column_of_another_thread(void **state) { (void)state, is_found("columns", RACE("columns")); }
static void a_wait_one_group_short(void **state) { (void)state, is_found("groups", RACE("groups")); }
static void an_index_outside_device_memory(void **state)
{
    (void)state;
#if defined(LS_ASAN)
    is_found("beyond", OUTSIDE("beyond"));
#else
    print_message("only the address sanitizer sees it\n");
    skip();
#endif
}
static void an_index_outside_shared_memory(void **state)
{
    (void)state;
#if !defined(LS_TSAN)
    is_found("beyond_shared", OUTSIDE("beyond_shared"));
#else
    print_message("the thread sanitizer does not see it\n");
    skip();
#endif
}
static void barriers_at_two_places(void **state)
{
    (void)state;
    is_found("parting", "parting");
    is_found("parting", "other");
}
static void a_thread_that_does_not_join_its_warp(void **state) { (void)state, is_found("lonely", "lonely"); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_kernels_are_right_and_nothing_is_said),
        cmocka_unit_test(a_missing_barrier),
        cmocka_unit_test(a_column_of_another_thread),
        cmocka_unit_test(a_wait_one_group_short),
        cmocka_unit_test(an_index_outside_device_memory),
        cmocka_unit_test(an_index_outside_shared_memory),
        cmocka_unit_test(barriers_at_two_places),
        cmocka_unit_test(a_thread_that_does_not_join_its_warp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
