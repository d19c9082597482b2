/* test_gemm.c - matrix products against a plain loop in f64, at every instruction-set level of this machine.
 * They have the same bits with any number of threads, and a row has the same bits whatever other rows there
 * are (device.h). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "gemm_case.h"
#include "device/cpu/isa.h"
#include "support/levels.h"

static ls_device device_of(ls_isa isa, int threads)
{
    ls_device d;
    const ls_status s = ls_device_open(
        &d, "cpu", &(ls_device_opts){ .isa = ls_isa_name(isa), .threads = threads, .kernels = "own" });
    if (s != LS_OK)
        fail_msg("%s", ls_error_message());
    return d;
}

/* Every output of the case within what its roundings allow. */
static void check(const gemm_case *c, const ls_device *d)
{
    gemm_result r;
    gemm_run(c, d, 0, c->m, &r);
    const int64_t rows = r.out_rows[0], cols = r.out_cols[0],
                  depth = c->op == OP_LINEAR ? c->k
                          : c->op == OP_DX   ? c->n
                                             : c->m;
    const double unit = gemm_unit(c->dtype), tiny = c->dtype == LS_F16 ? 0x1p-24 : 1e-37;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < depth; k++) {
                const double a = c->op == OP_DW ? r.in[0][k * rows + i] : r.in[0][i * depth + k];
                const double b = c->op == OP_LINEAR ? r.in[1][j * depth + k] : r.in[1][k * cols + j];
                sum += a * b;
                size += fabs(a * b);
            }
            const int64_t at = i * cols + j;
            double want, bound = size * 0x1p-24 * (8 + sqrt((double)depth)); /* the f32 sum itself */
            if (c->op == OP_LINEAR) {
                const double pre = sum + (c->bias ? r.in[2][j] : 0);
                bound += unit * fabs(pre) * 1.01 + tiny;
                if (c->act) { /* y from the pre that was stored */
                    if (!(fabs(r.out[1][at] - pre) <= bound))
                        fail_msg("pre[%d,%d] = %.9g, not %.9g +- %.3g", (int)i, (int)j, r.out[1][at], pre,
                                 bound);
                    bound = 4e-7 * fabs(r.out[1][at]) + tiny;
                }
                const double act = gemm_act(c->act, c->act ? r.out[1][at] : pre);
                want = act + (c->residual ? r.in[3][at] : 0);
                bound += unit * (fabs(act) * 1.01 + fabs(want));
            } else if (c->op == OP_DX) {
                const double slope = c->act ? gemm_act_slope(c->act, r.in[2][at]) : 1;
                bound = (bound + unit * fabs(sum)) * fabs(slope) * 1.01 + 1e-6 * fabs(sum);
                want = sum * slope + (c->residual ? r.in[3][at] : 0);
                bound += unit * (fabs(sum * slope) + fabs(want)) * 1.01 + tiny;
            } else {
                want = sum;
                bound += unit * fabs(want) * 1.01 + tiny;
            }
            if (!(fabs(r.out[0][at] - want) <= bound))
                fail_msg("op %d %s %s m %d n %d k %d act %d bias %d residual %d pad %d threads %d: [%d,%d] = "
                         "%.9g, not %.9g +- %.3g",
                         c->op, ls_dtype_name(c->dtype), d->arch->name, (int)c->m, (int)c->n, (int)c->k,
                         c->act, c->bias, c->residual, c->pad, d->threads, (int)i, (int)j, r.out[0][at], want,
                         bound);
        }
    if (c->op == OP_DW && c->bias)
        for (int64_t n = 0; n < c->n; n++) {
            double sum = 0, size = 0;
            for (int64_t m = 0; m < c->m; m++) {
                sum += r.in[0][m * c->n + n];
                size += fabs(r.in[0][m * c->n + n]);
            }
            if (!(fabs(r.out[1][n] - sum) <=
                  size * 0x1p-24 * (8 + sqrt((double)c->m)) + unit * fabs(sum) * 1.01))
                fail_msg("db[%d] = %.9g, not %.9g", (int)n, r.out[1][n], sum);
        }
    gemm_release(&r);
}

static const int64_t sizes[] = { 1, 2, 3, 5, 7, 13, 14, 16, 17, 31, 32, 33, 49, 65, 129 };
enum { SIZES = sizeof sizes / sizeof *sizes };
static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };

static void every_level(void (*f)(ls_isa))
{
    for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
        f((ls_isa)isa);
}

/* Sizes in all pairings with everything else going round. */
static void many(ls_isa isa)
{
    uint64_t n = 0;
    for (int op = 0; op < 3; op++)
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < SIZES; i++)
                for (int j = 0; j < SIZES; j++) {
                    n++;
                    const gemm_case c = { .op = (gemm_op)op,
                                          .dtype = types[t],
                                          .m = sizes[i],
                                          .n = sizes[j],
                                          .k = sizes[(n * 7 + n / 15) % SIZES],
                                          .act = op == OP_DW ? LS_ACT_NONE : (ls_act)(n % 4),
                                          .bias = n / 4 % 2,
                                          .residual = n / 8 % 2,
                                          .pad = n / 3 % 2 ? (int)(n % 5) + 1 : 0,
                                          .seed = n };
                    const ls_device d = device_of(isa, 1 + (int)(n / 5 % 2));
                    check(&c, &d);
                }
}
static void test_odd_sizes(void **state)
{
    (void)state;
    every_level(many);
}

/* Each optional operand present and absent, with every activation, contiguous and strided: the full product,
 * on one shape. */
static void combinations(ls_isa isa)
{
    const ls_device d = device_of(isa, 1);
    for (int op = 0; op < 3; op++)
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < 32; i++) {
                const gemm_case c = { .op = (gemm_op)op,
                                      .dtype = types[t],
                                      .m = 19,
                                      .n = 37,
                                      .k = 21,
                                      .act = op == OP_DW ? 0 : (ls_act)(i % 4),
                                      .bias = i / 4 % 2,
                                      .residual = i / 8 % 2,
                                      .pad = i / 16 ? 3 : 0,
                                      .seed = 5 };
                check(&c, &d);
            }
}
static void test_every_combination(void **state)
{
    (void)state;
    every_level(combinations);
}

/* More than one block of a chain, more than one chunk of depth, a row stride of 4 KB, no rows at all. */
static void deep(ls_isa isa)
{
    static const struct {
        gemm_op op;
        int64_t m, n, k;
        int pad;
    } shapes[] = {
        { OP_LINEAR, 5, 9, 4500, 0 },   { OP_LINEAR, 70, 35, 2049, 3 }, { OP_LINEAR, 20, 40, 1024, 0 },
        { OP_LINEAR, 3, 40, 1000, 24 }, { OP_DX, 17, 2500, 33, 0 },     { OP_DX, 70, 513, 40, 1 },
        { OP_DW, 2100, 18, 35, 0 },     { OP_DW, 4200, 3, 70, 2 },      { OP_DW, 513, 33, 17, 0 },
        { OP_DW, 300, 2, 200, 0 },      { OP_LINEAR, 1, 700, 257, 0 },  { OP_DX, 1, 130, 600, 0 },
        { OP_LINEAR, 71, 650, 1100, 1 }, { OP_DX, 71, 1100, 650, 1 }, /* AVX2 copies A as tiles */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int t = 0; t < 3; t++) {
            const gemm_case c = { .op = shapes[i].op,
                                  .dtype = types[t],
                                  .m = shapes[i].m,
                                  .n = shapes[i].n,
                                  .k = shapes[i].k,
                                  .act = shapes[i].op == OP_DW ? 0 : LS_ACT_GELU,
                                  .bias = true,
                                  .residual = true,
                                  .pad = shapes[i].pad,
                                  .seed = 3 };
            const ls_device d = device_of(isa, 1 + t % 2);
            check(&c, &d);
        }
}
static void test_deep(void **state)
{
    (void)state;
    every_level(deep);
}

static void same_bits(const gemm_result *a, const gemm_result *b, const gemm_case *c, const char *what)
{
    for (int i = 0; i < 2; i++)
        if (a->raw_bytes[i] && memcmp(a->raw_out[i], b->raw_out[i], a->raw_bytes[i]))
            fail_msg("output %d of op %d %s m %d n %d k %d differs: %s", i, c->op, ls_dtype_name(c->dtype),
                     (int)c->m, (int)c->n, (int)c->k, what);
}

static void threads(ls_isa isa)
{
    static const struct {
        int64_t m, n, k;
    } shapes[] = { { 150, 70, 300 }, { 1, 300, 40 },   { 9, 80, 33 },
                   { 33, 10, 2100 }, { 2200, 35, 20 }, { 40, 600, 1600 } };
    for (int op = 0; op < 3; op++)
        for (int t = 0; t < 3; t++)
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                const gemm_case c = { .op = (gemm_op)op,
                                      .dtype = types[t],
                                      .m = shapes[i].m,
                                      .n = shapes[i].n,
                                      .k = shapes[i].k,
                                      .act = op == OP_DW ? 0 : LS_ACT_GELU_TANH,
                                      .bias = true,
                                      .residual = true,
                                      .pad = (int)i % 2,
                                      .seed = 11 };
                gemm_result one, more;
                ls_device d = device_of(isa, 1);
                gemm_run(&c, &d, 0, c.m, &one);
                for (int n = 2; n <= 3; n++) {
                    d = device_of(isa, n);
                    gemm_run(&c, &d, 0, c.m, &more);
                    same_bits(&one, &more, &c, "threads");
                    gemm_release(&more);
                }
                gemm_release(&one);
            }
}
static void test_same_bits_for_any_threads(void **state)
{
    (void)state;
    every_level(threads);
}

static void rows(ls_isa isa)
{
    for (int op = 0; op < 2; op++)
        for (int t = 0; t < 3; t++)
            for (int deep_too = 0; deep_too < 2; deep_too++) {
                const gemm_case c = { .op = (gemm_op)op,
                                      .dtype = types[t],
                                      .m = 101,
                                      .n = op == OP_DX && deep_too ? 2300 : 45,
                                      .k = op == OP_LINEAR && deep_too ? 2300 : 51,
                                      .act = LS_ACT_GELU,
                                      .bias = true,
                                      .residual = true,
                                      .seed = 7 };
                gemm_result all, some;
                ls_device d = device_of(isa, 1);
                gemm_run(&c, &d, 0, c.m, &all);
                for (int64_t r0 = 0, n = 1; r0 < c.m; r0 += n, n += 6) {
                    const int64_t r1 = r0 + n < c.m ? r0 + n : c.m;
                    d = device_of(isa, 1 + (int)(n % 2));
                    gemm_run(&c, &d, r0, r1, &some);
                    for (int i = 0; i < 2; i++) {
                        const size_t row = all.raw_bytes[i] / (size_t)c.m;
                        if (row &&
                            memcmp((char *)all.raw_out[i] + (size_t)r0 * row,
                                   (char *)some.raw_out[i] + (size_t)r0 * row, (size_t)(r1 - r0) * row))
                            fail_msg("rows %d..%d alone differ (op %d, %s)", (int)r0, (int)r1, op,
                                     ls_dtype_name(c.dtype));
                    }
                    gemm_release(&some);
                }
                gemm_release(&all);
            }
}
static void test_a_row_does_not_depend_on_others(void **state)
{
    (void)state;
    every_level(rows);
}

/* An infinity, a NaN, products that overflow, and subnormals end where f64 says, and nowhere else. */
static void extremes(ls_isa isa)
{
    enum { M = 30, N = 40, K = 35 };
    static const float odd[] = { INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, 1e-45f, 0.0f };
    float a[M * K], b[N * K];
    for (int e = 0; e < 8; e++) {
        for (int i = 0; i < M * K; i++)
            a[i] = (float)(i % 7 - 3);
        for (int i = 0; i < N * K; i++)
            b[i] = (float)(i % 5 + 1);
        a[17 * K + K - 1] = odd[e];
        b[5 * K + K - 1] = e == 5 || e == 6 ? 1e30f : 2.0f;
        gemm_result r;
        const gemm_case c = {
            .op = OP_LINEAR, .dtype = LS_F32, .m = M, .n = N, .k = K, .a_values = a, .b_values = b
        };
        const ls_device d = device_of(isa, 2);
        gemm_run(&c, &d, 0, M, &r);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int k = 0; k < K; k++)
                    sum += (double)a[i * K + k] * b[j * K + k];
                const double got = r.out[0][i * N + j],
                             want = fabs(sum) > 3.5e38 ? copysign(INFINITY, sum) : sum;
                if (isnan(want)   ? !isnan(got)
                    : isinf(want) ? got != want
                                  : !(fabs(got - want) <= 1e-6 * fabs(want)))
                    fail_msg("extreme %d: [%d,%d] = %g, not %g", e, i, j, got, want);
            }
        gemm_release(&r);
    }
    /* A subnormal alone, so that nothing larger hides it. */
    const float small = 3e-42f, one = 1.0f;
    gemm_result r;
    const gemm_case c = {
        .op = OP_LINEAR, .dtype = LS_F32, .m = 1, .n = 1, .k = 1, .a_values = &small, .b_values = &one
    };
    const ls_device d = device_of(isa, 1);
    gemm_run(&c, &d, 0, 1, &r);
    assert_true(r.out[0][0] == (double)small);
    gemm_release(&r);
}
static void test_extremes(void **state)
{
    (void)state;
    every_level(extremes);
}

/* The matrix does not reach beyond bf16's or f16's range without saying so: 300 * 300 * ... overflows f16 to
 * infinity. */
static void overflow(ls_isa isa)
{
    float a[64], b[64];
    for (int i = 0; i < 64; i++)
        a[i] = b[i] = 64.0f;
    const ls_device d = device_of(isa, 1);
    for (int t = 1; t < 3; t++) {
        gemm_result r;
        const gemm_case c = {
            .op = OP_LINEAR, .dtype = types[t], .m = 1, .n = 1, .k = 64, .a_values = a, .b_values = b
        };
        gemm_run(&c, &d, 0, 1, &r);
        assert_true(types[t] == LS_F16 ? isinf(r.out[0][0]) : r.out[0][0] == 262144.0);
        gemm_release(&r);
    }
}
static void test_f16_overflow_is_infinite(void **state)
{
    (void)state;
    every_level(overflow);
}

/* x = (value), w = (1): y is the activation of the value. Bounds are those that vmath.h states. */
static void activations(ls_isa isa)
{
    enum { N = 4096 };
    static float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) / 128.0f * (i % 3 ? 1.0f : 1e-3f);
    const float one = 1.0f;
    const ls_device d = device_of(isa, 1);
    for (int act = LS_ACT_RELU; act <= LS_ACT_GELU_TANH; act++) {
        gemm_result r;
        const gemm_case c = { .op = OP_LINEAR,
                              .dtype = LS_F32,
                              .m = 1,
                              .n = N,
                              .k = 1,
                              .act = (ls_act)act,
                              .a_values = &one,
                              .b_values = x };
        gemm_run(&c, &d, 0, 1, &r);
        for (int i = 0; i < N; i++) {
            const double want = gemm_act((ls_act)act, x[i]);
            if (!(fabs(r.out[0][i] - want) <= 2.5e-7 * fabs((double)x[i])))
                fail_msg("act %d of %g is %.9g, not %.9g", act, (double)x[i], r.out[0][i], want);
        }
        gemm_release(&r);
    }
}
static void test_activations(void **state)
{
    (void)state;
    every_level(activations);
}

/* At level avx512bf16, bf16 is multiplied by vdpbf16ps where that is fast and by f32 arithmetic where it is
 * not: the same bits, also where subnormals take part. */
extern int ls_gemm_use_dot_avx512bf16 __attribute__((weak)); /* absent if the level was not built */
static void test_both_ways_to_multiply_bf16(void **state)
{
    (void)state;
    if (ls_isa_best() < LS_ISA_AVX512BF16 || !&ls_gemm_use_dot_avx512bf16)
        skip();
    static const struct {
        int64_t m, n, k;
        int pad;
    } shapes[] = {
        { 40, 70, 33, 0 }, { 65, 33, 600, 1 }, { 31, 129, 1601, 0 }, { 1, 50, 48, 2 }, { 601, 35, 49, 0 }
    };
    static float a[210000], b[210000];
    for (int op = 0; op < 3; op++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int small = 0; small < 2; small++) {
                for (int i = 0; i < 210000; i++) {
                    /* products around 2^-126: some are subnormal, so are some operands */
                    const float size = small ? ldexpf(1.0f, -(i * 7 % 40) - 45) : 1.0f;
                    a[i] = (float)(i * 31 % 127 - 63) * size;
                    b[i] = (float)(i * 17 % 113 - 56) * (small ? ldexpf(1.0f, -(i * 5 % 47) - 40) : 1.0f);
                    if (small && i % 50 == 3)
                        a[i] = ldexpf(1.0f, -130);
                }
                const gemm_case c = { .op = (gemm_op)op,
                                      .dtype = LS_BF16,
                                      .m = shapes[s].m,
                                      .n = shapes[s].n,
                                      .k = shapes[s].k,
                                      .bias = op == OP_DW,
                                      .pad = shapes[s].pad,
                                      .a_values = a,
                                      .b_values = b };
                gemm_result with, without;
                const ls_device d = device_of(LS_ISA_AVX512BF16, 1);
                ls_gemm_use_dot_avx512bf16 = 1;
                check(&c, &d);
                gemm_run(&c, &d, 0, c.m, &with);
                ls_gemm_use_dot_avx512bf16 = 0;
                gemm_run(&c, &d, 0, c.m, &without);
                ls_gemm_use_dot_avx512bf16 = -1;
                same_bits(&with, &without, &c, "dot product and f32");
                gemm_release(&with);
                gemm_release(&without);
            }
}

/* Rows alone and rows together, with products around 2^-126. */
static void small_rows(ls_isa isa)
{
    enum { M = 37, N = 40, K = 70 };
    float a[M * K], b[N * K];
    for (int i = 0; i < M * K; i++)
        a[i] = i % 50 == 3 ? 0x1p-130f : (float)(i * 31 % 127 - 63) * ldexpf(1.0f, -(i * 7 % 40) - 45);
    for (int i = 0; i < N * K; i++)
        b[i] = (float)(i * 17 % 113 - 56) * ldexpf(1.0f, -(i * 5 % 47) - 40);
    const gemm_case c = {
        .op = OP_LINEAR, .dtype = LS_BF16, .m = M, .n = N, .k = K, .a_values = a, .b_values = b
    };
    const ls_device d = device_of(isa, 1);
    gemm_result all, one;
    gemm_run(&c, &d, 0, M, &all);
    for (int i = 0; i < M; i++) {
        gemm_run(&c, &d, i, i + 1, &one);
        const size_t row = all.raw_bytes[0] / M;
        if (memcmp((char *)all.raw_out[0] + (size_t)i * row, (char *)one.raw_out[0] + (size_t)i * row, row))
            fail_msg("%s: row %d alone differs", ls_isa_name(isa), i);
        gemm_release(&one);
    }
    gemm_release(&all);
}
static void test_small_numbers_in_a_row_alone(void **state)
{
    (void)state;
    every_level(small_rows);
}

static void test_refusals(void **state)
{
    (void)state;
    const ls_device d = device_of(LS_ISA_GENERIC, 1);
    float v[4] = { 0 };
    ls_tensor in[4] = { ls_tensor_of(v, &LS_TYPE(LS_F32, 2, 2)),
                        ls_tensor_of(v, &LS_TYPE(LS_F64, 2, 2)),
                        { .type.ndim = -1 },
                        { .type.ndim = -1 } };
    ls_tensor out = ls_tensor_of(v, &LS_TYPE(LS_F32, 2, 2));
    const ls_linear_attrs attrs = { 0 };
    const ls_kernel_args a = { .n_in = 4, .n_out = 1, .in = in, .out = &out, .attrs = &attrs, .threads = 1 };
    const char *why = NULL;
    assert_null(ls_device_find(&d, "linear", &a, &why));
    assert_string_equal(why, "only f32, bf16 and f16 (f64 is for device ref)");
    in[1].type.dtype = LS_BF16;
    assert_null(ls_device_find(&d, "linear", &a, &why));
    assert_string_equal(why, "all operands must have one type");
    assert_null(ls_device_find(&d, "no_such_op", &a, &why));
    assert_string_equal(why, "this device has no kernel for it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_every_combination),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_same_bits_for_any_threads),
        cmocka_unit_test(test_a_row_does_not_depend_on_others),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_f16_overflow_is_infinite),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_both_ways_to_multiply_bf16),
        cmocka_unit_test(test_small_numbers_in_a_row_alone),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
