/* test_onednn.c - convolutions through oneDNN (kernels: onednn) against ref: every case of the three ops.
 * This is a second check of what test_kernels.c tests with our own kernels, with the same tolerances.
 * tests/device/test_gemm_onednn.c has the products. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "support/support.h"

#ifdef LS_HAVE_ONEDNN
static ls_device library(int threads)
{
    ls_device d;
    ASSERT_OK(ls_device_open(
        &d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = threads, .kernels = "onednn" }));
    return d;
}

static void compare(const op_case *c, const ls_tensor *expected, const ls_tensor *got, int o)
{
    const ls_dtype t = got->type.dtype;
    const double ulp = t == LS_BF16  ? 0x1p-7
                       : t == LS_F16 ? 0x1p-10
                                     : 0,
                 smallest = t == LS_BF16  ? 0x1p-133
                            : t == LS_F16 ? 0x1p-24
                                          : 0x1p-149;
    double largest = 0;
    for (int64_t i = 0; i < ls_type_count(&got->type); i++)
        largest = fmax(largest, fabs(element_get(expected, i)));
    const double allowed = (0x1p-23 * sqrt((double)c->reduce + 4) + 2 * ulp) * largest + smallest;
    for (int64_t i = 0; i < ls_type_count(&got->type); i++)
        if (!(fabs(element_get(got, i) - element_get(expected, i)) <= allowed))
            fail_msg("%s (%s), %s: output %d, element %lld: %.9g, ref %.9g, allowed %.3g off", c->op, c->what,
                     ls_dtype_name(t), o, (long long)i, element_get(got, i), element_get(expected, i),
                     allowed);
}

/* False: the library has no such convolution of this type here, and says so. */
static bool check(const op_case *c, ls_dtype t, int threads)
{
    const ls_device ref = { .ops = &ls_device_ref, .threads = 1 }, onednn = library(threads);
    ls_tensor in[CASE_MAX_IN], all[CASE_MAX_IN], expected[LS_MAX_OUT], got[LS_MAX_OUT];
    ls_type types[LS_MAX_OUT];
    case_inputs(c, t, EXTREME_NONE, 11, in);
    const int n_out = case_outputs(c, in, types);
    for (int j = 0; j < CASE_MAX_IN; j++)
        all[j] = j < c->n_in ? in[j] : (ls_tensor){ .type.ndim = -1 };
    for (int o = 0; o < n_out; o++) {
        expected[o] = ls_tensor_of(exact_alloc(ls_type_bytes(&types[o])), &types[o]);
        got[o] = ls_tensor_of(exact_alloc(ls_type_bytes(&types[o])), &types[o]);
    }
    const ls_kernel_args a = { .n_in = c->n_in,
                               .n_out = n_out,
                               .in = all,
                               .out = got,
                               .attrs = c->attrs,
                               .threads = threads,
                               .arch = onednn.arch };
    const char *why = NULL;
    const bool has = ls_device_find(&onednn, c->op, &a, &why) != NULL;
    if (has) {
        run_op(&ref, c->op, c->attrs, c->n_in, in, n_out, expected);
        run_op(&onednn, c->op, c->attrs, c->n_in, in, n_out, got);
        for (int o = 0; o < n_out; o++)
            compare(c, &expected[o], &got[o], o);
    } else if (t == LS_F32 ||
               strcmp(why,
                      "this oneDNN has no such convolution of this type on this CPU (kernels: own has)")) {
        fail_msg("%s (%s), %s: refused: %s", c->op, c->what, ls_dtype_name(t), why);
    }
    case_free(c->n_in, in);
    case_free(n_out, expected);
    case_free(n_out, got);
    return has;
}

static void convolutions_agree_with_ref(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    for (int t = 0; t < 3; t++) {
        int had = 0, refused = 0;
        for (const op_case *c = ls_test_cases; c->op; c++)
            for (int threads = 1; !strncmp(c->op, "conv2d", 6) && threads <= 3; threads += 2)
                *(check(c, types[t], threads) ? &had : &refused) += 1;
        print_message("%s: %d runs, %d that the library refuses\n", ls_dtype_name(types[t]), had, refused);
        assert_true(t || had > 90);
    }
}

/* f64 belongs to ref, and operands have one type. */
static void other_types_are_refused(void **state)
{
    (void)state;
    const ls_device d = library(1);
    const ls_type x = LS_TYPE(LS_F32, 1, 1, 2, 2), w = LS_TYPE(LS_BF16, 1, 1, 1, 1);
    const ls_type x64 = LS_TYPE(LS_F64, 1, 1, 2, 2), w64 = LS_TYPE(LS_F64, 1, 1, 1, 1);
    const ls_conv_attrs attrs = {
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .groups = 1
    };
    for (int f64 = 0; f64 < 2; f64++) {
        const ls_tensor in[3] = { ls_tensor_of(NULL, f64 ? &x64 : &x),
                                  ls_tensor_of(NULL, f64 ? &w64 : &w),
                                  { .type.ndim = -1 } };
        const ls_tensor out = ls_tensor_of(NULL, f64 ? &x64 : &x);
        const ls_kernel_args a = {
            .n_in = 3, .n_out = 1, .in = in, .out = &out, .attrs = &attrs, .threads = 1, .arch = d.arch
        };
        const char *why = NULL;
        assert_null(ls_device_find(&d, "conv2d", &a, &why));
        assert_string_equal(why, "kernels: onednn wants operands of one type, f32 or bf16");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(convolutions_agree_with_ref),
                                        cmocka_unit_test(other_types_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static void none(void **state)
{
    (void)state;
    ls_test_skip("this build has no oneDNN (Debian: libdnnl-dev)"); /* test_gemm_onednn.c: it is refused */
}
int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(none) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
