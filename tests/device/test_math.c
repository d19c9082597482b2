/* test_math.c - rows, losses, totals and updates of device cpu, at every level of this machine, against
 * device ref: odd sizes, strides, extreme values, f32, bf16 and f16; the same bits with 1, 2 and 3 threads
 * (math_case.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "math_case.h"

static const ls_dtype FLOATS[] = { LS_F32, LS_BF16, LS_F16 };
static const int64_t SIZES[] = { 1, 2, 3, 7, 15, 17, 33, 65, 127, 1000 };
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- rows */

static void test_layer_norm(void **state)
{
    (void)state;
    const ls_norm_attrs attrs = { .eps = 1e-6 };
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < COUNT(SIZES); s++)
            for (int pad = 0; pad <= 3; pad += 3) {
                const int64_t k = SIZES[s], rows = k == 33 ? 701 : 19;
                const ls_dtype d = FLOATS[t];
                const ls_type type = LS_TYPE(d, 1, rows, k), vec = LS_TYPE(d, k),
                              stat = LS_TYPE(LS_F32, 1, rows);
                const operand x = { .type = type, .kind = FILL_NORMAL, .scale = 3, .pad = pad },
                              gain = NORMAL(vec, 1);
                math_check(&(math_case){ .op = "layer_norm",
                                         .n_in = 3,
                                         .n_out = 3,
                                         .in = { x, gain, gain },
                                         .out = { { .type = type, .pad = pad }, PLAIN(stat), PLAIN(stat) },
                                         .attrs = &attrs,
                                         .rel = 40 * EPS,
                                         .of_max = k == 1 ? 1 : 40 * EPS,
                                         .seed = (uint64_t)s });
                const operand none = ABSENT, rstd = POSITIVE(stat, 1), mean = NORMAL(stat, 0.1);
                for (int addend = 0; addend < 2; addend++)
                    math_check(&(math_case){ .op = "layer_norm_grad",
                                             .n_in = 6,
                                             .n_out = 3,
                                             .in = { x, x, gain, mean, rstd, addend ? x : none },
                                             .out = { { .type = type, .pad = pad }, PLAIN(vec), PLAIN(vec) },
                                             .attrs = &attrs,
                                             .rel = 20 * EPS,
                                             .of_max = (d == LS_BF16  ? 0x1p-8
                                                        : d == LS_F16 ? 0x1p-11
                                                                      : 0) *
                                                           addend +
                                                       20 * EPS,
                                             .seed = (uint64_t)s });
            }
    /* rows far from zero, of one value, and with an infinity */
    double hard[3 * 64];
    for (int i = 0; i < 64; i++) {
        hard[i] = 1000.0 + i % 7;
        hard[64 + i] = 5.0;
        hard[128 + i] = i == 9 ? INFINITY : i;
    }
    const operand ones = VALUE(LS_TYPE(LS_F32, 64), 1);
    math_check(&(math_case){
        .op = "layer_norm",
        .n_in = 3,
        .n_out = 3,
        .in = { DATA(LS_TYPE(LS_F32, 3, 64), hard), ones, ones },
        .out = { PLAIN(LS_TYPE(LS_F32, 3, 64)), PLAIN(LS_TYPE(LS_F32, 3)), PLAIN(LS_TYPE(LS_F32, 3)) },
        .attrs = &attrs,
        .rel = 1e-4,
        .of_max = 1e-4 });
}

static void test_softmax(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < COUNT(SIZES); s++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const ls_type type = LS_TYPE(FLOATS[t], 3, 7, SIZES[s]);
                const operand x = NORMAL(type, 10), y = POSITIVE(type, 0.1);
                math_check(&(math_case){ .op = "softmax",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .in = { x },
                                         .out = { UPDATES(type, in_place) },
                                         .rel = 40 * EPS,
                                         .of_max = EPS,
                                         .seed = (uint64_t)s });
                math_check(&(math_case){ .op = "softmax_grad",
                                         .n_in = 2,
                                         .n_out = 1,
                                         .in = { x, y },
                                         .out = { UPDATES(type, in_place) },
                                         .rel = 20 * EPS,
                                         .of_max = 40 * EPS,
                                         .seed = (uint64_t)s });
            }
    /* some or all masked, an infinity, a NaN, numbers at the end of the range */
    const double hard[6][3] = { { -INFINITY, 1, 2 }, { -INFINITY, -INFINITY, -INFINITY },
                                { INFINITY, 0, 1 },  { 0, NAN, 1 },
                                { 3e38, -3e38, 0 },  { -3e38, -1, -2 } };
    math_check(&(math_case){ .op = "softmax",
                             .n_in = 1,
                             .n_out = 1,
                             .in = { DATA(LS_TYPE(LS_F32, 6, 3), hard[0]) },
                             .out = { PLAIN(LS_TYPE(LS_F32, 6, 3)) },
                             .rel = 8 * EPS });
}

static void test_cross_entropy(void **state)
{
    (void)state;
    const ls_loss_attrs attrs = { .ignore_index = 3 };
    const int64_t classes[] = { 4, 10, 17, 127, 1000, 5003 };
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < COUNT(classes); s++) {
            const int64_t rows = s == 1 ? 301 : 13, k = classes[s];
            const ls_type type = LS_TYPE(FLOATS[t], rows, k), stat = LS_TYPE(LS_F32, rows);
            const operand x = NORMAL(type, 20), label = BELOW(LS_TYPE(LS_I32, rows), (double)k),
                          count = VALUE(LS_SCALAR(LS_F32), (double)rows - 2),
                          one = VALUE(LS_SCALAR(LS_F32), 1.5), lse = VALUE(stat, 40);
            math_check(&(math_case){ .op = "cross_entropy",
                                     .n_in = 3,
                                     .n_out = 3,
                                     .in = { x, label, count },
                                     .attrs = &attrs,
                                     .out = { PLAIN(LS_SCALAR(LS_F32)), PLAIN(stat), PLAIN(stat) },
                                     .rel = 8 * EPS,
                                     .of_max = 4 * EPS,
                                     .seed = (uint64_t)s });
            math_check(&(math_case){ .op = "cross_entropy_grad",
                                     .n_in = 5,
                                     .n_out = 1,
                                     .in = { x, label, lse, count, one },
                                     .attrs = &attrs,
                                     .out = { UPDATES(type, s & 1) },
                                     .rel = 80 * EPS,
                                     .of_max = EPS,
                                     .seed = (uint64_t)s });
        }
    /* infinities and NaN go where PyTorch lets them go: all -inf is NaN, some are not; growing maxima over
     * several chunks */
    enum { K = 2500 };
    static double rows[4 * K];
    for (int i = 0; i < K; i++) {
        rows[i] = -INFINITY;
        rows[K + i] = i < 1200 ? -INFINITY : i * 0.05;
        rows[2 * K + i] = i == 2000 ? NAN : 0.0;
        rows[3 * K + i] = i < 1024 ? -3e38 : i < 2048 ? 90.0 : 3e38;
    }
    const double labels[] = { 0, 2400, 1, 2499 };
    math_check(&(math_case){
        .op = "cross_entropy",
        .n_in = 3,
        .n_out = 3,
        .attrs = &attrs,
        .in = { DATA(LS_TYPE(LS_F32, 4, K), rows), DATA(LS_TYPE(LS_I32, 4), labels),
                VALUE(LS_SCALAR(LS_F32), 4) },
        .out = { PLAIN(LS_SCALAR(LS_F32)), PLAIN(LS_TYPE(LS_F32, 4)), PLAIN(LS_TYPE(LS_F32, 4)) },
        .rel = 8 * EPS,
        .of_max = 0 });
}

static void test_argmax(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < COUNT(SIZES); s++)
            for (int kind = 0; kind < 3; kind++) {
                const operand x = { .type = LS_TYPE(FLOATS[t], 5, 11, SIZES[s]),
                                    .kind = kind == 0   ? FILL_EXTREME
                                            : kind == 1 ? FILL_COUNT
                                                        : FILL_VALUE,
                                    .scale = kind == 2 ? -INFINITY : 4 };
                math_check(&(math_case){ .op = "argmax",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .in = { x },
                                         .out = { PLAIN(LS_TYPE(LS_I32, 5, 11)) },
                                         .seed = (uint64_t)s });
            }
}

/* ---- totals and updates */

static void test_totals(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < COUNT(SIZES); s++)
            for (int kind = 0; kind < 2; kind++) {
                const operand x = { .type = LS_TYPE(FLOATS[t], SIZES[s]),
                                    .kind = kind ? FILL_EXTREME : FILL_MIXED,
                                    .scale = 1 },
                              big = { .type = LS_TYPE(FLOATS[t], 9001), .kind = FILL_MIXED },
                              max = VALUE(LS_SCALAR(LS_F32), 2048);
                math_check(&(math_case){ .op = "max_abs",
                                         .n_in = 3,
                                         .n_out = 1,
                                         .in = { x, big, x },
                                         .out = { PLAIN(LS_SCALAR(LS_F32)) },
                                         .seed = (uint64_t)s });
                if (kind == 0) /* the integers must be equal to ref's */
                    math_check(&(math_case){ .op = "sum_squares",
                                             .n_in = 4,
                                             .n_out = 1,
                                             .in = { max, x, big, x },
                                             .out = { PLAIN(LS_TYPE(LS_I64, 2)) },
                                             .seed = (uint64_t)s });
            }
    const double maxima[] = { 1.0, 3e38, 1e-38, 1e-45, 0.0, INFINITY, NAN, 0.7 };
    for (int i = 0; i < COUNT(maxima); i++) {
        const double total[] = { 123456789.0 * (i + 1), 4567 * (double)(i % 3) };
        const operand max = VALUE(LS_SCALAR(LS_F32), maxima[i]), x = VALUE(LS_TYPE(LS_F32, 300), maxima[i]);
        math_check(&(math_case){ .op = "sum_squares",
                                 .n_in = 2,
                                 .n_out = 1,
                                 .in = { max, x },
                                 .out = { PLAIN(LS_TYPE(LS_I64, 2)) } });
        math_check(&(math_case){ .op = "norm_from_squares",
                                 .n_in = 2,
                                 .n_out = 1,
                                 .in = { max, DATA(LS_TYPE(LS_I64, 2), total) },
                                 .out = { PLAIN(LS_SCALAR(LS_F32)) },
                                 .rel = EPS });
        math_check(&(math_case){
            .op = "is_finite", .n_in = 1, .n_out = 1, .in = { max }, .out = { PLAIN(LS_SCALAR(LS_I32)) } });
    }
}

static void test_updates(void **state)
{
    (void)state;
    const operand none = ABSENT;
    for (int t = 0; t < 3; t++)
        for (int s = 0; s <= COUNT(SIZES); s++)
            for (int variant = 0; variant < 8; variant++) {
                if (s == COUNT(SIZES) && variant % 5)
                    continue; /* the large one, for several blocks a thread, need not come in every variant */
                const int64_t n = s < COUNT(SIZES) ? SIZES[s] : 40001;
                const ls_type f = LS_TYPE(LS_F32, n);
                const operand p = NORMAL(f, 1), g = NORMAL(LS_TYPE(FLOATS[t], n), 0.1), v = POSITIVE(f, 0.01),
                              step = VALUE(LS_SCALAR(LS_I64), variant & 2 ? 1 : 17),
                              lr = VALUE(LS_SCALAR(LS_F64), 1e-3), scale = VALUE(LS_SCALAR(LS_F32), 0.25),
                              apply = VALUE(LS_SCALAR(LS_I32), variant == 7 ? 0 : 1);
                const ls_adam_attrs adam = { .beta1 = 0.9,
                                             .beta2 = 0.999,
                                             .eps = 1e-8,
                                             .weight_decay = variant & 1 ? 0.1 : 0,
                                             .decoupled = variant >> 2 & 1 };
                math_check(&(math_case){
                    .op = "adam",
                    .n_in = 8,
                    .n_out = 3,
                    .in = { p, g, p, v, step, lr, variant & 2 ? scale : none, variant & 4 ? apply : none },
                    .out = { UPDATES(f, 1), UPDATES(f, 3), UPDATES(f, 4) },
                    .attrs = &adam,
                    .rel = 8 * EPS,
                    .of_max = 2 * EPS,
                    .seed = (uint64_t)s });
                const bool buf = variant & 1;
                const ls_sgd_attrs sgd = { .momentum = buf ? 0.9 : 0,
                                           .dampening = variant & 4 ? 0 : 0.1,
                                           .weight_decay = variant & 2 ? 0.01 : 0,
                                           .nesterov = buf && variant & 4 };
                math_check(&(math_case){ .op = "sgd",
                                         .n_in = 7,
                                         .n_out = buf ? 2 : 1,
                                         .in = { p, g, buf ? v : none, step, lr, variant & 2 ? scale : none,
                                                 variant & 4 ? apply : none },
                                         .out = { UPDATES(f, 1), UPDATES(f, 3) },
                                         .attrs = &sgd,
                                         .rel = 8 * EPS,
                                         .of_max = 2 * EPS,
                                         .seed = (uint64_t)s });
            }
    const ls_scale_update_attrs scaler = { .growth = 2, .backoff = 0.5, .interval = 3 };
    const double scales[] = { 65536, 2e38, 1e-30 };
    for (int i = 0; i < 3; i++)
        for (int good = 0; good < 4; good++)
            for (int apply = 0; apply < 2; apply++) {
                const operand in[] = { VALUE(LS_SCALAR(LS_F32), scales[i]), VALUE(LS_SCALAR(LS_I32), good),
                                       VALUE(LS_SCALAR(LS_I32), apply), VALUE(LS_SCALAR(LS_I64), good) };
                math_check(
                    &(math_case){ .op = "loss_scale_update",
                                  .n_in = 3,
                                  .n_out = 2,
                                  .in = { in[0], in[1], in[2] },
                                  .attrs = &scaler,
                                  .out = { UPDATES(LS_SCALAR(LS_F32), 1), UPDATES(LS_SCALAR(LS_I32), 2) } });
                math_check(&(math_case){ .op = "count_step",
                                         .n_in = 2,
                                         .n_out = 1,
                                         .in = { in[3], in[2] },
                                         .out = { UPDATES(LS_SCALAR(LS_I64), 1) } });
                math_check(&(math_case){ .op = "count_step",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .in = { in[3] },
                                         .out = { UPDATES(LS_SCALAR(LS_I64), 1) } });
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm),    cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_totals),        cmocka_unit_test(test_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
