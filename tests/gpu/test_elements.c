/* test_elements.c - kernels for GPUs that read operands of any strides, move elements, sum and drop them, at
 * sizes where they take another way than at those of tests/ops: vectors of 16 bytes and their rests, rows of
 * whole vectors, tiles, sums in parts, groups of random numbers. */
#include "ops/kernels.h"
#include "ops/tensor_rows.h"
#include "support/support.h"

/* clang-format off */
#define EXACT(name, about, n, ...) \
    { .op = name, .what = about, .n_in = n, .compare = COMPARE_EXACT, __VA_ARGS__ }
#define CAST(from, x, to) \
    EXACT("cast", #from " to " #to, 1, .in = { { from, FILL_ID, x, 1, { 1003 } } }, .f32_only = true, \
        .attrs = ATTRS(ls_cast_attrs, to))
#define CASTS(from, x) CAST(from, x, LS_F32), CAST(from, x, LS_BF16), CAST(from, x, LS_F16), \
    CAST(from, x, LS_I32), CAST(from, x, LS_I64), CAST(from, x, LS_U8)
#define COPY(type, ...) \
    EXACT("copy", #type, 1, .f32_only = true, \
        .in = { { type, FILL_ID, 200, (int)COUNT(int64_t, __VA_ARGS__), { __VA_ARGS__ } } })
#define PERMUTE(about, x, ...) \
    EXACT("permute", about, 1, .in = { x }, .attrs = ATTRS(ls_permute_attrs, I64S(__VA_ARGS__)))
#define BROADCAST(about, x, ...) \
    EXACT("broadcast_to", about, 1, .in = { x }, .attrs = ATTRS(ls_broadcast_attrs, I64S(__VA_ARGS__)))
#define SUM(about, n, x, ...) \
    { .op = "sum_to", .what = about, .n_in = 1, .in = { x }, .compare = COMPARE_SUM, .reduce = n, \
      .attrs = ATTRS(ls_broadcast_attrs, I64S(__VA_ARGS__)) }, \
    { .op = "max_to", .what = about, .n_in = 1, .in = { x }, .compare = COMPARE_EXACT, \
      .extreme = EXTREME_SPECIAL, .attrs = ATTRS(ls_broadcast_attrs, I64S(__VA_ARGS__)) }
#define FILL(type, x) \
    EXACT("fill", #type, 0, .attrs = ATTRS(ls_fill_attrs, { type, 1, { 1003 } }, x), .f32_only = true)
/* values that do not fit the integer types */
#define EXTREMES(to) EXACT("cast", "extremes to " #to, 1, .in = { X(1003) }, .extreme = EXTREME_SPECIAL, \
    .attrs = ATTRS(ls_cast_attrs, to))

static const op_case CASES[] = {
    BINARY("sub", X(1003), X(1003)), BINARY("sub", X(5, 9, 64), X(64)), BINARY("sub", X(64), X(9, 64)),
    BINARY("sub", X(9, 64), X(9, 1)), BINARY("sub", X(9, 1), X(1, 64)),
    BINARY("sub", X(6, 5, 64), X(6, 1, 64)),
    BINARY("sub", X(2048), X_SCALAR), BINARY("sub", X(3, 66), X(66)),
    BINARY("sub", X(2, 3, 2, 1, 2, 3, 2, 8), X(3, 1, 3, 1, 3, 1, 8)), BINARY("sub", X(1), X(1)),
    BINARY("sub", X(0, 8), X(8)),
    EXACT("fused", "types of several sizes", 4,
        .in = { TYPED(LS_BF16, 3, 5, 64), { LS_U8, FILL_ID, 256, 1, { 64 } }, X(5, 1),
            TYPED(LS_F32, 3, 1, 64) },
        .attrs = ATTRS(ls_fused_attrs, CODE(LS_EW_CAST, 1, -1, LS_F32, LS_EW_MUL, 0, 4, LS_BF16,
            LS_EW_ADD, 5, 2, LS_F16, LS_EW_ADD_CONST, 6, -1, LS_F32, LS_EW_MAX, 7, 3, LS_BF16),
            F64S(0, 0, 0, 0.3, 0), LS_F32)),
    CASTS(LS_F32, 100), CASTS(LS_BF16, 100), CASTS(LS_F16, 100), CASTS(LS_I32, 100), CASTS(LS_I64, 100),
    CASTS(LS_U8, 100), EXTREMES(LS_U8), EXTREMES(LS_I32), EXTREMES(LS_I64),
    COPY(LS_U8, 33, 65), COPY(LS_I32, 3, 40, 50), COPY(LS_I64, 2, 3, 4, 33), COPY(LS_U8, 7),
    COPY(LS_I32, 2, 8, 64),
    EXACT("copy", "tiles", 1, .in = { X(3, 40, 70) }), EXACT("copy", "nothing", 1, .in = { X(3, 0) }),
    EXACT("copy", "f64", 1, .in = { TYPED(LS_F64, 35, 3, 4) }, .f32_only = true),
    PERMUTE("heads", X(2, 5, 3, 64), 0, 2, 1, 3), PERMUTE("turned", X(70, 3, 66), 2, 1, 0),
    PERMUTE("batches", X(3, 35, 2, 40), 0, 2, 3, 1), PERMUTE("rows", X(5, 7, 8), 1, 0, 2),
    BROADCAST("rows", X(64), 5, 64), BROADCAST("columns", X(5, 1), 5, 64), BROADCAST("one", X_SCALAR, 1003),
    BROADCAST("outer", X(3, 1, 1), 3, 5, 8),
    EXACT("pack", "rows of vectors", 3, .in = { X(5, 4, 16), X(5, 2, 16), X(5, 1, 16) },
        .attrs = ATTRS(ls_pack_attrs, 1, 12, I64S(2, 6, 9))),
    EXACT("pack", "bytes", 2, .f32_only = true,
        .in = { { LS_U8, FILL_ID, 200, 2, { 3, 5 } }, { LS_U8, FILL_ID, 200, 2, { 3, 2 } } },
        .attrs = ATTRS(ls_pack_attrs, 1, 9, I64S(0, 6))),
    FILL(LS_F32, 0.3), FILL(LS_F64, 0.3), FILL(LS_BF16, -7.7), FILL(LS_F16, 1e-5), FILL(LS_F16, 0.3),
    FILL(LS_F16, 1e9), FILL(LS_I32, -77), FILL(LS_I64, 1e12), FILL(LS_U8, 200), FILL(LS_F32, 0),
    SUM("parts of rows", 3000, X(3000, 40), 40), SUM("parts of a row", 9000, X(2, 9000), 2, 1),
    SUM("all, in parts", 8000, X(40, 200), 1, 1),
    SUM("channels of pictures", 2 * 9 * 10, X(2, 33, 9, 10), 33, 1, 1),
    SUM("warps", 100, X(70, 100), 70, 1), SUM("few terms", 3, X(3, 300), 300),
    SUM("few terms in a row", 5, X(300, 5), 300, 1),
    EXACT("sum_to", "nothing", 1, .in = { X(0, 5) }, .attrs = ATTRS(ls_broadcast_attrs, I64S(5))),
    SUM("between", 50, X(4, 50, 36), 4, 1, 36), SUM("none", 1, X(4, 5), 4, 5),
    CUMSUM("blocks", 1000, 1, 0, X(3, 1000)), CUMSUM("blocks back", 1000, 1, 1, X(3, 1000)),
    CUMSUM("blocks of columns", 300, 0, 1, X(300, 5)), CUMSUM("columns", 40, 1, 0, X(3, 40, 70)),
    CUMSUM("short rows", 7, 1, 1, X(300, 7)), CUMSUM("a row", 256, 0, 0, X(256)),
    GATHER("slices", 1, X(3, 9, 64), INDEX(9, 20)), GATHER("slices of one", 1, X(6, 9), INDEX(9, 7)),
    GATHER("elements", 0, X(40, 65), INDEX(40, 7, 65)),
    SCATTER_ADD("slices", 1, 9, 100, X(3, 100, 300), INDEX(9, 100)),
    SCATTER_ADD("slices of one", 1, 9, 40, X(6, 40), INDEX(9, 40)),
    SCATTER_ADD("elements", 0, 9, 40, X(40, 65), INDEX(9, 40, 65)),
    DROPOUT("groups", X(5, 192), .at = NULL),
    DROPOUT("groups of columns", X(3, 5, 128), .at = BOX(3, { 9, 5, 256 }, { 4, 0, 128 }, { 3, 5, 128 })),
    DROPOUT("groups of rows", X(2, 3, 64), .at = BOX(3, { 2, 9, 64 }, { 0, 2, 0 }, { 2, 3, 64 })),
    DROPOUT("begins within a group", X(2, 3, 64),
        .at = BOX(3, { 2, 9, 160 }, { 0, 2, 32 }, { 2, 3, 64 })),
    EXACT("dropout", "addend of groups", 3, .in = { X(3, 2, 64), KEY, X(3, 2, 64) },
        .extreme = EXTREME_SPECIAL, .attrs = ATTRS(ls_dropout_attrs, .p = 0.5, .purpose = 99)),
    { .op = NULL }
};
/* clang-format on */

static void every_way(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    int runs = 0;
    kernel_failures = 0;
    for (const op_case *c = CASES; c->op; c++)
        for (int t = 0; t < (c->f32_only ? 1 : 3); t++) {
            runs += kernel_check(&d, c, types[t], EXTREME_NONE);
            if (c->extreme != EXTREME_NONE)
                runs += kernel_check(&d, c, types[t], c->extreme);
        }
    print_message("%d runs\n", runs);
    assert_int_equal(kernel_failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_way) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
