/* test_norms.c - norms, softmax, losses and totals for GPUs at sizes that make them work in another way than
 * those of tests/ops: rows of every team of threads, and longer than registers; sets of several parts; narrow
 * sets; more rows, and more tensors, than one launch adds. The results agree with ref, and rows at any
 * address give the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ops/kernels.h"
#include "ops/tensor_rows.h"
#include "support/support.h"

/* clang-format off */
#define NORMS(R, K) \
    NORM(R, K), RMS_NORM_GRAD(R, K, 5, X(R, K)), NORM_GRAD(R, K, 5)
#define ARGMAX(R, C) \
    { .op = "argmax", .n_in = 1, .in = { X(R, C) }, .compare = COMPARE_EXACT, .extreme = EXTREME_SPECIAL }, \
    { .op = "argmax", .what = "ties", .n_in = 1, .in = { { DATA, FILL_CONST, 2, 2, { R, C } } }, \
      .compare = COMPARE_EXACT }

static const op_case CASES[] = {
    NORMS(37, 24), NORMS(3, 1000), NORMS(2, 2104), NORMS(2, 17000), NORM(2, 40001),
    SOFTMAX(140, 30), SOFTMAX(2, 5000), LOG_SOFTMAX(2, 40000),
    CROSS_ENTROPY(5, 104, 5), CROSS_ENTROPY(6, 40000, 3), CROSS_ENTROPY(5000, 3, 5000), SMOOTH(3, 40000, 3),
    ARGMAX(300, 2), ARGMAX(2, 5000), ARGMAX(2, 40000),
    BATCH_NORM(3, "two parts", 8, 3, 40, 40), BATCH_NORM(3, "two parts, odd", 100, 3, 7, 7),
    BATCH_NORM_JOINED(5, "narrow, three parts", 300, 5, 2, 2), BATCH_NORM(37, "a matrix", 300, 37),
    GROUP_NORM("two parts", 2, 2, 3, 60, 60), GROUP_NORM("two parts, odd", 2, 2, 3, 59, 59),
    ROW_SUM("three blocks", TYPED(STAT, 10000), ABSENT, ABSENT, ABSENT, 1),
    { .op = "max_abs", .n_in = 3, .in = { X(70001), X(3), X(40000) }, .compare = COMPARE_EXACT,
      .extreme = EXTREME_SPECIAL },
    { .op = "sum_squares", .n_in = 4, .in = { RESULT_SCALAR(STAT), X(70001), X_SCALAR, X(40000) },
      .prepare = prepare_squares, .compare = COMPARE_EXACT, .extreme = EXTREME_WIDE },
    { 0 }
};
/* clang-format on */

static ls_device device;

static void sizes_agree_with_ref(void **state)
{
    const ls_dtype type = *(const ls_dtype *)*state;
    int runs = 0;
    kernel_failures = 0;
    for (const op_case *c = CASES; c->op; c++) {
        runs += kernel_check(&device, c, type, EXTREME_NONE);
        if (c->extreme != EXTREME_NONE)
            runs += kernel_check(&device, c, type, c->extreme);
    }
    print_message("%s: %d runs\n", ls_dtype_name(type), runs);
    assert_int_equal(kernel_failures, 0);
}

/* Runs an op of n tensors that each begin `off` elements into a room of the device; out: host memory. */
static void run_shifted(const char *op, int n_in, const ls_tensor *in, const ls_tensor *out, int off)
{
    const ls_queue_ops *q = device.ops->queue;
    ls_queue *queue;
    void *room[64];
    ls_tensor moved[65];
    ASSERT_OK(q->open(&queue, &device));
    for (int i = 0; i <= n_in; i++) {
        const ls_tensor *t = i < n_in ? &in[i] : out;
        const size_t bytes = ls_type_bytes(&t->type), start = (size_t)off * ls_dtype_size(t->type.dtype);
        ASSERT_OK(q->room(&room[i], &device, bytes + start));
        moved[i] = *t;
        moved[i].data = (char *)room[i] + start;
        q->copy(queue, moved[i].data, t->data, bytes);
    }
    ls_kernel_args a = { .n_in = n_in,
                         .n_out = 1,
                         .in = moved,
                         .out = &moved[n_in],
                         .threads = 1,
                         .arch = device.arch,
                         .queue = queue };
    const char *why;
    const ls_kernel *k = ls_device_find(&device, op, &a, &why);
    assert_non_null(k);
    const size_t scratch = k->workspace ? k->workspace(&a) : 0;
    ASSERT_OK(q->room(&a.workspace, &device, scratch + 1));
    q->run(queue, k, &a);
    q->copy(queue, out->data, moved[n_in].data, ls_type_bytes(&out->type));
    ASSERT_OK(q->wait(queue, NULL));
    for (int i = 0; i <= n_in; i++)
        q->release(room[i], ls_type_bytes(&moved[i].type) + (size_t)off * ls_dtype_size(moved[i].type.dtype));
    q->release(a.workspace, scratch + 1);
    q->close(&queue);
}

/* A row's bits do not depend on whether it begins at a multiple of 16 bytes. */
static void addresses_change_no_bits(void **state)
{
    const ls_dtype type = *(const ls_dtype *)*state;
    const ls_type t = LS_TYPE(type, 3, 1000);
    ls_tensor x = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t), y[2];
    for (int64_t i = 0; i < ls_type_count(&t); i++)
        element_put(&x, i, (double)(i * 7919 % 1013) / 97 - 5);
    for (int off = 0; off < 2; off++) {
        y[off] = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t);
        run_shifted("softmax", 1, &x, &y[off], off);
    }
    assert_memory_equal(y[0].data, y[1].data, ls_type_bytes(&t));
    case_free(2, y);
    case_free(1, &x);
}

/* More tensors than a launch of max_abs and sum_squares takes, and of two types. */
static void many_tensors(void **state)
{
    enum { N = 60 };
    ls_tensor in[N + 1], out[2];
    float max = 0, largest = 0;
    int64_t total[2] = { 0, 0 };
    double expected = 0;
    (void)state;
    const ls_type scalar = LS_SCALAR(LS_F32), wide = LS_TYPE(LS_I64, 2);
    for (int i = 0; i < N; i++) {
        const ls_type t = LS_TYPE(i < 20 ? LS_BF16 : LS_F32, i % 7 + 1);
        in[i + 1] = ls_tensor_of(exact_alloc(ls_type_bytes(&t)), &t);
        for (int64_t k = 0; k < t.dims[0]; k++) {
            const double v = (double)((i * 5 + k * 3) % 128) - 40;
            element_put(&in[i + 1], k, v);
            largest = v > largest ? (float)v : largest;
            expected += v * v;
        }
    }
    in[0] = ls_tensor_of(&max, &scalar);
    out[0] = ls_tensor_of(&max, &scalar);
    out[1] = ls_tensor_of(total, &wide);
    run_shifted("max_abs", N, in + 1, &out[0], 0);
    assert_true(max == largest && largest > 64); /* so max = m * 2^7 and the unit is 2^-73 */
    run_shifted("sum_squares", N + 1, in, &out[1], 0);
    assert_int_equal(total[0], 0); /* whole numbers */
    assert_int_equal(total[1], (int64_t)expected << 9);
    case_free(N, in + 1);
}

int main(void)
{
    setenv("LOCKSTEP_CUDA_LIBRARIES", LS_TEST_SHIMS, 0);
    setenv("LOCKSTEP_KERNEL_CACHE", LS_TEST_KERNELS, 0);
    static ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    ASSERT_OK(ls_device_open(&device, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    const struct CMUnitTest tests[] = {
        { "many tensors", many_tensors, NULL, NULL, NULL },
        { "addresses, f32", addresses_change_no_bits, NULL, NULL, &types[0] },
        { "addresses, bf16", addresses_change_no_bits, NULL, NULL, &types[1] },
        { "f32", sizes_agree_with_ref, NULL, NULL, &types[0] },
        { "bf16", sizes_agree_with_ref, NULL, NULL, &types[1] },
        { "f16", sizes_agree_with_ref, NULL, NULL, &types[2] },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
