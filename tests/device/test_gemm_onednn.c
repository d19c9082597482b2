/* test_gemm_onednn.c - kernels: onednn against our own kernels. The two share no code for the product. */
#include <math.h>
#include <string.h>
#include "gemm_case.h"
#include "device/cpu/isa.h"
#include "support/support.h"

#ifdef LS_HAVE_ONEDNN
static ls_device device_of(const char *kernels, int threads)
{
    ls_device d;
    if (ls_device_open(
            &d, "cpu",
            &(ls_device_opts){ .isa = ls_isa_name(ls_isa_best()), .threads = threads, .kernels = kernels }) !=
        LS_OK)
        fail_msg("%s", ls_error_message());
    return d;
}

static bool library_has(ls_dtype t)
{
    float v[4];
    const ls_device d = device_of("onednn", 1);
    const ls_type square = LS_TYPE(t, 2, 2);
    const ls_tensor absent = { .type.ndim = -1 };
    const ls_tensor in[4] = { ls_tensor_of(v, &square), ls_tensor_of(v, &square), absent, absent },
                    out = ls_tensor_of(v, &square);
    const ls_linear_attrs attrs = { 0 };
    const ls_kernel_args a = {
        .n_in = 4, .n_out = 1, .in = in, .out = &out, .attrs = &attrs, .threads = 1, .arch = d.arch
    };
    const char *why = NULL;
    const bool has = ls_device_find(&d, "linear", &a, &why) != NULL;
    if (!has)
        assert_string_equal(why, "this oneDNN cannot multiply this type on this CPU (kernels: own can)");
    return has;
}

static void test_second_opinion(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k;
    } shapes[] = { { 1, 1, 1 }, { 64, 10, 128 }, { 37, 49, 33 }, { 130, 96, 300 }, { 7, 129, 1100 } };
    assert_true(library_has(LS_F32));
    for (int op = 0; op < 3; op++)
        for (int t = 0; t < 2; t++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                for (int i = 0; i < 8; i++) {
                    const ls_dtype type = t ? LS_BF16 : LS_F32;
                    if (!library_has(type))
                        continue;
                    const gemm_case c = { .op = (gemm_op)op,
                                          .dtype = type,
                                          .m = shapes[s].m,
                                          .n = shapes[s].n,
                                          .k = shapes[s].k,
                                          .act = op == OP_DW ? 0 : (ls_act)(i % 4),
                                          .bias = i % 2,
                                          .residual = i / 4,
                                          .seed = (uint64_t)i };
                    const ls_device ours = device_of("own", 1), theirs = device_of("onednn", 1 + i % 2);
                    gemm_result a, b;
                    gemm_run(&c, &ours, 0, c.m, &a);
                    gemm_run(&c, &theirs, 0, c.m, &b);
                    for (int o = 0; o < 2; o++)
                        for (int64_t e = 0; a.out[o] && e < a.out_rows[o] * a.out_cols[o]; e++) {
                            const double x = a.out[o][e], y = b.out[o][e], depth = (double)(c.m + c.n + c.k);
                            /* one rounding of the type either way, thrice; and the f32 sums, whose terms are
                             * below 4 */
                            if (!(fabs(x - y) <= 8 * gemm_unit(type) * (fabs(x) + 2) + depth * 0x1p-22 +
                                                     (t ? 0.02 * fabs(x) : 0)))
                                fail_msg(
                                    "op %d %s m %d n %d k %d act %d: output %d [%d]: own %.9g, oneDNN %.9g",
                                    op, ls_dtype_name(type), (int)c.m, (int)c.n, (int)c.k, c.act, o, (int)e,
                                    x, y);
                        }
                    gemm_release(&a);
                    gemm_release(&b);
                }
}

static void test_refuses_what_the_library_lacks(void **state)
{
    (void)state;
    library_has(LS_F16); /* yes or no, but no crash, and no with the reason */
    ls_device d;
    assert_int_equal(ls_device_open(&d, "ref", &(ls_device_opts){ .kernels = "onednn" }), LS_E_UNSUPPORTED);
    assert_int_equal(ls_device_open(&d, "cpu", &(ls_device_opts){ .kernels = "mkl" }), LS_E_USAGE);
    assert_string_equal(ls_error_message(),
                        "kernels: \"mkl\" is not known; use own, onednn, tf32 or cublaslt");
}
#else
static void test_second_opinion(void **state)
{
    (void)state;
    ls_device d;
    assert_int_equal(ls_device_open(&d, "cpu", &(ls_device_opts){ .kernels = "onednn" }), LS_E_UNSUPPORTED);
}
static void test_refuses_what_the_library_lacks(void **state)
{
    (void)state;
    ls_test_skip("this build has no oneDNN (Debian: libdnnl-dev)");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_second_opinion),
                                        cmocka_unit_test(test_refuses_what_the_library_lacks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
