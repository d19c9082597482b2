/* test_device.c - opens devices: their names, levels that LOCKSTEP_ISA or options force, and the null device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/cpu_limits.h"
#include "support/levels.h"

static ls_status open_as(ls_device *d, const char *name, int isa, bool elsewhere)
{
    return ls_device_open(
        d, name,
        &(ls_device_opts){ .isa = level_name(isa), .threads = 0, .kernels = "own", .elsewhere = elsewhere });
}

/* Linux refuses the tiles of AMX to a process with a signal stack that has no room for them. Then level amx
 * is not there. (First of all tests: leave once given stays, also for children.) */
static void test_without_leave_there_is_no_amx(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        static char stack[4096];
        const stack_t s = { .ss_sp = stack, .ss_size = sizeof stack };
        _exit(sigaltstack(&s, NULL) == 0 ? (int)ls_isa_best() : LS_ISA_COUNT);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < LS_ISA_AMX);
}

static void test_defaults(void **state)
{
    (void)state;
    ls_device d;
    unsetenv("LOCKSTEP_ISA");
    assert_int_equal(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS }), LS_OK);
    assert_true(d.here && ls_isa_of(d.arch) <= ls_isa_best() && d.ops->tables(d.arch) && d.ops->computes);
    for (int i = 0; i <= (int)ls_isa_best(); i++)
        assert_ptr_equal(d.ops->usable(i), ls_isa_arch((ls_isa)i));
    assert_null(d.ops->usable((int)ls_isa_best() + 1));
    assert_int_equal(d.threads, ls_default_threads(1, NULL));
}

static void test_names(void **state)
{
    (void)state;
    ls_device d;
    assert_int_equal(open_as(&d, "cpy", -1, false), LS_E_UNSUPPORTED);
    assert_string_equal(ls_error_message(),
                        "device \"cpy\" is not known; there are cpu, cuda, ref and, for tests, "
                        "null and emulated (did you mean cpu?)");
    ls_isa isa;
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        assert_true(ls_isa_parse(ls_isa_name((ls_isa)i), &isa));
        assert_int_equal(isa, i);
    }
    assert_false(ls_isa_parse("avx", &isa));
}

static void test_words_of_kernels(void **state)
{
    (void)state;
    static const char *const NAMES[] = { NULL, "cpu", "cuda" };
    ls_device d;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ls_device_open(&d, NAMES[i], &(ls_device_opts){ .kernels = "mkl" }), LS_E_USAGE);
        assert_string_equal(ls_error_message(),
                            "kernels: \"mkl\" is not known; use own, or tf32 or cublaslt on device cuda");
        assert_int_equal(ls_device_open(&d, NAMES[i], &(ls_device_opts){ .kernels = "onednn" }), LS_E_USAGE);
        assert_string_equal(ls_error_message(),
                            "kernels: \"onednn\" is not known: oneDNN was removed, because own kernels are "
                            "faster; use own, or tf32 or cublaslt on device cuda");
    }
    assert_int_equal(ls_device_open(&d, "cpu", &(ls_device_opts){ .kernels = "tf32" }), LS_E_UNSUPPORTED);
    assert_string_equal(ls_error_message(), "kernels: tf32 needs device cuda, not cpu");
}

static void test_levels_can_be_forced(void **state)
{
    (void)state;
    ls_device d;
    setenv("LOCKSTEP_ISA", "generic", 1);
    assert_int_equal(open_as(&d, "cpu", -1, false), LS_OK);
    assert_string_equal(d.arch->name, "generic");
    setenv("LOCKSTEP_ISA", "sse9", 1);
    assert_int_equal(open_as(&d, "cpu", -1, false), LS_E_USAGE);
    assert_string_equal(
        ls_error_message(),
        "LOCKSTEP_ISA=sse9: not an instruction-set level; use generic, avx2, avx512, avx512bf16 or amx");
    assert_int_equal(open_as(&d, "cpu", LS_ISA_GENERIC, false), LS_OK); /* an option that is set wins */
    unsetenv("LOCKSTEP_ISA");
    assert_int_equal(ls_device_open(&d, "cpu", &(ls_device_opts){ .isa = "avx", .kernels = "own" }),
                     LS_E_USAGE);
    assert_string_equal(
        ls_error_message(),
        "isa=avx: not an instruction-set level; use generic, avx2, avx512, avx512bf16 or amx");
    assert_int_equal(open_as(&d, "ref", LS_ISA_GENERIC, false), LS_E_UNSUPPORTED);
    assert_string_equal(ls_error_message(), "isa=generic: device ref has no instruction sets to choose from");
    for (int isa = (int)ls_isa_best() + 1; isa < LS_ISA_COUNT; isa++) { /* none on the best of machines */
        assert_int_equal(open_as(&d, "cpu", isa, false), LS_E_UNSUPPORTED);
        assert_int_equal(open_as(&d, "cpu", isa, true), LS_OK);
        assert_true(!d.here && ls_isa_of(d.arch) == (ls_isa)isa);
        setenv("LOCKSTEP_ISA", "generic", 1); /* the message names what asked for it */
        assert_int_equal(open_as(&d, "cpu", isa, false), LS_E_UNSUPPORTED);
        assert_int_equal(strncmp(ls_error_message(), "isa: ", 5), 0);
        setenv("LOCKSTEP_ISA", ls_isa_name((ls_isa)isa), 1);
        assert_int_equal(open_as(&d, "cpu", -1, false), LS_E_UNSUPPORTED);
        assert_int_equal(strncmp(ls_error_message(), "LOCKSTEP_ISA: ", 14), 0);
        unsetenv("LOCKSTEP_ISA");
    }
}

/* The scratch that a plan for another machine gets does not depend on the machine that plans: every level's
 * build gives the same. */
static void test_workspace_is_the_same_from_anywhere(void **state)
{
    (void)state;
    const ls_type x = LS_TYPE(LS_BF16, 1088, 128), w = LS_TYPE(LS_BF16, 384, 128),
                  y = LS_TYPE(LS_BF16, 1088, 384);
    const ls_tensor absent = { .type.ndim = -1 },
                    in[4] = { ls_tensor_of(NULL, &x), ls_tensor_of(NULL, &w), absent, absent };
    const ls_tensor out = ls_tensor_of(NULL, &y);
    const ls_linear_attrs attrs = { 0 };
    for (int target = 0; target < LS_ISA_COUNT; target++) {
        const ls_kernel_args a = { .n_in = 4,
                                   .n_out = 1,
                                   .in = in,
                                   .out = &out,
                                   .attrs = &attrs,
                                   .threads = 3,
                                   .arch = ls_isa_arch((ls_isa)target) };
        size_t first = 0;
        for (int level = 0; level <= (int)ls_isa_best(); level++) {
            ls_device d;
            if (open_as(&d, "cpu", level, false) != LS_OK)
                continue; /* not built */
            const ls_kernel *k = ls_device_find(&d, "linear", &a, NULL);
            assert_non_null(k);
            const size_t bytes = k->workspace(&a);
            assert_true(bytes > 0 && (first == 0 || bytes == first));
            first = bytes;
        }
    }
}

static void test_null_finds_but_does_nothing(void **state)
{
    (void)state;
    ls_device cpu, null;
    assert_int_equal(open_as(&cpu, "cpu", LS_ISA_GENERIC, false), LS_OK);
    assert_int_equal(open_as(&null, "null", LS_ISA_GENERIC, false), LS_OK);
    assert_false(null.ops->computes);
    float v[4] = { 1, 2, 3, 4 }, r[4] = { 7, 7, 7, 7 };
    const ls_type square = LS_TYPE(LS_F32, 2, 2);
    const ls_tensor absent = { .type.ndim = -1 },
                    in[4] = { ls_tensor_of(v, &square), ls_tensor_of(v, &square), absent, absent };
    const ls_tensor out = ls_tensor_of(r, &square);
    const ls_linear_attrs attrs = { 0 };
    const ls_kernel_args a = {
        .n_in = 4, .n_out = 1, .in = in, .out = &out, .attrs = &attrs, .threads = 1, .arch = cpu.arch
    };
    const ls_kernel *ours = ls_device_find(&cpu, "linear", &a, NULL),
                    *idle = ls_device_find(&null, "linear", &a, NULL);
    assert_non_null(ours);
    assert_non_null(idle);
    assert_true(idle->workspace == ours->workspace && idle->rows_in == ours->rows_in &&
                idle->run != ours->run);
    idle->run(&a);
    for (int i = 0; i < 4; i++)
        assert_true(r[i] == 7);
    for (const ls_kernel *const *t = cpu.ops->tables(cpu.arch); *t; t++) /* every op that cpu has */
        for (const ls_kernel *k = *t; k->op; k++) {
            bool found = false;
            for (const ls_kernel *n = null.ops->tables(null.arch)[0]; n->op; n++)
                found = found || strcmp(n->op, k->op) == 0;
            assert_true(found);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_leave_there_is_no_amx),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_words_of_kernels),
        cmocka_unit_test(test_levels_can_be_forced),
        cmocka_unit_test(test_workspace_is_the_same_from_anywhere),
        cmocka_unit_test(test_null_finds_but_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
