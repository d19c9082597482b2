/* test_pictures.c - convolution by tiles of matrices, of sizes that the cases of tests/ops lack: many
 * channels, parts of the images, groups. The numbers are small integers, so every way of adding them up is
 * exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ops/cases.h"
#include "support/support.h"

typedef struct sizes {
    int64_t n, c, h, w, o, k, stride, pad, dilation, groups;
} sizes;

/* -2 .. 2 */
static ls_tensor integers(ls_type t, uint64_t seed)
{
    const ls_tensor x = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t);
    for (int64_t i = 0; i < ls_type_count(&t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        element_put(&x, i, (double)((seed >> 33) % 5) - 2);
    }
    return x;
}

static void compare(const char *op, const ls_device *d, const ls_conv_attrs *a, int n_in, const ls_tensor *in,
                    int n_out)
{
    const ls_device ref = { .ops = &ls_device_ref, .threads = 2 };
    ls_type types[LS_MAX_OUT];
    ls_tensor expected[2], got[2];
    const op_case c = { .op = op, .n_in = n_in, .attrs = a };
    assert_int_equal(case_outputs(&c, in, types), n_out);
    for (int o = 0; o < n_out; o++) {
        expected[o] = ls_tensor_of(exact_alloc(ls_type_bytes(&types[o])), &types[o]);
        got[o] = ls_tensor_of(exact_alloc(ls_type_bytes(&types[o])), &types[o]);
    }
    run_op(&ref, op, a, n_in, in, n_out, expected);
    run_op(d, op, a, n_in, in, n_out, got);
    for (int o = 0; o < n_out; o++)
        for (int64_t i = 0; i < ls_type_count(&types[o]); i++)
            if (element_get(&expected[o], i) != element_get(&got[o], i))
                fail_msg("%s: output %d, element %lld: %g, ref %g", op, o, (long long)i,
                         element_get(&got[o], i), element_get(&expected[o], i));
    case_free(n_out, expected);
    case_free(n_out, got);
}

static void one(const ls_device *d, ls_dtype type, sizes z)
{
    ls_conv_attrs a = { .stride_h = z.stride,
                        .stride_w = z.stride,
                        .pad_h = z.pad,
                        .pad_w = z.pad,
                        .dilation_h = z.dilation,
                        .dilation_w = z.dilation,
                        .groups = z.groups };
    const int64_t reach = (z.k - 1) * z.dilation + 1, oh = (z.h + 2 * z.pad - reach) / z.stride + 1,
                  ow = (z.w + 2 * z.pad - reach) / z.stride + 1;
    ls_tensor x = integers(LS_TYPE(type, z.n, z.c, z.h, z.w), 1),
              w = integers(LS_TYPE(type, z.o, z.c / z.groups, z.k, z.k), 2),
              dy = integers(LS_TYPE(type, z.n, z.o, oh, ow), 3), bias = integers(LS_TYPE(type, z.o), 4);
    compare("conv2d", d, &a, 3, (ls_tensor[]){ x, w, bias }, 1);
    a.height = z.h;
    a.width = z.w;
    compare("conv2d_dx", d, &a, 2, (ls_tensor[]){ dy, w }, 1);
    a.height = a.width = z.k;
    a.bias = 1;
    compare("conv2d_dw", d, &a, 2, (ls_tensor[]){ dy, x }, 2);
    case_free(4, (ls_tensor[]){ x, w, dy, bias });
}

static void tiles_agree(void **state)
{
    static const sizes SIZES[] = {
        { 1, 140, 8, 8, 150, 3, 1, 1, 1, 1 }, /* two tiles of channels */
        { 9, 70, 6, 8, 12, 3, 2, 1, 1, 1 },   /* phases, of which some meet fewer elements */
        { 5, 36, 7, 7, 72, 2, 3, 2, 2, 2 },   /* groups; stride and dilation without a common factor */
        { 2, 20, 9, 9, 18, 2, 4, 0, 2, 1 },   /* ... with one: some phases meet nothing */
        { 40, 10, 4, 4, 9, 1, 1, 0, 1, 1 },   /* parts of the images */
        { 3, 24, 5, 40, 9, 5, 7, 4, 1, 1 }, /* a stride beyond the kernel, and beyond the picture's height */
    };
    static const struct {
        const char *kernels;
        ls_dtype type;
    } WAYS[] = { { "own", LS_F32 }, { "tf32", LS_F32 }, { "own", LS_BF16 }, { "own", LS_F16 } };
    (void)state;
    for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
        ls_device d;
        ASSERT_OK(ls_device_open(
            &d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1, .kernels = WAYS[w].kernels }));
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            print_message("kernels: %s, %s, case %d\n", WAYS[w].kernels, ls_dtype_name(WAYS[w].type), (int)i);
            one(&d, WAYS[w].type, SIZES[i]);
        }
    }
}

int main(void)
{
    setenv("LOCKSTEP_CUDA_LIBRARIES", LS_TEST_SHIMS, 0);
    setenv("LOCKSTEP_KERNEL_CACHE", LS_TEST_KERNELS, 0);
    const struct CMUnitTest tests[] = { cmocka_unit_test(tiles_agree) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
