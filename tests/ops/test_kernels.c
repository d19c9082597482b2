/* test_kernels.c - every cpu kernel of every instruction-set level of this machine against ref: all cases in
 * f32, bf16 and f16, with ordinary and extreme values. Under sanitizers a case has another type at each
 * level: all three, where three levels were built. */
#include "kernels.h"
#include "device/cpu/isa.h"
#include "support/allocations.h"
#include "support/support.h"

static void every_kernel_agrees_with_ref(void **state)
{
    const ls_isa isa = *(const ls_isa *)*state;
    ls_device cpu;
    if (isa > ls_isa_best() || !ls_cpu_tables(isa)) {
        print_message("%s: %s\n", ls_isa_name(isa),
                      isa > ls_isa_best() ? "this machine does not have it" : "not built");
        skip();
    }
    ASSERT_OK(ls_device_open(&cpu, "cpu",
                             &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = ls_isa_name(isa), .threads = 1 }));
#if defined(LS_TSAN)
    if (isa != LS_ISA_GENERIC && isa != ls_isa_best()) {
        print_message("%s: threads share the work as at the best level\n", ls_isa_name(isa));
        skip();
    }
#endif
    static int level; /* the how many-th that is tested */
    int runs = 0;
    kernel_failures = 0;
    for (const op_case *c = ls_test_cases; c->op; c++) {
        static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
        for (int t = 0; kernel_exists(c) && t < (c->f32_only ? 1 : 3); t++) {
            if (LS_TEST_SANITIZED && !c->f32_only && t != (c - ls_test_cases + level) % 3)
                continue;
            runs += kernel_check(&cpu, c, types[t], EXTREME_NONE);
            if (c->extreme != EXTREME_NONE)
                runs += kernel_check(&cpu, c, types[t], c->extreme);
        }
    }
    level++;
    print_message("%s: %d runs\n", ls_isa_name(isa), runs);
    assert_int_equal(kernel_failures, 0);
}

int main(void)
{
    static ls_isa levels[] = { LS_ISA_GENERIC, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_AVX512BF16, LS_ISA_AMX };
    const struct CMUnitTest tests[] = {
        { "generic", every_kernel_agrees_with_ref, NULL, NULL, &levels[0] },
        { "avx2", every_kernel_agrees_with_ref, NULL, NULL, &levels[1] },
        { "avx512", every_kernel_agrees_with_ref, NULL, NULL, &levels[2] },
        { "avx512bf16", every_kernel_agrees_with_ref, NULL, NULL, &levels[3] },
        { "amx", every_kernel_agrees_with_ref, NULL, NULL, &levels[4] },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
